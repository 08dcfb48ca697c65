import subprocess
import sys
from pathlib import Path

import pytest

from app.journal import open_journal
from app.journal.memory import MemoryJournal
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
