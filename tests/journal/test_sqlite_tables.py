from collections.abc import Iterator
from pathlib import Path

import pytest

from app.journal import sqlite_tables
from app.journal.port import NotTheWriter
from app.journal.sqlite_chain import Digests
from app.journal.sqlite_file import DatabaseFile, recognise
from app.journal.sqlite_marks import Marks
from app.journal.sqlite_tables import TRIM_ENTRIES_MAX, Tables, fence


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    file = DatabaseFile(str(tmp_path / "journal.db"), read_only=False)
    connection = file.connect(writing=True)
    digests = Digests(recognise(connection, file.path))
    marks = Marks(file.path, digests, read_only=False)
    tables = Tables(connection, digests, marks)
    tables.begin()
    yield tables
    connection.close()
    marks.close()
    file.release()


def appended(tables: Tables, scene: str, after: int) -> int:
    return tables.append(scene, after=after, first=after + 1, last=after + 1, blob=b"x")


def test_a_transaction_that_is_taken_back_is_forgotten_in_memory_too(tables: Tables):
    appended(tables, "room", 0)

    assert tables.rolled_back()
    tables.begin()

    assert appended(tables, "room", 0) == 1


def test_what_is_remembered_is_the_same_as_what_is_read_again(tables: Tables):
    position = appended(tables, "room", appended(tables, "room", 0))
    tables.checkpoint("room", position=position, header=b"", changed={}, listed=False)
    tables.trim("room", before=position)

    tables.forget()

    with pytest.raises(NotTheWriter):
        appended(tables, "room", 0)
    assert appended(tables, "room", position) > position
    assert tables.connection.execute("SELECT listed FROM scenes").get == 1


def test_positions_never_come_again_after_everything_was_trimmed(tables: Tables):
    position = appended(tables, "a", 0)
    tables.checkpoint("a", position=position, header=b"", changed={}, listed=False)
    tables.trim("a", before=position)
    tables.forget()

    assert appended(tables, "b", 0) > position


def test_trim_goes_in_steps_oldest_first(tables: Tables):
    position = 0
    for _ in range(TRIM_ENTRIES_MAX + 10):
        position = appended(tables, "room", position)
    tables.checkpoint("room", position=position, header=b"", changed={}, listed=True)

    assert not tables.trim("room", before=position)
    assert tables.connection.execute("SELECT min(position), count(*) FROM entries").get == (position - 9, 10)
    assert tables.trim("room", before=position)
    assert tables.connection.execute("SELECT count(*) FROM entries").get == 0


def test_the_scenes_that_are_remembered_have_a_bound(tables: Tables, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sqlite_tables, "SCENES_KNOWN_MAX", 3)
    positions = {f"scene-{number}": appended(tables, f"scene-{number}", 0) for number in range(5)}

    tables.commit()
    tables.begin()

    assert len(tables._places) == 0
    assert all(appended(tables, scene, position) for scene, position in positions.items())


def test_a_fence_is_a_transaction_of_its_own(tables: Tables):
    tables.commit()

    fence(tables.connection)
    fence(tables.connection)

    assert not tables.connection.in_transaction
    assert tables.connection.execute("SELECT value FROM meta WHERE name = 'fence'").get == 2
