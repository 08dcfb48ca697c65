"""What a reader notices: each kind of damage done to a file by its own statement, and by whom it is noticed."""

import shutil
from pathlib import Path

import apsw
import pytest

from app.journal.port import START, JournalDamaged
from app.journal.sqlite import SqliteJournal
from app.journal.sqlite_chain import Digests
from app.journal.sqlite_file import recognise
from app.journal.sqlite_marks import SLOT_BYTES, Marks


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


async def written(path: Path, *, checkpoint: int | None = None, trim: int | None = None) -> list[int]:
    """Write ten entries to `room` (of two sequences each) and `hall`, with a checkpoint after one of them; close it."""
    journal = SqliteJournal(str(path))
    for scene in ("room", "hall"):
        positions = [START]
        for first in range(1, 20, 2):
            blob = f"{scene} {first}".encode()
            positions.append(await journal.append(scene, after=positions[-1], first=first, last=first + 1, blob=blob))
        if checkpoint is not None:
            held: dict[str, bytes | None] = {"hero": b"one", "orc": b"two"}
            await journal.checkpoint(scene, position=positions[checkpoint], header=b"head", changed=held, listed=True)
        if trim is not None:
            await journal.trim(scene, before=positions[trim])
        if scene == "room":
            of_room = positions
    await journal.close()
    return of_room


def change(path: Path, statement: str, *bindings: object) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(statement, bindings)
    assert connection.changes() > 0
    connection.close()


async def told(path: Path, scene: str = "room", after: int = START) -> tuple[list[int], int | None]:
    """Read a scene three entries at a time; give the first sequences that came and the first that did not, if so."""
    journal = SqliteJournal(str(path), read_only=True)
    came: list[int] = []
    try:
        while entries := await journal.read(scene, after=after, limit=3):
            came += [entry.first for entry in entries]
            after = entries[-1].position
    except JournalDamaged as error:
        return came, error.sequence or -1
    finally:
        await journal.close()
    return came, None


WHOLE = list(range(1, 20, 2)), None


async def test_an_undamaged_scene_is_read_from_anywhere(path: Path):
    positions = await written(path, checkpoint=6, trim=2)

    assert await told(path) == (list(range(5, 20, 2)), None)
    assert await told(path, after=positions[6]) == ([13, 15, 17, 19], None)
    assert await told(path, after=positions[10]) == ([], None)
    assert await told(path, after=positions[10] + 1_000) == ([], None)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE entries SET blob = x'00' WHERE position = ?",
        "UPDATE entries SET last = last + 1 WHERE position = ?",
        "UPDATE entries SET first = first - 1 WHERE position = ?",
        "UPDATE entries SET chain = x'00' WHERE position = ?",
        "DELETE FROM entries WHERE position = ?",
    ],
)
async def test_an_entry_that_is_not_what_was_written_is_named_after_those_before_it(path: Path, damage: str):
    positions = await written(path)

    change(path, damage, positions[5])

    assert await told(path) == ([1, 3, 5, 7], 9)
    assert await told(path, "hall") == WHOLE


async def test_entries_that_changed_places_are_noticed(path: Path):
    positions = await written(path)

    change(path, "UPDATE entries SET position = -1 WHERE position = ?", positions[4])
    change(path, "UPDATE entries SET position = ? WHERE position = ?", positions[4], positions[5])
    change(path, "UPDATE entries SET position = ? WHERE position = -1", positions[5])

    assert await told(path) == ([1, 3, 5], 7)


async def test_a_lost_tail_is_noticed_by_the_mark(path: Path):
    positions = await written(path)

    change(path, "DELETE FROM entries WHERE position > ? AND scene_id = 1", positions[8])

    assert await told(path) == ([1, 3, 5, 7, 9, 11, 13, 15], 17)
    assert await told(path, after=positions[8]) == ([], 17)
    assert await told(path, "hall") == WHOLE


async def test_a_lost_tail_below_the_checkpoint_is_noticed_even_where_the_mark_says_nothing(path: Path):
    positions = await written(path, checkpoint=9)
    change(path, "DELETE FROM entries WHERE position > ? AND scene_id = 1", positions[8])
    marks = path.with_name("journal.db.mark")
    content = bytearray(marks.read_bytes())
    content[SLOT_BYTES : 2 * SLOT_BYTES] = blank(path)
    marks.write_bytes(content)

    assert await told(path) == ([1, 3, 5, 7, 9, 11, 13, 15], 17)


def blank(path: Path) -> bytes:
    """Give the slot of the first scene as it was before it was written."""
    connection = apsw.Connection(str(path))
    digests = Digests(recognise(connection, str(path)))
    connection.close()
    other = path.with_name("other.db")
    marks = Marks(str(other), digests, read_only=False)
    marks.reserve(1)
    marks.close()
    return Path(marks.path).read_bytes()[SLOT_BYTES : 2 * SLOT_BYTES]


async def test_an_older_mark_is_no_damage(path: Path):
    """A power failure that loses what was not synced of the marks leaves this."""
    await written(path)
    marks = path.with_name("journal.db.mark")
    older = marks.read_bytes()
    journal = SqliteJournal(str(path))
    [*_, last] = await journal.read("room", after=START, limit=99)
    await journal.append("room", after=last.position, first=21, last=22, blob=b"room 21")
    await journal.close()

    marks.write_bytes(older)

    assert await told(path) == (list(range(1, 22, 2)), None)


@pytest.mark.parametrize("longer", [0, 2], ids=["as long", "longer"])
async def test_another_history_than_the_marked_one_is_noticed(path: Path, longer: int):
    """A copy that was served elsewhere: every entry of it is tied to the one before it, but they are others."""
    await written(path)
    copy = path.with_name("copy.db")
    for suffix in ("", ".mark"):
        shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    for served, count in ((path, 1), (copy, 1 + longer)):
        journal = SqliteJournal(str(served))
        after = (await journal.read("room", after=START, limit=99))[-1].position
        for sequence in range(21, 21 + count):
            after = await journal.append("room", after=after, first=sequence, last=sequence, blob=served.name.encode())
        await journal.close()

    shutil.copy(f"{path}.mark", f"{copy}.mark")

    came, first_bad = await told(copy)
    assert (came[:10], first_bad) == (WHOLE[0], 21)


@pytest.mark.parametrize("damage", ["deleted", "cut", "slot"])
async def test_a_scene_whose_mark_was_lost_is_refused(path: Path, damage: str):
    await written(path)
    marks = path.with_name("journal.db.mark")
    content = marks.read_bytes()

    if damage == "deleted":
        marks.unlink()
    else:
        marks.write_bytes(content[:SLOT_BYTES] if damage == "cut" else content[:SLOT_BYTES] + content[:SLOT_BYTES])

    assert await told(path) == ([], -1)


async def test_a_journal_whose_marks_were_lost_takes_new_scenes_and_keeps_refusing_the_old(path: Path):
    await written(path)
    path.with_name("journal.db.mark").unlink()

    for position in (START, None):
        journal = SqliteJournal(str(path))
        if position is not None:
            await journal.append("new", after=START, first=1, last=1, blob=b"new")
        assert [entry.blob for entry in await journal.read("new", after=START, limit=9)] == [b"new"]
        with pytest.raises(JournalDamaged, match=r"'room' is damaged: slot 1 of"):
            await journal.read("room", after=START, limit=9)
        await journal.close()


@pytest.mark.parametrize(
    "column", ["floor", "floor_chain", "listed", "position", "chain", "characters", "total", "seal"]
)
async def test_a_row_of_which_anything_changed_is_refused_and_not_written_over(path: Path, column: str):
    positions = await written(path, checkpoint=6, trim=2)

    change(path, f"UPDATE scenes SET {column} = 1 - coalesce({column}, 0) WHERE id = 1")

    assert await told(path) == ([], -1)
    journal = SqliteJournal(str(path))
    for call in (
        journal.append("room", after=positions[10], first=21, last=21, blob=b"x"),
        journal.checkpoint("room", position=positions[10], header=b"", changed={}, listed=True),
        journal.trim("room", before=positions[3]),
        journal.seek("room", sequence=9),
        journal.load("room"),
    ):
        with pytest.raises(JournalDamaged, match="'room' is damaged: its row"):
            await call
    assert await journal.load("hall") is not None
    await journal.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE scenes SET header = x'00' WHERE id = 1",
        "UPDATE scenes SET header = NULL WHERE id = 1",
        "UPDATE scenes SET secrets = x'90' WHERE id = 1",
        "UPDATE characters SET value = x'00' WHERE scene_id = 1 AND name = 'hero'",
        "UPDATE characters SET name = 'herr' WHERE scene_id = 1 AND name = 'hero'",
        "DELETE FROM characters WHERE scene_id = 1 AND name = 'hero'",
        "INSERT INTO characters VALUES (1, 'ghost', x'00')",
    ],
)
async def test_a_checkpoint_that_is_not_what_was_written_is_refused(path: Path, damage: str):
    await written(path, checkpoint=6)

    change(path, damage)

    journal = SqliteJournal(str(path), read_only=True)
    with pytest.raises(JournalDamaged, match=r"'room' is damaged: the (head|characters) of its checkpoint"):
        await journal.load("room")
    assert await journal.load("hall") is not None
    await journal.close()


async def test_a_checkpoint_stays_what_was_written_as_characters_change_come_and_go(path: Path):
    positions = await written(path, checkpoint=6)
    journal = SqliteJournal(str(path))
    for changed in ({"hero": b"three", "elf": b"four"}, {"orc": None, "elf": b"five"}, {"orc": b"six", "nobody": None}):
        await journal.checkpoint("room", position=positions[10], header=b"h", changed={**changed}, listed=True)

        assert await journal.load("room") is not None

    loaded = await journal.load("room")
    assert loaded is not None
    assert loaded.characters == {"hero": b"three", "elf": b"five", "orc": b"six"}
    await journal.close()


async def test_damage_behind_a_checkpoint_leaves_what_lies_before_it_readable(path: Path):
    positions = await written(path, checkpoint=6)

    change(path, "DELETE FROM entries WHERE position = ?", positions[6])

    assert await told(path, after=positions[6]) == ([13, 15, 17, 19], None)
    assert await told(path) == ([1, 3, 5, 7, 9], 11)


def misled(path: Path, index: str, by: str) -> None:
    """Let an index lead elsewhere: to the entries of another one, made as `by` says."""
    connection = apsw.Connection(str(path))
    connection.execute(f"CREATE INDEX decoy ON {by}")
    connection.pragma("writable_schema", True)
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'decoy'").get
    connection.execute("UPDATE sqlite_schema SET rootpage = ? WHERE name = ?", (root, index))
    connection.execute("DELETE FROM sqlite_schema WHERE name = 'decoy'")
    connection.close()


async def test_scenes_that_the_index_of_names_does_not_lead_to_are_refused_and_listed_still(path: Path):
    await written(path)

    misled(path, "sqlite_autoindex_scenes_1", "scenes (replace(name, 'room', 'moor'))")

    assert await told(path) == ([], -1)
    assert await told(path, "moor") == ([], -1)
    assert await told(path, "hall") == WHOLE
    journal = SqliteJournal(str(path))
    assert await journal.scenes(after="", limit=9) == ["hall", "moor", "room"]
    for scene in ("room", "moor"):
        with pytest.raises(JournalDamaged):
            await journal.append(scene, after=START, first=1, last=1, blob=b"x")
    await journal.close()


async def test_scenes_that_the_index_of_the_listed_does_not_lead_to_are_listed_still(path: Path):
    await written(path)

    misled(path, "scenes_listed", "scenes (listed, replace(name, 'room', 'moor'))")

    journal = SqliteJournal(str(path))
    assert await journal.scenes(after="", limit=9) == ["hall", "moor", "room"]
    await journal.close()


@pytest.mark.parametrize("by", ["last + 4", "last - 4"])
async def test_a_seek_that_the_indexes_do_not_agree_on_is_refused(path: Path, by: str):
    await written(path)

    misled(path, "entries_last", f"entries (scene_id, {by})")

    journal = SqliteJournal(str(path), read_only=True)
    with pytest.raises(JournalDamaged, match="what leads to sequence 9 is damaged"):
        await journal.seek("room", sequence=9)
    await journal.close()


async def test_rows_that_name_no_text_are_damage_and_not_a_fault(path: Path):
    await written(path, checkpoint=6)

    change(path, "UPDATE scenes SET name = CAST(x'ff00' AS TEXT) WHERE id = 1")
    change(path, "UPDATE characters SET name = CAST(x'ff' AS TEXT) WHERE scene_id = 2 AND name = 'hero'")

    assert (await told(path))[1] == -1
    journal = SqliteJournal(str(path))
    with pytest.raises(JournalDamaged):
        await journal.load("hall")
    await journal.close()
