"""Surviving: what of a character's events outlives a life and a rollback. Contract, section 8, "Rollback"."""

from collections.abc import Callable

import pytest

from app.gates.clip import OpenWindow
from app.gates.event_commands import CommitLoop, Play
from app.gates.lives import Despawn
from app.gates.scene import Bounds
from tests.support.played import word
from tests.support.rigs import clip, rig
from tests.support.ticked import KINDS, TickedScene, shown

World = Callable[..., TickedScene]


def waits(scene: TickedScene, number: int = 1) -> list[tuple[int, int, str]]:
    held = scene.hero().events.instances[number]
    return [(event.loop, event.frame, event.kind) for event in held.events(number)]


def windows(scene: TickedScene, number: int = 1) -> tuple[OpenWindow, ...]:
    return scene.hero().events.instances[number].windows


# What comes back


def test_what_waited_waits_again_with_its_payload_and_its_bytes(world: World):
    scene = world(events_bytes=10)
    scene.enqueue(1, "hit", frame=1, payload="12345678")
    scene.seal(1)
    scene.retire(1)
    scene.seal(2)

    scene.rollback(1)

    assert waits(scene) == [(0, 1, "hit")]
    assert scene.hero().events.waiting_bytes == 10
    assert scene.commit(1).pending == 0
    assert scene.confirm(1).deliveries[0].events[0].payload == "12345678"


def test_what_was_enqueued_later_is_gone_and_its_key_is_free(world: World):
    scene = world()
    scene.enqueue(1, "step", frame=1)
    scene.seal(1)
    scene.enqueue(1, "step", frame=2, payload="mispredicted")

    scene.rollback(1)

    assert waits(scene) == [(0, 1, "step")]
    assert scene.enqueue(1, "step", frame=1).outcome == "duplicate"
    assert word(scene.enqueue(1, "step", frame=2, payload="right")) == "accepted"
    assert [event.payload for event in scene.commit(1).events][1:] == ["right"]


def test_the_watermark_comes_back(world: World):
    scene = world()
    scene.commit(1, 2)
    scene.seal(1)
    scene.commit(1, 5)

    scene.rollback(1)

    assert scene.hero().events.instances[1].committed_loop == 2
    assert word(scene.enqueue(1, "step", loop=3)) == "accepted"
    assert scene.enqueue(1, "step", loop=1).outcome == "late_loop"


def test_an_instance_that_was_opened_later_is_gone_and_may_be_opened_again_under_its_number(world: World):
    scene = world()
    scene.seal(1)
    first = scene.ask(Play(clip="Walk"))

    scene.rollback(1)
    again = scene.ask(Play(clip="Run", clip_instance=first.clip_instance))
    next_one = scene.ask(Play(clip="Run"))

    assert (first.clip_instance, again.clip_instance, next_one.clip_instance) == (1, 1, 2)


def test_an_instance_that_was_retired_later_is_open_again(world: World):
    scene = world()
    scene.enqueue(1, "step", frame=1)
    scene.seal(1)
    scene.retire(1)

    scene.rollback(1)

    assert waits(scene) == [(0, 1, "step")]
    assert word(scene.retire(1)) == "retired"


def test_an_instance_that_was_retired_to_make_room_is_open_again(world: World):
    scene = world(instances_open=1)
    scene.commit(1)
    scene.seal(1)
    made_room = scene.commit(2)

    scene.rollback(1)

    assert made_room.retired == [1]
    assert sorted(scene.hero().events.instances) == [1]
    assert scene.commit(2).retired == [1]


def test_windows_come_back_with_their_holders(world: World):
    scene = world()
    token = scene.begin("Attack")
    scene.enqueue(1, "danger", frame=3, holder=token)
    scene.enqueue(2, "flash", frame=4, holder=token)
    before = {number: windows(scene, number) for number in (1, 2)}
    scene.seal(1)
    scene.begin("Hit")
    scene.enqueue(1, "safe", frame=9)
    scene.commit(1)
    scene.seal(2)

    scene.rollback(1)
    back = {number: windows(scene, number) for number in (1, 2)}
    scene.begin("Dodge")
    scene.commit(1)
    scene.seal(2)
    scene.confirm(2)

    assert back == before
    assert scene.given("danger", "safe") == [(1, 0, 3, "danger"), (1, 0, 3, "safe")]


def test_a_window_that_was_opened_later_is_not_open(world: World):
    scene = world()
    scene.commit(1)
    scene.seal(1)
    scene.enqueue(1, "danger", frame=3)

    scene.rollback(1)
    scene.retire(1)
    scene.seal(2)

    assert scene.confirm(2).deliveries == []


def test_group_marks_come_back(world: World):
    scene = world()
    scene.enqueue(1, "step", frame=12, group="walk", mark="left")
    scene.seal(1)
    scene.enqueue(1, "step", frame=20, group="walk", mark="right")

    scene.rollback(1)

    doubled = scene.enqueue(2, "step", frame=11, group="walk", mark="left")
    assert (doubled.outcome, doubled.at, doubled.by) == ("duplicate", "mark", {"clip_instance": 1})
    assert word(scene.enqueue(2, "step", frame=19, group="walk", mark="right")) == "accepted"


def test_a_mark_that_was_delivered_is_heard_once_though_another_clip_brings_it_after_the_rollback(world: World):
    scene = world()
    scene.seal(1)
    scene.enqueue(1, "step", frame=12, group="walk", mark="left")
    scene.commit(1)

    scene.rollback(1)

    doubled = scene.enqueue(2, "step", frame=11, group="walk", mark="left")
    assert (doubled.outcome, doubled.at) == ("duplicate", "mark")


def test_a_rollback_over_several_ticks_goes_back_to_the_end_of_that_very_tick(world: World):
    scene = world()
    for tick in range(1, 6):
        scene.enqueue(1, "hit", frame=tick)
        scene.seal(tick)

    scene.rollback(2)
    after_one = waits(scene)
    scene.rollback(1)

    assert after_one == [(0, 1, "hit"), (0, 2, "hit")]
    assert waits(scene) == [(0, 1, "hit")]


def test_a_rollback_into_the_open_tick_undoes_only_that(world: World):
    scene = world()
    scene.enqueue(1, "hit", frame=1)
    scene.seal(1)
    scene.enqueue(1, "hit", frame=2)

    scene.rollback(1)

    assert waits(scene) == [(0, 1, "hit")]


# What never comes back


@pytest.mark.parametrize("kind", ["step", "spark", "hit"])
def test_a_key_that_was_delivered_is_never_delivered_twice(world: World, kind: str):
    scene = world()
    scene.enqueue(1, "step", frame=9)
    scene.seal(1)
    scene.enqueue(1, kind, frame=1, tick=2)
    scene.commit(1)
    scene.seal(2)
    scene.tick(confirm=0)

    scene.rollback(1)
    again = scene.enqueue(1, kind, frame=1, tick=2)
    scene.commit(1)
    scene.seal(2)
    scene.confirm(2)

    expected = "accepted" if kind == "hit" else "duplicate"
    assert word(again) == expected
    assert sorted(scene.given()) == sorted([(1, 0, 1, kind), (1, 0, 9, "step")])
    assert scene.withdrawn == []


def test_the_double_of_a_delivered_key_says_whether_its_payload_differs(world: World):
    scene = world()
    scene.commit(1)
    scene.seal(1)
    scene.enqueue(1, "spark", frame=1, payload={"a": 1})

    scene.rollback(1)

    assert scene.enqueue(1, "spark", frame=1, payload={"a": 2}).payload_differs is True
    assert scene.enqueue(1, "spark", frame=1, payload={"a": 1.0}).payload_differs is not True


@pytest.mark.parametrize("kind", ["step", "spark"])
@pytest.mark.parametrize("opens_again", ["by its event", "by a play", "by a commit"])
def test_a_delivered_key_stays_delivered_under_a_number_that_is_opened_again(world: World, kind: str, opens_again: str):
    scene = world()
    scene.seal(1)
    scene.enqueue(7, kind, frame=1)
    scene.commit(7)

    scene.rollback(1)
    if opens_again == "by a play":
        scene.ask(Play(clip="Walk", clip_instance=7))
    elif opens_again == "by a commit":
        scene.commit(7)
    again = scene.enqueue(7, kind, frame=1)
    scene.commit(7)

    assert again.outcome == "duplicate"
    assert scene.given() == [(7, 0, 1, kind)]


def test_a_gameplay_event_that_was_confirmed_is_never_given_again(world: World):
    """It was accepted in a tick that is confirmed, so no rollback can take that back."""
    scene = world()
    scene.enqueue(1, "hit", frame=1)
    scene.commit(1)
    scene.seal(1)
    scene.seal(2)
    scene.confirm(1)
    scene.seal(3)

    for tick in (3, 2, 1):
        scene.rollback(tick)
        scene.commit(1)
        scene.seal(9)
        scene.rollback(tick)
    scene.seal(9)
    scene.confirm(9)

    assert scene.given() == [(1, 0, 1, "hit")]
    assert scene.withdrawn == []


def test_a_gameplay_event_that_a_later_commit_gave_is_not_given_again_by_two_rollbacks(world: World):
    """The second goes deeper than the first, into ticks of which the first restored nothing."""
    scene = world()
    scene.enqueue(1, "hit", frame=1, tick=1)
    for tick in range(1, 7):
        scene.enqueue(2, "step", frame=tick)
        scene.seal(tick)
    scene.confirm(1)
    scene.commit(1)

    scene.rollback(5)
    scene.seal(6)
    scene.rollback(2)
    scene.commit(1)
    scene.seal(9)
    scene.confirm(9)

    assert scene.given("hit") == [(1, 0, 1, "hit")]


def test_a_gameplay_event_that_a_confirmation_gave_is_not_given_again_by_two_rollbacks(world: World):
    scene = world()
    scene.enqueue(1, "hit", frame=1, tick=1)
    scene.commit(1)
    for tick in range(1, 7):
        scene.enqueue(2, "step", frame=tick)
        scene.seal(tick)
    scene.confirm(1)

    scene.rollback(5)
    scene.seal(6)
    scene.rollback(2)
    scene.seal(9)
    scene.confirm(9)

    assert scene.given("hit") == [(1, 0, 1, "hit")]


def test_delivery_numbers_go_on_and_what_was_delivered_can_be_read_again(world: World):
    scene = world()
    scene.enqueue(1, "step", frame=1)
    scene.seal(1)
    scene.commit(1)

    scene.rollback(1)
    scene.enqueue(1, "step", frame=2, loop=1)
    scene.commit(1, 1)

    assert scene.deliveries() == {1: ["step"], 2: ["step"]}


def test_an_acknowledgement_is_not_taken_back(world: World):
    scene = world()
    scene.enqueue(1, "step", frame=1)
    scene.commit(1)
    scene.seal(1)
    scene.acknowledge(1)

    scene.rollback(1)

    assert (scene.deliveries(), scene.hero().events.acknowledged) == ({}, 1)


def test_a_swap_is_not_taken_back_so_older_instances_stay_stale(world: World):
    scene = world()
    scene.enqueue(1, "step", frame=1)
    scene.seal(1)
    scene.swap()

    scene.rollback(1)

    assert scene.enqueue(1, "step", frame=2).outcome == "stale_epoch"
    assert len(scene.commit(1).events) == 1


# Lives


def test_events_of_an_ended_life_that_were_accepted_later_are_forgotten(world: World):
    scene = world()
    scene.enqueue(1, "hit", frame=1)
    scene.enqueue(2, "hit", frame=2)
    scene.commit(2)
    scene.seal(1)
    scene.enqueue(1, "hit", frame=3, tick=1)
    scene.enqueue(3, "hit", frame=4, tick=1)
    scene.commit(3)
    scene.ask(Despawn())

    scene.rollback(1)

    assert shown(scene.confirm(1).deliveries) == [("hero", 1, [(1, "hit"), (2, "hit")])]


def test_events_of_a_former_life_that_were_accepted_later_are_forgotten_though_the_next_began(world: World):
    scene = world()
    scene.enqueue(1, "hit", frame=1)
    scene.seal(1)
    scene.enqueue(1, "hit", frame=3, tick=1)
    scene.respawn(rig(kinds=KINDS))

    scene.rollback(1)

    assert shown(scene.confirm(1).deliveries) == [("hero", 1, [(1, "hit")])]


def test_events_that_a_living_character_brought_from_a_former_life_come_back(world: World):
    scene = world()
    scene.enqueue(1, "hit", frame=1)
    scene.respawn(rig(kinds=KINDS))
    scene.seal(1)
    scene.enqueue(2, "hit", frame=2)
    scene.commit(2)

    scene.rollback(1)

    assert shown(scene.confirm(1).deliveries) == [("hero", 1, [(1, "hit")])]


# Bounds


def echoes(scene: TickedScene) -> int:
    held = scene.hero().events.echoes
    return sum(len(keys) for loops in held.values() for keys in loops.values())


def test_what_is_remembered_of_closed_numbers_is_gone_once_it_is_withdrawn(world: World):
    scene = world()
    scene.seal(1)
    for number in (1, 2, 3):
        scene.enqueue(number, "spark", frame=number)
    scene.seal(2)

    scene.rollback(1)
    remembered = echoes(scene)
    scene.ask(Play(clip="Walk", clip_instance=2))
    opened = echoes(scene)
    scene.seal(2)
    scene.confirm(2)

    assert (remembered, opened, echoes(scene)) == (3, 2, 0)


def test_what_came_again_counts_as_of_the_tick_it_came_in_and_is_remembered_over_the_next_rollback(world: World):
    scene = world()
    scene.seal(1)
    scene.enqueue(1, "spark", frame=1)

    for _ in range(3):
        scene.rollback(1)
        assert scene.enqueue(1, "spark", frame=1).outcome == "duplicate"
        scene.seal(2)
    scene.confirm(2)

    assert scene.given() == [(1, 0, 1, "spark")]
    assert scene.withdrawn == []


def test_restored_keys_count_as_remembered(world: World):
    scene = world(events_per_instance=3)
    scene.enqueue(1, "step", frame=0)
    scene.seal(1)
    scene.enqueue(1, "spark", frame=1)
    scene.enqueue(1, "spark", frame=2)

    scene.rollback(1)

    assert scene.hero().events.instances[1].remembered == 3
    assert scene.enqueue(1, "step", frame=3).outcome == "queue_full"


def test_beyond_the_window_of_rollback_nothing_is_kept_of_older_ticks(world: World):
    scene = world(bounds=Bounds(rollback_ticks=2))
    for tick in range(1, 9):
        scene.enqueue(1, "spark", frame=tick)
        scene.seal(tick)

    past = scene.scene.ticks.past

    assert scene.tick(rollback=5).refused["rollback"].outcome == "beyond_rollback"
    assert [tick for tick, sealed in past.items() if sealed.before or sealed.delivered] == [7, 8]


def test_missing_events_of_a_manifest_are_told_as_if_nothing_was_mispredicted(world: World):
    scene = world(clips={"Walk": clip(10, (3, "step"), (7, "step"))})
    scene.ask(Play(clip="Walk"))
    scene.enqueue(1, "step", frame=3)
    scene.seal(1)
    scene.commit(1)

    scene.rollback(1)
    committed = scene.ask(CommitLoop(clip_instance=1, loop=0))

    assert [(each.loop, each.frame) for each in committed.missing] == [(0, 7)]
