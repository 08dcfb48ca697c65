"""Clients that open, half send, flood or read nothing: ended or refused in time, in bounded memory, and others go on.

`POSEGATE_FAULT_ROUNDS` makes it larger: 500 is 5,000 connections and bodies of 1 GB.
"""

import asyncio
import os
import random
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import NamedTuple

import pytest

from tests.faults.healthy import SCENE, Healthy, healthy
from tests.support.process import Process, process
from tests.support.wire import Wire, chunk, request, until, wire

ROUNDS = int(os.environ.get("POSEGATE_FAULT_ROUNDS", "0"))
EACH = max(200, 10 * ROUNDS // 3)
BODY_BYTES = max(100, 2 * ROUNDS) * 1024 * 1024
DEADLINE_S = 2.0
SLACK_S = 10.0
MIB = 1024 * 1024
PATH = f"{SCENE}/characters/hero-0/begin"
CHUNKED = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"


class Half(NamedTuple):
    """One way to misbehave: what is sent, and which problem ends it (None: nothing is said)."""

    sent: bytes
    problem: str | None


HALVES = (
    Half(b"", None),
    Half(b"POST / HTTP/1.1\r\nHost: a\r\nX: ", "request-timeout"),
    Half(f"POST {PATH} HTTP/1.1\r\nHost: a\r\n{CHUNKED}\r\n9\r\n{{".encode(), "request-timeout"),
)


def tell(name: str, served: Process, before: int, callers: Healthy, since: int) -> None:
    """Print the figures, of healthy callers before and with it: nothing depends on them."""
    grown = (served.resident_bytes - before) / MIB
    before_and_with = (slice(0, since), slice(since, None))
    shown = ", ".join(
        f"{label} {' and '.join(f'{callers.percentile_ms(share, asked):.1f}' for asked in before_and_with)} ms"
        for label, share in (("p50", 0.5), ("p99", 0.99), ("most", 1.0))
    )
    print(f"{name}: memory {before / MIB:.0f} MiB + {grown:.0f} MiB; {shown}")


async def ended(client: Wire, half: Half, *, began: float) -> float:
    """Wait for the end of a connection that `began` to be made then, check what was said, and give how long it lasted.

    Both are seconds of the loop. This may run late itself, when the loop has much to do.
    """
    if half.problem is not None:
        answer = await client.answer()
        assert (answer.problem, answer.is_last) == (half.problem, True)
    assert await client.rest() == b""
    return asyncio.get_running_loop().time() - began


async def let_go(served: Process, files: int) -> None:
    """Wait until the service has no more files open than before, though no client has closed."""
    await until(lambda: served.files_open <= files)


async def test_idle_and_half_sent_connections_are_ended_in_time_while_others_are_served():
    milliseconds = str(int(1000 * DEADLINE_S))
    limits = {"first_byte_ms_max": milliseconds, "head_ms_max": milliseconds, "body_ms_max": milliseconds}
    with process("memory:", **limits) as served:
        async with healthy(served) as callers, AsyncExitStack() as stack:
            await callers.ask(100)
            files, memory, since = served.files_open, served.resident_bytes, len(callers.times)
            ending: list[asyncio.Task[float]] = []
            async with callers.going_on(), asyncio.TaskGroup() as group:
                for half in HALVES * EACH:
                    began = asyncio.get_running_loop().time()
                    client = await stack.enter_async_context(wire(served.port))
                    client.send(half.sent)
                    ending.append(group.create_task(ended(client, half, began=began), name="ending"))
            took = [task.result() for task in ending]
            tell(f"{len(took)} connections", served, memory, callers, since)

            assert min(took) > DEADLINE_S - 0.5
            assert max(took) < DEADLINE_S + SLACK_S
            await let_go(served, files)
            assert served.resident_bytes - memory < 64 * MIB + len(took) * 32 * 1024


async def test_more_connections_than_there_may_be_are_refused_while_those_that_are_there_are_served():
    with process("memory:", connections_open_max="50", first_byte_ms_max="60000") as served:
        async with healthy(served) as callers, AsyncExitStack() as stack:
            files = served.files_open
            opened = [await stack.enter_async_context(wire(served.port)) for _ in range(EACH)]
            async with callers.going_on():
                refused = await asyncio.gather(*(client.answer() for client in opened[50:]))

            assert {(answer.status, answer.problem) for answer in refused} == {(503, "too-many-connections")}
            assert served.files_open <= files + 50


@pytest.fixture(scope="module", name="served")
def flooded_service() -> Iterator[Process]:
    """One service for all floods: what one leaves behind, the next would find."""
    with process("memory:", linger_ms_max="500") as served:
        yield served


async def flooded(served: Process, head: bytes, part: bytes) -> tuple[int, str]:
    """Send a head, then parts until the service has had enough; give how many bytes went and which problem came."""
    async with wire(served.port) as client:
        client.send(head)
        sent = 0
        while sent < BODY_BYTES and await client.send_all(part):
            sent += len(part)
        answer = await client.answer()
        assert answer.is_last
        return sent, answer.problem


@pytest.mark.parametrize(
    ("head", "part", "problem"),
    [
        (request("POST", PATH, headers=CHUNKED), chunk(b" " * 65_536), "too-large"),
        (request("POST", PATH, headers=f"Content-Length: {BODY_BYTES}\r\n"), b" " * 65_536, "too-large"),
        (b"GET / HTTP/1.1\r\nX: ", b"y" * 65_536, "head-too-large"),
        (b"GET /", b"y" * 65_536, "target-too-long"),
        (request("POST", PATH, headers=CHUNKED) + b"1;x=", b"y" * 65_536, "head-too-large"),
        (request("POST", PATH, headers=CHUNKED) + b"0\r\nX: ", b"y" * 65_536, "head-too-large"),
        (b"", b"\x00" * 65_536, "malformed-http"),
    ],
    ids=["chunks", "length", "field", "target", "extension", "trailer", "noise"],
)
async def test_what_never_ends_is_refused_early_in_bounded_memory_while_others_are_served(
    served: Process, head: bytes, part: bytes, problem: str
):
    async with healthy(served) as callers:
        await callers.ask(100)
        memory, since = served.resident_bytes, len(callers.times)
        async with callers.going_on():
            ends = await asyncio.gather(*(flooded(served, head, part) for _ in range(8)))
        tell(f"{problem}, {BODY_BYTES // MIB} MiB", served, memory, callers, since)

        assert {said for _, said in ends} == {problem}
        assert all(sent < BODY_BYTES // 2 for sent, _ in ends)
        assert served.resident_bytes - memory < 96 * MIB


async def test_a_body_that_a_route_does_not_want_is_not_taken_for_ever(served: Process):
    async with wire(served.port) as client:
        client.ask("GET", "/livez", headers=CHUNKED)
        assert (await client.answer()).body == {"alive": True}
        sent = 0
        while await client.send_all(chunk(b" " * 65_536)):
            sent += 65_536
            assert sent < BODY_BYTES // 2


@pytest.fixture(scope="module", name="lenient")
def service_with_a_bound_that_lets_them_in() -> Iterator[Process]:
    """One service whose decoder, not its connections, has to refuse what is too much."""
    with process("memory:", body_bytes_max=str(32 * MIB)) as served:
        yield served


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b'{"layer": ' * 100_000 + b"1" + b"}" * 100_000,
        b'{"layer": "base", "target": "Run", "data": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"{" + b", ".join(b'"k%d": 0' % number for number in range(1_000_000)) + b"}",
        b'{"layer": "base", "target": "Run", "data": {'
        + b", ".join(b'"k%d": 0' % number for number in range(1_000_000))
        + b"}}",
    ],
    ids=["levels", "levels of objects", "levels of data", "keys", "keys of data"],
)
async def test_a_body_of_many_levels_or_keys_is_a_problem_while_others_are_served(lenient: Process, body: bytes):
    async with healthy(lenient) as callers, wire(lenient.port) as client:
        memory, since = lenient.resident_bytes, len(callers.times)
        async with callers.going_on():
            assert await client.send_all(request("POST", PATH, body))
            answer = await client.answer()
        tell(f"{len(body)} bytes of levels or keys", lenient, memory, callers, since)

        assert 400 <= answer.status < 500, answer
        assert answer.problem in ("malformed-json", "too-large", "invalid"), answer
        assert lenient.resident_bytes - memory < 512 * MIB


async def test_clients_that_read_nothing_are_reset_in_time_in_bounded_memory_while_others_are_served():
    limits = {"write_ms_max": "1000", "unread_bytes_max": str(64 * MIB), "pipelined_requests_max": "100"}
    with process("memory:", **limits) as served:
        async with healthy(served) as callers, AsyncExitStack() as stack:
            await callers.ask(100)
            files, memory, since = served.files_open, served.resident_bytes, len(callers.times)
            for _ in range(20):
                client = await stack.enter_async_context(wire(served.port, receive_bytes=4096))
                client.send(request("GET", "/openapi.json") * 30)
            async with callers.going_on():
                await let_go(served, files)
            tell("20 clients that read nothing", served, memory, callers, since)

            assert served.resident_bytes - memory < 256 * MIB


async def test_requests_with_bytes_changed_are_answered_with_a_problem_or_as_asked_and_never_with_a_500():
    seed = int(os.environ.get("POSEGATE_FAULT_SEED", "20261130"))
    print(f"seed {seed}")
    chance = random.Random(seed)
    soon = {f"{name}_ms_max": "300" for name in ("idle", "head", "body")}

    async def answered(served: Process, data: bytes) -> None:
        async with wire(served.port) as client:
            client.send(data)
            said = await client.rest()
        statuses = [int(part[:3]) for part in said.split(b"HTTP/1.1 ")[1:]]
        assert statuses, (seed, data)
        assert all(status == 200 or 400 <= status < 500 for status in statuses), (seed, data, said)
        assert said.count(b"application/problem+json") == sum(status != 200 for status in statuses), (seed, data, said)

    with process("memory:", **soon) as served:
        async with wire(served.port) as client:
            client.ask("PUT", PATH.removesuffix("/begin"), b"{}")
            assert (await client.answer()).status == 201
        for _ in range(max(10, ROUNDS // 10)):
            changed = [bytearray(request("POST", PATH, b'{"layer": "base", "target": "Run"}')) for _ in range(40)]
            for data in changed:
                for _ in range(chance.randint(1, 20)):
                    data[chance.randrange(len(data))] = chance.randrange(256)
            await asyncio.gather(*(answered(served, bytes(data)) for data in changed))
