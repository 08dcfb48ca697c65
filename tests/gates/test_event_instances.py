"""The event gate's bounds: which instances are open, which numbers are spent, what waits."""

from typing import Any

import pytest

from app.gates.event import INSTANCE_LEAD_MAX
from app.gates.event_commands import CommitLoop, Enqueue, Play, Retire
from tests.support.played import Played
from tests.support.rigs import rig

KINDS = {"step": "presentation", "spark": "immediate"}


def alive(**parts: Any) -> Played:
    played = Played()
    played.spawn(rig(**{"kinds": KINDS, **parts}))
    return played


def event(number: int, loop: int = 0, frame: int = 0, kind: str = "step", **fields: Any) -> Enqueue:
    return Enqueue(clip_instance=number, loop=loop, frame=frame, kind=kind, **fields)


def commit(number: int, loop: int) -> CommitLoop:
    return CommitLoop(clip_instance=number, loop=loop)


def test_payload_bytes_are_freed_by_delivery_and_by_retirement():
    played = alive(events_bytes=10)
    played.ask(event(1, 0, 0, payload="12345678"))
    full = played.ask(event(2, 0, 1, payload="x"))

    played.ask(commit(1, 0))
    after_delivery = played.word(event(2, 0, 1, payload="12345678"))
    played.ask(Retire(clip_instance=2))
    after_retirement = played.word(event(3, 0, 1, payload="12345678"))

    assert (full.outcome, full.at) == ("queue_full", "payload")
    assert (after_delivery, after_retirement) == ("accepted", "accepted")
    assert played.hero().events.waiting_bytes == 10


def test_an_event_without_a_payload_takes_no_bytes():
    played = alive(events_bytes=0)

    assert played.word(event(1, 0, 0)) == "accepted"
    assert played.word(event(1, 0, 1, payload=None)) == "queue_full"


def test_a_refused_first_event_does_not_open_its_instance():
    played = alive(events_bytes=0)

    assert played.word(event(1, payload=1)) == "queue_full"
    assert played.word(Retire(clip_instance=1)) == "unknown_instance"


def test_delivered_keys_of_the_committed_loop_count_until_the_next_loop_is_committed():
    played = alive(events_per_instance=2)
    for frame in (0, 1):
        played.ask(event(1, 0, frame))
    played.ask(commit(1, 0))
    full = played.word(event(1, 1, 0))
    played.ask(commit(1, 1))

    assert (full, played.word(event(1, 1, 0))) == ("queue_full", "accepted")


def test_the_longest_untouched_instance_with_nothing_waiting_makes_room():
    played = alive(instances_open=3)
    for number in (1, 2, 3):
        played.ask(event(number))
    for number in (1, 2):
        played.ask(commit(number, 0))
    played.ask(event(1, 0, 5))
    played.ask(commit(1, 0))

    opened = played.ask(Play(clip="Walk"))

    assert (opened.clip_instance, opened.retired) == (4, [2])
    assert played.word(event(2)) == "retired_instance"


@pytest.mark.parametrize("opener", [event(9), commit(9, 0), Play(clip="Walk", clip_instance=9), Play(clip="Walk")])
def test_every_command_that_opens_says_who_made_room(opener: Any):
    played = alive(instances_open=1)
    played.ask(commit(3, 0))

    answer = played.ask(opener)

    assert answer.retired == [3]
    assert list(played.hero().events.instances) != [3]


def test_a_refused_command_touches_no_instance():
    played = alive(instances_open=2)
    played.ask(commit(1, 5))
    played.ask(commit(2, 5))
    played.word(commit(1, 0))
    played.word(event(1, 0))

    assert played.ask(Play(clip="Walk")).retired == [1]


def test_play_allots_one_above_the_highest_seen():
    played = alive()
    numbers = [played.ask(Play(clip="Walk")).clip_instance]
    played.ask(event(40))
    played.ask(event(12))
    numbers.append(played.ask(Play(clip="Walk")).clip_instance)

    assert numbers == [1, 41]


def test_host_numbers_open_in_any_order_and_stay_retired():
    played = alive()
    opened = [played.word(event(number)) for number in (9, 4, 7)]
    played.ask(Retire(clip_instance=4))

    assert opened == ["accepted"] * 3
    assert [played.word(event(number, 0, 1)) for number in (9, 4, 7)] == ["accepted", "retired_instance", "accepted"]


def test_a_number_exactly_2_to_the_20_above_the_highest_is_in_range():
    played = alive()

    assert played.word(event(INSTANCE_LEAD_MAX + 1)) == "instance_out_of_range"
    assert played.word(event(INSTANCE_LEAD_MAX)) == "accepted"
    assert played.word(event(2 * INSTANCE_LEAD_MAX)) == "accepted"


def test_neighbouring_retired_numbers_are_kept_as_one_run():
    played = alive()
    for number in (3, 5, 4, 9, 1, 2):
        played.ask(event(number))
        played.ask(Retire(clip_instance=number))

    assert played.hero().events.retired == ((1, 5), (9, 9))


def test_a_run_that_reaches_the_floor_becomes_part_of_it():
    played = alive()
    for number in (0, 1, 3):
        played.ask(event(number))
        played.ask(Retire(clip_instance=number))

    assert (played.hero().events.floor, played.hero().events.retired) == (1, ((3, 3),))


def test_beyond_1024_retired_runs_the_lowest_fold_into_the_floor_and_an_open_one_below_it_lives_on():
    played = alive()
    played.ask(event(1))
    for number in range(2, 2 + 2 * 1026, 2):
        played.ask(event(number))
        played.ask(Retire(clip_instance=number))
    gate = played.hero().events

    words = [played.word(event(number, 0, 1)) for number in (1, 3, 5, 2052)]

    assert (gate.floor, len(gate.retired)) == (4, 1024)
    assert words == ["accepted", "retired_instance", "accepted", "retired_instance"]


def test_an_open_instance_is_found_before_the_floor_is_asked_even_when_it_is_retired_below_it():
    played = alive()
    played.ask(event(1))
    for number in range(2, 2 + 2 * 1026, 2):
        played.ask(event(number))
        played.ask(Retire(clip_instance=number))

    assert played.word(Retire(clip_instance=1)) == "retired"
    assert played.word(event(1)) == "retired_instance"
    assert played.hero().events.floor == 4


def test_a_new_life_can_use_every_number_that_no_life_has_seen():
    played = alive()

    played.respawn(rig(kinds=KINDS))

    assert played.word(event(0)) == "accepted"
    played.respawn(rig(kinds=KINDS))
    assert played.word(event(0)) == "retired_instance"
