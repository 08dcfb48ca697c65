"""Retried keys: their answers are read from the entries that hold them, each entry once."""

from app.journal.memory import MemoryJournal
from app.journal.port import StoredEntry
from app.sequencing.mailbox import Addressed
from tests.support.sequenced import RUN, SPAWN, ask, served


async def test_keys_of_two_entries_in_turn_read_each_entry_once():
    journal = MemoryJournal()
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
