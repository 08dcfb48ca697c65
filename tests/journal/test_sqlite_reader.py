from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from app.journal.port import JournalDamaged, JournalUnavailable
from app.journal.sqlite import SqliteJournal


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[SqliteJournal]:
    opened = SqliteJournal(str(tmp_path / "journal.db"))
    yield opened
    await opened.close()


async def test_no_read_scans_a_table(journal: SqliteJournal):
    """Each is a look into an index, whatever the number of scenes, characters and entries of others."""
    position = await journal.append("room", after=0, first=1, last=5, blob=b"a")
    await journal.checkpoint("room", position=position, header=b"", changed={"hero": b"1"}, listed=True)
    asked: list[tuple[str, Any]] = []
    connection = journal._reader._connection

    def note(_cursor: apsw.Cursor, statement: str, bindings: Any) -> bool:
        asked.append((statement, bindings))
        return True

    connection.exec_trace = note
    await journal.read("room", after=0, limit=1)
    await journal.seek("room", sequence=3)
    await journal.load("room")
    await journal.scenes(after="", limit=1)
    connection.exec_trace = None

    selects = [(statement, bindings) for statement, bindings in asked if statement.startswith("SELECT")]
    steps = [
        detail
        for statement, bindings in selects
        for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {statement}", bindings)
    ]
    assert len(selects) == 14
    assert [step for step in steps if step.startswith(("SCAN entries", "SCAN characters", "USE TEMP"))] == []
    assert any("entries_position (scene_id=? AND position>?)" in step for step in steps)
    assert any("entries_last (scene_id=? AND last<?)" in step for step in steps)
    assert any("scenes_listed (listed=? AND name>?)" in step for step in steps)
    assert any("characters USING PRIMARY KEY (scene_id=?)" in step for step in steps)


async def test_a_read_leaves_no_transaction_open(journal: SqliteJournal):
    """One left open would keep the log from being begun anew."""
    position = await journal.append("room", after=0, first=1, last=5, blob=b"a")
    await journal.checkpoint("room", position=position, header=b"", changed={}, listed=True)

    await journal.read("room", after=0, limit=1)
    await journal.seek("room", sequence=9)
    await journal.load("room")
    await journal.load("nowhere")
    await journal.scenes(after="", limit=1)

    assert journal._reader._connection.txn_state() == apsw.SQLITE_TXN_NONE


@pytest.mark.parametrize(
    ("error", "failure"),
    [(apsw.CorruptError("torn"), JournalDamaged), (apsw.IOError("gone"), JournalUnavailable)],
    ids=["damage", "no disk"],
)
async def test_an_error_of_sqlite_is_told_as_the_journals(
    journal: SqliteJournal, error: apsw.Error, failure: type[Exception]
):
    def fail() -> None:
        raise error

    with pytest.raises(failure, match=r"cannot read .*journal\.db"):
        await journal._reader.run(fail)


async def test_a_torn_page_is_damage(tmp_path: Path):
    path = tmp_path / "torn.db"
    journal = SqliteJournal(str(path))
    after = 0
    for number in range(50):
        after = await journal.append("room", after=after, first=number, last=number, blob=b"x" * 3_000)
    await journal.close()
    with path.open("r+b") as file:
        # The first page keeps its header and the schema; all others are lost.
        file.seek(8192)
        file.write(b"\xff" * (path.stat().st_size - 8192))

    with pytest.raises(JournalDamaged, match=r"torn\.db"):
        journal = SqliteJournal(str(path))
