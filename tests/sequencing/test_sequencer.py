"""The sequencer: decide all, append once, adopt, answer all; and what becomes of a turn the journal did not take."""

import asyncio

import pytest

from app.gates.decision import Problem
from app.gates.event import CommitLoop, Enqueue
from app.gates.lives import CloseScene, Despawn, Spawn
from app.gates.scene import Candidate
from app.gates.transition import Begin, Complete
from app.journal.codec import decode_entry
from app.journal.port import START, CommitUnknown, JournalDamaged, JournalUnavailable
from app.sequencing.mailbox import Decided, Earlier
from tests.support.journal_fakes import Fault, FaultyJournal
from tests.support.played import assert_same_scene
from tests.support.rigs import rig
from tests.support.sequenced import RUN, SPAWN, Node, replayed, words

HIT = Begin(layer="base", target="Hit")


async def spawned(journal: FaultyJournal, **settings: int) -> Node:
    node = Node(journal, **settings)
    assert await node.ask(SPAWN) == ["spawned"]
    return node


def generation(node: Node, who: str = "hero") -> int:
    held = node.scene.roster.get(who)
    assert held is not None
    return held.layers["base"].generation


# Turns


async def test_one_turn_decides_everything_that_waits_in_one_entry(journal: FaultyJournal):
    node = await spawned(journal)
    replies = [
        node.put(RUN, HIT),
        node.put(Begin(layer="tail", target="Wag")),
        node.put(RUN, who="ghost"),
        node.put(RUN),
    ]

    await node.sequencer.turn()

    entries = await journal.read("room", after=START, limit=99)
    assert [(entry.first, entry.last) for entry in entries] == [(1, 1), (2, 5)]
    assert [words(reply.result()) for reply in replies] == [
        ["granted", "granted"],
        ["unknown_layer"],
        ["unknown-character"],
        ["granted"],
    ]
    assert generation(node) == 3


async def test_results_carry_their_sequence_and_the_scenes_time(journal: FaultyJournal):
    node = await spawned(journal)
    node.clock.now = 5_000

    reply = node.put(RUN, HIT)
    await node.sequencer.turn()

    decided = [result for result in reply.result() if isinstance(result, Decided)]
    assert [(result.sequence, result.at, result.record.revision) for result in decided] == [
        (2, 5_000, 2),
        (3, 5_000, 3),
    ]


async def test_a_turn_takes_about_as_much_as_it_may_and_the_rest_waits(journal: FaultyJournal):
    node = await spawned(journal, turn_commands_max=2)
    replies = [node.put(RUN) for _ in range(3)]

    await node.sequencer.turn()
    first = [reply.done() for reply in replies]
    await node.sequencer.turn()

    assert first == [True, True, False]
    assert replies[2].done()


async def test_a_turn_that_decides_nothing_writes_nothing(journal: FaultyJournal):
    node = await spawned(journal)

    nobody = await node.ask(RUN, who="ghost")
    nothing = await node.ask()

    assert (nobody, nothing, journal.appended) == (["unknown-character"], [], 1)


async def test_a_turn_that_decides_nothing_moves_no_time(journal: FaultyJournal):
    node = await spawned(journal)
    node.clock.now = 5_000

    await node.ask(RUN, who="ghost")

    assert node.scene.state.at == 1_000
    assert_same_scene(node.scene, await replayed(journal))


async def test_nothing_is_visible_and_nobody_is_answered_before_the_append_returns(journal: FaultyJournal):
    node = await spawned(journal)
    journal.hold()
    reply = node.put(RUN)
    turn = asyncio.ensure_future(node.sequencer.turn())
    await journal.is_held.wait()

    seen_meanwhile, sequence_meanwhile, answered = generation(node), node.scene.sequence, reply.done()
    journal.release()
    await turn

    assert (seen_meanwhile, sequence_meanwhile, answered) == (0, 1, False)
    assert (generation(node), reply.done()) == (1, True)


async def test_the_candidate_is_adopted_before_anyone_is_answered(journal: FaultyJournal):
    node = await spawned(journal)
    reply = node.put(RUN)
    seen: list[int] = []
    reply.add_done_callback(lambda _: seen.append(generation(node)))

    await node.sequencer.turn()
    await asyncio.sleep(0)

    assert seen == [1]


async def test_a_caller_who_has_gone_is_decided_for_all_the_same(journal: FaultyJournal):
    node = await spawned(journal)
    gone, stays = node.put(RUN), node.put(HIT)
    gone.cancel()

    await node.sequencer.turn()

    assert words(stays.result()) == ["granted"]
    assert generation(node) == 2


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


async def test_readers_and_retries_are_answered_although_the_turn_is_dropped(journal: FaultyJournal):
    node = await spawned(journal)
    await node.ask(RUN, key="key-one")
    journal.next(Fault.UNAVAILABLE)
    reader, retry, new = node.put(), node.put(RUN, key="key-one"), node.put(HIT)

    await node.sequencer.turn()

    assert reader.result() == []
    assert retry.result() == [Earlier(2)]
    with pytest.raises(JournalUnavailable):
        new.result()


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
    journal.failing.add("load")

    with pytest.raises(JournalUnavailable):
        await other.ask(HIT)
    journal.failing.clear()

    assert await other.ask(HIT) == ["granted"]
    assert generation(other) == 2


# Keys


async def test_the_same_key_twice_in_one_turn_is_decided_once(journal: FaultyJournal):
    node = await spawned(journal)
    first, second = node.put(RUN, key="key-one"), node.put(RUN, key="key-one")

    await node.sequencer.turn()

    assert first.result() == second.result()
    assert generation(node) == 1


async def test_a_key_used_with_another_command_is_a_problem(journal: FaultyJournal):
    node = await spawned(journal)
    await node.ask(RUN, key="key-one")

    assert await node.ask(HIT, key="key-one") == [Problem.KEY_REUSED]
    assert await node.ask(HIT, key="key-one", caller="another") == ["granted"]


async def test_a_retryable_refusal_is_decided_again_under_its_key(journal: FaultyJournal):
    node = await spawned(journal)
    await node.ask(CommitLoop(clip_instance=1, loop=0))
    ahead = Enqueue(clip_instance=1, loop=9, frame=0, kind="step")
    first = await node.ask(ahead, key="key-one")
    await node.ask(CommitLoop(clip_instance=1, loop=1))

    assert (first, await node.ask(ahead, key="key-one")) == (["beyond_window"], ["accepted"])


async def test_a_refusal_keeps_its_key(journal: FaultyJournal):
    node = await spawned(journal)
    tail = Begin(layer="tail", target="Wag")

    assert await node.ask(tail, key="key-one") == ["unknown_layer"]
    assert await node.ask(tail, key="key-one") == ["earlier"]


async def test_a_problem_keeps_no_key(journal: FaultyJournal):
    node = await spawned(journal)

    assert await node.ask(RUN, who="ghost", key="key-one") == ["unknown-character"]
    assert await node.ask(SPAWN, who="ghost", key="key-one") == ["spawned"]


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
