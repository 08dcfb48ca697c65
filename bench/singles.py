"""Single commands, `begin` over 100 characters: on 64 connections, and on one, where the latency counts."""

import asyncio
import csv
import io
import socket
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from itertools import cycle

from bench import load
from bench.load import HttpReading, Reading
from bench.mix import CHARACTERS, SCENE, spawned
from bench.redis_rules import SHA, RespReading, call, resp, scripted
from bench.rounds import TIMES, Findings, Line, Plan, at_most, interleaved
from bench.servers import Address, posegate, redis, served

CONNECTIONS = 64
ORDER = [f"c{number * 37 % CHARACTERS}" for number in range(CHARACTERS)]
"""The characters in an order in which neighbours are far apart."""

BEGINS = [
    load.request(f"/v1/scenes/{SCENE}/characters/{character}/begin", b'{"layer":"base","target":"Run"}')
    for character in ORDER
]
CALLS = [
    resp(*call({"command": "begin", "character": character, "layer": "base", "target": "Run"})) for character in ORDER
]

SQLITE, MEMORY, BARE = "posegate, SQLite FULL", "posegate, memory", "bare handler"
ALWAYS, NONE = "Redis rules only, always", "Redis rules only, no AOF"
TOOL = "redis-benchmark"


def one_answer() -> Reading:
    """Give what reads the answers of one connection to Redis."""
    return RespReading(1)


async def many(address: Address, messages: list[bytes], reading: Callable[[], Reading], seconds: float) -> float:
    """Keep 64 connections busy, one command under way on each; give commands a second."""
    measured = await load.run(
        address.host,
        address.port,
        connections=CONNECTIONS,
        following=load.timed(cycle(messages), seconds),
        reading=reading,
    )
    return measured.rate


async def one(address: Address, messages: list[bytes], reading: Callable[[], Reading], seconds: float) -> float:
    """Send one command after another on one connection that blocks; give the median latency in milliseconds."""
    latencies, following, whole = list[float](), load.timed(cycle(messages), seconds), reading()
    with socket.create_connection((address.host, address.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while (asked := following(0, None)) is not None:
            started = time.perf_counter()
            connection.sendall(asked)
            while whole(connection.recv(65_536)) is None:
                pass
            latencies.append(time.perf_counter() - started)
    return statistics.median(latencies) * 1000


async def by_tool(address: Address, seconds: float) -> float:
    """Let redis-benchmark do the same with Redis, as long as 50,000 commands a second would take; give its rate."""
    program = [TOOL, "-h", address.host, "-p", str(address.port), "-c", str(CONNECTIONS)]
    wanted = ["-n", str(int(50_000 * seconds)), "-r", str(CHARACTERS), "--csv"]
    asked = ["EVALSHA", SHA[False, "begin"], "1", "c__rand_int__", "base", "Run"]
    tool = await asyncio.create_subprocess_exec(*program, *wanted, *asked, stdout=subprocess.PIPE)
    said = (await tool.communicate())[0].decode()
    *_, last = csv.reader(io.StringIO(said))
    return float(last[1])


async def measured(plan: Plan) -> Findings:
    """Measure single commands on every side."""
    with ExitStack() as servers:
        enter = servers.enter_context
        sqlite, memory = enter(posegate(f"sqlite:{plan.directory}/singles.db")), enter(posegate("memory:"))
        always, none = enter(redis(plan.directory, always=True)), enter(redis(plan.directory, always=False))
        bare = enter(served("bench.peer"))
        for address in (sqlite, memory):
            await spawned(address, SCENE, range(CHARACTERS))
        for address in (always, none):
            await scripted(address)
        sides = (
            (SQLITE, sqlite, BEGINS, HttpReading),
            (MEMORY, memory, BEGINS, HttpReading),
            (BARE, bare, BEGINS, HttpReading),
            (ALWAYS, always, CALLS, one_answer),
            (NONE, none, CALLS, one_answer),
        )
        rates: dict[str, Callable[[], Awaitable[float]]] = {
            name: partial(many, address, messages, reading, plan.seconds) for name, address, messages, reading in sides
        }
        rates |= {
            f"{name}, {TOOL}": partial(by_tool, at, plan.seconds) for name, at in ((ALWAYS, always), (NONE, none))
        }
        found = await interleaved(plan, f"{CONNECTIONS} connections", rates)
        latencies = await interleaved(
            plan,
            "1 connection",
            {name: partial(one, at, messages, reading, plan.seconds / 2) for name, at, messages, reading in sides},
            " ms",
        )
    figures = {f"{CONNECTIONS} connections, {name}, a second": value for name, value in found.items()}
    figures |= {f"1 connection, {name}, median ms": value for name, value in latencies.items()}
    return Findings([*_of_rates(found), _of_latency(latencies)], figures)


def _of_rates(found: dict[str, float]) -> list[Line]:
    """Judge by the faster of two clients of Redis, so that a slow one does not flatter."""
    always = max((ALWAYS, f"{ALWAYS}, {TOOL}"), key=found.__getitem__)
    what = f"single command, {CONNECTIONS} connections, "
    compared = (
        ("single-bare", "SQLite FULL", SQLITE, BARE, 6.0),
        ("single-redis", "SQLite FULL", SQLITE, always, 1.0),
        ("single-memory-bare", "memory journal", MEMORY, BARE, 8.0),
        ("single-memory-redis", "memory journal", MEMORY, f"{NONE}, {TOOL}", 0.5),
    )
    return [
        Line(
            key,
            what + journal,
            f"{found[ours]:,.0f}/s",
            f"{beside}: {found[beside]:,.0f}/s",
            found[ours] / found[beside],
            target,
            f"{target:g} {TIMES}",
        )
        for key, journal, ours, beside, target in compared
    ]


def _of_latency(latencies: dict[str, float]) -> Line:
    ours, its = latencies[SQLITE], latencies[ALWAYS]
    what = "single command, 1 connection, SQLite FULL, median"
    return at_most(
        "single-latency", what, f"{ours:.3f} ms", f"{ALWAYS}: {its:.3f} ms", ours / its, 1.1, f"≤ 1.1 {TIMES}"
    )
