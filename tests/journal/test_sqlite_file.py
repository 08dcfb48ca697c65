import os
import stat
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from app.journal.port import JournalDamaged, JournalUnavailable
from app.journal.sqlite_file import DatabaseFile, recognise, require_sqlite


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def made(path: Path) -> bytes:
    """Make a journal's file, let go of it, and give its secret."""
    file = DatabaseFile(str(path), read_only=False)
    connection = file.connect(writing=True)
    secret = recognise(connection, file.path)
    connection.close()
    file.release()
    return secret


def changed(path: Path, statement: str) -> None:
    """Change a file that nobody holds."""
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("version", ["3.51.2", "3.46.1", "2.9", "3.51"])
def test_a_sqlite_with_the_wal_reset_fault_is_refused(version: str):
    with pytest.raises(JournalUnavailable, match=r"install apsw 3\.51\.3 or newer"):
        require_sqlite(version)


@pytest.mark.parametrize("version", ["3.51.3", "3.54.1", "3.100.0", "4.0.0", "3.51.3.1"])
def test_a_sqlite_without_the_fault_is_taken(version: str):
    require_sqlite(version)


def test_all_files_and_a_new_directory_are_the_owners_alone(tmp_path: Path):
    path = tmp_path / "var" / "journal.db"
    file = DatabaseFile(str(path), read_only=False)
    connection = file.connect(writing=True)
    recognise(connection, file.path)

    modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in path.parent.iterdir()}
    connection.close()
    file.release()

    assert modes == dict.fromkeys(
        ("journal.db", "journal.db-shm", "journal.db-wal", "journal.db.lock", "journal.db.mark"), 0o600
    )
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_secret_is_made_once(path: Path):
    first = made(path)

    assert len(first) == 32
    assert made(path) == first


def test_a_writing_connection_syncs_every_commit_and_never_checkpoints_by_itself(path: Path):
    file = DatabaseFile(str(path), read_only=False)
    connection = file.connect(writing=True)

    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("synchronous") == 2
    assert connection.pragma("wal_autocheckpoint") == 0
    assert connection.pragma("page_size") == 8192
    connection.close()
    file.release()


def test_a_second_holder_is_refused_and_told_whom_to_stop(path: Path):
    file = DatabaseFile(str(path), read_only=False)

    with pytest.raises(JournalUnavailable) as refused:
        DatabaseFile(str(path), read_only=False)

    assert f"{path}.lock is held by process {os.getpid()}" in str(refused.value)
    assert "Stop that process" in str(refused.value)
    file.release()
    DatabaseFile(str(path), read_only=False).release()


def test_a_holder_in_another_process_is_refused_too(path: Path):
    file = DatabaseFile(str(path), read_only=False)
    code = "import sys; from app.journal import open_journal; open_journal('sqlite:' + sys.argv[1])"

    ran = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)

    assert ran.returncode != 0
    assert f"{path}.lock is held by process {os.getpid()}" in ran.stderr
    file.release()


def test_a_name_that_leads_to_the_same_file_is_locked_out_as_well(path: Path, tmp_path: Path):
    file = DatabaseFile(str(path), read_only=False)
    (tmp_path / "link.db").symlink_to(path)

    with pytest.raises(JournalUnavailable, match="is held by process"):
        DatabaseFile(str(tmp_path / "link.db"), read_only=False)
    file.release()


def test_an_unknown_format_is_refused_and_named(path: Path):
    made(path)
    changed(path, "UPDATE meta SET value = 7 WHERE name = 'format'")

    with pytest.raises(JournalDamaged, match="has journal format 7; this version reads format 2"):
        DatabaseFile(str(path), read_only=False)


def test_another_programs_database_is_refused_and_left_alone(path: Path):
    changed(path, "CREATE TABLE meta (name, value)")
    before = path.read_bytes()

    with pytest.raises(JournalDamaged, match="not a posegate journal"):
        DatabaseFile(str(path), read_only=False)

    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path):
    path.write_text("a letter to my aunt\n" * 500)
    before = path.read_bytes()

    with pytest.raises(JournalDamaged, match=str(path)):
        DatabaseFile(str(path), read_only=False)

    assert path.read_bytes() == before


def test_a_damaged_secret_is_refused(path: Path):
    made(path)
    changed(path, "UPDATE meta SET value = x'00' WHERE name = 'secret'")

    with pytest.raises(JournalDamaged, match="secret"):
        DatabaseFile(str(path), read_only=False)


def test_a_refused_file_is_not_left_locked(path: Path):
    made(path)
    changed(path, "UPDATE meta SET value = 7 WHERE name = 'format'")
    with pytest.raises(JournalDamaged):
        DatabaseFile(str(path), read_only=False)
    changed(path, "UPDATE meta SET value = 2 WHERE name = 'format'")

    DatabaseFile(str(path), read_only=False).release()


def test_an_empty_file_becomes_a_journal(path: Path):
    """A crash between making the file and filling it leaves this."""
    path.touch(0o600)

    assert len(made(path)) == 32


def test_a_place_where_no_file_can_be_is_refused(tmp_path: Path):
    (tmp_path / "file").touch()

    for path in (tmp_path, tmp_path / "file" / "journal.db"):
        with pytest.raises(JournalUnavailable, match=str(path)):
            DatabaseFile(str(path), read_only=False)


def test_reading_only_a_file_that_is_not_there_makes_none(path: Path):
    with pytest.raises(JournalUnavailable, match="there is no such file"):
        DatabaseFile(str(path), read_only=True)

    assert list(path.parent.iterdir()) == []


def test_a_database_that_is_gone_while_its_marks_are_there_is_not_begun_anew(path: Path):
    """Whoever deleted it by accident would lose every number that was given out."""
    made(path)
    marks = path.with_name("journal.db.mark")
    marks.write_bytes(marks.read_bytes() + bytes(256))

    for emptied in (False, True):
        path.unlink()
        if emptied:
            path.touch()
        with pytest.raises(JournalDamaged, match=r"holds no journal, but .*\.mark says that it did"):
            DatabaseFile(str(path), read_only=False)
        assert path.exists() is emptied
        path.touch()

    path.unlink()
    marks.unlink()
    assert len(made(path)) == 32


def test_a_secret_of_which_a_bit_changed_is_refused(path: Path):
    secret = made(path)
    changed(path, f"UPDATE meta SET value = x'{(bytes([secret[0] ^ 1]) + secret[1:]).hex()}' WHERE name = 'secret'")

    with pytest.raises(JournalDamaged, match="secret"):
        DatabaseFile(str(path), read_only=False)


def test_a_journal_that_is_only_read_can_be_locked_all_the_same(path: Path):
    made(path)
    file = DatabaseFile(str(path), read_only=True, locked=True)

    with pytest.raises(JournalUnavailable, match="is held by process"):
        DatabaseFile(str(path), read_only=False)
    file.release()
    DatabaseFile(str(path), read_only=False).release()
