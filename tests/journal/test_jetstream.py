import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog

from app.journal import connect_journal, jetstream, jetstream_api, nats_connection, nats_wire, open_journal
from app.journal.jetstream import JetstreamJournal, connect
from app.journal.port import START, Checkpoint, CommitUnknown, JournalUnavailable, NotTheWriter
from tests.support.jetstreams import asking, blobs, nodes, saved, through, written
from tests.support.nats_servers import MAX_PAYLOAD_BYTES, PASSWORD, NatsServer, NatsServers, fresh_name, nats_servers
from tests.support.tcp_proxy import TcpProxy, tcp_proxy


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServers]:
    """Three servers that are killed and held still here, so that nobody else's test meets an election."""
    with nats_servers(3, tmp_path_factory.mktemp("nats-trio")) as servers:
        yield servers


@asynccontextmanager
async def proxied(servers: NatsServers) -> AsyncIterator[tuple[JetstreamJournal, JetstreamJournal, TcpProxy]]:
    """Open one journal straight and once more through a proxy."""
    url = servers.url(fresh_name())
    async with nodes(url, 1) as (straight,), tcp_proxy(servers[0].address) as proxy:
        journal, wire = await through(proxy, url)
        wire.on_return(journal.returned)
        yield straight, journal, proxy
        await journal.close()


async def test_an_append_whose_answer_is_lost_is_unknown_and_reading_finds_it(
    alone: NatsServers, monkeypatch: pytest.MonkeyPatch
):
    async with proxied(alone) as (straight, journal, proxy):
        [first] = await written(journal, "room", 1)
        proxy.hold_answers()
        with monkeypatch.context() as patched:
            patched.setattr(nats_wire, "ANSWER_S_MAX", 0.2)
            with pytest.raises(CommitUnknown, match="no answer"):
                await journal.append("room", after=first, first=11, last=11, blob=b"there")
        proxy.release()

        assert await blobs(journal, "room", first) == await blobs(straight, "room", first) == [b"there"]
        with pytest.raises(NotTheWriter):
            await journal.append("room", after=first, first=11, last=11, blob=b"again")


async def test_an_append_that_never_arrived_is_unknown_and_reading_does_not_find_it(
    alone: NatsServers, monkeypatch: pytest.MonkeyPatch
):
    async with proxied(alone) as (straight, journal, proxy):
        [first] = await written(journal, "room", 1)
        proxy.hold_questions()
        with monkeypatch.context() as patched:
            patched.setattr(nats_wire, "ANSWER_S_MAX", 0.2)
            with pytest.raises(CommitUnknown):
                await journal.append("room", after=first, first=11, last=11, blob=b"late")

        assert await straight.read("room", after=first, limit=9) == []
        proxy.cut()
        proxy.release()
        assert await straight.append("room", after=first, first=11, last=11, blob=b"mine") > first
        assert await blobs(straight, "room", first) == [b"mine"]


async def test_an_append_that_arrives_late_counts_or_is_refused_but_never_both(
    alone: NatsServers, monkeypatch: pytest.MonkeyPatch
):
    """What a slow network still carries when its sender gave up lands behind the same entry, or nowhere."""
    async with proxied(alone) as (straight, journal, proxy):
        [first] = await written(journal, "room", 1)
        proxy.hold_questions()
        with monkeypatch.context() as patched:
            patched.setattr(nats_wire, "ANSWER_S_MAX", 0.2)
            with pytest.raises(CommitUnknown):
                await journal.append("room", after=first, first=11, last=11, blob=b"late")
        assert await straight.read("room", after=first, limit=9) == []

        [second] = await written(straight, "room", 1, after=first, first=11)
        proxy.release()
        assert await blobs(journal, "room", first) == [b"11"]
        assert await journal.append("room", after=second, first=21, last=21, blob=b"next") > second


async def test_a_lost_connection_ends_what_is_under_way_and_is_made_again(
    alone: NatsServers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(jetstream_api, "PATIENCE_S", 0.2)
    async with proxied(alone) as (_, journal, proxy):
        [first] = await written(journal, "room", 1)
        proxy.hold_answers()
        under_way = [
            asyncio.ensure_future(journal.append("room", after=first, first=11, last=11, blob=b"?")),
            asyncio.ensure_future(journal.read("room", after=START, limit=9)),
        ]
        await asyncio.sleep(0)
        back = asyncio.Event()
        journal.follow("room", back.set)
        proxy.cut()

        results = await asyncio.gather(*under_way, return_exceptions=True)
        with pytest.raises(JournalUnavailable, match="is connected"):
            await journal.append("room", after=first, first=11, last=11, blob=b"not sent")
        proxy.release()
        await back.wait()

        assert [type(result) for result in results] == [CommitUnknown, JournalUnavailable]
        assert (await blobs(journal, "room"))[:1] == [b"1"]


async def test_a_read_that_a_lost_connection_overtakes_is_asked_again(alone: NatsServers):
    async with proxied(alone) as (_, journal, proxy):
        [first] = await written(journal, "room", 1)
        proxy.hold_answers()
        reading = asyncio.ensure_future(journal.read("room", after=first, limit=9))
        loading = asyncio.ensure_future(journal.load("room"))
        await asyncio.sleep(0)

        proxy.cut()
        proxy.release()

        assert await reading == []
        assert await loading is None


async def test_a_server_that_stands_still_is_given_up_for_another(trio: NatsServers, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nats_connection, "PING_S", 0.2)
    async with nodes(trio.url(fresh_name()), 1) as (journal,):
        [first] = await written(journal, "room", 1)
        wire = journal._wire
        assert isinstance(wire, nats_wire.NatsWire)
        held = connected_to(trio, wire)
        held.pause()
        try:
            outcome = await asyncio.gather(
                journal.append("room", after=first, first=11, last=20, blob=b"?"), return_exceptions=True
            )
            assert isinstance(outcome[0], CommitUnknown | int)
            position = await patiently(lambda: tail_written(journal, first))
        finally:
            held.resume()

        history = await blobs(journal, "room")
        assert history in ([b"1", b"?", b"next"], [b"1", b"next"])
        assert position > first


async def tail_written(journal: JetstreamJournal, after: int) -> int:
    """Read to the end, and append behind it."""
    while entries := await journal.read("room", after=after, limit=100):
        after = entries[-1].position
    return await journal.append("room", after=after, first=21, last=21, blob=b"next")


async def patiently(call: Callable[[], Awaitable[int]]) -> int:
    """Do something until it is done: what was unknown before may still come in between."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await call()
            except (JournalUnavailable, CommitUnknown, NotTheWriter):
                await asyncio.sleep(0.05)


async def test_a_server_that_says_it_will_end_is_left_without_losing_an_answer(trio: NatsServers):
    async with nodes(trio.url(fresh_name()), 1) as (journal,):
        wire = journal._wire
        assert isinstance(wire, nats_wire.NatsWire)
        ending = connected_to(trio, wire)
        said, after = set[str](), START
        ending.end_gently()
        try:
            async with asyncio.timeout(20):
                while not wire.is_connected or connected_to(trio, wire) is ending:
                    try:
                        after = await journal.append("room", after=after, first=after + 1, last=after + 1, blob=b"")
                    except (JournalUnavailable, CommitUnknown) as error:
                        said.add(str(error))
                        await asyncio.sleep(0.02)
        finally:
            ending.kill()
            await asyncio.to_thread(trio.ready)

        assert "the connection was lost" not in said
        assert after > START


def connected_to(servers: NatsServers, wire: nats_wire.NatsWire) -> NatsServer:
    """Give the server that a wire is connected to."""
    assert wire._connection is not None
    assert wire._connection.connected_url is not None
    address = wire._connection.connected_url.netloc
    return next(server for server in servers if server.address == address)


async def test_when_the_leader_is_killed_writing_goes_on_with_another(trio: NatsServers):
    name = fresh_name()
    async with nodes(trio.url(name)) as (one, two):
        [first] = await written(one, "room", 1)
        await saved(one, "room", first, hero=b"1")
        leader = trio.leader(f"{name}-entries")
        leader.kill()
        try:
            position = await patiently(lambda: tail_written(one, first))

            assert position > first
            assert await blobs(two, "room") == [b"1", b"next"]
            assert await patiently_loaded(two) == Checkpoint(first, b"head", {"hero": b"1"})
        finally:
            trio.ready()


async def patiently_loaded(journal: JetstreamJournal) -> Checkpoint | None:
    async with asyncio.timeout(30):
        while True:
            try:
                return await journal.load("room")
            except JournalUnavailable:
                await asyncio.sleep(0.05)


async def test_without_a_majority_nothing_is_told_and_nothing_is_lost(
    trio: NatsServers, monkeypatch: pytest.MonkeyPatch
):
    """A hint comes when a majority has the entry, not when its leader has it."""
    monkeypatch.setattr(nats_wire, "ANSWER_S_MAX", 1.0)
    name = fresh_name()
    async with nodes(trio.url(name), 1) as (one,):
        leader = trio.leader(f"{name}-entries")
        async with asking_at(trio, leader.address, name) as journal:
            [first] = await written(journal, "room", 1)
            told = asyncio.Event()
            journal.follow("room", told.set)
            await journal.load("room")
            others = [server for server in trio if server is not leader]
            for server in others:
                server.pause()
            try:
                with pytest.raises((CommitUnknown, JournalUnavailable)):
                    await journal._entries.append("room", after=first, first=11, last=20, blob=b"?")
                assert not told.is_set()
            finally:
                for server in others:
                    server.resume()
            position = await patiently(lambda: tail_written(journal, first))

            assert await blobs(journal, "room") in ([b"1", b"?", b"next"], [b"1", b"next"])
            assert (await patiently_read(one, first))[-1] == position


@asynccontextmanager
async def asking_at(servers: NatsServers, address: str, name: str) -> AsyncIterator[JetstreamJournal]:
    """Open a journal that exists already over one server."""
    async with tcp_proxy(address) as proxy:
        journal, _ = await through(proxy, servers.url(name))
        yield journal
        await journal.close()


async def patiently_read(journal: JetstreamJournal, after: int) -> list[int]:
    async with asyncio.timeout(30):
        while True:
            try:
                return [entry.position for entry in await journal.read("room", after=after, limit=9)]
            except JournalUnavailable:
                await asyncio.sleep(0.05)


async def test_a_stream_that_is_full_is_unavailable_and_the_scene_is_what_it_was(alone: NatsServers):
    name = fresh_name()
    async with asking(alone, name) as (asked, streams):
        await asked.create(streams.entries, {**streams.configurations(1)[streams.entries], "max_bytes": 20_000})
        async with nodes(alone.url(name), 1) as (journal,):
            [first] = await written(journal, "room", 1)
            with pytest.raises(JournalUnavailable, match="maximum bytes"):
                await journal.append("room", after=first, first=11, last=11, blob=b"x" * 30_000)

            assert await journal.append("room", after=first, first=11, last=11, blob=b"fits") > first


async def test_the_largest_entry_is_taken_and_a_larger_one_is_not_sent(alone: NatsServers):
    async with nodes(alone.url(fresh_name()), 1) as (journal,):
        largest = journal.entry_bytes_max
        position = await journal.append("room", after=START, first=1, last=1, blob=b"x" * largest)
        with pytest.raises(JournalUnavailable, match=f"{largest + 1} bytes is larger than the {largest}"):
            await journal.append("room", after=position, first=2, last=2, blob=b"x" * (largest + 1))

        [entry] = await journal.read("room", after=START, limit=9)
        assert len(entry.blob) == largest
        assert MAX_PAYLOAD_BYTES - 1_024 < largest < MAX_PAYLOAD_BYTES
        assert await journal.append("room", after=position, first=2, last=2, blob=b"") > position


async def test_what_is_opened_to_be_read_writes_nothing(servers: NatsServers):
    url = servers.url(fresh_name())
    async with nodes(url, 1) as (journal,):
        [first] = await written(journal, "room", 1)
        await saved(journal, "room", first)
        reader = await connect(url, read_only=True)

        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: reader.append("room", after=first, first=11, last=11, blob=b""),
            lambda: saved(reader, "room", first),
            lambda: reader.trim("room", before=first),
            lambda: reader.place("room", Checkpoint(first, b"", {}), listed=True),
            lambda: reader.adopt_secret(b"s" * 32),
        ]
        for call in calls:
            with pytest.raises(JournalUnavailable, match="to be read only"):
                await call()

        assert reader.secret == journal.secret
        assert await blobs(reader, "room") == [b"1"]
        assert await reader.load("room") == Checkpoint(first, b"head", {})
        assert await reader.scenes(after="", limit=9) == await reader.everything() == ["room"]
        await reader.close()


async def test_another_secret_is_adopted_by_an_empty_journal_only(alone: NatsServers):
    url = alone.url(fresh_name())
    async with nodes(url) as (one, two):
        await one.adopt_secret(b"s" * 32)
        later = await connect(url)
        assert one.secret == later.secret == b"s" * 32
        await later.close()

        with pytest.raises(ValueError, match="32 bytes"):
            await one.adopt_secret(b"short")
        await written(two, "room", 1)
        with pytest.raises(ValueError, match="holds scenes"):
            await one.adopt_secret(b"t" * 32)
        assert one.secret == b"s" * 32


async def test_every_commit_is_told_with_its_entries_and_its_time(alone: NatsServers):
    told: list[tuple[int, float]] = []
    journal = await connect_journal(
        alone.url(fresh_name()), committed=lambda entries, seconds: told.append((entries, seconds))
    )

    [first] = await written(journal, "room", 1)  # A refused one is no commit.
    with pytest.raises(NotTheWriter):
        await journal.append("room", after=START, first=1, last=1, blob=b"late")
    await saved(journal, "room", first)
    await journal.close()

    assert [entries for entries, _ in told] == [1, 0]
    assert all(seconds > 0 for _, seconds in told)


async def test_a_wrong_password_ends_the_start_and_is_not_shown(alone: NatsServers, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jetstream, "CONNECT_S_MAX", 0.3)
    url = alone.url("x").replace(PASSWORD, "wr0ng")

    with structlog.testing.capture_logs() as lines, pytest.raises(JournalUnavailable) as refused:
        await connect_journal(url)

    assert f"no server of x at {alone[0].address} could be connected to" in str(refused.value)
    assert "Authorization Violation" in str(refused.value)
    assert "wr0ng" not in f"{refused.value!r} {refused.value.__context__!r} {lines}"


async def test_servers_that_are_not_there_are_named_when_the_start_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jetstream, "CONNECT_S_MAX", 0.3)

    with pytest.raises(JournalUnavailable, match=r"arena at 127\.0\.0\.1:1, 127\.0\.0\.1:2 could be connected"):
        await connect_journal(f"nats://me:{PASSWORD}@127.0.0.1:1,127.0.0.1:2/arena")


async def test_a_start_waits_for_a_server_that_comes_later(tmp_path: Path):
    with nats_servers(1, tmp_path) as servers:
        servers[0].kill()
        starting = asyncio.ensure_future(connect(servers.url("x")))
        await asyncio.sleep(0)
        await asyncio.to_thread(servers.ready)

        journal = await starting
        await written(journal, "room", 1)
        await journal.close()


async def test_a_url_that_cannot_be_used_is_refused_without_showing_it(alone: NatsServers):
    url = alone.url("na.me")

    with pytest.raises(ValueError, match="the name after the hosts") as refused:
        await connect_journal(url)
    with pytest.raises(ValueError, match=r"cannot be opened here.*memory:.*sqlite:PATH") as unopened:
        open_journal(alone.url("x"))
    with pytest.raises(ValueError, match="names no journal") as unknown:
        open_journal(alone.url("x").replace("nats:", "natss:"))

    assert PASSWORD not in f"{refused.value} {unopened.value} {unknown.value}"


def signed(directory: Path, name: str) -> None:
    """Make a key and a certificate for this machine, signed by an authority made for the purpose."""

    def run(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    if not (directory / "ca.pem").exists():
        run(*new, "-x509", "-keyout", "ca-key.pem", "-out", "ca.pem", "-days", "2", "-subj", "/CN=tests")
    run(*new, "-keyout", f"{name}-key.pem", "-out", f"{name}.csr", "-subj", f"/CN={name}")
    (directory / "names").write_text("subjectAltName=IP:127.0.0.1", encoding="utf-8")
    run(
        "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial",
        "-out", f"{name}.pem", "-days", "2", "-extfile", "names",
    )  # fmt: skip


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl on this machine to make a certificate")
async def test_tls_is_spoken_with_servers_that_are_trusted_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jetstream, "CONNECT_S_MAX", 1.0)
    signed(tmp_path, "server")
    signed(tmp_path, "client")
    more = "\n".join(
        [
            "tls {",
            f'cert_file: "{tmp_path / "server.pem"}"',
            f'key_file: "{tmp_path / "server-key.pem"}"',
            f'ca_file: "{tmp_path / "ca.pem"}"',
            "verify: true }",
        ]
    )
    ca, cert, key = (str(tmp_path / name) for name in ("ca.pem", "client.pem", "client-key.pem"))
    with nats_servers(1, tmp_path / "data", more=more) as servers:
        journal = await connect(servers.url("x", scheme="tls", ca=ca, cert=cert, key=key))
        await written(journal, "room", 3)
        assert len(await blobs(journal, "room")) == 3
        await journal.close()

        with pytest.raises(JournalUnavailable, match=r"certificate.*; name the CA's file with \?ca=FILE"):
            await connect(servers.url("x", scheme="tls"))
        with pytest.raises(JournalUnavailable):
            await connect(servers.url("x", scheme="tls", ca=ca))
