"""A scene that is closed while others ask: its history ends with it, whatever shares its moment."""

import asyncio
from typing import Any

from app.gates.lives import CloseScene, Spawn
from app.journal.memory import MemoryJournal
from app.journal.port import START, Journal
from tests.support.journal_fakes import FaultyJournal
from tests.support.sequenced import RUN, SPAWN, Node, ask, idle, served, words


async def test_nothing_of_a_closed_scene_stays_although_a_spawn_waited_behind_it():
    journal = MemoryJournal()
    node = Node(journal)
    await node.ask(SPAWN)
    replies = node.put(RUN), node.put(CloseScene(), who=None), node.put(Spawn())

    while node.sequencer.mailbox.has_waiting:
        await node.sequencer.turn()

    assert [words(reply.result()) for reply in replies] == [["granted"], ["closed"], ["spawned"]]
    assert await kept(journal) == [(4, 4)]


async def kept(journal: Journal) -> list[tuple[int, int]]:
    return [(entry.first, entry.last) for entry in await journal.read("room", after=START, limit=99)]


async def test_what_one_node_closed_is_forgotten_by_the_other_where_the_scene_begins_again_before_the_closer_could():
    """Whoever closed it cannot store anything: as one that is killed behind its append."""
    shared = MemoryJournal()
    one, other = FaultyJournal(shared), FaultyJournal(shared)
    async with served(one) as first, served(other) as second:
        await ask(first, SPAWN)
        await ask(first, RUN)
        await ask(second, RUN)
        one.failing.add("checkpoint")
        await ask(first, CloseScene())

        assert await ask(second, SPAWN) == "spawned"

        await idle(second)
        assert await kept(shared) == [(5, 5)]
        assert [sequence async for sequence, *_ in second.history("room", after=0, character=None)] == [5]


async def test_whoever_closed_forgets_although_a_later_checkpoint_knows_nothing_of_the_closing():
    shared = MemoryJournal()
    async with served(FaultyJournal(shared)) as third:
        node = Node(shared)
        await node.ask(SPAWN)
        held = HeldCheckpoint(shared)
        closer = Node(held)
        await closer.ask()
        closing = closer.put(CloseScene(), who=None)
        turn = asyncio.ensure_future(closer.sequencer.turn())
        await held.is_held.wait()
        other = Node(Forgetless(shared))
        assert await other.ask(SPAWN) == ["spawned"]
        await other.sequencer.leave()
        assert await kept(shared) == [(1, 1), (2, 2), (3, 3)]

        held.may_store.set()
        await turn

        assert words(closing.result()) == ["closed"]
        assert await kept(shared) == [(3, 3)]
        assert await ask(third, RUN) == "granted"


async def test_what_was_closed_and_stored_and_not_forgotten_goes_with_the_next_checkpoint():
    shared = MemoryJournal()
    journal = FaultyJournal(shared)
    node = Node(journal)
    await node.ask(SPAWN)
    journal.failing.add("trim")
    await node.ask(CloseScene(), who=None)
    assert await kept(shared) == [(1, 1), (2, 2)]

    again = Node(shared)
    await again.ask(SPAWN)
    await again.sequencer.leave()

    assert await kept(shared) == [(3, 3)]


async def test_a_failure_to_forget_is_made_up_for_by_the_next_decision():
    shared = MemoryJournal()
    journal = FaultyJournal(shared)
    node = Node(journal)
    await node.ask(SPAWN)
    journal.failing.add("trim")
    await node.ask(CloseScene(), who=None)
    journal.failing.clear()

    await node.ask(SPAWN)

    assert await kept(shared) == [(3, 3)]


class Forgetless(FaultyJournal):
    """A journal in whose hand history stays."""

    async def trim(self, scene: str, *, before: int) -> None:
        """Forget nothing."""


class HeldCheckpoint(FaultyJournal):
    """A journal whose checkpoints wait until `may_store`."""

    def __init__(self, inner: Journal) -> None:
        super().__init__(inner)
        self.may_store = asyncio.Event()

    async def checkpoint(self, scene: str, **given: Any) -> None:
        """Wait, then store."""
        self.is_held.set()
        await self.may_store.wait()
        await super().checkpoint(scene, **given)
