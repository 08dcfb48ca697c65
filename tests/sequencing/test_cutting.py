"""Turns that are too large for one entry: cut in order, answered once, and never half denied."""

import asyncio
from typing import Any

import pytest

from app.gates.candidate import Candidate
from app.gates.decision import Problem, Undecided
from app.gates.event_commands import Enqueue
from app.gates.identity import Token
from app.gates.lives import CloseScene, Despawn
from app.gates.transition import Begin, Cancel
from app.journal import codec
from app.journal.port import START, CommitUnknown, JournalUnavailable
from app.sequencing import cutting
from app.sequencing import pace as pace_module
from app.sequencing.mailbox import Addressed, Decided, Submission, awaited
from tests.support.journal_fakes import Fault, FaultyJournal
from tests.support.played import Played, assert_same_scene
from tests.support.sequenced import RUN, SPAWN, Node, Reply, replayed, words

STANDS_IN = Token("", "", 0, 0, "", "")


def loop(number: int, size: int = 10) -> Enqueue:
    return Enqueue(clip_instance=number, loop=0, frame=0, kind="step", payload="x" * size)


async def spawned(journal: FaultyJournal, bytes_max: int, **settings: Any) -> Node:
    node = Node(journal, **settings)
    assert await node.ask(SPAWN) == ["spawned"]
    journal.bytes_max = bytes_max
    return node


def put(node: Node, commands: list[Addressed]) -> Reply:
    waited, reply = awaited()
    assert node.sequencer.mailbox.put(Submission(commands, "", reply))
    return waited


async def turns(node: Node) -> int:
    """Take turns until nothing waits; give how many that were."""
    taken = 0
    while node.sequencer.mailbox.has_waiting:
        await node.sequencer.turn()
        taken += 1
    return taken


async def entries(journal: FaultyJournal) -> list[tuple[int, int]]:
    read = await journal.inner.read("room", after=START, limit=999)
    assert all(journal.bytes_max is None or len(entry.blob) <= journal.bytes_max for entry in read[1:])
    return [(entry.first, entry.last) for entry in read]


def sequences(reply: Reply) -> list[int]:
    return [result.sequence for result in reply.result() if isinstance(result, Decided)]


async def test_whole_submissions_go_first_and_the_others_wait_before_all_that_came_later(journal: FaultyJournal):
    node = await spawned(journal, 700)
    replies = [node.put(*[loop(1 + 2 * number + at) for at in range(2)]) for number in range(8)]
    later: list[Reply] = []
    replies[0].add_done_callback(lambda _: later.append(node.put(RUN)))

    await turns(node)

    assert [sequences(reply) for reply in replies] == [[first, first + 1] for first in range(2, 18, 2)]
    cut = await entries(journal)
    assert len(cut) > 3
    assert all(first % 2 == 0 for first, _ in cut[1:-1]), "no submission was cut that fits"
    assert_same_scene(node.scene, await replayed(journal))


async def test_a_submission_that_is_too_large_is_decided_in_parts_and_answered_once_in_order(journal: FaultyJournal):
    node = await spawned(journal, 600)
    reply, behind = node.put(*[loop(number) for number in range(1, 41)]), node.put(RUN)

    await node.sequencer.turn()
    was_answered = reply.done()
    await turns(node)

    assert not was_answered
    assert words(reply.result()) == ["accepted"] * 40
    assert sequences(reply) == list(range(2, 42))
    assert sequences(behind) == [42]
    assert len(await entries(journal)) > 5
    assert_same_scene(node.scene, await replayed(journal))


async def test_a_huge_turn_is_encoded_and_decided_about_as_often_as_it_has_entries(
    journal: FaultyJournal, monkeypatch: pytest.MonkeyPatch
):
    node = await spawned(journal, 4_000)
    measured, encode = 0, codec.encode_entry

    def counted(**given: Any) -> bytes:
        nonlocal measured
        measured += len(given["records"]) == 1
        return encode(**given)

    monkeypatch.setattr(cutting, "encode_entry", counted)
    reply = node.put(*[RUN] * 400)

    taken = await turns(node)

    assert sequences(reply) == list(range(2, 402))
    assert taken == len(await entries(journal)) - 1
    assert measured <= 400 + taken, "each decision is measured once, and one too many in each cut"


async def test_keys_and_references_hold_across_a_cut(journal: FaultyJournal):
    node = await spawned(journal, 500)
    begin = Addressed("hero", Begin(layer="base", target="Run"), "key-begin")
    between = [Addressed("hero", loop(number)) for number in range(1, 20)]
    cancel = Addressed("hero", Cancel(token=STANDS_IN), "key-cancel", {"token": 0})
    asked = [begin, *between, cancel, begin]

    reply = put(node, asked)
    await turns(node)
    again = put(node, asked)
    await turns(node)

    assert words(reply.result())[0] == "granted"
    assert words(reply.result())[-2:] == ["cancelled", "earlier"]
    assert words(again.result())[0] == "earlier"
    assert words(again.result())[-2:] == ["earlier", "earlier"]
    assert len(await entries(journal)) > 4


async def test_a_later_part_that_fails_is_never_said_to_leave_nothing_decided(journal: FaultyJournal):
    node = await spawned(journal, 500)
    journal.next(Fault.NONE, Fault.UNAVAILABLE)
    keyed = [Addressed("hero", loop(number), f"key-{number}") for number in range(1, 20)]
    reply = put(node, keyed)

    await turns(node)
    with pytest.raises(CommitUnknown):
        reply.result()
    decided = node.scene.sequence
    again = put(node, keyed)
    await turns(node)

    assert decided > 1
    assert [word in ("earlier", "accepted") for word in words(again.result())] == [True] * 19
    assert node.scene.sequence == 20, "each was decided once"


async def test_a_part_that_waits_while_the_scene_cannot_be_read_is_told_that_something_was_decided(
    journal: FaultyJournal,
):
    node = await spawned(journal, 500)
    reply = node.put(*[loop(number) for number in range(1, 20)])
    await node.sequencer.turn()

    node.sequencer.abandon()

    with pytest.raises(CommitUnknown):
        reply.result()


async def test_a_command_that_fits_no_entry_is_a_problem_of_its_own_and_leaves_the_others_alone(journal: FaultyJournal):
    node = await spawned(journal, 600)
    first = node.put(loop(1), loop(2, 900), loop(3))
    alone, last = node.put(loop(4, 900)), node.put(RUN)

    await turns(node)

    assert words(first.result()) == ["accepted", "too-large", "accepted"]
    [told] = alone.result()
    assert isinstance(told, Undecided)
    assert (told.problem, told.at) == (Problem.TOO_LARGE, "command")
    assert words(last.result()) == ["granted"]
    assert node.scene.sequence == 4


async def test_the_closing_of_a_scene_still_ends_its_turn(journal: FaultyJournal):
    node = await spawned(journal, 500)
    closing = [*(Addressed("hero", loop(number)) for number in range(1, 12)), Addressed(None, CloseScene())]
    reply, spawn = put(node, closing), node.put(SPAWN)

    await turns(node)

    assert words(reply.result())[-1] == "closed"
    assert words(spawn.result()) == ["spawned"]
    assert await journal.inner.read("room", after=START, limit=9)
    assert [first for first, _ in await entries(journal)] == [sequences(spawn)[0]], "what was closed is forgotten"


async def test_a_cut_turn_that_is_behind_another_writer_is_decided_again(journal: FaultyJournal):
    node = await spawned(journal, 500)
    other = Node(journal)
    await other.ask()
    reply = node.put(*[loop(number) for number in range(1, 16)])
    await node.sequencer.turn()
    await other.ask(RUN)

    await turns(node)

    assert words(reply.result()) == ["accepted"] * 15
    assert len(set(sequences(reply))) == 15
    await other.ask()
    await other.sequencer.look()
    assert_same_scene(node.scene, await replayed(journal))


async def test_what_stands_before_a_command_that_fits_no_entry_is_told_of_what_the_journal_holds(
    journal: FaultyJournal,
):
    """Its node is behind, and the problem that it would tell is not one any more."""
    node, other = await spawned(journal, 600), Node(journal)
    await other.ask(SPAWN, who="villain")
    asked = [Addressed("villain", RUN), Addressed("hero", loop(1, 900)), Addressed("villain", RUN)]
    reply = put(node, asked)

    await turns(node)

    assert words(reply.result()) == ["granted", "too-large", "granted"]


async def test_a_command_that_was_too_large_of_a_life_that_ended_elsewhere_is_a_problem_of_now(journal: FaultyJournal):
    node, other = await spawned(journal, 600), Node(journal)
    await other.ask(Despawn())
    reply = node.put(loop(1, 900))

    await turns(node)

    assert words(reply.result()) == ["unknown-character"]


async def test_a_part_of_retries_that_is_dropped_with_its_turn_is_no_whole_answer(journal: FaultyJournal):
    """Nothing of it was decided, and the commands behind the part were not even looked at."""
    node = await spawned(journal, 10_000)
    retried = [Addressed("hero", loop(number), f"key-{number}") for number in range(1, 4)]
    put(node, retried)
    await turns(node)
    journal.bytes_max = 400
    journal.next(Fault.UNAVAILABLE)
    first = node.put(loop(9))
    reply = put(node, [*retried, *(Addressed("hero", loop(number)) for number in range(20, 40))])
    last = node.sequencer.mailbox._waiting[-1]
    last.until = 3

    await node.sequencer.turn()

    for dropped in (first, reply):
        with pytest.raises(JournalUnavailable):
            dropped.result()


async def test_an_entry_of_many_decisions_is_made_while_others_run_and_is_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pace_module, "WORK_S_MAX", 0.0)
    monkeypatch.setattr(cutting, "AT_ONCE_DECISIONS", 64)
    room, ran = Played(), 0
    room.spawn()
    candidate = Candidate(room.scene, room.at)
    for _ in range(256):
        candidate.decide("hero", RUN)
    making = asyncio.ensure_future(cutting.encoded(candidate, []))
    while not making.done():
        ran += 1
        await asyncio.sleep(0)

    assert ran > 8
    assert await making == codec.encode_entry(at=candidate.at, first=candidate.first, records=candidate.records)
