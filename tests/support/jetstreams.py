"""Journals on JetStream as nodes open them: several on the same streams, each over a wire of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from app.journal.jetstream import JetstreamJournal, connect
from app.journal.jetstream_api import Jetstream
from app.journal.jetstream_streams import Streams
from app.journal.nats_address import Server, parse_address
from app.journal.nats_wire import NatsWire
from app.journal.port import START, Journal
from tests.support.nats_servers import NatsServers, fresh_name
from tests.support.tcp_proxy import TcpProxy
from tests.support.wires import BehindWire


@asynccontextmanager
async def nodes(url: str, count: int = 2) -> AsyncIterator[list[JetstreamJournal]]:
    """Open a journal `count` times, and delete it at the end."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(deleted, url)
        opened = []
        for _ in range(count):
            opened.append(await connect(url))
            stack.push_async_callback(opened[-1].close)
        yield opened


async def deleted(url: str) -> None:
    """Delete a journal's streams: each is a Raft group of its own, and hundreds of them slow a small machine down."""
    address = parse_address(url)
    streams, wire = Streams(address.name), NatsWire(address)
    await wire.connect()
    await asyncio.gather(
        *(wire.ask(f"$JS.API.STREAM.DELETE.{each}") for each in (streams.entries, streams.pieces, streams.heads))
    )
    await wire.close()


@asynccontextmanager
async def behind(url: str) -> AsyncIterator[tuple[JetstreamJournal, BehindWire]]:
    """Open a journal that exists already, over a wire whose copies may be behind."""
    address = parse_address(url)
    wire = NatsWire(address)
    await wire.connect()
    lagging = BehindWire(wire)
    journal = JetstreamJournal(lagging, Streams(address.name), b"s" * 32)
    yield journal, lagging
    await journal.close()


@asynccontextmanager
async def asking(servers: NatsServers, name: str = "") -> AsyncIterator[tuple[Jetstream, Streams]]:
    """Ask JetStream itself about a journal's streams."""
    wire = NatsWire(parse_address(servers.url(name or fresh_name())))
    await wire.connect()
    yield Jetstream(wire), Streams(name)
    await wire.close()


async def through(proxy: TcpProxy, url: str) -> tuple[JetstreamJournal, NatsWire]:
    """Open a journal that exists already, through a proxy."""
    host, _, port = proxy.address.rpartition(":")
    address = parse_address(url)
    wire = NatsWire(address._replace(servers=(Server(host, int(port)),)))
    await wire.connect()
    return JetstreamJournal(wire, Streams(address.name), b"s" * 32), wire


async def written(journal: Journal, scene: str, count: int, *, after: int = START, first: int = 1) -> list[int]:
    """Append `count` entries of ten decisions each; give their positions."""
    positions = []
    for number in range(count):
        begins = first + 10 * number
        blob = f"{begins}".encode()
        after = await journal.append(scene, after=after, first=begins, last=begins + 9, blob=blob)
        positions.append(after)
    return positions


async def saved(
    journal: Journal,
    scene: str,
    position: int,
    *,
    header: bytes = b"head",
    listed: bool = True,
    **changed: bytes | None,
) -> None:
    """Store a checkpoint."""
    await journal.checkpoint(scene, position=position, header=header, changed=changed, listed=listed)


async def blobs(journal: Journal, scene: str, after: int = START) -> list[bytes]:
    """Read everything behind a position, to the end."""
    found = []
    while entries := await journal.read(scene, after=after, limit=100):
        found += [entry.blob for entry in entries]
        after = entries[-1].position
    return found
