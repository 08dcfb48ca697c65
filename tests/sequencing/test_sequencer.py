"""The sequencer's turns: decide all, append once, adopt, answer all; and one answer a key."""

import asyncio
from typing import Any

from app.gates.decision import Problem
from app.gates.event_commands import CommitLoop, Enqueue
from app.gates.transition import Begin
from app.journal.port import START
from app.sequencing.mailbox import Decided
from tests.support.journal_fakes import FaultyJournal
from tests.support.played import assert_same_scene
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
