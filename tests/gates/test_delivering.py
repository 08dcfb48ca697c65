"""Delivering under ticks: what comes again after a rollback, and what is withdrawn. Contract, section 8, "Rollback"."""

from collections.abc import Callable
from typing import Any

import pytest

from app.gates.event_commands import CommitLoop, Enqueue, Play
from app.gates.lives import Despawn
from app.gates.scene import Bounds
from app.gates.tick import Withdrawn
from tests.support.played import request
from tests.support.rigs import clip, rig
from tests.support.ticked import KINDS, TickedScene

World = Callable[..., TickedScene]


def again(scene: TickedScene, *commands: Any) -> list[Any]:
    """Ask once more for what was rolled back: its double is refused, and yet the gate knows that it came."""
    return [scene.turn(("hero", command))[0] for command in commands]


def event(number: int, kind: str, *, loop: int = 0, frame: int = 0, **fields: Any) -> Enqueue:
    return Enqueue(clip_instance=number, loop=loop, frame=frame, kind=kind, **fields)


def withdrawn(scene: TickedScene) -> list[tuple[int, int, int, str]]:
    return [key[1:] for key in scene.withdrawn_keys()]


def delivered_later(scene: TickedScene, kind: str = "step", frame: int = 1) -> None:
    """Deliver one event in tick 2, of an instance that was open before it."""
    scene.commit(1)
    scene.seal(1)
    scene.enqueue(1, kind, frame=frame)
    scene.commit(1)
    scene.seal(2)


@pytest.mark.parametrize("kind", ["step", "spark"])
def test_what_was_delivered_and_does_not_come_again_is_withdrawn_when_its_tick_is_confirmed(world: World, kind: str):
    scene = world()
    delivered_later(scene, kind)
    scene.rollback(1)
    scene.seal(3)

    early = scene.confirm(1)
    confirmed = scene.confirm(2)
    later = scene.confirm(3)

    assert (early.withdrawn, later.withdrawn) == ([], [])
    assert confirmed.withdrawn == [Withdrawn("hero", 1, 2, scene.gave[0].event)]


@pytest.mark.parametrize("kind", ["step", "spark"])
def test_what_comes_again_by_its_event_is_not_withdrawn_nor_given_twice(world: World, kind: str):
    scene = world()
    delivered_later(scene, kind)
    scene.rollback(1)

    double = scene.enqueue(1, kind, frame=1)
    scene.commit(1)
    scene.seal(3)
    scene.confirm(3)

    assert double.outcome == "duplicate"
    assert (scene.given(), withdrawn(scene)) == ([(1, 0, 1, kind)], [])


def test_what_comes_again_with_a_span_is_not_withdrawn_nor_given_twice(world: World):
    scene = world(clips={"Walk": clip(10, (3, "step"), (5, "spark"), (8, "step"), (9, "spark"))})
    scene.ask(Play(clip="Walk"))
    scene.seal(1)
    scene.cover(1, 0, 9)
    scene.commit(1)
    scene.seal(2)
    scene.rollback(1)

    covered = scene.cover(1, 0, 6)
    scene.seal(2)
    scene.confirm(2)

    assert (covered.events, covered.already) == ([], 2)
    assert sorted(withdrawn(scene)) == [(1, 0, 8, "step"), (1, 0, 9, "spark")]
    assert len(scene.given()) == 4


def test_a_span_backwards_brings_again_what_it_crosses_and_nothing_of_another_instance(world: World):
    scene = world(clips={"Walk": clip(10, (3, "step"))})
    for _ in range(2):
        scene.ask(Play(clip="Walk"))
    scene.seal(1)
    for number in (1, 2):
        scene.cover(number, 0, 19)
        scene.commit(number, 1)
    scene.seal(2)
    scene.rollback(1)

    scene.cover(1, 5, -9, loop=1)
    scene.seal(2)
    scene.confirm(2)

    assert sorted(withdrawn(scene)) == [(2, 0, 3, "step"), (2, 1, 3, "step")]


def test_a_span_brings_nothing_again_that_its_manifest_does_not_list(world: World):
    scene = world(clips={"Walk": clip(10, (3, "step"))})
    scene.ask(Play(clip="Walk"))
    scene.seal(1)
    scene.enqueue(1, "spark", frame=3)
    scene.enqueue(1, "step", frame=4)
    scene.commit(1)
    scene.seal(2)
    scene.rollback(1)

    scene.cover(1, 0, 9)
    scene.seal(2)
    scene.confirm(2)

    assert sorted(withdrawn(scene)) == [(1, 0, 3, "spark"), (1, 0, 4, "step")]


def test_what_waited_comes_again_when_its_loop_is_committed_again(world: World):
    scene = world()
    scene.enqueue(1, "step", frame=1)
    scene.enqueue(1, "step", frame=2, loop=1)
    scene.enqueue(2, "step", frame=3)
    scene.seal(1)
    scene.commit(1, 1)
    scene.commit(2)
    scene.seal(2)
    scene.rollback(1)

    committed = scene.commit(1)
    scene.seal(2)
    scene.confirm(2)

    assert committed.events == []
    assert len(scene.given()) == 3
    assert sorted(withdrawn(scene)) == [(1, 1, 2, "step"), (2, 0, 3, "step")]


def test_what_waited_comes_again_with_its_loop_after_any_number_of_rollbacks(world: World):
    scene = world()
    scene.enqueue(1, "step", frame=1)
    scene.seal(1)
    scene.commit(1)
    for _ in range(3):
        scene.rollback(1)
        scene.seal(2)

    scene.rollback(1)
    scene.commit(1)
    scene.seal(2)
    scene.confirm(2)

    assert (scene.given(), withdrawn(scene)) == ([(1, 0, 1, "step")], [])


def test_what_waited_does_not_come_again_with_its_loop_once_its_acceptance_is_rolled_back(world: World):
    scene = world()
    scene.commit(1)
    scene.seal(1)
    scene.enqueue(1, "step", frame=1)
    scene.seal(2)
    scene.commit(1)
    scene.rollback(2)
    scene.seal(3)

    scene.rollback(1)
    scene.commit(1)
    scene.seal(3)
    scene.confirm(3)

    assert withdrawn(scene) == [(1, 0, 1, "step")]


def test_what_did_not_wait_does_not_come_again_with_its_loop_alone(world: World):
    """It was accepted in a tick that was rolled back: only its event brings it again."""
    scene = world()
    delivered_later(scene)
    scene.rollback(1)

    scene.commit(1)
    scene.seal(2)
    scene.confirm(2)

    assert withdrawn(scene) == [(1, 0, 1, "step")]


def test_what_comes_again_may_come_in_another_tick_as_long_as_its_own_is_not_confirmed(world: World):
    scene = world()
    delivered_later(scene)
    scene.rollback(1)
    scene.seal(4)

    scene.enqueue(1, "step", frame=1)
    scene.seal(5)
    scene.confirm(5)

    assert withdrawn(scene) == []


def test_what_came_again_in_a_tick_that_is_rolled_back_too_must_come_once_more(world: World):
    scene = world()
    delivered_later(scene)
    scene.rollback(1)
    scene.enqueue(1, "step", frame=1)
    scene.seal(2)

    scene.rollback(1)
    scene.seal(2)
    scene.confirm(2)

    assert withdrawn(scene) == [(1, 0, 1, "step")]


def test_what_is_rolled_back_twice_is_withdrawn_once(world: World):
    scene = world()
    delivered_later(scene)
    for _ in range(3):
        scene.rollback(1)
        scene.seal(3)

    scene.confirm(2)
    scene.confirm(3)

    assert withdrawn(scene) == [(1, 0, 1, "step")]


def test_what_was_delivered_before_the_tick_is_not_asked_for_again(world: World):
    scene = world()
    delivered_later(scene)

    scene.rollback(2)
    scene.seal(3)
    scene.confirm(3)

    assert withdrawn(scene) == []


def test_gameplay_events_are_never_withdrawn(world: World):
    scene = world()
    scene.enqueue(1, "hit", frame=1)
    scene.commit(1)
    scene.seal(1)
    scene.seal(3)
    scene.confirm(1)

    scene.rollback(1)
    scene.seal(3)
    scene.confirm(3)

    assert (scene.given(), scene.withdrawn) == ([(1, 0, 1, "hit")], [])


def test_a_delivery_of_both_classes_withdraws_the_presentation_events_alone(world: World):
    scene = world()
    scene.enqueue(1, "hit", frame=1)
    scene.seal(1)
    scene.confirm(1)
    scene.enqueue(1, "step", frame=2)
    scene.commit(1)
    scene.seal(2)

    scene.rollback(1)
    scene.commit(1)
    scene.seal(2)
    scene.confirm(2)

    assert sorted(scene.given()) == [(1, 0, 1, "hit"), (1, 0, 2, "step")]
    assert withdrawn(scene) == [(1, 0, 2, "step")]


def test_requests_bring_events_again_as_single_commands_do(world: World):
    scene = world()
    scene.commit(1)
    scene.seal(1)
    asked = [
        request(2, event(1, "step", frame=1), number=1),
        request(2, event(1, "spark", frame=2), number=2),
        request(2, CommitLoop(clip_instance=1, loop=0), number=3, priority=9),
    ]
    scene.tick(requests=asked, seal=2)

    scene.tick(rollback=1, requests=[asked[0], asked[2]], seal=2, confirm=2)

    assert sorted(scene.given()) == [(1, 0, 1, "step"), (1, 0, 2, "spark")]
    assert withdrawn(scene) == [(1, 0, 2, "spark")]


def test_events_of_an_ended_life_cannot_come_again_and_are_withdrawn(world: World):
    scene = world()
    delivered_later(scene)
    scene.ask(Despawn())

    scene.rollback(1)
    scene.spawn(rig(kinds=KINDS))
    scene.seal(2)
    scene.confirm(2)

    assert [(each.life, each.event.kind) for each in scene.withdrawn] == [(1, "step")]


def test_events_of_another_character_with_the_same_key_are_not_brought_again(world: World):
    scene = world(who=("hero", "villain"))
    scene.seal(1)
    for who in ("hero", "villain"):
        scene.enqueue(1, "spark", frame=1, who=who)
    scene.rollback(1)

    scene.enqueue(1, "spark", frame=1)
    scene.seal(2)
    scene.confirm(2)

    assert scene.withdrawn_keys() == [("villain", 1, 0, 1, "spark")]


def test_before_the_first_tick_command_nothing_is_noted(world: World):
    scene = world()
    scene.enqueue(1, "spark")

    assert scene.scene.delivered == []


def test_a_tick_that_gives_out_too_much_to_be_undone_is_not_undone(world: World):
    scene = world(bounds=Bounds(tick_deliveries_max=3))
    scene.seal(1)
    for frame in range(4):
        scene.enqueue(1, "spark", frame=frame)

    assert scene.tick(rollback=1).refused["rollback"].outcome == "beyond_rollback"
    assert scene.scene.delivered == []
    scene.seal(2)
    assert scene.rollback(2).tick == 2


# Windows over a rollback: every window that was seen has one end, whatever was mispredicted in between


def ends(scene: TickedScene) -> list[tuple[int, int, int, str]]:
    return scene.given("swung", "flashed", "safe")


@pytest.mark.parametrize("kind", ["flash", "swing"])
def test_a_window_whose_opening_comes_again_is_open_again(world: World, kind: str):
    scene = world()
    delivered_later(scene, kind)
    scene.rollback(1)

    again(scene, event(1, kind, frame=1))
    scene.retire(1)
    scene.seal(2)
    scene.confirm(2)

    assert ends(scene) == [(1, 0, 1, {"flash": "flashed", "swing": "swung"}[kind])]
    assert withdrawn(scene) == []


def test_a_window_whose_opening_comes_again_is_held_by_the_new_holder(world: World):
    scene = world()
    scene.commit(1)
    scene.seal(1)
    scene.enqueue(1, "flash", frame=1, holder=scene.begin("Attack"))
    scene.rollback(1)
    again(scene, event(1, "flash", frame=1, holder=scene.begin("Attack")))
    held_on = ends(scene)

    scene.begin("Hit")

    assert (held_on, ends(scene)) == ([], [(1, 0, 1, "flashed")])


def test_a_window_whose_opening_and_end_come_again_has_no_other_end(world: World):
    scene = world()
    scene.commit(1)
    scene.seal(1)
    commands = [event(1, "flash", frame=1), event(1, "flashed", frame=9)]
    scene.turn(*(("hero", command) for command in commands))
    scene.rollback(1)

    again(scene, *commands)
    scene.retire(1)
    scene.seal(2)
    scene.confirm(2)

    assert (ends(scene), withdrawn(scene)) == ([(1, 0, 9, "flashed")], [])


def test_a_window_that_a_span_opened_and_opens_again_is_ended(world: World):
    scene = world(clips={"Attack": clip(10, (3, "flash"))})
    scene.ask(Play(clip="Attack"))
    scene.seal(1)
    scene.cover(1, 0, 9)
    scene.rollback(1)

    scene.cover(1, 0, 9)
    scene.retire(1)

    assert ends(scene) == [(1, 0, 3, "flashed")]


def test_a_window_that_waited_is_closed_by_its_end_when_its_loop_is_committed_again(world: World):
    scene = world()
    scene.enqueue(1, "swing", frame=1)
    scene.enqueue(1, "swung", frame=9)
    scene.seal(1)
    scene.commit(1)
    scene.rollback(1)

    scene.commit(1)
    scene.retire(1)
    scene.seal(2)
    scene.confirm(2)

    assert (ends(scene), withdrawn(scene)) == ([(1, 0, 9, "swung")], [])


def test_a_window_whose_opening_does_not_come_again_has_no_end(world: World):
    scene = world()
    scene.enqueue(1, "swing", frame=1)
    scene.commit(2)
    scene.seal(1)
    scene.commit(1)
    scene.enqueue(2, "flash", frame=1)
    scene.rollback(1)

    scene.retire(1)
    scene.retire(2)
    scene.seal(2)
    scene.confirm(2)

    assert ends(scene) == []
    assert sorted(withdrawn(scene)) == [(1, 0, 1, "swing"), (2, 0, 1, "flash")]


def test_a_window_whose_opening_was_withdrawn_has_no_end_later(world: World):
    scene = world()
    scene.enqueue(1, "swing", frame=1)
    scene.seal(1)
    scene.commit(1)
    scene.rollback(1)
    scene.seal(2)
    scene.confirm(2)

    scene.retire(1)

    assert (ends(scene), withdrawn(scene)) == ([], [(1, 0, 1, "swing")])


@pytest.mark.parametrize("kind", ["swing", "flash"])
def test_an_end_that_the_gate_gave_and_gives_again_is_neither_given_twice_nor_withdrawn(world: World, kind: str):
    scene = world()
    scene.enqueue(1, kind, frame=1)
    scene.commit(1)
    scene.seal(1)
    scene.retire(1)
    scene.seal(2)
    scene.rollback(1)

    scene.retire(1)
    scene.seal(2)
    scene.confirm(2)

    assert len(ends(scene)) == 1
    assert withdrawn(scene) == []


@pytest.mark.parametrize("kind", ["swing", "flash"])
def test_an_end_that_the_gate_gave_and_does_not_give_again_is_withdrawn(world: World, kind: str):
    scene = world()
    scene.enqueue(1, kind, frame=1)
    scene.commit(1)
    scene.seal(1)
    scene.retire(1)
    scene.seal(2)
    scene.rollback(1)

    real = {"swing": "swung", "flash": "flashed"}[kind]
    scene.enqueue(1, real, frame=9)
    scene.commit(1)
    scene.seal(2)
    scene.confirm(2)

    assert ends(scene) == [(1, 0, 1, real), (1, 0, 9, real)]
    assert withdrawn(scene) == [(1, 0, 1, real)]


@pytest.mark.parametrize("kind", ["swing", "flash", "danger"])
@pytest.mark.parametrize("is_end_first", [False, True])
def test_a_swap_is_not_taken_back_and_neither_are_the_ends_it_gave(world: World, kind: str, is_end_first: bool):
    scene = world()
    scene.enqueue(1, kind, frame=1)
    scene.commit(1)
    scene.seal(1)
    if is_end_first:
        scene.begin("Hit")
    scene.swap()
    scene.seal(2)

    scene.rollback(1)
    scene.seal(2)
    scene.confirm(2)
    scene.retire(1)
    scene.seal(3)
    scene.confirm(3)

    assert len(ends(scene)) == 1
    assert withdrawn(scene) == []


@pytest.mark.parametrize("kind", ["swing", "flash", "danger"])
@pytest.mark.parametrize("how", ["swap", "despawn"])
def test_a_holder_that_ended_for_good_holds_nothing_after_a_rollback(world: World, kind: str, how: str):
    scene = world(who=("hero", "villain"))
    scene.enqueue(1, kind, frame=1, who="villain", holder=scene.begin("Attack"))
    scene.commit(1, who="villain")
    scene.seal(1)
    if how == "swap":
        scene.swap()
    else:
        scene.ask(Despawn())
    scene.seal(2)

    scene.rollback(1)
    scene.seal(2)
    scene.confirm(2)
    scene.retire(1, who="villain")
    scene.seal(3)
    scene.confirm(3)

    assert len(ends(scene)) == 1
    assert withdrawn(scene) == []


@pytest.mark.parametrize("kind", ["swing", "flash", "danger"])
@pytest.mark.parametrize("lives_again", [False, True])
def test_an_end_of_life_is_not_taken_back_and_neither_are_the_ends_it_gave(world: World, kind: str, lives_again: bool):
    scene = world()
    scene.enqueue(1, kind, frame=1)
    scene.commit(1)
    scene.seal(1)
    scene.ask(Despawn())
    if lives_again:
        scene.spawn(rig(kinds=KINDS))
    scene.seal(2)

    scene.rollback(1)
    scene.seal(2)
    scene.confirm(2)

    assert len(ends(scene)) == 1
    assert withdrawn(scene) == []


def test_what_was_withdrawn_may_happen_after_all(world: World):
    """The host was told to take it back; the next report of it is the first one that counts."""
    scene = world()
    delivered_later(scene)
    scene.rollback(1)
    scene.seal(3)
    scene.confirm(2)

    late = scene.turn(("hero", event(1, "step", frame=1)))[0]
    delivered = scene.turn(("hero", CommitLoop(clip_instance=1, loop=0)))[0]

    assert type(late).__name__ == "EventAccepted"
    assert [each.frame for each in delivered.events] == [1]


def test_what_waited_and_was_withdrawn_waits_again(world: World):
    scene = world()
    scene.enqueue(1, "step", frame=1)
    scene.seal(1)
    scene.commit(1)
    scene.rollback(1)
    scene.seal(2)
    confirmed = scene.confirm(2)

    delivered = scene.turn(("hero", CommitLoop(clip_instance=1, loop=0)))[0]

    assert [each.event.frame for each in confirmed.withdrawn] == [1]
    assert [each.frame for each in delivered.events] == [1]
