"""Ticking: requests wait for their tick and are applied in one order, however they came. Contract, section 8."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from app.gates.bundle import Bundle
from app.gates.decision import Command, Problem, Refused, Undecided
from app.gates.identity import Token
from app.gates.lives import Despawn, Spawn
from app.gates.parameter import CommitParameters, ParameterValue
from app.gates.scene import Bounds
from app.gates.tick import Applied, Request, Tick, TickApplied
from app.gates.transition import Begin, Cancel, Complete
from tests.support.played import Played, member, request, word

RUN, HIT = Begin(layer="base", target="Run"), Begin(layer="base", target="Hit")
FORGED = Token("hero", "base", 1, 1, "Idle", "Run", "1-0")
SMALL = Bounds(tick_window=4, tick_requests_max=2, rollback_ticks=3)


def begin(target: str, **fields: Any) -> Begin:
    return Begin(layer="base", target=target, **fields)


def speed(value: int) -> CommitParameters:
    return CommitParameters(values=[ParameterValue(value=value, name="Speed")])


def queued(ticked: Any) -> list[str]:
    return ["queued" if refused is None else str(refused.outcome) for refused in ticked.requests]


def applied(ticked: Any) -> list[Applied]:
    return [each for tick in ticked.seal.ticks for each in tick.applied]


def small(*sealed: int) -> Played:
    """Give a scene with small bounds that sealed some ticks."""
    room = Played(bounds=SMALL)
    room.spawn()
    for tick in sealed:
        room.tick(seal=tick)
    return room


# ---- the order


def test_requests_are_applied_tick_by_tick_and_by_priority_source_and_number(room: Played):
    requests = [
        request(2, begin("A"), source="ai", number=1),
        request(1, begin("F"), source="ai", number=9, priority=5),
        request(1, begin("D"), source="player", number=1),
        request(1, begin("C"), source="ai", number=10),
        request(1, begin("B"), source="ai", number=2),
        request(1, begin("E"), source="zoo", number=0, priority=-1),
        request(1, begin("G"), source="Zoo", number=3, priority=5),
    ]

    sealed = room.tick(requests=requests, seal=2)

    assert [given.answered.answer.token.to for given in applied(sealed)] == ["E", "B", "C", "D", "G", "F", "A"]
    assert [tick.tick for tick in sealed.seal.ticks] == [1, 2]


def test_the_highest_priority_has_the_last_word(room: Played):
    room.tick(requests=[request(1, begin("Hit"), priority=10), request(1, begin("Run"), number=2)], seal=1)

    assert room.pending() == "Hit"


def test_nothing_of_a_request_is_seen_before_its_tick_is_sealed(room: Played):
    room.tick(requests=[request(3, RUN)])
    room.tick(seal=2)
    before = room.pending()

    room.tick(seal=3)

    assert (before, room.pending()) == (None, "Run")


def test_the_answers_stand_in_the_order_in_which_they_were_applied_with_who_asked(room: Played):
    bundle = Bundle(commands=[member("hero", HIT), member("villain", RUN)])

    sealed = room.tick(requests=[request(1, bundle, None, source="ai", number=7), request(1, RUN, source="a")], seal=1)

    rows = [(each.source, each.number, each.answered.character, each.answered.command) for each in applied(sealed)]
    assert rows == [("a", 1, "hero", "begin"), ("ai", 7, None, "bundle")]


def test_a_request_that_is_refused_or_a_problem_stands_in_its_place_and_holds_nobody_up(room: Played):
    requests = [
        request(1, RUN, "nobody", number=1),
        request(1, Complete(token=FORGED), number=2),
        request(1, Bundle(commands=[member("hero", RUN), member("nobody", RUN)]), None, number=3),
        request(1, Bundle(commands=[member("hero", RUN), member("hero", Complete(token=FORGED))]), None, number=4),
        request(1, HIT, number=5),
    ]

    sealed = room.tick(requests=requests, seal=1)

    first, second, third, fourth, fifth = (each.answered.answer for each in applied(sealed))
    assert isinstance(first, Undecided)
    assert first.problem == Problem.UNKNOWN_CHARACTER
    assert second.outcome == "unknown_token"
    assert (third.problem, third.at) == (Problem.UNKNOWN_CHARACTER, "commands[1]")
    assert (fourth.outcome, fourth.failed_at) == ("member_refused", 1)
    assert word(fifth) == "granted"
    assert room.hero().layers["base"].generation == 1


def test_lives_begin_and_end_in_a_tick(room: Played):
    requests = [
        request(1, Spawn(), "squire", number=1),
        request(1, RUN, "squire", number=2),
        request(2, Despawn(), "squire", number=3),
        request(2, RUN, "squire", number=4),
    ]

    sealed = room.tick(requests=requests, seal=2)

    assert [word(each.answered.answer) for each in applied(sealed)] == [
        *("spawned", "granted", "despawned", "unknown-character")
    ]


def test_a_command_outside_ticks_belongs_to_the_tick_being_open(room: Played):
    room.tick(seal=4)
    room.begin("Run", min_ticks=0)

    sealed = room.tick(seal=6)

    assert [tick.tick for tick in sealed.seal.ticks] == [5]


def test_a_seal_in_which_nothing_happened_names_no_tick(room: Played):
    assert room.tick(seal=40).seal.ticks == []
    assert room.scene.ticks.sealed == 40


# ---- arrival


COMMANDS: list[tuple[str, Command]] = [
    ("hero", begin("Run")),
    ("hero", begin("Hit", if_same="keep")),
    ("villain", begin("Hit")),
    ("villain", speed(1)),
    ("hero", speed(2)),
    ("squire", Spawn()),
    ("squire", begin("Run")),
    ("squire", Despawn()),
    ("nobody", begin("Run")),
    ("hero", begin("Run", deadline_ticks=1)),
    ("hero", begin("Run", min_ticks=2, if_generation=1)),
]
DRAWN = st.lists(st.tuples(st.integers(1, 4), st.sampled_from(COMMANDS), st.integers(-1, 1)), max_size=12)


def parts_of(requests: Sequence[Request], cuts: list[int]) -> list[list[Request]]:
    edges = [0, *sorted(cuts), len(requests)]
    return [list(requests[start:end]) for start, end in pairwise(edges)]


def sealed_facts(name: str, parts: list[list[Request]], seals: list[int]) -> tuple[Any, ...]:
    """Play requests in parts, then seal; give what must not depend on how they came."""
    room = Played(name=name)
    room.spawn()
    room.spawn(who="villain")
    room.begin("Idle")
    for part in parts:
        if part:
            room.tick(requests=part)
    seen: list[TickApplied] = []
    digest = ""
    for tick in seals:
        fact = room.tick(seal=tick).seal
        seen += fact.ticks
        digest = fact.digest
    facts = [
        (tick.tick, [(each.source, each.number, shown(each.answered)) for each in tick.applied], shown(tick.expired))
        for tick in seen
    ]
    state = {who: shown(room.scene.roster.get(who)) for who in room.scene.roster.names()}
    room.check()
    remains = {who: replace(kept, died_at=0) for who, kept in room.scene.remains.items()}
    return facts, state, room.scene.state.rigs, remains, digest


def shown(value: Any) -> str:
    """Show a value without the seals, which depend on the scene's name, and without times and sequences."""
    return re.sub(r"'[0-9a-f]+-[0-9a-f]{32}'", "'seal'", repr(value))


@settings(max_examples=60, deadline=None)
@given(drawn=DRAWN, data=st.data())
def test_arrival_order_splitting_and_repetition_give_the_same_facts_state_and_digest(drawn: Any, data: st.DataObject):
    requests = [
        request(tick, command, who, source="ab"[number % 2], number=number, priority=priority)
        for number, (tick, (who, command), priority) in enumerate(drawn)
    ]
    expected = sealed_facts("one", [requests], [4])

    for name in ("two", "three", "four"):
        shuffled = data.draw(st.permutations(requests))
        repeated = shuffled + data.draw(st.lists(st.sampled_from(requests), max_size=4) if requests else st.just([]))
        cuts = data.draw(st.lists(st.integers(0, len(repeated)), max_size=3))
        seals = sorted({*data.draw(st.lists(st.integers(1, 4), max_size=3)), 4})

        assert sealed_facts(name, parts_of(repeated, cuts), seals) == expected


def test_a_repetition_with_another_command_is_a_duplicate_too_and_the_first_stands(room: Played):
    room.tick(requests=[request(1, RUN)])

    assert queued(room.tick(requests=[request(1, HIT), request(2, RUN)])) == ["duplicate", "duplicate"]
    room.tick(seal=2)
    assert room.pending() == "Run"


def test_the_digest_tells_two_histories_apart_and_says_nothing_of_ticks_without_any(room: Played):
    other = Played()
    other.spawn()
    other.spawn(who="villain")

    room.tick(requests=[request(1, RUN)], seal=1)
    other.tick(requests=[request(1, HIT)], seal=1)
    first = room.scene.ticks.digest

    assert first != other.scene.ticks.digest
    assert (len(first), room.tick(seal=9).seal.digest) == (16, first.hex())


# ---- each refusal, in the order of its checks


def test_a_tick_beyond_the_window_takes_no_more_requests_though_it_holds_some(room: Played):
    far = 1_000_000
    room.tick(requests=[request(5, RUN, number=1), request(far, RUN, number=2)])
    room.tick(seal=5)

    assert queued(room.tick(requests=[request(far, RUN, number=3)])) == ["beyond_window"]


def test_a_request_for_a_sealed_tick_is_late_whatever_else_is_wrong(room: Played):
    room.tick(seal=5)
    room.tick(requests=[request(6, RUN, number=1)])

    ticked = room.tick(requests=[request(5, RUN, number=1), request(0, RUN, number=2)])

    assert ticked.requests == [Refused("late_tick", at="tick", by={"tick": 5})] * 2
    assert ticked.refusal() == ticked.requests[0]


def test_a_request_beyond_the_window_is_refused_before_it_is_a_duplicate_and_may_come_again():
    room = small(1)
    room.tick(requests=[request(5, RUN)])

    ticked = room.tick(requests=[request(6, RUN)])

    assert ticked.requests == [Refused("beyond_window", at="tick", by={"tick": 1})]
    assert ticked.requests[0].is_retryable
    room.tick(seal=2)
    assert queued(room.tick(requests=[request(6, RUN, number=2)])) == ["queued"]
    room.check()


def test_a_source_and_number_is_held_once_before_the_room_is_asked():
    room = small(1)
    room.tick(requests=[request(2, RUN, number=1), request(2, RUN, number=2)])

    ticked = room.tick(requests=[request(2, HIT, number=1), request(2, HIT, number=3)])

    assert queued(ticked) == ["duplicate", "queue_full"]
    assert (ticked.requests[0].at, ticked.requests[1].at) == ("number", "tick")
    room.check()


def test_two_sources_may_use_the_same_number(room: Played):
    ticked = room.tick(requests=[request(1, RUN, source="a"), request(1, RUN, source="b")])

    assert queued(ticked) == ["queued", "queued"]


def test_a_number_may_be_used_again_once_its_tick_is_sealed(room: Played):
    room.tick(requests=[request(1, RUN)], seal=1)

    assert queued(room.tick(requests=[request(2, RUN)])) == ["queued"]


def test_the_requests_of_one_tick_are_bounded_and_each_tick_has_its_own_room():
    room = small(1)

    ticked = room.tick(requests=[request(tick, RUN, number=10 * tick + turn) for tick in (2, 3) for turn in range(3)])

    assert queued(ticked) == ["queued", "queued", "queue_full"] * 2
    room.check()


def test_all_the_requests_that_wait_are_bounded_too():
    room = Played(bounds=Bounds(tick_requests_max=2, scene_requests_max=3))
    room.spawn()

    ticked = room.tick(requests=[request(tick, RUN, number=10 * tick + turn) for tick in (2, 3) for turn in range(2)])

    assert queued(ticked) == ["queued", "queued", "queued", "queue_full"]
    room.check()


def test_before_the_first_seal_requests_may_be_for_any_tick_but_not_for_more_ticks_than_the_window():
    room = small()
    far = [request(tick, RUN, number=tick) for tick in (7, 1_000, 2**52, 12)]

    ticked = room.tick(requests=[*far, request(13, RUN, number=13), request(12, RUN, number=14)])

    assert queued(ticked) == [*["queued"] * 4, "queue_full", "queued"]
    room.check()


def test_a_seal_of_a_sealed_tick_is_refused_and_says_which_is_the_last(room: Played):
    room.tick(seal=5)

    assert [room.tick(seal=tick).refused["seal"] for tick in (5, 0)] == [
        Refused("already_sealed", at="seal", by={"tick": 5})
    ] * 2


def test_a_seal_beyond_the_window_is_refused_and_may_come_again():
    room = small(1)

    refusal = room.tick(seal=6).refused["seal"]

    assert refusal == Refused("beyond_window", at="seal", by={"tick": 1})
    assert refusal.is_retryable
    assert room.tick(seal=5).seal.tick == 5
    room.check()


def test_the_first_seal_may_be_of_any_tick():
    room = small()

    sealed = room.tick(requests=[request(90_000, RUN)], seal=123_456)

    assert [tick.tick for tick in sealed.seal.ticks] == [90_000]
    assert room.scene.ticks.sealed == 123_456
    room.check()


def test_tick_0_is_sealed_from_the_start(room: Played):
    assert word(room.tick(seal=0)) == "already_sealed"
    assert word(room.tick(requests=[request(0, RUN)])) == "late_tick"


def test_a_confirm_above_the_sealed_tick_is_refused(room: Played):
    room.tick(seal=5)

    assert room.tick(confirm=6).refused["confirm"] == Refused("unsealed", at="confirm", by={"tick": 5})


def test_a_lower_confirm_again_has_no_effect(room: Played):
    room.tick(seal=5, confirm=4)

    fact = room.tick(confirm=2)

    assert (fact.confirm.tick, room.scene.ticks.confirmed) == (2, 4)


def test_a_tick_without_a_scene_is_a_problem():
    room = Played()

    assert room.tick(seal=1).problem == Problem.UNKNOWN_SCENE
    assert room.scene.sequence == 0


def test_a_tick_with_a_holder_that_lost_its_right_is_refused_whole(room: Played):
    run = room.begin("Run")
    room.begin("Hit")

    assert room.tick(seal=1, holder=run) == Refused("holder_lost", at="holder")
    assert not room.scene.ticks.is_running


# ---- the parts together


def test_the_parts_are_decided_in_order_whatever_the_others_say(room: Played):
    room.tick(seal=3)

    ticked = room.tick(requests=[request(3, RUN), request(4, RUN)], seal=3, confirm=3)

    assert queued(ticked) == ["late_tick", "queued"]
    assert word(Refused(ticked.refused["seal"].outcome)) == "already_sealed"
    assert (ticked.seal, ticked.confirm.tick) == (UNSET, 3)
    assert ticked.refusal() is None


def test_requests_of_the_same_tick_command_are_applied_by_its_seal_and_confirmed(room: Played):
    ticked = room.tick(requests=[request(1, RUN)], seal=1, confirm=1)

    assert (room.pending(), ticked.confirm.tick) == ("Run", 1)


def test_a_tick_is_one_decision(room: Played):
    sequence = room.scene.sequence

    room.tick(requests=[request(1, RUN, number=turn) for turn in range(9)], seal=1, confirm=1)

    assert room.scene.sequence == sequence + 1


def test_a_tick_that_is_refused_does_not_let_ticks_run(room: Played):
    assert word(room.tick(seal=0, confirm=9)) == "already_sealed"
    assert not room.scene.ticks.is_running


def test_a_turn_may_hold_many_ticks_and_commands(room: Played):
    answers = room.turn(
        (None, Tick(requests=[request(1, RUN)])),
        ("villain", HIT),
        (None, Tick(seal=1)),
        ("villain", RUN),
        (None, Tick(seal=2)),
        (None, Tick(rollback=1)),
    )

    assert [word(answer) for answer in answers] == ["ticked", "granted", "ticked", "granted", "ticked", "ticked"]
    assert (room.pending(), room.pending("villain")) == ("Run", "Hit")


# ---- min_ticks and deadline_ticks


def test_a_token_is_too_early_until_its_ticks_have_passed_and_that_may_change(room: Played):
    room.tick(seal=10)
    token = room.begin("Hit", min_ticks=2)

    early = room.ask(Complete(token=token))
    room.tick(seal=11)
    still = room.complete(token)
    room.tick(seal=12)

    assert (early.outcome, early.at, early.by, early.is_retryable) == ("too_early", "token", {"tick": 13}, True)
    assert early.layer == room.hero().layers["base"].now()
    assert (still, room.complete(token)) == ("too_early", "committed")


def test_a_token_that_is_too_early_may_be_cancelled(room: Played):
    token = room.begin("Hit", min_ticks=2)

    assert room.word(Cancel(token=token)) == "cancelled"


def test_a_token_with_a_deadline_completes_through_its_last_tick(room: Played):
    room.tick(seal=10)
    token = room.begin("Hit", deadline_ticks=2)
    room.tick(seal=12)

    assert room.complete(token) == "committed"


def test_a_token_expires_when_its_last_tick_is_sealed(room: Played):
    room.tick(seal=10)
    token = room.begin("Hit", deadline_ticks=2)

    sealed = room.tick(seal=13).seal

    assert [
        (tick.tick, [ended.token.generation for ended in tick.expired.ended]) for tick in sealed.ticks if tick.expired
    ] == [(13, [1])]
    refused = room.ask(Complete(token=token))
    assert (refused.outcome, refused.by) == ("expired", {"generation": 1, "to": "Hit"})
    assert (room.pending(), room.current()) == (None, "Idle")


def test_requests_of_the_last_tick_come_before_its_end(room: Played):
    token = room.tick(requests=[request(1, begin("Hit", deadline_ticks=0))], seal=1)
    assert [ended.how for ended in token.seal.ticks[0].expired.ended] == ["t"]

    granted = room.begin("Hit", deadline_ticks=1)
    sealed = room.tick(requests=[request(3, Complete(token=granted))], seal=3).seal

    assert [tick.expired for tick in sealed.ticks] == [None, None]
    assert room.current() == "Hit"


def test_ticks_stand_still_without_seals(room: Played):
    """A paused game must not lose its transitions: no clock runs here, only seals."""
    token = room.begin("Hit", deadline_ticks=0, min_ticks=0)
    room.at += 86_400_000
    room.ask(RUN, "villain")

    assert room.complete(token) == "committed"


def test_a_newer_begin_takes_the_deadline_of_the_older_along(room: Played):
    room.begin("Hit", deadline_ticks=0)
    room.begin("Run")

    assert room.tick(seal=1).seal.ticks == []
    assert room.pending() == "Run"


def test_expired_tokens_are_named_once_and_in_the_order_in_which_they_were_granted(room: Played):
    for who in ("villain", "hero"):
        room.begin("Hit", who, deadline_ticks=1)

    sealed = room.tick(seal=2).seal

    [last] = sealed.ticks
    assert [ended.token.character for ended in last.expired.ended] == ["villain", "hero"]


def test_a_deadline_of_a_token_that_ended_before_it_is_nothing_that_happens(room: Played):
    room.tick(seal=1)
    room.complete(room.begin("Hit", deadline_ticks=3))
    room.tick(seal=2)
    digest = room.scene.ticks.digest

    sealed = room.tick(seal=9).seal

    assert (sealed.ticks, sealed.digest) == ([], digest.hex())


def test_a_seal_over_many_ticks_expires_each_token_in_its_own(room: Played):
    room.begin("Hit", deadline_ticks=1)
    room.begin("Run", "villain", deadline_ticks=5)

    sealed = room.tick(seal=9).seal

    assert [tick.tick for tick in sealed.ticks if tick.expired] == [2, 6]


# ---- what is kept


def test_the_answers_of_sealed_requests_are_kept_as_long_as_a_tick_can_be_rolled_back():
    room = small()
    room.tick(requests=[request(1, RUN)], seal=1)
    kept = room.scene.ticks.answered[1]

    room.tick(seal=3)
    still = room.scene.ticks.answered
    room.tick(seal=4)

    assert [each.number for each in kept.applied] == [1]
    assert kept.sequence == 2
    assert (list(still), list(room.scene.ticks.answered)) == ([1], [])
    room.check()


def test_what_undoes_ticks_is_let_go_of_beyond_the_bound():
    room = small(1)
    for tick in range(2, 12):
        room.tick(requests=[request(tick, begin("Run"), number=tick)], seal=tick)

    assert list(room.scene.ticks.past) == [8, 9, 10, 11]
    assert room.scene.ticks.past[8].before == {}
    assert room.scene.ticks.floor == 8
    room.check()


def test_a_replayed_tick_asks_no_rule(room: Played):
    """What was held is applied from the fact: another order of requests, or another bound, cannot change the past."""
    room.tick(requests=[request(1, RUN, number=1), request(1, HIT, number=2)], seal=1)
    room.bounds = Bounds(tick_requests_max=1, tick_window=1)

    assert room.replayed().ticks.sealed == 1
    room.bounds = Bounds()
