"""What waits together, what a failing disk leaves behind, and that nobody is left without an answer."""

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from app.journal.port import START, CommitUnknown, JournalDamaged, JournalUnavailable, NotTheWriter
from app.journal.sqlite import SqliteJournal
from app.journal.sqlite_tables import Tables
from tests.support.disk import Disk

LARGE = 4 * 1024 * 1024
"""More than SQLite's cache of 2 MiB holds, so that it is written to the log before COMMIT."""


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    yield made
    made.unregister()


@pytest.fixture
async def journal(tmp_path: Path, disk: Disk) -> AsyncIterator[SqliteJournal]:
    opened = SqliteJournal(str(tmp_path / "journal.db"), vfs=disk.name)
    # The log's first transaction takes a second sync, for its header. This one is it, and leaves nothing to be seen.
    await opened.checkpoint("header", position=START, header=b"", changed={}, listed=False)
    yield opened
    disk.heal()
    await opened.close()


async def appended(journal: SqliteJournal, scene: str, after: int = START, blob: bytes = b"x") -> int:
    return await journal.append(scene, after=after, first=after + 1, last=after + 1, blob=blob)


async def blobs(journal: SqliteJournal, scene: str) -> list[bytes]:
    return [entry.blob for entry in await journal.read(scene, after=START, limit=1_000)]


async def writer_is_busy(journal: SqliteJournal, reached: threading.Event, tasks: asyncio.TaskGroup) -> None:
    """Append to the scene `first`, and return once the writer thread waits for the disk with it."""
    tasks.create_task(appended(journal, "first"))
    assert await asyncio.to_thread(reached.wait, 60)


async def settled() -> None:
    """Let every task that can run reach the point where it waits."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_what_waits_together_takes_one_sync_and_one_call_back(
    journal: SqliteJournal, disk: Disk, monkeypatch: pytest.MonkeyPatch
):
    loop = asyncio.get_running_loop()
    called: list[object] = []
    call_soon_threadsafe = loop.call_soon_threadsafe

    def spy(callback: Callable[..., object], *args: object) -> object:
        called.append(callback)
        return call_soon_threadsafe(callback, *args)

    async with asyncio.TaskGroup() as tasks:
        with disk.held() as reached:
            await writer_is_busy(journal, reached, tasks)
            appends = [tasks.create_task(appended(journal, f"scene-{number}")) for number in range(50)]
            await settled()
            disk.syncs.clear()
            monkeypatch.setattr(loop, "call_soon_threadsafe", spy)

    assert sorted(append.result() for append in appends) == list(range(2, 52))
    # The sync that was held was noted before; its answer is the first of the two calls.
    assert [path.endswith("-wal") for path in disk.syncs] == [True]
    assert len(called) == 2


async def test_a_refused_request_does_not_fail_those_it_waited_with(journal: SqliteJournal, disk: Disk):
    async with asyncio.TaskGroup() as tasks:
        with disk.held() as reached:
            await writer_is_busy(journal, reached, tasks)
            waiting = [
                appended(journal, "a"),
                appended(journal, "b", after=99),
                journal.trim("c", before=5),
                journal.checkpoint("d", position=5, header=b"", changed={}, listed=True),
                appended(journal, "e"),
            ]
            gathered = asyncio.gather(*waiting, return_exceptions=True)
            await settled()
        a, b, c, d, e = await gathered

    assert [type(result) for result in (a, e)] == [int, int]
    assert isinstance(b, NotTheWriter)
    assert isinstance(c, ValueError)
    assert isinstance(d, ValueError)
    assert await journal.scenes(after="", limit=9) == ["a", "e", "first"]


async def test_requests_of_one_scene_that_wait_together_see_each_other(journal: SqliteJournal, disk: Disk):
    async with asyncio.TaskGroup() as tasks:
        with disk.held() as reached:
            await writer_is_busy(journal, reached, tasks)
            gathered = asyncio.gather(
                appended(journal, "room"),
                journal.checkpoint("room", position=2, header=b"h", changed={}, listed=True),
                appended(journal, "room", after=2),
                journal.trim("room", before=2),
            )
            await settled()
        await gathered

    assert [entry.position for entry in await journal.read("room", after=START, limit=9)] == [3]


async def test_a_read_does_not_wait_for_the_writer(journal: SqliteJournal, disk: Disk):
    await appended(journal, "room", blob=b"durable")
    async with asyncio.TaskGroup() as tasks:
        with disk.held() as reached:
            await writer_is_busy(journal, reached, tasks)

            assert await blobs(journal, "room") == [b"durable"]
            assert await blobs(journal, "first") == []


async def test_a_cancelled_caller_is_skipped_and_its_entry_is_there(journal: SqliteJournal, disk: Disk):
    async with asyncio.TaskGroup() as tasks:
        with disk.held() as reached:
            await writer_is_busy(journal, reached, tasks)
            cancelled = tasks.create_task(appended(journal, "room", blob=b"a"))
            other = tasks.create_task(appended(journal, "other"))
            await settled()
            cancelled.cancel()
            await settled()

    assert cancelled.cancelled()
    assert other.result() > START
    assert await blobs(journal, "room") == [b"a"]
    [entry] = await journal.read("room", after=START, limit=9)
    assert await appended(journal, "room", after=entry.position) > entry.position


@pytest.mark.parametrize("size", [10, LARGE], ids=["at COMMIT", "while inserting"])
async def test_a_full_disk_writes_nothing_and_the_next_append_works(journal: SqliteJournal, disk: Disk, size: int):
    position = await appended(journal, "room", blob=b"before")
    opened = len(disk.opened)
    disk.fail_write = disk.is_full

    for _ in range(3):
        with pytest.raises(JournalUnavailable, match="nothing was written"):
            await appended(journal, "room", after=position, blob=b"x" * size)
    assert await blobs(journal, "room") == [b"before"]
    disk.heal()

    assert await appended(journal, "room", after=position, blob=b"after") > position
    assert await blobs(journal, "room") == [b"before", b"after"]
    assert len(disk.opened) == opened


async def test_a_disk_that_is_broken_while_inserting_writes_nothing(journal: SqliteJournal, disk: Disk):
    position = await appended(journal, "room", blob=b"before")
    disk.fail_write = disk.is_broken

    with pytest.raises(JournalUnavailable):
        await appended(journal, "room", after=position, blob=b"x" * LARGE)
    disk.heal()

    assert await appended(journal, "room", after=position, blob=b"after") > position
    assert await blobs(journal, "room") == [b"before", b"after"]


async def test_a_sync_that_fails_once_is_unknown_and_the_connection_is_opened_again(
    journal: SqliteJournal, disk: Disk, tmp_path: Path
):
    position = await appended(journal, "room", blob=b"before")
    opened = disk.opened.count(str(tmp_path / "journal.db"))

    def fail_once(path: str) -> None:
        disk.heal()
        disk.is_broken(path)

    disk.fail_sync = fail_once
    with pytest.raises(CommitUnknown, match="the commit failed"):
        await appended(journal, "room", after=position, blob=b"unknown")

    assert disk.opened.count(str(tmp_path / "journal.db")) == opened + 1
    last = (await journal.read("room", after=START, limit=9))[-1].position
    await appended(journal, "room", after=last, blob=b"after")
    assert await blobs(journal, "room") in ([b"before", b"after"], [b"before", b"unknown", b"after"])


async def test_what_was_read_after_a_failed_sync_stays_true_after_a_crash(
    journal: SqliteJournal, disk: Disk, tmp_path: Path
):
    """The failed transaction lies whole behind the log's end: a recovery would count it, were it not overwritten."""
    await appended(journal, "room", blob=b"before")

    def fail_once(path: str) -> None:
        disk.heal()
        disk.is_broken(path)

    disk.fail_sync = fail_once
    with pytest.raises(CommitUnknown):
        await appended(journal, "room", after=1, blob=b"unknown")
    was_read = await blobs(journal, "room")
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name in ("journal.db", "journal.db-wal", "journal.db.mark"):
        shutil.copy(tmp_path / name, crashed / name)

    recovered = SqliteJournal(str(crashed / "journal.db"))

    assert await blobs(recovered, "room") == was_read
    await recovered.close()


async def test_a_disk_whose_syncs_go_on_failing_takes_nothing_until_it_heals(journal: SqliteJournal, disk: Disk):
    position = await appended(journal, "room", blob=b"before")
    disk.fail_sync = disk.is_broken

    with pytest.raises(CommitUnknown):
        await appended(journal, "room", after=position)
    for _ in range(3):
        with pytest.raises(JournalUnavailable):
            await appended(journal, "room", after=position)
    assert await blobs(journal, "room") == [b"before"]
    disk.heal()

    assert await appended(journal, "room", after=position, blob=b"after") > position
    assert await blobs(journal, "room") == [b"before", b"after"]


async def test_a_failed_commit_is_unknown_to_everyone_in_it(journal: SqliteJournal, disk: Disk):
    """The refused one too: it was compared with entries that may not be there."""
    async with asyncio.TaskGroup() as tasks:
        with disk.held(then=disk.is_broken) as reached:
            await writer_is_busy(journal, reached, tasks)
            gathered = asyncio.gather(
                appended(journal, "a"),
                appended(journal, "a"),
                journal.checkpoint("b", position=START, header=b"", changed={}, listed=True),
                return_exceptions=True,
            )
            await settled()
        results = await gathered

    assert [type(result) for result in results] == [CommitUnknown] * 3


OWN_ERRORS = [
    (apsw.CorruptError("torn"), JournalDamaged),
    (apsw.ConstraintError("twice"), JournalDamaged),
    (apsw.TooBigError("too big"), JournalUnavailable),
    (apsw.MismatchError("no number"), JournalUnavailable),
    (OverflowError("too large a number"), JournalUnavailable),
]


@pytest.mark.parametrize(("error", "told"), OWN_ERRORS, ids=[type(error).__name__ for error, _ in OWN_ERRORS])
async def test_a_request_that_fails_by_itself_fails_alone(
    journal: SqliteJournal, disk: Disk, monkeypatch: pytest.MonkeyPatch, error: Exception, told: type[Exception]
):
    """All that wait with it are written, in a few transactions, as if it had not been there."""
    append = Tables.append

    def failing(self: Tables, scene: str, **fields: Any) -> int:
        position = append(self, scene, **fields)
        # Behind what it wrote, so that there is something to be taken back.
        if scene == "bad":
            raise error
        return position

    async with asyncio.TaskGroup() as tasks:
        with disk.held() as reached:
            await writer_is_busy(journal, reached, tasks)
            monkeypatch.setattr(Tables, "append", failing)
            gathered = asyncio.gather(
                appended(journal, "a"),
                appended(journal, "bad"),
                appended(journal, "b"),
                journal.checkpoint("c", position=START, header=b"h", changed={"hero": b"1"}, listed=True),
                appended(journal, "bad"),
                appended(journal, "stray", after=99),
                appended(journal, "d"),
                return_exceptions=True,
            )
            await settled()
        results = await gathered

    assert [type(result) for result in results] == [int, told, int, type(None), told, NotTheWriter, int]
    assert await journal.scenes(after="", limit=9) == ["a", "b", "c", "d", "first"]
    assert await blobs(journal, "bad") == []
    monkeypatch.undo()
    assert await appended(journal, "bad") > START
    for scene in ("a", "b", "d", "bad"):
        assert await blobs(journal, scene) == [b"x"]


async def test_a_full_disk_is_nobodys_own_error(journal: SqliteJournal, disk: Disk, monkeypatch: pytest.MonkeyPatch):
    append = Tables.append

    def failing(self: Tables, scene: str, **fields: Any) -> int:
        if scene == "bad":
            raise apsw.FullError("no room")
        return append(self, scene, **fields)

    async with asyncio.TaskGroup() as tasks:
        with disk.held() as reached:
            await writer_is_busy(journal, reached, tasks)
            monkeypatch.setattr(Tables, "append", failing)
            gathered = asyncio.gather(appended(journal, "a"), appended(journal, "bad"), return_exceptions=True)
            await settled()
        results = await gathered

    assert [type(result) for result in results] == [JournalUnavailable] * 2


async def test_a_page_that_is_damaged_fails_only_those_who_write_to_it(tmp_path: Path):
    """The index of entries: a checkpoint does not need it."""
    path = tmp_path / "torn.db"
    journal = SqliteJournal(str(path))
    position = await appended(journal, "room")
    await journal.close()
    torn = apsw.Connection(str(path))
    root = torn.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'entries_last'").get
    page = torn.pragma("page_size")
    torn.close()
    with path.open("r+b") as file:
        file.seek((root - 1) * page)
        file.write(b"\xff" * 16)

    journal = SqliteJournal(str(path))
    results = await asyncio.gather(
        appended(journal, "room", after=position),
        journal.checkpoint("room", position=position, header=b"h", changed={"hero": b"1"}, listed=True),
        return_exceptions=True,
    )

    assert [type(result) for result in results] == [JournalDamaged, type(None)]
    assert await journal.load("room") is not None
    await journal.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_writer_that_dies_answers_everyone_and_lets_go(
    journal: SqliteJournal, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def broken(self: Tables, scene: str, **_: object) -> int:
        raise ZeroDivisionError(scene)

    async with asyncio.TaskGroup() as tasks:
        with disk.held() as reached:
            await writer_is_busy(journal, reached, tasks)
            gathered = asyncio.gather(appended(journal, "a"), appended(journal, "b"), return_exceptions=True)
            await settled()
            monkeypatch.setattr(Tables, "append", broken)
        results = await gathered
    with pytest.raises(JournalUnavailable):
        await appended(journal, "c")
    await journal.close()

    assert [type(result) for result in results] == [CommitUnknown] * 2
    again = SqliteJournal(str(tmp_path / "journal.db"))
    assert await again.scenes(after="", limit=9) == ["first"]
    await again.close()


async def test_close_answers_what_was_accepted_before_it(journal: SqliteJournal, disk: Disk):
    async with asyncio.TaskGroup() as tasks:
        with disk.held() as reached:
            await writer_is_busy(journal, reached, tasks)
            accepted = tasks.create_task(appended(journal, "room"))
            await settled()
            closing = tasks.create_task(journal.close())
            await settled()
            assert not closing.done()

    assert accepted.result() > START


async def test_a_cancelled_close_can_be_made_again(journal: SqliteJournal, disk: Disk):
    async with asyncio.TaskGroup() as tasks:
        with disk.held() as reached:
            await writer_is_busy(journal, reached, tasks)
            closing = tasks.create_task(journal.close())
            await settled()
            closing.cancel()
            await settled()
    assert closing.cancelled()

    await journal.close()

    names = {thread.name for thread in threading.enumerate()}
    assert not {name for name in names if name.startswith("journal-")}
