"""The copy of a damaged journal: what is in it, and how it takes the journal's place."""

import shutil
from pathlib import Path

import apsw
import pytest

from app.journal.port import START, Checkpoint, JournalDamaged, JournalUnavailable, Remedy, SealSecret
from app.journal.sqlite import SqliteJournal
from app.journal.sqlite_salvage import SqliteSalvage


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


async def written(path: Path, scenes: int = 3, entries: int = 40, size: int = 400) -> None:
    journal = SqliteJournal(str(path))
    for number in range(scenes):
        scene, after = f"scene-{number}", START
        for sequence in range(1, entries + 1):
            blob = f"{scene} {sequence} ".encode() * (size // 10)
            after = await journal.append(scene, after=after, first=sequence, last=sequence, blob=blob)
        await journal.checkpoint(scene, position=after, header=b"head", changed={"hero": b"1"}, listed=number > 0)
    await journal.close()


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir() if not file.name.endswith(("-shm", "-wal")))


def modes(path: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}


def torn(path: Path, object_name: str, place: int = 0) -> None:
    """Tear the root page of a table or an index."""
    connection = apsw.Connection(str(path))
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (object_name,)).get
    page = connection.pragma("page_size")
    connection.close()
    with path.open("r+b") as file:
        file.seek((root - 1) * page + place)
        file.write(b"\xff" * 16)


async def test_the_copy_of_an_undamaged_journal_says_the_same(path: Path):
    await written(path)
    original = SqliteJournal(str(path), read_only=True)

    salvage = SqliteSalvage(str(path))

    assert salvage.secret == original.secret
    assert await salvage.everything() == ["scene-0", "scene-1", "scene-2"]
    for scene in await salvage.everything():
        assert await salvage.load(scene) == await original.load(scene)
        assert await salvage.read(scene, after=START, limit=99) == await original.read(scene, after=START, limit=99)
        assert await salvage.from_start(scene, after=START, limit=99) == await original.read(
            scene, after=START, limit=99
        )
        assert (await salvage.is_marked(scene), await salvage.highest(scene)) == (True, 40)
        assert await salvage.forgettable(scene) == (START, 0)
        assert await salvage.refusal(scene) is None
    await original.close()
    await salvage.discard()
    assert names(path) == ["journal.db", "journal.db.lock", "journal.db.mark"]


@pytest.mark.parametrize("index", ["entries_position", "entries_last", "scenes_listed", "sqlite_autoindex_scenes_1"])
async def test_a_torn_index_is_made_anew(path: Path, index: str):
    await written(path)
    torn(path, index)

    salvage = SqliteSalvage(str(path))

    for scene in await salvage.everything():
        assert len(await salvage.read(scene, after=START, limit=99)) == 40
        assert await salvage.seek(scene, sequence=20) > START
        # A torn index of names cannot be walked, so nobody knows what it leads to until somebody asks.
        assert await salvage.refusal(scene) is not None or index == "scenes_listed"
    former = await salvage.adopt()
    assert names(path) == ["journal.db", "journal.db.damaged", "journal.db.lock", "journal.db.mark"]
    assert former == f"{path}.damaged"
    journal = SqliteJournal(str(path))
    assert await journal.scenes(after="", limit=9) == ["scene-1", "scene-2"]
    await journal.close()


@pytest.mark.parametrize("misled", ["entries_position", "entries_last", "entries"])
async def test_whose_an_entry_is_is_what_two_of_table_and_indexes_say(path: Path, misled: str):
    """One of them has a flipped bit; the scene that it then names must lose nothing, nor that which it named before."""
    await written(path)
    connection = apsw.Connection(str(path))
    if misled == "entries":
        roots = connection.execute("SELECT name, rootpage FROM sqlite_schema WHERE name GLOB 'entries_*'").fetchall()
        connection.pragma("writable_schema", True)
        connection.execute("DELETE FROM sqlite_schema WHERE name GLOB 'entries_*'")
        connection.close()
        connection = apsw.Connection(str(path))
        connection.execute("UPDATE entries SET scene_id = 2 WHERE position = 10")
        connection.pragma("writable_schema", True)
        for (name, root), columns in zip(roots, ("scene_id, position", "scene_id, last"), strict=True):
            sql = f"CREATE INDEX {name} ON entries ({columns})"
            connection.execute("INSERT INTO sqlite_schema VALUES ('index', ?, 'entries', ?, ?)", (name, root, sql))
    else:
        column = misled.removeprefix("entries_")
        connection.execute(f"CREATE INDEX decoy ON entries (iif(position = 10, 2, scene_id), {column})")
        connection.pragma("writable_schema", True)
        root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'decoy'").get
        connection.execute("UPDATE sqlite_schema SET rootpage = ? WHERE name = ?", (root, misled))
        connection.execute("DELETE FROM sqlite_schema WHERE name = 'decoy'")
    connection.close()

    salvage = SqliteSalvage(str(path))

    for scene in await salvage.everything():
        assert len(await salvage.read(scene, after=START, limit=99)) == 40
    await salvage.discard()


async def test_rows_on_both_sides_of_a_torn_page_are_copied(path: Path):
    await written(path, scenes=1, entries=400)
    with path.open("r+b") as file:
        content = file.read()
        place = content.index(b"scene-0 200 ")
        file.seek(place // 8192 * 8192)
        file.write(b"\xff" * 16)
    torn(path, "entries_position")

    salvage = SqliteSalvage(str(path))

    kept = await salvage.from_start("scene-0", after=START, limit=999)
    copied = apsw.Connection(f"{path}.repaired").execute("SELECT min(first), max(first), count(*) FROM entries").get
    assert 150 < kept[-1].last < 200
    assert copied[:2] == (1, 400)
    assert 370 < copied[2] < 400
    assert await salvage.highest("scene-0") == 400
    await salvage.discard()


async def test_a_scene_of_which_only_the_mark_is_left_is_known(path: Path):
    await written(path)
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM scenes WHERE id = 2")
    connection.execute("DELETE FROM entries WHERE scene_id = 2")
    connection.close()

    salvage = SqliteSalvage(str(path))

    assert await salvage.everything() == ["scene-0", "scene-1", "scene-2"]
    assert (await salvage.is_marked("scene-1"), await salvage.highest("scene-1")) == (True, 40)
    with pytest.raises(JournalDamaged):
        await salvage.load("scene-1")
    await salvage.discard()


async def test_a_scene_is_mended_as_the_remedy_says_and_the_others_stay(path: Path):
    await written(path)
    salvage = SqliteSalvage(str(path))
    entries = await salvage.read("scene-1", after=START, limit=99)
    secrets = (SealSecret(41, b"secret", b"granted"),)
    checkpoint = Checkpoint(entries[29].position, b"mended", {"orc": b"2", "elf": b"3"}, secrets)

    await salvage.mend("scene-1", Remedy(entries[9].position, entries[29].position, checkpoint, listed=True))
    await salvage.adopt()

    journal = SqliteJournal(str(path))
    assert await journal.load("scene-1") == checkpoint
    assert await journal.read("scene-1", after=START, limit=99) == entries[10:30]
    assert len(await journal.read("scene-2", after=START, limit=99)) == 40
    position = await journal.append("scene-1", after=entries[29].position, first=41, last=41, blob=b"new")
    await journal.checkpoint("scene-1", position=position, header=b"later", changed={"elf": None}, listed=True)
    assert await journal.load("scene-1") == Checkpoint(position, b"later", {"orc": b"2"}, secrets)
    assert [entry.first for entry in await journal.read("scene-1", after=START, limit=99)] == [*range(11, 31), 41]
    assert position > max(entry.position for entry in entries)
    await journal.close()


async def test_a_journal_whose_secret_is_gone_cannot_be_copied_and_nothing_is_left(path: Path):
    await written(path)
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE meta SET value = x'00' WHERE name = 'secret'")
    connection.close()

    with pytest.raises(JournalDamaged, match="secret"):
        SqliteSalvage(str(path))

    assert names(path) == ["journal.db", "journal.db.lock", "journal.db.mark"]
    shutil.copy(path, path.with_name("other.db"))
    with pytest.raises(JournalUnavailable, match="no such file"):
        SqliteSalvage(str(path.with_name("absent.db")))


async def test_a_reader_of_the_old_file_keeps_the_copy_from_its_place(path: Path):
    """Its log would be played over the copy."""
    await written(path)
    server = SqliteJournal(str(path))
    await server.append("new", after=START, first=1, last=1, blob=b"x")
    reader = SqliteJournal(str(path), read_only=True)
    assert await reader.read("new", after=START, limit=1)
    await server._reader.run(lambda: None)
    before = path.with_name("journal.db-wal").stat().st_size
    held = reader._reader._connection
    await reader._reader.run(lambda: held.execute("BEGIN; SELECT count(*) FROM scenes").fetchall())
    await server.close()
    salvage = SqliteSalvage(str(path))

    assert before > 0
    try:
        await salvage.adopt()
    except JournalUnavailable as error:
        assert "in use" in str(error) or "locked" in str(error)  # noqa: PT017 - either way it is told
    await reader._reader.run(lambda: held.execute("COMMIT"))
    await reader.close()


async def test_former_databases_are_kept_apart(path: Path):
    await written(path, scenes=1, entries=2)

    former = [await SqliteSalvage(str(path)).adopt() for _ in range(3)]

    assert former == [f"{path}.damaged", f"{path}.damaged-2", f"{path}.damaged-3"]
    assert set(modes(path).values()) == {0o600}
