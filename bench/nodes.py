"""Many nodes: a node on one NATS server and on three, beside the embedded journals and beside publishing alone."""

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import httpx
import nats
from nats.aio.client import Client
from nats.js import JetStreamContext

from bench import load
from bench.batches import batched
from bench.load import HttpReading
from bench.mix import CHARACTERS, SCENE, Batches, spawned
from bench.rounds import TIMES, Findings, Line, Plan, at_least, at_most, interleaved
from bench.servers import CORES, Address, posegate
from bench.singles import BEGINS, CONNECTIONS, ORDER, many, one
from tests.support.nats_servers import PASSWORD, USER, NatsServers, nats_servers

MEMORY, SQLITE, ALONE, THREE = "memory", "SQLite FULL", "JetStream R1", "JetStream R3"
RAW = "publish alone, "

PUBLISHED_BYTES = 400
"""About what the entry of one `begin` weighs."""

STREAMS = "nodes"
SUBJECTS = "bench.*"
SCENES = ["first", "second"]

Measuring = Callable[[], Awaitable[float]]


class Publishing:
    """Publishes entries to subjects of a stream of its own, each with the sequence it expects, as the journal does."""

    def __init__(self, servers: NatsServers) -> None:
        self._servers = servers
        self._client: Client
        self._js: JetStreamContext
        self._last: dict[str, int] = {}
        self._number = 0

    async def open(self) -> None:
        """Connect, and make the stream."""
        hosts = [f"nats://{server.address}" for server in self._servers]
        self._client = await nats.connect(hosts, user=USER, password=PASSWORD)
        self._js = self._client.jetstream(timeout=30)
        await self._js.add_stream(name="bench", subjects=[SUBJECTS], num_replicas=len(self._servers))

    async def close(self) -> None:
        """Disconnect."""
        await self._client.close()

    async def once(self, subject: str) -> None:
        """Publish one entry behind the last of its subject."""
        self._number += 1
        headers = {
            "Nats-Expected-Last-Subject-Sequence": str(self._last.get(subject, 0)),
            "Nats-Msg-Id": f"{os.getpid()}-{self._number}",
        }
        ack = await self._js.publish(subject, b"x" * PUBLISHED_BYTES, headers=headers)
        self._last[subject] = ack.seq

    async def median_ms(self, seconds: float) -> float:
        """Publish one after another; give the median latency in milliseconds."""
        latencies, until = list[float](), time.perf_counter() + seconds
        while (started := time.perf_counter()) < until:
            await self.once("bench.one")
            latencies.append(time.perf_counter() - started)
        return statistics.median(latencies) * 1000

    async def rate(self, seconds: float) -> float:
        """Publish with as many under way as there are connections, on a subject each; give entries a second."""
        until, done = time.perf_counter() + seconds, 0

        async def publish(number: int) -> None:
            nonlocal done
            while time.perf_counter() < until:
                await self.once(f"bench.{number}")
                done += 1

        await asyncio.gather(*(publish(number) for number in range(CONNECTIONS)))
        return done / seconds


def spread(servers: NatsServers) -> None:
    """Let the servers of NATS run on every core: they are no part of the service, nor of the load."""
    for server in servers:
        assert server.pid is not None, f"{server.name} has ended"
        for thread in Path(f"/proc/{server.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), set(CORES))


async def both(addresses: list[Address], scenes: list[str], seconds: float) -> float:
    """Load a scene at each node at the same time, half the connections each; give commands a second in all."""

    async def loaded(address: Address, scene: str) -> float:
        requests = [
            load.request(f"/v1/scenes/{scene}/characters/{who}/begin", b'{"layer":"base","target":"Run"}')
            for who in ORDER
        ]
        measured = await load.run(
            address.host,
            address.port,
            connections=CONNECTIONS // len(scenes),
            following=load.timed(cycle(requests), seconds),
            reading=HttpReading,
        )
        return measured.rate

    loads = zip(islice(cycle(addresses), len(scenes)), scenes, strict=True)
    return sum(await asyncio.gather(*(loaded(address, scene) for address, scene in loads)))


async def _kept(node: Address, servers: NatsServers) -> tuple[int, int]:
    """Give how many decisions the scene of the batches has, and how many bytes the stream of entries."""
    async with httpx.AsyncClient(base_url=f"http://{node.host}:{node.port}") as client:
        decisions: int = (await client.get(f"/v1/scenes/{SCENE}")).json()["sequence"]
    details = servers[0].ask("/jsz?streams=true")["account_details"][0]["stream_detail"]
    [stream] = [each for each in details if each["name"] == f"{STREAMS}-entries"]
    return decisions, stream["state"]["bytes"]


class Sides(NamedTuple):
    """What is measured: a node on each journal, two nodes on one, and publishing alone."""

    nodes: dict[str, Address]
    pair: list[Address]
    raw: dict[str, Publishing]
    one_server: NatsServers


@asynccontextmanager
async def _sides(plan: Plan) -> AsyncIterator[Sides]:
    """Run everything for the block. A second node has a core of its own only where the machine has more than two."""
    with ExitStack() as running:
        enter, directory = running.enter_context, Path(plan.directory)
        one_server, three = enter(nats_servers(1, directory / "r1")), enter(nats_servers(3, directory / "r3"))
        for servers in (one_server, three):
            spread(servers)
        journals = {
            MEMORY: "memory:",
            SQLITE: f"sqlite:{directory}/nodes.db",
            ALONE: one_server.url(STREAMS),
            THREE: three.url(STREAMS),
        }
        nodes = {name: enter(posegate(journal)) for name, journal in journals.items()}
        pair = [nodes[ALONE], enter(posegate(journals[ALONE]))]
        for address in nodes.values():
            await spawned(address, SCENE, range(CHARACTERS))
        for address, scene in zip(pair, SCENES, strict=True):
            await spawned(address, scene, range(CHARACTERS))
        raw = {ALONE: Publishing(one_server), THREE: Publishing(three)}
        for publishing in raw.values():
            await publishing.open()
        yield Sides(nodes, pair, raw, one_server)
        for publishing in raw.values():
            await publishing.close()


async def measured(plan: Plan) -> Findings:
    """Measure one node on each journal, publishing alone, and two nodes."""
    seconds = plan.seconds
    async with _sides(plan) as (nodes, pair, raw, one_server):
        rates: dict[str, Measuring] = {
            name: partial(many, address, BEGINS, HttpReading, seconds) for name, address in nodes.items()
        }
        rates |= {RAW + name: partial(publishing.rate, seconds) for name, publishing in raw.items()}
        found = await interleaved(plan, f"{CONNECTIONS} connections", rates)
        before = await _kept(nodes[ALONE], one_server)
        batches: dict[str, Measuring] = {
            name: partial(batched, address, Batches, seconds) for name, address in nodes.items()
        }
        whole = await interleaved(plan, "batches of 1000", batches)
        after = await _kept(nodes[ALONE], one_server)
        medians: dict[str, Measuring] = {
            name: partial(one, address, BEGINS, HttpReading, seconds) for name, address in nodes.items()
        }
        medians |= {RAW + name: partial(publishing.median_ms, seconds) for name, publishing in raw.items()}
        latencies = await interleaved(plan, "1 connection", medians, " ms")
        loads: dict[str, Measuring] = {
            "one node": partial(both, pair[:1], SCENES, seconds),
            "two nodes": partial(both, pair, SCENES, seconds),
        }
        pairs = await interleaved(plan, "two scenes", loads)
    figures = {f"{CONNECTIONS} connections, {name}, a second": value for name, value in found.items()}
    figures |= {f"batch of 1000, {name}, a second": value for name, value in whole.items()}
    figures["batch of 1000, bytes a command in the stream"] = (after[1] - before[1]) / (after[0] - before[0])
    figures |= {f"1 connection, {name}, median ms": value for name, value in latencies.items()}
    figures |= {f"two scenes, {name}, a second": value for name, value in pairs.items()}
    return Findings(_lines(found, whole, latencies, pairs), figures)


def _lines(
    found: dict[str, float], whole: dict[str, float], latencies: dict[str, float], pairs: dict[str, float]
) -> list[Line]:
    what = f"single command, {CONNECTIONS} connections, "
    return [
        at_least("nodes-r1", what + ALONE, found, ALONE, MEMORY, 0.45),
        at_least("nodes-r3", what + THREE, found, THREE, MEMORY, 0.25),
        at_least("nodes-batch-r1", f"batch of 1000, {ALONE}", whole, ALONE, SQLITE, 0.5),
        at_least("nodes-batch-r3", f"batch of 1000, {THREE}", whole, THREE, SQLITE, 0.5),
        *(_of_latency(name, latencies) for name in (ALONE, THREE)),
        at_least("nodes-two", "two scenes, two nodes", pairs, "two nodes", "one node", 1.6),
    ]


def _of_latency(name: str, latencies: dict[str, float]) -> Line:
    """Compare the median of a whole command with that of one publish."""
    ours, its = latencies[name], latencies[RAW + name]
    key = "nodes-latency-" + name[-2:].lower()
    what = f"single command, 1 connection, {name}, median"
    return at_most(key, what, f"{ours:.3f} ms", f"{RAW}{name}: {its:.3f} ms", ours / its, 2, f"≤ 2 {TIMES}")
