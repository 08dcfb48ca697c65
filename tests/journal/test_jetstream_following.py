import asyncio

import pytest

from app.journal import nats_wire
from app.journal.jetstream import JetstreamJournal
from app.journal.nats_wire import NoAnswer, header_block
from app.journal.port import START
from tests.support.jetstreams import asking, behind, blobs, nodes, through, written
from tests.support.nats_servers import NatsServers, fresh_name
from tests.support.tcp_proxy import tcp_proxy


class Told:
    """How often somebody was told, and a wait for the next time."""

    def __init__(self) -> None:
        self.times = 0
        self._next = asyncio.Event()

    def __call__(self) -> None:
        self.times += 1
        self._next.set()

    async def again(self) -> None:
        """Wait until told once more since the last wait."""
        async with asyncio.timeout(10):
            await self._next.wait()
        self._next.clear()


async def settled(journal: JetstreamJournal) -> None:
    """Have everything heard that was sent to a journal before: an answer comes behind it on the same connection."""
    await journal.load("nowhere")


async def test_a_follower_is_told_of_what_another_node_appends(servers: NatsServers):
    async with nodes(servers.url(fresh_name())) as (one, two):
        told, elsewhere = Told(), Told()
        two.follow("room", told)
        two.follow("other", elsewhere)
        await settled(two)

        positions = await written(one, "room", 3)
        await told.again()

        assert await two.read("room", after=START, limit=9)
        assert elsewhere.times == 0
        assert positions


async def test_a_follower_is_not_told_of_its_own_nodes_entries(servers: NatsServers):
    async with nodes(servers.url(fresh_name())) as (one, two):
        told, others = Told(), Told()
        one.follow("room", told)
        two.follow("room", others)
        await settled(two)

        *_, last = await written(one, "room", 20)
        await settled(one)
        assert told.times == 0
        await others.again()
        await written(two, "room", 1, after=last, first=201)
        await told.again()

        assert told.times == 1


async def test_a_hint_never_comes_before_its_entry_is_stored(servers: NatsServers):
    """With three servers that is after a majority has it: the leader then gives it, whoever asks."""
    name = fresh_name()
    async with nodes(servers.url(name)) as (one, two), asking(servers, name) as (jetstream, streams):
        seen: asyncio.Queue[int] = asyncio.Queue()
        two._wire.listen(streams.hint("room"), lambda hint: seen.put_nowait(int(hint.header(b"Nats-Sequence") or b"0")))
        await settled(two)

        async def look() -> None:
            for _ in range(50):
                position = await seen.get()
                newest = await jetstream.last(streams.entries, streams.entry("room"))
                assert newest is not None
                assert newest.sequence >= position

        await asyncio.gather(look(), written(one, "room", 50))


async def test_a_refused_append_is_no_hint(servers: NatsServers):
    async with nodes(servers.url(fresh_name())) as (one, two):
        told = Told()
        two.follow("room", told)
        await settled(two)

        await asyncio.gather(one.append("room", after=99, first=1, last=1, blob=b"x"), return_exceptions=True)
        await settled(two)

        assert told.times == 0


async def test_who_stopped_following_is_told_no_more(servers: NatsServers):
    async with nodes(servers.url(fresh_name())) as (one, two):
        told, stays = Told(), Told()
        stop = two.follow("room", told)
        two.follow("room", stays)
        await settled(two)
        stop()
        stop()

        await written(one, "room", 1)
        await stays.again()

        assert told.times == 0


async def test_everybody_is_told_once_when_a_lost_connection_is_back(alone: NatsServers):
    url = alone.url(fresh_name())
    async with nodes(url, 1) as (one,), tcp_proxy(alone[0].address) as proxy:
        journal, wire = await through(proxy, url)
        wire.on_return(journal.returned)
        told, other = Told(), Told()
        journal.follow("room", told)
        journal.follow("other", other)
        await settled(journal)
        proxy.hold_answers()
        await written(one, "room", 1)
        proxy.cut()
        proxy.release()

        await asyncio.gather(told.again(), other.again())
        assert await journal.read("room", after=START, limit=9)
        await written(one, "other", 1)
        await other.again()

        assert (told.times, other.times) == (1, 2)
        await journal.close()


@pytest.mark.parametrize(
    "headers",
    [
        b"",
        header_block(("Nats-Sequence", "999999999")),
        header_block(("Nats-Sequence", "9" * 5_000)),
        header_block(("Nats-Sequence", "-5")),
        b"NATS/1.0\r\nNats-Sequence: 7",
    ],
    ids=["none", "far", "long", "below", "cut off"],
)
async def test_a_hint_is_never_believed(headers: bytes, alone: NatsServers, monkeypatch: pytest.MonkeyPatch):
    """Whoever may write to the subject of hints makes nodes look, and no more."""
    name = fresh_name()
    async with nodes(alone.url(name)) as (one, two), asking(alone, name) as (jetstream, streams):
        told = Told()
        two.follow("room", told)
        await settled(two)
        *_, last = await written(one, "room", 3)
        await told.again()
        assert len(await blobs(two, "room")) == 3

        with monkeypatch.context() as patched:
            patched.setattr(nats_wire, "ANSWER_S_MAX", 0.0)
            with pytest.raises(NoAnswer):
                await jetstream.wire.ask(streams.hint("room"), headers=headers)
        await told.again()

        assert await two.read("room", after=last, limit=9) == []
        [later] = await written(two, "room", 1, after=last, first=31)
        assert [entry.position for entry in await two.read("room", after=last, limit=9)] == [later]
        assert len(await blobs(two, "room")) == 4


async def test_what_a_hint_tells_of_is_looked_for_where_any_copy_has_it(alone: NatsServers):
    url = alone.url(fresh_name())
    async with nodes(url, 1) as (one,), behind(url) as (two, wire):
        told = Told()
        two.follow("room", told)
        [first] = await written(one, "room", 1)
        await told.again()
        assert len(await two.read("room", after=START, limit=9)) == 1
        await written(one, "room", 2, after=first, first=11)
        await told.again()
        await settled(two)
        wire.asked.clear()

        assert len(await two.read("room", after=first, limit=9)) == 2

        assert [subject.split(".")[2] for subject in wire.asked] == ["DIRECT"]
