import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from app.journal.sqlite_file import DatabaseFile
from app.journal.sqlite_wal import LogKeeper
from tests.support.disk import Disk

PASSIVE = 256 * 1024
LIMIT = 1024 * 1024
TRANSACTION = 64 * 1024


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    yield made
    made.unregister()


@pytest.fixture
def file(tmp_path: Path, disk: Disk) -> Iterator[DatabaseFile]:
    made = DatabaseFile(str(tmp_path / "journal.db"), read_only=False, vfs=disk.name)
    yield made
    made.release()


@pytest.fixture
def synced() -> list[str]:
    """Give the threads that synced what is kept beside the database, in order."""
    return []


@pytest.fixture
def keeper(file: DatabaseFile, synced: list[str]) -> LogKeeper:
    def sync() -> None:
        synced.append(threading.current_thread().name)

    return LogKeeper(file, synced=sync, passive_bytes=PASSIVE, limit_bytes=LIMIT)


@pytest.fixture
def writer(file: DatabaseFile, keeper: LogKeeper) -> Iterator[apsw.Connection]:
    connection = file.connect(writing=True)
    keeper.watch(connection)
    yield connection
    keeper.finish(connection)
    connection.close()


def write(writer: apsw.Connection, keeper: LogKeeper, transactions: int) -> None:
    """Write so many transactions of TRANSACTION bytes, over and over the same row, as the writer thread would."""
    for _ in range(transactions):
        writer.execute("INSERT OR REPLACE INTO meta VALUES ('filler', zeroblob(?))", (TRANSACTION,))
        keeper.keep(writer)


def log_bytes(file: DatabaseFile) -> int:
    return Path(file.path + "-wal").stat().st_size


def test_the_log_does_not_outgrow_its_limit(file: DatabaseFile, keeper: LogKeeper, writer: apsw.Connection):
    write(writer, keeper, 100)

    assert log_bytes(file) <= LIMIT + 2 * TRANSACTION


def test_the_log_is_copied_beside_the_writer_once_it_has_grown(
    disk: Disk, keeper: LogKeeper, writer: apsw.Connection, file: DatabaseFile, synced: list[str]
):
    copied: list[str] = []
    done = threading.Event()

    def note(path: str) -> None:
        if path == file.path:
            copied.append(threading.current_thread().name)
            done.set()

    disk.fail_write = note
    write(writer, keeper, 8)

    assert done.wait(timeout=60)
    assert set(copied) == {"journal-wal"}
    assert set(synced) == {"journal-wal"}


def test_a_reader_of_old_frames_delays_a_new_beginning_and_no_commit(
    file: DatabaseFile, keeper: LogKeeper, writer: apsw.Connection
):
    reader = file.connect(writing=False)
    write(writer, keeper, 1)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM meta").get == 5

    write(writer, keeper, 40)
    assert log_bytes(file) > LIMIT + 2 * TRANSACTION
    reader.execute("COMMIT")
    write(writer, keeper, 10)

    assert log_bytes(file) <= LIMIT + 2 * TRANSACTION
    reader.close()


def test_a_full_disk_under_the_database_fails_no_commit(
    disk: Disk, file: DatabaseFile, keeper: LogKeeper, writer: apsw.Connection
):
    def full(path: str) -> None:
        if path == file.path:
            disk.is_full(path)

    disk.fail_write = full
    write(writer, keeper, 40)
    assert log_bytes(file) > LIMIT + 2 * TRANSACTION
    disk.heal()
    write(writer, keeper, 10)

    assert log_bytes(file) <= LIMIT + 2 * TRANSACTION


def test_the_end_leaves_the_whole_log_in_the_database(file: DatabaseFile, keeper: LogKeeper, synced: list[str]):
    writer = file.connect(writing=True)
    keeper.watch(writer)
    write(writer, keeper, 3)

    keeper.finish(writer)

    assert log_bytes(file) == 0
    assert synced == ["MainThread"]
    writer.close()
