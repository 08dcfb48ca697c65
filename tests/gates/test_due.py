"""Gameplay events: given once, when their loop is committed and their tick is confirmed. Contract, section 8."""

from collections.abc import Callable

import pytest
from msgspec import UNSET

from app.gates.clip import Event
from app.gates.due import in_order, is_due, ripe
from app.gates.event_commands import Enqueue, Play
from app.gates.lives import Despawn
from app.gates.scene import Bounds
from tests.support.played import request, word
from tests.support.rigs import clip, rig
from tests.support.ticked import KINDS, TickedScene, shown

World = Callable[..., TickedScene]


def test_an_event_is_given_when_its_loop_is_committed_and_then_its_tick_is_confirmed(world: World):
    scene = world()
    scene.enqueue(1, "hit", frame=7, payload={"power": 3})

    committed = scene.commit(1)
    scene.seal(1)
    confirmed = scene.confirm(1)

    assert (committed.events, committed.delivery, committed.pending) == ([], None, 0)
    assert shown(confirmed.deliveries) == [("hero", 1, [(7, "hit")])]
    assert confirmed.deliveries[0].events == [Event(1, 0, 7, "hit", {"power": 3}, tick=1)]
    assert scene.deliveries() == {1: ["hit"]}


def test_an_event_is_given_when_its_tick_is_confirmed_and_then_its_loop_is_committed(world: World):
    scene = world()
    scene.enqueue(1, "hit", frame=7)
    scene.seal(1)

    confirmed = scene.confirm(1)
    committed = scene.commit(1)

    assert confirmed.deliveries == []
    assert (committed.events, committed.delivery) == ([Event(1, 0, 7, "hit", tick=1)], 1)
    assert scene.deliveries() == {1: ["hit"]}


@pytest.mark.parametrize("is_loop_first", [True, False])
def test_an_event_is_given_once_however_often_loop_and_tick_come_again(world: World, is_loop_first: bool):
    scene = world()
    scene.enqueue(1, "hit")
    steps = [lambda: scene.commit(1), lambda: (scene.seal(1), scene.confirm(1))]
    for step in steps if is_loop_first else steps[::-1]:
        step()

    again = scene.commit(1)
    once_more = scene.confirm(1)
    scene.seal(9)
    later = scene.confirm(9)

    assert (again.events, once_more.deliveries, later.deliveries) == ([], [], [])
    assert scene.given() == [(1, 0, 0, "hit")]
    assert scene.enqueue(1, "hit").outcome == "duplicate"


def test_without_a_tick_an_event_is_of_the_tick_being_open(world: World):
    scene = world()
    scene.seal(4)

    accepted = scene.enqueue(1, "hit")
    of_another_class = scene.enqueue(1, "step", frame=1)
    scene.commit(1)
    scene.seal(5)

    assert accepted.tick == 5
    assert word(of_another_class) == "accepted"
    assert shown(scene.confirm(4).deliveries) == []
    assert shown(scene.confirm(5).deliveries) == [("hero", 2, [(0, "hit")])]


def test_in_a_sealed_request_it_is_of_the_tick_that_is_sealed(world: World):
    scene = world()
    asked = [request(tick, Enqueue(clip_instance=1, loop=0, frame=tick, kind="hit"), number=tick) for tick in (2, 3)]

    scene.tick(requests=asked, seal=3)
    scene.commit(1)

    assert shown(scene.confirm(2).deliveries) == [("hero", 1, [(2, "hit")])]
    assert shown(scene.confirm(3).deliveries) == [("hero", 2, [(3, "hit")])]


def test_gameplay_events_come_by_tick_loop_frame_and_arrival_behind_the_others(world: World):
    scene = world()
    scene.seal(9)
    for tick, loop, frame, kind in (
        (11, 0, 3, "hit"),
        (10, 1, 5, "hit"),
        (10, 1, 2, "safe"),
        (10, 1, 2, "hit"),
        (10, 0, 9, "hit"),
        (10, 0, 8, "step"),
    ):
        scene.enqueue(1, kind, loop=loop, frame=frame, tick=tick)
    scene.seal(11)
    scene.confirm(11)

    committed = scene.commit(1, 1)

    assert [(event.tick, event.loop, event.frame, event.kind) for event in committed.events] == [
        (10, 0, 8, "step"),
        (10, 0, 9, "hit"),
        (10, 1, 2, "safe"),
        (10, 1, 2, "hit"),
        (10, 1, 5, "hit"),
        (11, 0, 3, "hit"),
    ]


def test_a_confirmation_gives_the_events_of_all_instances_in_one_order_and_one_delivery_a_character(world: World):
    scene = world(who=("villain", "hero"))
    for who in ("villain", "hero"):
        scene.enqueue(2, "hit", frame=1, tick=2, who=who)
        scene.enqueue(1, "hit", frame=2, tick=1, who=who)
        scene.enqueue(2, "hit", frame=3, tick=1, who=who)
        scene.commit(2, who=who)
        scene.commit(1, who=who)
    scene.seal(2)

    confirmed = scene.confirm(2)

    in_one = [(2, "hit"), (3, "hit"), (1, "hit")]
    assert shown(confirmed.deliveries) == [("hero", 1, in_one), ("villain", 1, in_one)]


def test_of_a_committed_loop_what_is_not_confirmed_waits_and_the_rest_is_given_at_once(world: World):
    scene = world()
    scene.seal(1)
    scene.enqueue(1, "hit", frame=1, tick=2)
    scene.enqueue(1, "hit", frame=2, tick=3)
    scene.enqueue(1, "step", frame=3)
    scene.seal(3)
    scene.confirm(2)

    committed = scene.commit(1)
    confirmed = scene.confirm(3)

    assert [event.kind for event in committed.events] == ["step", "hit"]
    assert shown(confirmed.deliveries) == [("hero", 2, [(2, "hit")])]


def test_an_event_of_a_confirmed_tick_comes_too_late_and_one_beyond_the_window_too_early(world: World):
    scene = world(bounds=Bounds(tick_window=4))
    scene.seal(6)
    scene.confirm(5)

    late = scene.enqueue(1, "hit", tick=5)
    far = scene.enqueue(1, "hit", tick=11)
    just_in = [scene.enqueue(1, "hit", frame=frame, tick=tick) for frame, tick in ((1, 6), (2, 10))]

    assert (late.outcome, late.at, late.by, late.is_retryable) == ("late_tick", "tick", {"tick": 5}, False)
    assert (far.outcome, far.at, far.by, far.is_retryable) == ("beyond_window", "tick", {"tick": 7}, True)
    assert [each.tick for each in just_in] == [6, 10]


def test_before_the_first_seal_an_event_may_be_of_any_tick(world: World):
    scene = world()

    assert scene.enqueue(1, "hit", tick=40_000).tick == 40_000
    assert scene.enqueue(1, "hit", frame=1, tick=0).outcome == "late_tick"


def test_the_tick_of_another_class_is_shown_and_never_asked_for(world: World):
    scene = world()
    scene.seal(6)
    scene.confirm(6)

    assert word(scene.enqueue(1, "step", tick=1)) == "accepted"
    assert word(scene.enqueue(1, "spark", tick=9_999)) == "accepted"
    assert scene.commit(1).events == [Event(1, 0, 0, "step", tick=1)]


def test_where_no_kinds_are_listed_nothing_is_gameplay(world: World):
    scene = world(kinds=None)
    scene.seal(6)
    scene.confirm(6)

    assert word(scene.enqueue(1, "hit", tick=1)) == "accepted"
    assert scene.commit(1).events == [Event(1, 0, 0, "hit", tick=1)]


def test_a_span_with_gameplay_events_meets_the_ticks_as_a_single_event_does(world: World):
    scene = world(clips={"Attack": clip(10, (3, "hit"), (5, "step"))}, bounds=Bounds(tick_window=4))
    [opened] = scene.turn(("hero", Play(clip="Attack")))
    scene.seal(6)
    scene.confirm(5)
    number = opened.clip_instance

    refused = [scene.cover(number, 0, 9, tick=tick).outcome for tick in (5, 11)]
    covered = scene.cover(number, 0, 9)
    scene.commit(number)
    scene.seal(7)

    assert refused == ["late_tick", "beyond_window"]
    assert [(event.kind, event.tick) for event in covered.events] == [("hit", 7), ("step", UNSET)]
    assert shown(scene.confirm(7).deliveries) == [("hero", 2, [(3, "hit")])]


def test_what_waits_for_its_tick_is_bounded_and_told_before_an_event_is_taken(world: World):
    scene = world(events_per_instance=2)
    for number in (1, 2):
        scene.enqueue(number, "hit")
        scene.commit(number)

    full = scene.enqueue(3, "hit")
    presentation = scene.enqueue(3, "step")
    scene.seal(1)
    scene.confirm(1)

    assert (full.outcome, full.at, full.is_retryable) == ("queue_full", "kind", True)
    assert word(presentation) == "accepted"
    assert word(scene.enqueue(3, "hit")) == "accepted"


def test_payload_bytes_of_what_waits_for_its_tick_count_until_it_is_given(world: World):
    scene = world(events_bytes=10)
    scene.enqueue(1, "hit", payload="12345678")
    scene.commit(1)

    full = scene.enqueue(2, "step", payload=1)
    scene.seal(1)
    scene.confirm(1)

    assert (full.outcome, full.at) == ("queue_full", "payload")
    assert word(scene.enqueue(2, "step", payload="12345678")) == "accepted"
    assert scene.hero().events.waiting_bytes == 10


# What outlives what


@pytest.mark.parametrize("is_loop_committed", [True, False])
def test_an_accepted_event_survives_the_retirement_of_its_instance(world: World, is_loop_committed: bool):
    scene = world()
    scene.enqueue(1, "hit", frame=4)
    scene.enqueue(1, "step", frame=5, loop=1)
    if is_loop_committed:
        scene.commit(1)

    retired = scene.retire(1)
    scene.seal(1)

    assert [event.kind for event in retired.undelivered] == ["step"]
    assert shown(scene.confirm(1).deliveries) == [("hero", 1, [(4, "hit")])]


def test_an_accepted_event_survives_a_graph_swap_and_is_given_by_either_way(world: World):
    scene = world()
    scene.enqueue(1, "hit", frame=4)
    scene.enqueue(2, "hit", frame=5)
    scene.commit(2)

    scene.swap()
    scene.seal(1)
    confirmed = scene.confirm(1)
    committed = scene.commit(1)

    assert shown(confirmed.deliveries) == [("hero", 1, [(5, "hit")])]
    assert [event.frame for event in committed.events] == [4]
    assert scene.enqueue(1, "hit", frame=6).outcome == "stale_epoch"


@pytest.mark.parametrize("is_loop_committed", [True, False])
def test_an_accepted_event_survives_a_despawn_and_is_read_again_in_the_next_life(world: World, is_loop_committed: bool):
    scene = world()
    scene.enqueue(1, "step", frame=1)
    scene.enqueue(1, "hit", frame=4)
    if is_loop_committed:
        scene.commit(1)
    scene.ask(Despawn())
    scene.seal(1)

    confirmed = scene.confirm(1)
    scene.spawn(rig(kinds=KINDS))

    number = 1 + is_loop_committed
    assert shown(confirmed.deliveries) == [("hero", number, [(4, "hit")])]
    assert scene.deliveries()[number] == ["hit"]
    assert scene.hero().events.last_delivery == number


def test_an_event_of_a_former_life_is_confirmed_for_the_next(world: World):
    scene = world()
    scene.enqueue(1, "hit", frame=4)
    scene.respawn(rig(kinds=KINDS))
    scene.enqueue(2, "hit", frame=5)
    scene.commit(2)
    scene.seal(1)

    assert shown(scene.confirm(1).deliveries) == [("hero", 1, [(4, "hit"), (5, "hit")])]


def test_an_event_of_a_former_life_is_given_to_a_next_life_that_knows_no_such_kind(world: World):
    scene = world()
    scene.enqueue(1, "hit", frame=4)
    scene.respawn(rig(kinds={"step": "presentation"}))
    scene.seal(1)

    assert shown(scene.confirm(1).deliveries) == [("hero", 1, [(4, "hit")])]


# Bounds of what is kept


def kept_full(world: World) -> TickedScene:
    scene = world(deliveries_kept=2)
    for frame in (1, 2):
        scene.enqueue(1, "hit", frame=frame)
        scene.commit(1)
        scene.seal(frame)
        scene.confirm(frame)
    return scene


def test_gameplay_deliveries_stay_and_the_oldest_others_make_room(world: World):
    scene = world(deliveries_kept=3)
    for frame in (1, 2):
        scene.enqueue(1, "step", frame=frame)
        scene.commit(1)
    for frame in (3, 4):
        scene.enqueue(1, "hit", frame=frame)
        scene.commit(1)
        scene.seal(frame)
        scene.confirm(frame)
    scene.enqueue(1, "step", frame=5)
    scene.commit(1)

    assert scene.deliveries() == {3: ["hit"], 4: ["hit"], 5: ["step"]}


def test_at_the_bound_both_ways_of_giving_answer_a_backlog_change_nothing_and_go_on_after_an_ack(world: World):
    scene = kept_full(world)
    scene.enqueue(1, "hit", frame=3)
    scene.enqueue(1, "step", frame=4, loop=1)
    scene.commit(1)
    scene.seal(3)

    committed = scene.commit(1, 1)
    confirmed = scene.tick(confirm=3)
    before_ack = scene.scene.ticks.confirmed
    scene.acknowledge(1)
    released = scene.confirm(3)
    full_again = scene.commit(1, 1)
    scene.acknowledge(3)

    assert (committed.outcome, committed.by, committed.is_retryable) == ("delivery_backlog", {"delivery": 1}, True)
    refused = confirmed.refused["confirm"]
    assert (refused.outcome, refused.by) == ("delivery_backlog", {"character": "hero", "delivery": 1})
    assert before_ack == 2
    assert shown(released.deliveries) == [("hero", 3, [(3, "hit")])]
    assert full_again.outcome == "delivery_backlog"
    assert [event.kind for event in scene.commit(1, 1).events] == ["step"]


def test_a_backlog_holds_up_only_what_would_add_to_it(world: World):
    scene = kept_full(world)
    scene.enqueue(1, "hit", frame=3)

    assert word(scene.commit(2)) == "delivered"
    assert word(scene.commit(1)) == "delivered"
    scene.seal(3)
    assert "confirm" in scene.tick(confirm=3).refused
    assert scene.tick(seal=4, confirm=2).confirm.tick == 2


def test_a_tick_whose_confirmation_meets_a_backlog_keeps_its_other_parts(world: World):
    scene = kept_full(world)
    scene.enqueue(1, "hit", frame=3)
    scene.commit(1)

    answer = scene.tick(seal=3, confirm=3)

    assert answer.seal.tick == 3
    assert answer.refused["confirm"].outcome == "delivery_backlog"
    assert (scene.scene.ticks.sealed, scene.scene.ticks.confirmed) == (3, 2)


# The parts alone


def test_due_means_of_a_tick_up_to_one():
    of = [Event(1, 0, 0, "hit", tick=tick) for tick in (4, 5, 6)]

    assert [is_due(event, 5) for event in of] == [True, True, False]
    assert not is_due(Event(1, 0, 0, "hit"), 5)


def test_order_is_tick_then_loop_then_frame():
    events = [Event(1, loop, frame, "hit", tick=tick) for tick, loop, frame in ((2, 0, 0), (1, 1, 0), (1, 0, 9))]

    assert [(event.tick, event.loop, event.frame) for event in sorted(events, key=in_order)] == [
        (1, 0, 9),
        (1, 1, 0),
        (2, 0, 0),
    ]


def test_where_nothing_is_gameplay_what_leaves_is_given_as_it_is():
    events = [Event(1, 0, 3, "step"), Event(1, 0, 1, "step")]

    assert ripe(events, rig(kinds=KINDS), 0) is events
