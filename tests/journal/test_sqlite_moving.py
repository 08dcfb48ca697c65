"""One side of a move in a file: its lock, digests and marks. What is asked of every journal is in test_moving.py."""

from pathlib import Path

import apsw
import pytest

from app.gates.scene import OpenTicks, SceneState
from app.journal.codec import encode_checkpoint
from app.journal.port import START, Checkpoint, JournalDamaged, JournalUnavailable, SealSecret
from app.journal.sqlite import SqliteJournal
from app.journal.sqlite_marks import path_of
from app.journal.sqlite_moving import SqliteMoving
from app.journal.sqlite_salvage import SqliteSalvage

SECRET = bytes(range(32))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def header(sequence: int) -> bytes:
    return encode_checkpoint(SceneState(sequence=sequence), {}, OpenTicks(), closed=False)


async def placed(path: Path, *, entries: bool) -> None:
    """Write a scene whose history up to sequence 70 was trimmed in the journal that it comes from."""
    journal = SqliteMoving(str(path), read_only=False)
    await journal.adopt_secret(SECRET)
    if entries:
        await journal.append("room", after=START, first=71, last=80, blob=b"a")
    await journal.place(
        "room", Checkpoint(START, header(70), {"hero": b"1"}, (SealSecret(9, SECRET, b""),)), listed=True
    )
    await journal.close()


async def test_a_journal_that_is_served_cannot_be_moved(path: Path):
    served = SqliteJournal(str(path))

    for read_only in (True, False):
        with pytest.raises(JournalUnavailable, match="which serves"):
            SqliteMoving(str(path), read_only=read_only)

    await served.close()


async def test_a_journal_that_is_moved_from_cannot_be_served_until_it_is_closed(path: Path):
    await SqliteJournal(str(path)).close()
    moving = SqliteMoving(str(path), read_only=True)

    with pytest.raises(JournalUnavailable, match="held by process"):
        SqliteJournal(str(path))

    await moving.close()
    await SqliteJournal(str(path)).close()


async def test_a_journal_that_is_moved_from_is_only_read(path: Path):
    journal = SqliteJournal(str(path))
    position = await journal.append("room", after=START, first=1, last=10, blob=b"a")
    await journal.close()
    before = {file: file.read_bytes() for file in (path, Path(path_of(str(path))))}
    moving = SqliteMoving(str(path), read_only=True)

    with pytest.raises(JournalUnavailable, match="reading only"):
        await moving.place("room", Checkpoint(position, header(10), {}), listed=True)
    with pytest.raises(JournalUnavailable, match="reading only"):
        await moving.append("room", after=position, first=11, last=20, blob=b"b")
    await moving.close()

    assert {file: file.read_bytes() for file in before} == before


async def test_an_empty_journal_that_is_moved_from_keeps_its_secret(path: Path):
    await SqliteJournal(str(path)).close()
    moving = SqliteMoving(str(path), read_only=True)

    with pytest.raises(JournalUnavailable, match="reading only"):
        await moving.adopt_secret(SECRET)

    assert moving.secret != SECRET
    await moving.close()


async def test_an_adopted_secret_is_in_the_file(path: Path):
    await placed(path, entries=True)

    served = SqliteJournal(str(path))

    assert served.secret == SECRET
    assert [entry.blob for entry in await served.read("room", after=START, limit=9)] == [b"a"]
    await served.close()


async def test_places_that_were_made_for_marks_under_the_former_secret_are_made_anew(path: Path):
    """A transaction that is taken back leaves the slots that it made; they must not be taken for damaged marks."""
    moving = SqliteMoving(str(path), read_only=False)
    moving._reader.marks.reserve(1)

    await moving.adopt_secret(SECRET)
    await moving.append("room", after=START, first=1, last=10, blob=b"a")
    await moving.close()

    served = SqliteJournal(str(path))
    assert [entry.blob for entry in await served.read("room", after=START, limit=9)] == [b"a"]
    assert served._reader.marks.read(2) is None
    await served.close()


async def test_the_lock_is_held_after_a_secret_was_adopted(path: Path):
    moving = SqliteMoving(str(path), read_only=False)
    await moving.adopt_secret(SECRET)

    with pytest.raises(JournalUnavailable, match="held by process"):
        SqliteJournal(str(path))

    await moving.close()
    await SqliteJournal(str(path)).close()


@pytest.mark.parametrize("entries", [True, False])
async def test_what_was_placed_passes_every_check(path: Path, entries: bool):
    await placed(path, entries=entries)

    salvage = SqliteSalvage(str(path))

    assert await salvage.refusal("room") is None
    assert await salvage.is_marked("room")
    assert await salvage.load("room") == Checkpoint(START, header(70), {"hero": b"1"}, (SealSecret(9, SECRET, b""),))
    assert await salvage.forgettable("room") == (START, 0)
    await salvage.discard()


@pytest.mark.parametrize("entries", [True, False])
@pytest.mark.parametrize("damage", ["UPDATE scenes SET header = x'00'", "DELETE FROM scenes"])
async def test_a_repair_of_what_was_placed_goes_on_above_what_was_trimmed_before(
    path: Path, damage: str, entries: bool
):
    """The head that says it may be what is damaged: then only the row, or only the mark, tells how far it went."""
    await placed(path, entries=entries)
    connection = apsw.Connection(str(path))
    connection.execute(f"{damage}; DELETE FROM entries")
    connection.close()

    salvage = SqliteSalvage(str(path))

    assert await salvage.highest("room") == (80 if entries else 70)
    await salvage.discard()


async def test_a_head_that_is_none_of_ours_is_not_placed(path: Path):
    moving = SqliteMoving(str(path), read_only=False)

    with pytest.raises(JournalDamaged):
        await moving.place("room", Checkpoint(START, b"head", {}), listed=True)

    assert await moving.everything() == []
    await moving.close()


async def test_a_scene_that_only_its_mark_tells_of_is_named(path: Path):
    """So a move of a journal that lost it is refused, and does not leave it out."""
    await placed(path, entries=True)
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM scenes")
    connection.close()

    moving = SqliteMoving(str(path), read_only=True)

    assert await moving.everything() == ["room"]
    with pytest.raises(JournalDamaged):
        await moving.load("room")
    await moving.close()
