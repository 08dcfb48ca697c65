"""Closing: the gate ends a window once when its instance, epoch, life or holder ends. Contract, section 8."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET

from app.gates.bundle import Bundle
from app.gates.clip import Event
from app.gates.event_commands import CommitLoop, Enqueue, Play, Retire
from app.gates.lives import Despawn
from app.gates.rig import LayerRule
from app.gates.tick import TickConfirmed
from app.gates.transition import Begin, Cancel, Complete, Fail
from app.journal.codec import decode_entry
from tests.support.played import member, request
from tests.support.rigs import clip, graph_rule, rig
from tests.support.ticked import KINDS, TickedScene, shown

World = Callable[..., TickedScene]

ENDS = {"swing": "swung", "flash": "flashed", "danger": "safe"}
"""What ends a window of each class: presentation, immediate, gameplay."""


def opened(scene: TickedScene, kind: str, *, number: int = 1, **fields: Any) -> None:
    """Open a window that is seen: its loop is committed and its tick too, where it has one."""
    assert scene.enqueue(number, kind, frame=3, **fields).__struct_config__.tag == "accepted"
    scene.commit(number)


def confirmed(scene: TickedScene) -> TickConfirmed:
    """Seal and confirm the tick being open."""
    tick = scene.scene.ticks.sealed + 1
    scene.seal(tick)
    return scene.confirm(tick)


def endings(scene: TickedScene, kind: str) -> list[Event]:
    return [gave.event for gave in scene.gave if gave.event.kind == ENDS[kind]]


def make_room(scene: TickedScene) -> None:
    for number in (2, 3):
        scene.ask(Play(clip="Idle", clip_instance=number))


INSTANCE_ENDS: dict[str, Callable[[TickedScene], object]] = {
    "retire": lambda scene: scene.retire(1),
    "make room": make_room,
    "swap": lambda scene: scene.swap(),
    "despawn": lambda scene: scene.ask(Despawn()),
}


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("how", INSTANCE_ENDS)
def test_a_window_that_was_seen_is_ended_once_when_its_instance_ends(world: World, kind: str, how: str):
    scene = world(instances_open=2)
    opened(scene, kind)
    confirmed(scene)

    INSTANCE_ENDS[how](scene)
    confirmed(scene)
    if how == "despawn":
        scene.spawn(rig(kinds=KINDS))
    confirmed(scene)

    [end] = endings(scene, kind)
    assert (end.clip_instance, end.loop, end.frame, end.synthetic) == (1, 0, 3, True)
    assert scene.given(kind) == [(1, 0, 3, kind)]


@pytest.mark.parametrize("how", ["retire", "swap", "despawn"])
def test_an_opening_that_nobody_will_see_is_ended_by_nothing(world: World, how: str):
    """A presentation event that waits in an instance that ends is never delivered; one that makes room has none."""
    scene = world()
    scene.enqueue(1, "swing", frame=3)

    INSTANCE_ENDS[how](scene)
    if how == "swap":
        scene.retire(1)
    confirmed(scene)

    assert scene.given() == []


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("how", INSTANCE_ENDS)
def test_a_window_whose_real_end_came_is_ended_by_nothing_more(world: World, kind: str, how: str):
    scene = world(instances_open=2)
    opened(scene, kind)
    scene.enqueue(1, ENDS[kind], frame=9)
    scene.commit(1)
    confirmed(scene)

    INSTANCE_ENDS[how](scene)
    confirmed(scene)

    [end] = endings(scene, kind)
    assert (end.frame, end.synthetic) == (9, UNSET)


def test_the_answer_says_which_windows_a_retirement_closed(world: World):
    scene = world()
    opened(scene, "swing")

    before = scene.scene.sequence
    scene.turn(("hero", Retire(clip_instance=1)))

    [closed] = closed_by(scene)
    assert (closed.character, closed.window.kind, closed.event.kind) == ("hero", "swing", "swung")
    assert (closed.delivery, scene.deliveries()[2], scene.scene.sequence) == (2, ["swung"], before + 1)


def closed_by(scene: TickedScene) -> Any:
    """Give the windows that the last decision closed, as the journal has them."""
    consequences = decode_entry(scene.entries[-1]).records[-1].consequences
    assert consequences is not None
    return consequences.windows


def test_a_gameplay_end_waits_for_its_tick_as_its_opening_does(world: World):
    scene = world()
    opened(scene, "danger")

    scene.retire(1)
    [closed] = closed_by(scene)

    assert closed.delivery is None
    assert shown(confirmed(scene).deliveries) == [("hero", 1, [(3, "danger"), (3, "safe")])]
    assert confirmed(scene).deliveries == []


def test_a_gameplay_opening_that_waits_in_an_instance_that_ends_is_given_with_its_end(world: World):
    scene = world()
    scene.enqueue(1, "danger", frame=3)

    scene.retire(1)

    assert shown(confirmed(scene).deliveries) == [("hero", 1, [(3, "danger"), (3, "safe")])]


def test_the_end_of_a_gameplay_window_of_a_later_tick_is_of_that_tick(world: World):
    scene = world()
    scene.enqueue(1, "danger", frame=3, tick=4)

    scene.retire(1)
    scene.seal(4)

    assert scene.confirm(3).deliveries == []
    assert shown(scene.confirm(4).deliveries) == [("hero", 1, [(3, "danger"), (3, "safe")])]


def test_a_stale_instance_delivers_the_end_behind_an_opening_that_waits_still(world: World):
    """What it accepted before the swap can still be committed, so the end must not overtake it."""
    scene = world()
    scene.enqueue(1, "swing", frame=3)
    scene.enqueue(1, "step", frame=5)

    scene.swap()
    at_once = scene.given()
    scene.commit(1)
    scene.retire(1)

    assert at_once == []
    assert scene.given() == [(1, 0, 3, "swing"), (1, 0, 3, "swung"), (1, 0, 5, "step")]


def test_an_end_behind_an_opening_that_is_never_delivered_is_not_either(world: World):
    scene = world()
    scene.enqueue(1, "swing", frame=3)

    scene.swap()
    retired = scene.retire(1)

    assert [event.kind for event in retired.undelivered] == ["swing", "swung"]
    assert scene.given() == []


def test_a_swap_ends_only_windows_of_instances_that_it_makes_stale(world: World):
    scene = world(
        layers={"base": LayerRule("Idle", None), "face": LayerRule("Idle", None)},
        graphs={"main": graph_rule("base"), "mask": graph_rule("face")},
    )
    scene.ask(Play(clip="Attack", layer="base", clip_instance=1))
    scene.ask(Play(clip="Smile", layer="face", clip_instance=2))
    for number in (1, 2):
        opened(scene, "flash", number=number)

    scene.swap()
    after_one = endings(scene, "flash")
    scene.swap()

    assert [end.clip_instance for end in after_one] == [1]
    assert endings(scene, "flash") == after_one


def test_each_window_of_an_instance_is_ended(world: World):
    scene = world()
    for kind in ENDS:
        opened(scene, kind)

    scene.retire(1)
    confirmed(scene)

    assert [gave.event.kind for gave in scene.gave if gave.event.synthetic is True] == ["swung", "flashed", "safe"]


def test_windows_of_several_instances_are_ended_by_a_despawn(world: World):
    scene = world()
    for number in (1, 2, 3):
        opened(scene, "swing", number=number)

    scene.ask(Despawn())
    scene.spawn(rig(kinds=KINDS))

    assert [end.clip_instance for end in endings(scene, "swing")] == [1, 2, 3]
    assert scene.deliveries() == {1: ["swing"], 2: ["swing"], 3: ["swing"], 4: ["swung"], 5: ["swung"], 6: ["swung"]}


@pytest.mark.parametrize("kind", ENDS)
def test_a_kind_that_is_opened_twice_is_ended_once_where_it_was_opened_last(world: World, kind: str):
    scene = world()
    for frame in (3, 6):
        scene.enqueue(1, kind, frame=frame)
    scene.commit(1)

    scene.retire(1)
    confirmed(scene)

    assert [(end.frame, end.synthetic) for end in endings(scene, kind)] == [(6, True)]


def test_windows_that_a_span_opened_are_ended(world: World):
    scene = world(clips={"Attack": clip(10, (1, "flash"), (3, "swing"), (5, "danger"))})
    scene.ask(Play(clip="Attack"))
    scene.cover(1, 0, 9)
    scene.commit(1)

    scene.retire(1)
    confirmed(scene)

    assert [(gave.event.kind, gave.event.frame) for gave in scene.gave if gave.event.synthetic is True] == [
        ("flashed", 1),
        ("swung", 3),
        ("safe", 5),
    ]


# Holders


def attack(scene: TickedScene, **fields: Any) -> Any:
    return scene.begin("Attack", **fields)


HOLDER_ENDS: dict[str, Callable[[TickedScene, Any], object]] = {
    "superseded": lambda scene, token: scene.begin("Hit"),
    "cancelled": lambda scene, token: scene.ask(Cancel(token=token)),
    "failed": lambda scene, token: scene.ask(Fail(token=token, why="no clip")),
    "epoch ended": lambda scene, token: scene.swap(),
    "expired": lambda scene, token: scene.seal(scene.scene.ticks.sealed + 3),
    "its life ended": lambda scene, token: scene.ask(Despawn()),
}


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("how", HOLDER_ENDS)
@pytest.mark.parametrize("of", ["hero", "villain"])
def test_a_window_is_ended_once_when_its_holder_is_lost(world: World, kind: str, how: str, of: str):
    """The window may be another character's: a thrown weapon, say."""
    scene = world(who=("hero", "villain"))
    token = attack(scene, deadline_ticks=2)
    scene.enqueue(1, kind, frame=3, who=of, holder=token)
    scene.commit(1, who=of)

    HOLDER_ENDS[how](scene, token)
    late = scene.enqueue(1, kind, frame=5, who="villain", holder=token).outcome
    confirmed(scene)
    confirmed(scene)

    [end] = endings(scene, kind)
    assert (end.frame, end.synthetic) == (3, True)
    assert late == "holder_lost"
    if "hero" in scene.scene.roster and of == "hero" and how != "epoch ended":
        scene.retire(1)
        confirmed(scene)
        assert endings(scene, kind) == [end]


@pytest.mark.parametrize("kind", ENDS)
def test_a_committed_holder_holds_until_the_next_begin(world: World, kind: str):
    scene = world()
    token = attack(scene)
    scene.enqueue(1, kind, frame=3, holder=token)
    scene.commit(1)
    scene.ask(Complete(token=token))
    confirmed(scene)
    held_on = endings(scene, kind)

    scene.begin("Idle")
    confirmed(scene)

    assert held_on == []
    assert [end.synthetic for end in endings(scene, kind)] == [True]


@pytest.mark.parametrize("kind", ENDS)
def test_a_linked_token_that_ends_with_another_ends_its_windows(world: World, kind: str):
    scene = world(who=("hero", "villain"))
    grab = Bundle(commands=[member(who, Begin(layer="base", target="Grab")) for who in ("hero", "villain")], link=True)
    [bundled] = scene.turn((None, grab))
    held = bundled.answers[1].answer.token
    scene.enqueue(1, kind, frame=3, who="villain", holder=held)
    scene.commit(1, who="villain")

    scene.begin("Hit", "hero")
    confirmed(scene)
    confirmed(scene)

    [gave] = [gave for gave in scene.gave if gave.event.synthetic is True]
    assert (gave.character, gave.event.kind) == ("villain", ENDS[kind])


def test_a_holder_that_is_lost_ends_its_own_windows_and_no_others(world: World):
    scene = world(who=("hero", "villain"))
    mine, other = scene.begin("Attack"), scene.begin("Attack", "villain")
    scene.enqueue(1, "flash", frame=1, holder=mine)
    scene.enqueue(2, "flash", frame=2, holder=other)
    scene.enqueue(3, "flash", frame=3)
    scene.enqueue(4, "flash", frame=4, holder=mine)

    scene.begin("Hit")

    assert [(end.clip_instance, end.frame) for end in endings(scene, "flash")] == [(1, 1), (4, 4)]


def test_a_window_whose_instance_and_holder_end_at_once_is_ended_once(world: World):
    scene = world()
    token = attack(scene)
    for kind in ENDS:
        scene.enqueue(1, kind, frame=3, holder=token)
    scene.commit(1)

    scene.swap()
    scene.begin("Hit")
    scene.retire(1)
    confirmed(scene)
    confirmed(scene)

    assert sorted(gave.event.kind for gave in scene.gave if gave.event.synthetic is True) == [
        "flashed",
        "safe",
        "swung",
    ]


def test_a_window_that_waits_when_its_holder_is_lost_is_ended_behind_its_opening(world: World):
    scene = world()
    token = attack(scene)
    scene.enqueue(1, "swing", frame=3, holder=token)
    scene.enqueue(1, "step", frame=9)

    scene.begin("Hit")
    at_once = scene.given()
    delivered = scene.commit(1)

    assert at_once == []
    assert [(event.kind, event.synthetic) for event in delivered.events] == [
        ("swing", UNSET),
        ("swung", True),
        ("step", UNSET),
    ]


def test_a_sealed_request_that_takes_the_right_ends_the_window_in_its_tick(world: World):
    scene = world()
    token = attack(scene)
    scene.enqueue(1, "danger", frame=3, holder=token)
    scene.commit(1)
    scene.seal(1)

    scene.tick(requests=[request(2, Begin(layer="base", target="Hit"))], seal=2)

    assert shown(scene.confirm(1).deliveries) == [("hero", 1, [(3, "danger")])]
    assert shown(scene.confirm(2).deliveries) == [("hero", 2, [(3, "safe")])]


def test_an_end_is_given_though_the_deliveries_are_full_for_it_comes_once(world: World):
    """No one could ask again for what the gate gives by itself: it makes room among the others, or goes unkept."""
    scene = world(deliveries_kept=1)
    opened(scene, "swing")
    scene.enqueue(2, "hit")
    scene.commit(2)
    confirmed(scene)

    scene.retire(1)

    assert [end.frame for end in endings(scene, "swing")] == [3]
    assert scene.deliveries() == {2: ["hit"]}


def test_in_a_bundle_that_is_refused_no_window_is_ended(world: World):
    scene = world()
    opened(scene, "flash")
    missing = CommitLoop(clip_instance=1, loop=0)

    scene.turn((None, Bundle(commands=[member("hero", Retire(clip_instance=1)), member("hero", missing)])))

    assert endings(scene, "flash") == []
    assert scene.retire(1).undelivered == []
    assert len(endings(scene, "flash")) == 1


def test_a_window_is_ended_without_ticks_at_all(world: World):
    scene = world(who=("hero",))
    token = attack(scene)
    scene.turn(("hero", Enqueue(clip_instance=1, loop=0, frame=3, kind="flash", holder=token)))

    scene.begin("Hit")

    assert not scene.scene.ticks.is_running
    assert [end.frame for end in endings(scene, "flash")] == [3]
