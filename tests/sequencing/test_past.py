"""The past: turns that are read in the journal are read once for all who are behind."""

import pytest

from app.gates.scene import Record
from app.gates.transition import Begin, TransitionKept
from app.journal.codec import encode_entry
from app.journal.memory import MemoryJournal
from app.journal.port import START, JournalUnavailable, StoredEntry
from app.sequencing.past import HISTORY_ENTRIES_READ, Past, decisions
from app.sequencing.scrubbing import Damages
from app.settings import Settings
from tests.support.journal_fakes import FaultyJournal

RECORD = Record("hero", Begin(layer="base", target="Run"), TransitionKept(token=None), 1)


class CountedJournal(FaultyJournal):
    """Counts what is read."""

    reads = 0

    async def read(self, scene: str, *, after: int, limit: int) -> list[StoredEntry]:
        """Read, and count it."""
        self.reads += 1
        return await super().read(scene, after=after, limit=limit)


async def written(entries: int, *, size: int = 2) -> CountedJournal:
    """Give a journal with so many entries, each of so many decisions."""
    journal, position = CountedJournal(MemoryJournal()), START
    for number in range(entries):
        first = number * size + 1
        blob = encode_entry(at=first, first=first, records=[RECORD] * size, traced=[])
        position = await journal.append("room", after=position, first=first, last=first + size - 1, blob=blob)
    return journal


async def test_turns_follow_each_other_and_are_read_once_for_all():
    journal = await written(40)
    past, read = Past(journal, Settings(), Damages()), list[int]()

    for _ in range(5):
        place: int = 0
        while turn := await past.turn_after("room", place):
            read.append(turn.first)
            place = turn.last

    assert read == list(range(1, 80, 2)) * 5
    assert journal.reads == 2 + 5, "two for all that is there, and one for each who asks what is behind the end"


async def test_a_place_within_a_turn_gives_the_turn_that_holds_what_comes_next():
    past = Past(await written(3, size=4), Settings(), Damages())

    turn = await past.turn_after("room", 5)

    assert turn is not None
    assert (turn.first, turn.last, len(turn.records), turn.at) == (5, 8, 4, 5)


async def test_what_is_no_longer_kept_gives_the_next_that_is():
    journal = await written(5)
    await journal.checkpoint("room", position=3, header=b"", changed={}, listed=True)
    await journal.trim("room", before=3)
    past = Past(journal, Settings(), Damages())

    oldest, newest = await past.turn_after("room", 0), await past.turn_after("room", 10)

    assert oldest is not None
    assert oldest.first == 7
    assert newest is None


async def test_what_is_held_has_a_bound_and_can_be_forgotten():
    past = Past(await written(HISTORY_ENTRIES_READ), Settings(feed_decisions_max=10), Damages())

    await past.turn_after("room", 0)
    held = (len(past.shelf), past.shelf.decisions)
    past.forget("room")
    past.forget("room")

    assert held == (5, 10)
    assert (len(past.shelf), past.shelf.decisions, past.shelf.bytes) == (0, 0, 0)
    assert await past.turn_after("room", 0) is not None


async def test_a_journal_that_cannot_be_read_says_so_and_holds_nothing():
    journal = await written(1)
    past = Past(journal, Settings(), Damages())
    journal.failing.add("read")

    with pytest.raises(JournalUnavailable):
        await past.turn_after("room", 0)

    journal.clear()
    assert await past.turn_after("room", 0) is not None


async def test_the_history_begins_behind_a_decision_even_within_an_entry():
    journal = await written(2, size=3)

    read = [sequence async for sequence, _, _ in decisions(journal, "room", after=2, character=None)]

    assert read == [3, 4, 5, 6]
