"""The candidate: a turn's decisions in order, over a scene that it leaves alone; and whom each of them concerns."""

import pytest

from app.gates.bundle import Bundle
from app.gates.candidate import Candidate, concerned, replay
from app.gates.decision import Command, Undecided
from app.gates.graph import RequestGraph
from app.gates.identity import Token
from app.gates.lives import Despawn, Spawn
from app.gates.receipt import mark
from app.gates.scene import Record
from app.gates.tick import Tick
from app.gates.transition import Begin, Cancel, Complete
from app.journal.codec import decode_entry, encode_entry
from tests.support.played import Played, member, request
from tests.support.rigs import candidate
from tests.support.steps import taken

FORGED = Token("hero", "base", 1, 1, "Idle", "Run", "1-0")
RUN, HIT = Begin(layer="base", target="Run"), Begin(layer="base", target="Hit")
GRAB = Bundle(commands=[member("hero", RUN), member("villain", HIT)], link=True)
FAILED = Bundle(commands=[member("hero", RUN), member("villain", Complete(token=FORGED))])


def record(room: Played, who: str | None, command: Command) -> Record:
    decided = Candidate(room.scene, room.at).decide(who, command)
    assert isinstance(decided, Record)
    return decided


@pytest.mark.parametrize(
    ("who", "command"),
    [
        ("hero", RUN),
        ("hero", Complete(token=FORGED)),
        ("hero", Despawn()),
        ("squire", Spawn()),
        (None, GRAB),
        (None, FAILED),
        (None, Tick(requests=[request(2, GRAB, None)], seal=2, confirm=1)),
        (None, Tick(rollback=1, seal=4)),
        (None, Tick(seal=0)),
    ],
    ids=str,
)
def test_answering_says_what_deciding_would_and_moves_nothing(room: Played, who: str | None, command: Command):
    room.tick(seal=1)
    room.begin("Run")
    turn = Candidate(room.scene, room.at)
    turn.decide("villain", RUN)

    twice = [turn.answer(who, command), turn.answer(who, command)]
    decided = turn.decide(who, command)

    assert isinstance(decided, Record)
    assert twice == [decided.answer] * 2
    assert len(turn.records) == 2


def test_a_turn_that_is_dropped_leaves_the_scene_as_it_was(room: Played):
    room.tick(seal=1)
    before, sequence = room.held(), room.scene.sequence
    turn = Candidate(room.scene, room.at)

    for who, command in [(None, GRAB), ("hero", Despawn()), (None, Tick(seal=3, confirm=2)), (None, Tick(rollback=2))]:
        turn.decide(who, command)

    assert len(turn.records) == 4
    assert (room.held(), room.scene.sequence) == (before, sequence)


@pytest.mark.parametrize(
    ("who", "command"), [("nobody", RUN), (None, Bundle(commands=[member("nobody", RUN)]))], ids=["single", "bundle"]
)
def test_a_problem_is_no_decision(room: Played, who: str | None, command: Command):
    turn = Candidate(room.scene, room.at)

    assert isinstance(turn.decide(who, command), Undecided)
    assert (turn.records, turn.sequence) == ([], room.scene.sequence)


def test_what_is_for_a_whole_scene_has_no_character_and_no_revision(room: Played):
    records = [record(room, None, GRAB), record(room, None, FAILED), record(room, None, Tick(seal=1))]

    assert [(each.character, each.revision) for each in records] == [(None, 0)] * 3
    assert [each.accepted for each in records] == [True, False, True]


def test_a_tick_of_which_nothing_was_accepted_is_not_accepted(room: Played):
    assert not record(room, None, Tick(seal=0)).accepted
    assert not record(room, None, Tick(rollback=1)).accepted


def test_a_bundle_concerns_its_characters_refused_or_not(room: Played):
    assert set(concerned(record(room, None, GRAB))) == {"hero", "villain"}
    assert set(concerned(record(room, None, FAILED))) == {"hero", "villain"}


def test_a_decision_concerns_whoever_it_ended_a_token_of(room: Played):
    room.ask(GRAB, None)

    assert list(concerned(record(room, "villain", RUN))) == ["villain", "hero"]


def test_a_seal_concerns_those_whose_requests_it_applied_and_whose_tokens_expired(room: Played):
    room.spawn(who="squire")
    room.spawn(who="idler")
    room.begin("Run", "squire", deadline_ticks=0)

    sealed = record(room, None, Tick(requests=[request(1, GRAB, None)], seal=1))

    assert set(concerned(sealed)) == {"hero", "villain", "squire"}


def test_a_seal_concerns_those_that_a_request_ended_a_token_of(room: Played):
    room.ask(GRAB, None)

    sealed = record(room, None, Tick(requests=[request(1, RUN, "villain")], seal=1))

    assert set(concerned(sealed)) == {"villain", "hero"}


def test_a_request_that_only_waits_concerns_nobody_yet(room: Played):
    assert list(concerned(record(room, None, Tick(requests=[request(1, GRAB, None)])))) == []


def test_a_refusal_that_may_change_keeps_no_receipt_and_any_other_does(room: Played):
    token = room.begin("Run", min_ticks=2)
    early, forged = Complete(token=token), Complete(token=FORGED)

    room.turn(("hero", early, mark("s", "early", "hero", early)), ("hero", forged, mark("s", "forged", "hero", forged)))

    assert [len(held) for held in room.scene.receipts.dump().values()] == [1]


@pytest.mark.parametrize(
    ("tick", "receipts"),
    [
        (Tick(seal=0), 1),
        (Tick(seal=66), 0),
        (Tick(requests=[request(66, RUN)], seal=0), 0),
        (Tick(requests=[request(66, RUN)], seal=2), 1),
    ],
    ids=["sealed already", "beyond the window", "a request beyond", "in part"],
)
def test_a_tick_keeps_its_receipt_unless_all_of_it_may_succeed_later(room: Played, tick: Tick, receipts: int):
    room.tick(seal=1)

    room.ask(tick, None, mark("server", "key-1", None, tick))

    assert sum(map(len, room.scene.receipts.dump().values())) == receipts


def test_a_turn_is_replayed_from_its_records_alone(room: Played):
    """Every kind of decision in one turn: what is replayed is what was adopted."""
    room.tick(seal=1)
    token = room.begin("Run", "villain")

    room.turn(
        (None, GRAB),
        ("villain", Cancel(token=token)),
        ("hero", RequestGraph(name="A")),
        ("hero", candidate(1)),
        (None, Tick(requests=[request(2, GRAB, None), request(3, RUN, "nobody", number=2)], seal=4, confirm=1)),
        (None, FAILED),
        ("villain", Despawn()),
        (None, Tick(rollback=3)),
    )

    entry = decode_entry(room.entries[-1])
    assert encode_entry(at=entry.at, first=entry.first, records=entry.records) == room.entries[-1]


def test_entries_follow_each_other_without_a_gap(room: Played):
    with pytest.raises(AssertionError, match="gap"):
        replay(room.scene, room.scene.sequence + 2, room.at, [])


def test_a_seal_of_many_is_replayed_in_steps_and_any_other_decision_in_none(room: Played):
    room.ask(Tick(requests=[request(1, RUN, number=number) for number in range(64)]), None)
    before = Candidate(room.scene, room.at)
    decided = Candidate(room.scene, room.at)
    sealed, begun = decided.decide(None, Tick(seal=1)), decided.decide("hero", RUN)
    assert not isinstance(sealed, Undecided)
    assert not isinstance(begun, Undecided)

    steps = [taken(before.apply_in_steps(record)) for record in (sealed, begun)]

    assert steps == [(sealed, 4), (begun, 0)]
    assert before.living == decided.living
