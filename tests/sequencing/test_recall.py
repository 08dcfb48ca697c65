"""Retried keys: their answers are read from the entries that hold them, each entry once."""

import pytest

from app.journal.port import CommitUnknown, JournalUnavailable, StoredEntry
from app.sequencing.mailbox import Addressed, Decided
from tests.support.journal_fakes import FaultyJournal, OneHand
from tests.support.sequenced import RUN, SPAWN, ask, generation, served


async def test_keys_of_two_entries_in_turn_read_each_entry_once():
    journal = OneHand()
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        batches = [[Addressed("hero", RUN, f"key-{batch}-{place}") for place in range(20)] for batch in "ab"]
        first = [await registry.submit("room", batch) for batch in batches]
        reads, read = [0], journal.read

        async def counted(scene: str, *, after: int, limit: int) -> list[StoredEntry]:
            reads[0] += 1
            return await read(scene, after=after, limit=limit)

        journal.read = counted  # type: ignore[method-assign]  # counting what it does anyway
        mixed = [addressed for pair in zip(*batches, strict=True) for addressed in pair]

        again = await registry.submit("room", mixed)

        assert again == [decided for pair in zip(*first, strict=True) for decided in pair]
        assert reads[0] == 2


async def test_a_retried_key_that_cannot_be_read_says_that_nothing_was_decided(journal: FaultyJournal):
    async with served(journal) as registry:
        await ask(registry, SPAWN, key="the-spawn")
        journal.failing.add("read")

        with pytest.raises(JournalUnavailable):
            await ask(registry, SPAWN, key="the-spawn")


async def test_what_was_decided_beside_a_retried_key_that_cannot_be_read_is_not_denied(journal: FaultyJournal):
    """Whoever hears that nothing was decided may send it again under another key."""
    async with served(journal) as registry:
        await ask(registry, SPAWN, key="the-spawn")
        asked = [Addressed("hero", SPAWN, "the-spawn"), Addressed("hero", RUN, "the-run")]
        journal.failing.add("read")

        with pytest.raises(CommitUnknown):
            await registry.submit("room", asked)

        journal.clear()
        assert await generation(registry) == 1
        again = await registry.submit("room", asked)
        assert [result.sequence for result in again if isinstance(result, Decided)] == [1, 2]
