from pathlib import Path

import pytest

from app.journal.memory import MemoryJournal
from app.journal.port import START, Journal
from app.journal.sqlite import SqliteJournal
from app.sequencing import naming
from app.sequencing.naming import known, listed

SCENES = {"a", "b", "c", "d", "e"}


async def filled(journal: Journal) -> None:
    """Write a few scenes, and one that was deleted."""
    for scene in SCENES:
        await journal.append(scene, after=START, first=1, last=1, blob=b"x")
    position = await journal.append("gone", after=START, first=1, last=1, blob=b"x")
    await journal.checkpoint("gone", position=position, header=b"x", changed={}, listed=False)


@pytest.mark.parametrize("limit", [1, 2, 5, 1_000])
async def test_all_pages_are_read(limit: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(naming, "NAMES_READ_MAX", limit)
    journal = MemoryJournal()
    await filled(journal)

    assert await listed(journal) == SCENES


async def test_what_is_known_of_but_not_listed_is_known():
    journal = MemoryJournal()
    await filled(journal)

    assert await known(journal) == SCENES | {"gone"}


async def test_a_journal_that_cannot_tell_more_than_it_lists_tells_nothing_more(tmp_path: Path):
    journal = SqliteJournal(f"{tmp_path}/journal.db")
    await filled(journal)

    assert (await known(journal), await listed(journal)) == (set(), SCENES)
    await journal.close()
