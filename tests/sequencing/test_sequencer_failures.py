"""The sequencer when the journal fails, cannot say, or was written by somebody else, and when an invariant breaks."""

from typing import Any

import pytest

from app.gates.candidate import Candidate
from app.gates.lives import CloseScene, Despawn, Spawn
from app.gates.transition import Begin, Complete
from app.journal.codec import decode_entry
from app.journal.port import START, CommitUnknown, JournalDamaged, JournalUnavailable, alone
from app.sequencing.mailbox import Decided, Earlier
from tests.support.journal_fakes import Fault, FaultyJournal
from tests.support.played import assert_same_scene
from tests.support.rigs import rig
from tests.support.sequenced import RUN, SPAWN, Node, replayed, words

HIT = Begin(layer="base", target="Hit")


async def spawned(journal: FaultyJournal, **settings: Any) -> Node:
    node = Node(journal, **settings)
    assert await node.ask(SPAWN) == ["spawned"]
    return node


def generation(node: Node, who: str = "hero") -> int:
    held = node.scene.roster.get(who)
    assert held is not None
    return held.layers["base"].generation


# A journal that took nothing


async def test_a_turn_the_journal_refused_leaves_the_scene_as_it_was_and_the_next_turn_works(journal: FaultyJournal):
    node = await spawned(journal)
    before, state = node.scene.roster.blob("hero"), node.scene.state
    journal.next(Fault.UNAVAILABLE)

    with pytest.raises(JournalUnavailable):
        await node.ask(RUN, key="key-one")
    after = node.scene.roster.blob("hero"), node.scene.state
    again = await node.ask(RUN, key="key-one")

    assert after == (before, state)
    assert again == ["granted"]
    assert generation(node) == 1


async def test_a_problem_that_follows_from_a_dropped_decision_is_no_answer(journal: FaultyJournal):
    """Each of them would have been told of something that never was: a spawn, a despawn, a key."""
    node = await spawned(journal)
    journal.next(Fault.UNAVAILABLE)
    node.put(Spawn(), who="ghost")
    conflicting = node.put(Spawn(inline=rig(mode="full")), who="ghost")
    node.put(RUN, key="key-one")
    reused = node.put(HIT, key="key-one")
    node.put(Despawn())
    dead = node.put(RUN)

    await node.sequencer.turn()

    for reply in (conflicting, reused, dead):
        with pytest.raises(JournalUnavailable):
            reply.result()


async def test_a_problem_of_an_uncertain_turn_is_certainly_nothing(journal: FaultyJournal):
    node = await spawned(journal)
    journal.next(Fault.UNKNOWN_WRITTEN)
    uncertain, problem = node.put(Despawn()), node.put(RUN)

    await node.sequencer.turn()

    with pytest.raises(CommitUnknown):
        uncertain.result()
    with pytest.raises(JournalUnavailable):
        problem.result()


@pytest.mark.parametrize("is_shared", [False, True])
async def test_readers_are_answered_although_the_turn_is_dropped_and_retries_where_nobody_else_writes(
    journal: FaultyJournal, monkeypatch: pytest.MonkeyPatch, is_shared: bool
):
    if not is_shared:
        monkeypatch.setattr(journal, "follow", lambda scene, moved: alone)
    node = await spawned(journal)
    await node.ask(RUN, key="key-one")
    journal.next(Fault.UNAVAILABLE)
    reader, retry, new = node.put(), node.put(RUN, key="key-one"), node.put(HIT)

    await node.sequencer.turn()

    assert reader.result() == []
    for refused in (retry, new) if is_shared else (new,):
        with pytest.raises(JournalUnavailable):
            refused.result()
    if not is_shared:
        assert retry.result() == [Earlier(2)]


# A journal that cannot say


@pytest.mark.parametrize(
    ("fault", "entries", "retried"), [(Fault.UNKNOWN_WRITTEN, 2, "earlier"), (Fault.UNKNOWN_LOST, 1, "granted")]
)
async def test_a_retry_with_the_same_key_settles_what_became_of_an_uncertain_turn(
    journal: FaultyJournal, fault: Fault, entries: int, retried: str
):
    node = await spawned(journal)
    journal.next(fault)

    with pytest.raises(CommitUnknown):
        await node.ask(RUN, key="key-one")
    on_disk = len(await journal.read("room", after=START, limit=99))
    again = await node.ask(RUN, key="key-one")
    once_more = await node.ask(RUN, key="key-one")

    assert (on_disk, again, once_more) == (entries, [retried], ["earlier"])
    assert generation(node) == 1


async def test_readers_keep_the_old_state_until_the_tail_was_read(journal: FaultyJournal):
    node = await spawned(journal)
    journal.next(Fault.UNKNOWN_WRITTEN)
    with pytest.raises(CommitUnknown):
        await node.ask(RUN)
    meanwhile = generation(node)

    await node.ask()

    assert (meanwhile, generation(node)) == (0, 1)


async def test_a_scene_whose_tail_cannot_be_read_keeps_its_submissions_for_its_owner(journal: FaultyJournal):
    node = await spawned(journal)
    journal.next(Fault.UNKNOWN_WRITTEN)
    with pytest.raises(CommitUnknown):
        await node.ask(RUN)
    journal.failing.add("read")
    waiting = node.put(HIT)

    with pytest.raises(JournalUnavailable):
        await node.sequencer.turn()
    still_waits, seen = node.sequencer.mailbox.has_waiting, generation(node)
    journal.failing.clear()
    await node.sequencer.turn()

    assert (still_waits, seen) == (True, 0)
    assert words(waiting.result()) == ["granted"]
    assert generation(node) == 2


async def test_a_tail_that_was_read_in_part_never_becomes_a_checkpoint(journal: FaultyJournal):
    """A checkpoint of the old state at the position of a newer entry would make the scene unreadable for ever."""
    node = await spawned(journal)
    for _ in range(3):
        await node.ask(RUN)
    journal.next(Fault.UNKNOWN_WRITTEN)
    with pytest.raises(CommitUnknown):
        await node.ask(HIT)
    journal.failing.add("tail")
    node.put()
    with pytest.raises(JournalUnavailable):
        await node.sequencer.turn()
    journal.failing.clear()

    await node.sequencer.leave()
    node.sequencer.mailbox.drain()
    other = Node(journal.inner)
    await other.ask()

    assert_same_scene(other.scene, await replayed(journal.inner))
    assert generation(other) == 4


# Another writer


async def test_a_turn_behind_another_writer_reads_and_decides_again(journal: FaultyJournal):
    one, other = await spawned(journal), Node(journal)
    await other.ask()
    await one.ask(RUN)

    reply = other.put(Begin(layer="base", target="Hit", if_generation=0), HIT)
    await other.sequencer.turn()

    assert words(reply.result()) == ["generation_conflict", "granted"]
    assert [result.sequence for result in reply.result() if isinstance(result, Decided)] == [3, 4]
    await one.ask()
    await one.ask(RUN)
    assert_same_scene(one.scene, await replayed(journal))


async def test_two_writers_give_one_key_one_answer(journal: FaultyJournal):
    one, other = await spawned(journal), Node(journal)
    await other.ask()
    await one.ask(RUN, key="key-one")

    assert await other.ask(RUN, key="key-one") == ["earlier"]
    assert generation(other) == 1


async def test_a_scene_that_is_always_written_elsewhere_is_given_up_for_this_turn(journal: FaultyJournal):
    node = await spawned(journal)
    journal.next(*[Fault.NOT_THE_WRITER] * 8)

    with pytest.raises(JournalUnavailable, match="elsewhere"):
        await node.ask(RUN)

    assert await node.ask(RUN) == ["granted"]
    assert generation(node) == 1


async def test_a_conflict_whose_tail_cannot_be_read_decides_nothing(journal: FaultyJournal):
    one, other = await spawned(journal), Node(journal)
    await other.ask()
    await one.ask(RUN)
    journal.failing.add("read")

    with pytest.raises(JournalUnavailable):
        await other.ask(HIT)
    journal.failing.clear()

    assert await other.ask(HIT) == ["granted"]
    assert generation(other) == 2


# Broken invariants, checkpoints, damage


async def test_a_broken_invariant_before_the_append_is_certainly_nothing(
    journal: FaultyJournal, monkeypatch: pytest.MonkeyPatch
):
    node = await spawned(journal)
    deciding, waiting = node.put(RUN), node.put(HIT)
    monkeypatch.setattr(Candidate, "decide", broken)

    with pytest.raises(AssertionError):
        await node.sequencer.turn()
    node.sequencer.abandon()

    for reply in (deciding, waiting):
        with pytest.raises(JournalUnavailable):
            reply.result()


async def test_a_broken_invariant_after_the_append_is_uncertain_for_those_it_decided(
    journal: FaultyJournal, monkeypatch: pytest.MonkeyPatch
):
    node = await spawned(journal, turn_commands_max=1)
    deciding, waiting = node.put(RUN), node.put(HIT)
    monkeypatch.setattr(type(node.scene), "adopt", broken)

    with pytest.raises(AssertionError):
        await node.sequencer.turn()
    node.sequencer.abandon()

    with pytest.raises(CommitUnknown):
        deciding.result()
    with pytest.raises(JournalUnavailable):
        waiting.result()


def broken(*_: object, **__: object) -> None:
    raise AssertionError("two pending tokens")


async def test_a_checkpoint_is_stored_when_enough_was_decided(journal: FaultyJournal):
    node = await spawned(journal, checkpoint_decisions=3)
    before = await journal.load("room")

    await node.ask(RUN, HIT)

    checkpoint = await journal.load("room")
    assert (before, node.sequencer.store.has_changes) == (None, False)
    assert checkpoint is not None
    assert list(checkpoint.characters) == ["hero"]


async def test_a_checkpoint_the_journal_refuses_harms_no_turn_and_is_made_up_for_on_leaving(journal: FaultyJournal):
    node = await spawned(journal, checkpoint_decisions=1)
    journal.failing.add("checkpoint")
    answered = await node.ask(RUN)
    journal.failing.clear()

    may_leave = await node.sequencer.leave()

    checkpoint = await journal.load("room")
    assert (answered, may_leave) == (["granted"], True)
    assert checkpoint is not None
    assert checkpoint.position == (await journal.read("room", after=START, limit=9))[-1].position


async def test_a_closed_scene_whose_checkpoint_failed_is_forgotten_on_leaving(journal: FaultyJournal):
    node = await spawned(journal)
    journal.failing.add("trim")
    await node.ask(CloseScene(), who=None)
    journal.failing.clear()

    await node.sequencer.leave()

    assert await journal.read("room", after=START, limit=9) == []
    assert await journal.scenes(after="", limit=9) == []


async def test_an_entry_that_cannot_be_read_refuses_the_scene_and_decides_nothing(journal: FaultyJournal):
    await journal.append("room", after=START, first=1, last=1, blob=b"garbage")
    node = Node(journal)
    node.put(SPAWN)

    with pytest.raises(JournalDamaged):
        await node.sequencer.turn()

    assert journal.appended == 1


async def test_a_gap_between_entries_refuses_the_scene(journal: FaultyJournal):
    node = await spawned(journal)
    await node.ask(RUN)
    entries = await journal.read("room", after=START, limit=9)
    torn = FaultyJournal(type(journal.inner)())
    await torn.append("room", after=START, first=2, last=2, blob=entries[1].blob)
    other = Node(torn)
    other.put()

    with pytest.raises(JournalDamaged, match="sequence 1 is missing"):
        await other.sequencer.turn()


async def test_a_token_survives_the_sequencer_that_granted_it(journal: FaultyJournal):
    node = await spawned(journal)
    reply = node.put(RUN)
    await node.sequencer.turn()
    [granted] = reply.result()
    assert isinstance(granted, Decided)

    other = Node(journal)

    assert await other.ask(Complete(token=granted.record.answer.token)) == ["committed"]  # type: ignore[union-attr]


async def test_every_entry_says_when_it_was_decided_and_time_never_falls(journal: FaultyJournal):
    node = await spawned(journal)
    node.clock.now = 10
    await node.ask(RUN)

    entries = await journal.read("room", after=START, limit=9)

    assert [decode_entry(entry.blob).at for entry in entries] == [1_000, 1_000]
