"""What the SQLite journal promises beyond the port: files, processes, and other event loops."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from pathlib import Path

import pytest
import uvloop

from app.journal import open_journal
from app.journal.port import START, Checkpoint, Journal, JournalUnavailable, NotTheWriter
from app.journal.sqlite import SqliteJournal

KILLS = 5
ACKNOWLEDGED = 200
"""Appends that are answered before each kill."""

APPENDER = """
import asyncio, sys
from app.journal import open_journal

async def append(journal, scene):
    entries = await journal.read(scene, after=0, limit=1_000_000)
    after = entries[-1].position if entries else 0
    for number in range(len(entries), 1_000_000):
        after = await journal.append(scene, after=after, first=number, last=number, blob=b"%d" % number * 50)
        print(scene, after, number, flush=True)

async def main():
    journal = open_journal("sqlite:" + sys.argv[1])
    await asyncio.gather(*(append(journal, f"scene-{number}") for number in range(8)))

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def kill_in_mid_appends(path: Path) -> list[tuple[str, int, int]]:
    """Let a process append until ACKNOWLEDGED were answered, kill it, and give all it said were durable."""
    with subprocess.Popen([sys.executable, "-c", APPENDER, str(path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(ACKNOWLEDGED)]
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.readlines()
    assert child.returncode == -signal.SIGKILL
    # The last line may be cut off by the kill: then nobody was told.
    told = [line.split() for line in lines if line.endswith("\n")]
    return [(scene, int(position), int(number)) for scene, position, number in told]


async def test_every_acknowledged_append_survives_kill_9(path: Path):
    told: dict[str, dict[int, int]] = defaultdict(dict)
    for _ in range(KILLS):
        for scene, position, number in kill_in_mid_appends(path):
            told[scene][position] = number

        journal = SqliteJournal(str(path))
        for scene, its_told in told.items():
            entries = await journal.read(scene, after=START, limit=1_000_000)
            kept = {entry.position: entry.first for entry in entries}
            assert its_told.items() <= kept.items()
            assert list(kept.values()) == list(range(len(kept)))
            assert all(entry.blob == b"%d" % entry.first * 50 for entry in entries)
        await journal.close()


async def test_all_is_there_when_it_is_opened_again(path: Path):
    journal = SqliteJournal(str(path))
    secret = journal.secret
    first = await journal.append("room", after=START, first=1, last=5, blob=b"a")
    second = await journal.append("room", after=first, first=6, last=9, blob=b"b")
    await journal.checkpoint("room", position=second, header=b"h", changed={"hero": b"1"}, listed=True)
    await journal.trim("room", before=second)
    await journal.append("gone", after=START, first=1, last=1, blob=b"x")
    await journal.close()

    journal = SqliteJournal(str(path))

    assert journal.secret == secret
    assert await journal.load("room") == Checkpoint(second, b"h", {"hero": b"1"})
    assert await journal.scenes(after="", limit=9) == ["gone", "room"]
    with pytest.raises(NotTheWriter):
        await journal.append("room", after=START, first=1, last=1, blob=b"stray")
    assert await journal.append("room", after=second, first=10, last=10, blob=b"c") > second
    await journal.close()


async def test_a_closed_journal_is_one_file_with_its_marks_and_leaves_no_thread(path: Path):
    journal = SqliteJournal(str(path))
    await journal.append("room", after=START, first=1, last=1, blob=b"a")
    own = {thread.name for thread in threading.enumerate() if thread.name.startswith("journal-")}

    await journal.close()

    assert {"journal-writer", "journal-wal"} <= own
    assert not {thread.name for thread in threading.enumerate()} & own
    # The lock file stays on purpose, empty of meaning without a process that holds it; the marks are the journal's.
    assert sorted(found.name for found in path.parent.iterdir()) == [
        "journal.db",
        "journal.db.lock",
        "journal.db.mark",
    ]


async def test_a_second_opener_is_refused_and_the_first_goes_on(path: Path):
    journal = SqliteJournal(str(path))

    with pytest.raises(JournalUnavailable, match="is held by process"):
        SqliteJournal(str(path))

    assert await journal.append("room", after=START, first=1, last=1, blob=b"a")
    await journal.close()


def on_disk(path: Path) -> dict[str, bytes]:
    """Give what the database and its log hold, where there is any; the index beside them is SQLite's to rebuild."""
    files = (path, path.with_name(path.name + "-wal"))
    return {file.name: file.read_bytes() for file in files if file.exists() and file.stat().st_size}


async def read_all(journal: Journal) -> list[bytes]:
    return [entry.blob for entry in await journal.read("room", after=START, limit=9)]


async def test_a_reader_sees_what_a_server_writes_meanwhile(path: Path):
    server = SqliteJournal(str(path))
    position = await server.append("room", after=START, first=1, last=1, blob=b"a")

    reader = open_journal(f"sqlite:{path}", read_only=True)

    assert reader.secret == server.secret
    assert await read_all(reader) == [b"a"]
    await server.append("room", after=position, first=2, last=2, blob=b"b")
    assert await read_all(reader) == [b"a", b"b"]
    await reader.close()
    assert await read_all(server) == [b"a", b"b"]
    await server.close()


async def test_a_reader_outlives_the_server(path: Path):
    server = SqliteJournal(str(path))
    await server.append("room", after=START, first=1, last=1, blob=b"a")
    reader = SqliteJournal(str(path), read_only=True)

    await server.close()

    assert await read_all(reader) == [b"a"]
    await reader.close()


async def test_a_reader_writes_nothing(path: Path):
    server = SqliteJournal(str(path))
    position = await server.append("room", after=START, first=1, last=1, blob=b"a")
    await server.close()
    before = on_disk(path)
    reader = SqliteJournal(str(path), read_only=True)

    for call in (
        reader.append("room", after=position, first=2, last=2, blob=b"b"),
        reader.checkpoint("room", position=position, header=b"", changed={}, listed=True),
        reader.trim("room", before=START),
    ):
        with pytest.raises(JournalUnavailable, match="reading only"):
            await call
    assert await read_all(reader) == [b"a"]
    await reader.close()

    assert on_disk(path) == before


async def test_a_reader_of_what_a_killed_server_left_leaves_it_as_it_is(path: Path):
    told = kill_in_mid_appends(path)
    before = on_disk(path)
    assert set(before) == {"journal.db", "journal.db-wal"}

    reader = SqliteJournal(str(path), read_only=True)
    kept = [
        (scene, entry.position, entry.first)
        for scene in await reader.scenes(after="", limit=99)
        for entry in await reader.read(scene, after=START, limit=1_000_000)
    ]
    await reader.close()

    assert set(told) <= set(kept)
    assert on_disk(path) == before


def test_it_works_on_uvloop(path: Path):
    async def lived() -> None:
        journal = SqliteJournal(str(path))
        scenes = [f"scene-{number}" for number in range(30)]

        async def append(scene: str) -> int:
            after = START
            for number in range(10):
                after = await journal.append(scene, after=after, first=number, last=number, blob=b"%d" % number)
            await journal.checkpoint(scene, position=after, header=b"h", changed={}, listed=True)
            return after

        ends = await asyncio.gather(*map(append, scenes))
        assert [await journal.seek(scene, sequence=99) for scene in scenes] == ends
        with pytest.raises(NotTheWriter):
            await append(scenes[0])
        await journal.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(lived())


def test_a_loop_that_ended_does_not_disturb_the_next(path: Path):
    """A caller whose loop is gone is answered into nothing."""
    journal = SqliteJournal(str(path))

    async def abandoned() -> None:
        task = asyncio.create_task(journal.append("a", after=START, first=1, last=1, blob=b"a"))
        await asyncio.sleep(0)
        task.cancel()

    async def following() -> None:
        assert await journal.append("b", after=START, first=1, last=1, blob=b"b")
        assert await journal.scenes(after="", limit=9) == ["a", "b"]
        await journal.close()

    asyncio.run(abandoned())
    asyncio.run(following())
