import asyncio
import json
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from app.cli import migrating
from app.gates.identity import Granted
from app.gates.lives import CloseScene
from app.journal import jetstream, open_journal, open_moving
from app.journal.codec import decode_checkpoint, encode_granted
from app.journal.memory import MemoryJournal
from app.journal.moving import MARK, mark_unfinished
from app.journal.port import START, JournalUnavailable, SealSecret
from app.journal.sqlite_marks import SLOT_BYTES
from app.sequencing.mailbox import Addressed
from app.sequencing.migrate import Progress
from app.sequencing.registry import Registry
from tests.support.damaged import SCENES, SETTINGS, play
from tests.support.keyed import MATCH, Keyed, keyed
from tests.support.lines import is_one_line
from tests.support.nats_servers import MAX_PAYLOAD_BYTES, PASSWORD, NatsServers, fresh_name, nats_servers
from tests.support.sequenced import Clock
from tests.support.watching import service

SCENE = "/v1/scenes/match-7"


@pytest.fixture
def source(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path}/source.db"


@pytest.fixture
def target(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path}/target.db"


def played(url: str, *, scenes: tuple[str, ...] = ("match-7",)) -> None:
    """Write a journal: scenes with a character that has begun to run, and one scene that was deleted."""

    async def sent() -> None:
        async with keyed(journal=url) as asked:
            for scene in (*scenes, "match-gone"):
                await asked.spawn(MATCH, scene, "hero")
                await asked.ask(MATCH, "POST", f"/v1/scenes/{scene}/characters/hero/begin", RUN)
            await asked.ask(MATCH, "DELETE", "/v1/scenes/match-gone")

    asyncio.run(sent())


RUN = {"layer": "base", "target": "Run"}


async def posted(asked: Keyed, credential: str, path: str, body: object, **headers: str) -> dict[str, object]:
    response = await asked.ask(credential, "POST", f"{SCENE}/characters/hero/{path}", body, **headers)
    assert response.status_code == 200, response.text
    answer: dict[str, object] = response.json()
    return answer


def test_what_was_moved_is_told(call, source, target):
    played(source)

    code, shown, told = call("migrate", source, target)

    assert (code, told) == (0, "")
    first, second, third = shown.splitlines()
    assert first.startswith("moved 1 scene and 1 that was deleted: 1 character in checkpoints, ")
    assert "the same" in second
    assert "set POSEGATE_JOURNAL" in third


def test_what_was_moved_is_printed_as_an_object_for_machines(call, source, target):
    played(source, scenes=("match-7", "match-8"))

    code, shown, told = call("migrate", source, target, "--json")

    counted = json.loads(shown)
    assert (code, told) == (0, "")
    assert {name: counted[name] for name in ("scenes", "listed", "decisions", "characters")} == {
        "scenes": 3,
        "listed": 2,
        "decisions": 4,
        "characters": 2,
    }
    assert set(counted) == {"scenes", "listed", "entries", "decisions", "characters", "bytes", "seconds", "next"}
    assert counted["next"] == migrating.SERVE


def test_what_to_do_next_is_told_to_machines_too(call, source, remote):
    played(source)

    code, shown, _ = call("migrate", source, remote, "--json")

    assert code == 0
    assert json.loads(shown)["next"] == migrating.SERVE_NODES
    assert "restart every node" in migrating.SERVE_NODES
    assert PASSWORD not in shown


def test_verify_and_repair_find_nothing_wrong_with_what_was_moved(call, source, target):
    played(source)
    call("migrate", source, target)

    verified, repaired = call("verify", target), call("repair", target)

    assert verified[0] == 0
    assert repaired == (0, "nothing is damaged\n", "")


def test_tokens_sessions_keys_and_history_hold_after_the_move(call, source, target):
    async def before() -> tuple[dict[str, object], str]:
        async with keyed(journal=source) as asked:
            await asked.spawn(MATCH, "match-7", "hero")
            begun = await posted(asked, MATCH, "begin", RUN, Idempotency_Key="first-begin")
            return begun, await asked.session(MATCH, "match-7", {"hero": 1})

    begun, session = asyncio.run(before())
    assert call("migrate", source, target)[0] == 0

    async def after() -> tuple[object, ...]:
        async with keyed(journal=target) as asked:
            again = await posted(asked, MATCH, "begin", RUN, Idempotency_Key="first-begin")
            completed = await posted(asked, session, "complete", {"token": begun["token"]})
            history = (await asked.ask(MATCH, "GET", f"{SCENE}/history?after=1")).json()
            return again, completed["outcome"], [each["sequence"] for each in history["decisions"]]

    assert asyncio.run(after()) == (begun, "committed", [2, 3])


def test_who_watched_goes_on_behind_the_last_that_was_told(call, source, target):
    async def watched(url: str, query: str, count: int) -> list[int]:
        async with service(journal=url) as served:
            if url == source:
                await served.spawn("hero", "mage")
            await served.begin()
            async with served.watch(query) as watch:
                return await watch.decisions(count)

    assert asyncio.run(watched(source, "?after=0", 3)) == [1, 2, 3]
    assert call("migrate", source, target)[0] == 0
    assert asyncio.run(watched(target, "?after=2", 2)) == [3, 4]


def test_progress_is_told_when_it_takes_long(capsys):
    passed = iter([0.0, 1.0, 2.5, 3.0, 5.0])
    tell = migrating._teller(clock=lambda: next(passed))

    tell(Progress("read", 1, 8, 100))
    tell(Progress("read", 2, 8, 1_250))
    tell(Progress("moved", 0, 8, 10))
    tell(Progress("moved", 3, 8, 1_510))

    assert capsys.readouterr().err.splitlines() == [
        "read 2 of 8 scenes, 1,250 entries, 500 a second",
        "moved 3 of 8 scenes, 1,510 entries, 604 a second",
    ]


@pytest.mark.parametrize("which", ["from", "into"])
def test_a_journal_that_is_served_is_not_moved(call, source, target, which):
    played(source)
    serving = open_journal(source if which == "from" else target)

    code, shown, told = call("migrate", source, target)
    asyncio.run(serving.close())

    assert (code, shown) == (2, "")
    assert is_one_line(told)
    assert f"the journal to move {which} cannot be opened" in told


def test_a_target_that_is_not_empty_is_refused_with_what_to_do(call, source, target):
    played(source)
    played(target)

    code, _, told = call("migrate", source, target)

    assert code == 2
    assert is_one_line(told)
    assert "not empty: it holds 2 scenes. Give one that is new" in told


def test_a_damaged_journal_is_refused(call, source, target, tmp_path):
    played(source)
    connection = apsw.Connection(str(tmp_path / "source.db"))
    connection.execute("UPDATE entries SET blob = x'00'")
    connection.close()

    code, _, told = call("migrate", source, target)

    assert code == 2
    assert is_one_line(told)
    assert "`posegate repair` it first" in told


def test_the_same_journal_twice_is_a_wrong_call(call, source):
    played(source)

    code, _, told = call("migrate", source, source)

    assert code == 2
    assert "the same journal" in told


def test_nothing_of_an_address_that_cannot_be_used_is_shown(call, source):
    """It may hold a password."""
    played(source)

    for url in ("nat://user:pass-1f@host/NAME", "sqlite://user:pass-1f@host/x"):
        code, shown, told = call("migrate", source, url)

        assert code == 2
        assert is_one_line(told)
        assert "pass-1f" not in shown + told


def test_what_is_half_there_is_not_served_and_the_same_move_finishes_it(call, served, monkeypatch, source, target):
    played(source)

    async def begun() -> None:
        moving_from, into = await open_moving(source, read_only=True), await open_moving(target, read_only=False)
        await into.adopt_secret(moving_from.secret)
        await mark_unfinished(into)
        [entry, *_] = await moving_from.read("match-7", after=0, limit=1)
        await into.append("match-7", after=0, first=entry.first, last=entry.last, blob=entry.blob)
        await moving_from.close()
        await into.close()

    asyncio.run(begun())
    code, _, told = call("serve", "--port", "0", "--journal", target)
    assert code == 1
    assert is_one_line(told)
    assert "Wait until `posegate migrate` is done" in told

    assert call("migrate", source, target)[0] == 0

    assert call("serve", "--port", "0", "--journal", target)[0] == 0
    assert call("verify", target)[1].startswith("2 decisions in 1 scene read")


def test_a_move_that_does_not_work_out_says_that_nothing_is_to_be_served_yet(call, monkeypatch, source):
    """The target is full: what is tried again fails again."""
    played(source)

    class Full(MemoryJournal):
        async def append(self, scene, *, after, first, last, blob):
            raise JournalUnavailable("nothing was written: the disk is full")

    async def opened(url, *, read_only):
        return await open_moving(url, read_only=read_only) if read_only else Full()

    monkeypatch.setattr(migrating, "open_moving", opened)
    monkeypatch.setattr(migrating, "PAUSES_S", ())

    code, shown, told = call("migrate", source, "sqlite:elsewhere")

    assert (code, shown) == (1, "")
    assert is_one_line(told)
    assert "the disk is full. The journal to move into is not to be served yet" in told


def test_a_killed_move_leaves_the_source_as_it_was_and_is_finished_by_the_next(call, source, target, tmp_path):
    """Killed at whatever moment: the next move finishes it, and every decision is there."""
    played(source, scenes=tuple(f"match-{number}" for number in range(60)))
    database = tmp_path / "source.db"
    before = database.read_bytes()

    child = subprocess.Popen([sys.executable, "-m", "app.cli", "migrate", source, target])
    marks = tmp_path / "target.db.mark"
    while child.poll() is None and not (marks.exists() and marks.stat().st_size > SLOT_BYTES):
        time.sleep(0.001)
    child.send_signal(signal.SIGKILL)
    child.wait()

    assert database.read_bytes() == before
    if child.returncode:
        assert call("migrate", source, target)[0] == 0

    assert asyncio.run(held(target)) == asyncio.run(held(source))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServers]:
    """One NATS server."""
    with nats_servers(1, tmp_path_factory.mktemp("nats")) as started:
        yield started


@pytest.fixture
def remote(servers: NatsServers) -> str:
    """A journal on it that is not there yet."""
    return servers.url(fresh_name())


async def difficult(url: str) -> None:
    """Write a journal with tails, trimmed history, a scene that was deleted, and secrets that a repair made."""
    moving = await open_moving(url, read_only=False)
    registry, chances = Registry(moving, SETTINGS, clock=Clock()), random.Random(7)
    for scene in (*SCENES, "gone"):
        for turns in (4, 40):
            await play(registry, scene, chances, turns)
    await registry.submit("gone", [Addressed(None, CloseScene())])
    await registry.close()
    moving = await open_moving(url, read_only=False)
    checkpoint = await moving.load(SCENES[0])
    assert checkpoint is not None
    first = decode_checkpoint(checkpoint.header).state.sequence + 1
    secrets = (SealSecret(first, b"s" * 32, encode_granted(Granted())),)
    await moving.place(SCENES[0], checkpoint._replace(secrets=secrets), listed=True)
    await moving.close()


async def held(url: str) -> dict[str, tuple[object, ...]]:
    """Give everything that a journal says of its scenes, but for positions."""
    journal = await open_moving(url, read_only=True)
    listed = await journal.scenes(after="", limit=100)
    says: dict[str, tuple[object, ...]] = {}
    for scene in await journal.everything():
        checkpoint = await journal.load(scene)
        entries = [entry[1:] for entry in await journal.read(scene, after=START, limit=10_000)]
        says[scene] = (scene in listed, entries, checkpoint and checkpoint[1:])
    says.pop(MARK, None)
    says["its secret"] = (journal.secret,)
    await journal.close()
    return says


def test_a_move_to_jetstream_and_back_brings_everything(call, source, remote, tmp_path):
    asyncio.run(difficult(source))
    before = asyncio.run(held(source))
    back = f"sqlite:{tmp_path}/back.db"

    there = call("migrate", source, remote)
    verified = call("verify", remote)
    again = call("migrate", remote, back)

    assert [there[0], verified[0], again[0]] == [0, 0, 0], (there, verified, again)
    assert "restart every node" in there[1]
    assert "restart" not in again[1]
    assert asyncio.run(held(remote)) == before
    assert asyncio.run(held(back)) == before
    assert call("verify", back)[:2] == (0, verified[1])
    assert call("repair", back)[0] == 0


def test_tokens_sessions_keys_and_history_hold_on_jetstream(call, source, remote):
    async def before() -> tuple[dict[str, object], str]:
        async with keyed(journal=source) as asked:
            await asked.spawn(MATCH, "match-7", "hero")
            begun = await posted(asked, MATCH, "begin", RUN, Idempotency_Key="first-begin")
            return begun, await asked.session(MATCH, "match-7", {"hero": 1})

    begun, session = asyncio.run(before())
    assert call("migrate", source, remote)[0] == 0

    async def after() -> tuple[object, ...]:
        async with keyed(journal=remote) as asked:
            again = await posted(asked, MATCH, "begin", RUN, Idempotency_Key="first-begin")
            completed = await posted(asked, session, "complete", {"token": begun["token"]})
            history = (await asked.ask(MATCH, "GET", f"{SCENE}/history?after=1")).json()
            return again, completed["outcome"], [each["sequence"] for each in history["decisions"]]

    assert asyncio.run(after()) == (begun, "committed", [2, 3])


def test_a_scene_that_was_deleted_goes_on_above_its_floors_on_jetstream(call, source, remote):
    played(source)
    assert call("migrate", source, remote)[0] == 0

    async def after() -> tuple[object, ...]:
        async with keyed(journal=remote) as asked:
            await asked.spawn(MATCH, "match-gone", "hero")
            path = "/v1/scenes/match-gone/characters/hero/begin"
            begun = (await asked.ask(MATCH, "POST", path, RUN)).json()
            return begun["sequence"], begun["token"]["epoch"]

    assert asyncio.run(after()) == (5, 2)


def test_what_is_half_on_jetstream_is_not_served_and_the_same_move_finishes_it(call, served, source, remote):
    asyncio.run(difficult(source))

    async def begun() -> None:
        into = await open_moving(remote, read_only=False)
        moving_from = await open_moving(source, read_only=True)
        await into.adopt_secret(moving_from.secret)
        await mark_unfinished(into)
        [entry] = await moving_from.read("scene-1", after=START, limit=1)
        await into.append("scene-1", after=START, first=entry.first, last=entry.last, blob=entry.blob)
        await moving_from.close()
        await into.close()

    asyncio.run(begun())
    for command in (("serve", "--port", "0", "--journal", remote), ("verify", remote)):
        code, _, told = call(*command)
        assert code
        assert "not all of it is there" in told
        assert PASSWORD not in told

    assert call("migrate", source, remote)[0] == 0

    assert asyncio.run(held(remote)) == asyncio.run(held(source))
    assert call("serve", "--port", "0", "--journal", remote)[0] == 0


def test_an_entry_that_jetstream_does_not_take_is_named_before_anything_is_written(call, source, remote):
    async def vast() -> None:
        journal = await open_moving(source, read_only=False)
        await journal.append("vast", after=START, first=1, last=9, blob=b"x" * MAX_PAYLOAD_BYTES)
        await journal.close()

    played(source)
    asyncio.run(vast())

    code, _, told = call("migrate", source, remote)

    assert code == 2
    assert is_one_line(told)
    assert "scene 'vast' has at sequence 1 an entry of 8,388,608 bytes" in told
    assert set(asyncio.run(held(remote))) == {"its secret"}


def test_servers_that_are_not_there_are_told_without_the_password(call, monkeypatch, source):
    monkeypatch.setattr(jetstream, "CONNECT_S_MAX", 0.2)
    played(source)
    with socket.socket() as held:
        # Bound and not listened on: nobody is there, and nobody else comes.
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]

        code, _, told = call("migrate", source, f"nats://posegate:{PASSWORD}@127.0.0.1:{port}/x")

    assert code == 2
    # What the log says of the same stands before it, where a log is set up.
    said = [line for line in told.splitlines() if line.startswith("posegate: ")]
    assert len(said) == 1
    assert f"127.0.0.1:{port}" in said[0]
    assert PASSWORD not in told
