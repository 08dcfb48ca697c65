import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from app.journal import open_journal, open_salvage, shown_url
from app.journal.memory import MemoryJournal
from app.journal.port import JournalUnavailable, NotTheWriter
from app.journal.sqlite import SqliteJournal


async def test_memory_opens_a_journal_that_forgets():
    journal = open_journal("memory:")

    assert isinstance(journal, MemoryJournal)
    await journal.close()


async def test_sqlite_opens_a_file_and_makes_its_directory(tmp_path: Path):
    path = tmp_path / "var" / "lib" / "journal.db"

    journal = open_journal(f"sqlite:{path}")

    assert isinstance(journal, SqliteJournal)
    assert path.is_file()
    await journal.close()


async def test_sqlite_takes_a_relative_path_and_keeps_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    journal = open_journal("sqlite:var/journal.db")
    monkeypatch.chdir("/")

    await journal.append("room", after=0, first=1, last=1, blob=b"a")

    assert (tmp_path / "var" / "journal.db").is_file()
    await journal.close()


@pytest.mark.parametrize(
    "url",
    ["", "memory", "memory:x", "sqlite", "sqlite:", "sqlite://host/x.db", "nats://localhost", "journal.db", "SQLITE:x"],
)
def test_any_other_url_is_refused_with_what_is_accepted(url: str):
    with pytest.raises(ValueError, match=r"memory:.*sqlite:PATH"):
        open_journal(url)


def test_a_memory_journal_cannot_be_only_read():
    with pytest.raises(ValueError, match="nothing to open"):
        open_journal("memory:", read_only=True)


def test_a_journal_that_is_not_chosen_is_not_imported():
    code = "import sys; from app.journal import open_journal; open_journal('memory:'); print('apsw' in sys.modules)"

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "False"


async def test_each_commit_to_disk_is_told_with_its_entries_and_its_time(tmp_path: Path):
    """A checkpoint is a commit without entries; what was refused is none."""
    told: list[tuple[int, float]] = []
    journal = open_journal(
        f"sqlite:{tmp_path / 'p.db'}", committed=lambda entries, seconds: told.append((entries, seconds))
    )

    positions = await asyncio.gather(
        *(journal.append(scene, after=0, first=1, last=2, blob=b"turn") for scene in ("one", "two", "three"))
    )
    with pytest.raises(NotTheWriter):
        await journal.append("one", after=0, first=3, last=3, blob=b"late")
    appended = sum(entries for entries, _ in told)
    await journal.checkpoint("one", position=positions[0], header=b"head", changed={}, listed=True)
    await journal.close()

    assert appended == sum(entries for entries, _ in told) == 3
    assert told[-1][0] == 0
    assert all(seconds > 0 for _, seconds in told)


@pytest.mark.parametrize("url", ["memory:", "sqlite:", "sqlite://host/x.db", "postgres://x"])
def test_what_is_not_in_a_file_cannot_be_salvaged(url: str):
    with pytest.raises(ValueError, match="names no journal in a file"):
        open_salvage(url)


def test_a_salvage_that_finds_no_file_makes_none(tmp_path: Path):
    with pytest.raises(JournalUnavailable, match="no such file"):
        open_salvage(f"sqlite:{tmp_path / 'absent.db'}")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:var/journal.db", "sqlite:var/journal.db"),
        ("memory:", "memory:"),
        ("nats://user:pass@one:4222,two:4222/NAME?replicas=3", "nats://one:4222,two:4222/NAME"),
        ("tls://one/NAME?key=/etc/key.pem", "tls://one/NAME"),
        ("tls://us@er:pa@ss@one/NAME", "tls://one/NAME"),
    ],
)
def test_an_address_is_shown_without_user_password_and_files(url: str, shown: str):
    assert shown_url(url) == shown
