"""A serving process is told to stop: it takes nothing new, answers what is under way, keeps what it acknowledged."""

import asyncio
import json
import random
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx

from tests.faults.load import CHARACTERS, Load
from tests.faults.test_kill import check_acknowledged, check_state, history_of
from tests.support.process import Process, process
from tests.support.wire import Answer, wire

WAIT_S_MAX = 30.0
HERO = "/v1/scenes/match-7/characters/hero"
RUN = b'{"layer": "base", "target": "Run"}'


class Waiting:
    """A request whose head the service has read and whose body it is waiting for."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def answer(self, body: bytes) -> tuple[int, dict[str, Any]]:
        """Send the body at last; give status and body of the answer."""
        self._writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        content = await self._reader.readexactly(length)
        self._writer.close()
        return int(head.split(b" ")[1]), json.loads(content)


async def waiting(served: Process, path: str) -> Waiting:
    """Start a request; return when the service says that it is ready for the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(
        f"POST {path} HTTP/1.1\r\nHost: posegate\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n".encode()
    )
    async with asyncio.timeout(WAIT_S_MAX):
        head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 100"), head
    return Waiting(reader, writer)


async def test_a_process_that_is_told_to_stop_answers_what_is_under_way_and_ends_with_0(tmp_path: Path):
    journal = f"sqlite:{tmp_path / 'p.db'}"
    body = json.dumps({"layer": "base", "target": "Run"}).encode()

    with process(journal) as served:
        load = Load(served.url, "match-7", random.Random(7))
        started: list[Waiting] = []
        await load.run(lambda answers: load.stop() if answers == 100 else None)
        for number in range(CHARACTERS):
            started.append(await waiting(served, f"/v1/scenes/match-7/characters/hero-{number}/begin"))
        served.terminate()
        answers = [await request.answer(body) for request in started]
        code = await asyncio.to_thread(served.ended)

    assert code == 0
    assert [(status, answer["outcome"]) for status, answer in answers] == [(200, "granted")] * CHARACTERS
    with process(journal) as served:
        async with httpx.AsyncClient(base_url=served.url, timeout=WAIT_S_MAX) as client:
            decisions = await history_of(client, load.scene)
            check_acknowledged(load.sent, decisions)
            await check_state(client, load.scene, decisions)
    assert len(decisions) == CHARACTERS + load.answers + CHARACTERS
    assert [decision["answer"]["token"]["generation"] for decision in decisions[-CHARACTERS:]] == [
        answer["token"]["generation"] for _, answer in answers
    ]


async def test_a_process_that_is_told_to_stop_under_load_ends_with_0_and_keeps_what_it_acknowledged(tmp_path: Path):
    """A client that finds its idle connection closed sends again; what was not answered may be decided or not."""
    journal = f"sqlite:{tmp_path / 'p.db'}"

    with process(journal) as served:
        load = Load(served.url, "match-7", random.Random(8))
        await load.run(lambda answers: served.terminate() if answers == 100 else None)
        code = await asyncio.to_thread(served.ended)

    assert code == 0
    with process(journal) as served:
        async with httpx.AsyncClient(base_url=served.url, timeout=WAIT_S_MAX) as client:
            decisions = await history_of(client, load.scene)
            check_acknowledged(load.sent, decisions)
            await check_state(client, load.scene, decisions)


async def test_a_process_that_is_told_to_stop_is_not_ready_first_and_takes_no_command():
    with process("memory:", drain_ms="3000") as served:
        async with wire(served.port) as kept, wire(served.port) as asking:
            kept.ask("PUT", HERO, b"{}")
            spawned = await kept.answer()
            asking.ask("GET", "/readyz")
            before = await asking.answer()
            served.terminate()
            during = await not_ready(served)
            async with wire(served.port) as late:
                late.ask("GET", "/livez")
                alive = await late.answer()
            kept.ask("POST", f"{HERO}/begin", RUN)
            refused = await kept.answer()
            async with wire(served.port) as late:
                late.ask("GET", HERO)
                read = await late.answer()
        code = await asyncio.to_thread(served.ended)

    assert (spawned.status, before.status, alive.status, read.status) == (201, 200, 200, 200)
    assert during.body["reasons"] == ["draining"]
    assert (refused.status, refused.problem, refused.is_last) == (503, "draining", True)
    assert read.body["layers"]["base"]["generation"] == 0
    assert code == 0


async def not_ready(served: Process) -> Answer:
    """Ask on new connections until the service says that it is not ready."""
    async with asyncio.timeout(WAIT_S_MAX):
        while True:
            async with wire(served.port) as client:
                client.ask("GET", "/readyz")
                answer = await client.answer()
            if answer.status == 503:
                return answer


async def test_what_is_idle_or_half_sent_ends_in_time_and_each_is_told_what_became_of_it():
    with process("memory:", drain_ms="1", shutdown_ms_max="1000") as served:
        async with AsyncExitStack() as stack:
            silent, idle, head, body = [await stack.enter_async_context(wire(served.port)) for _ in range(4)]
            idle.ask("PUT", HERO, b"{}")
            await idle.answer()
            head.send(b"POST / HTTP/1.1\r\nX")
            body.ask("POST", f"{HERO}/begin", headers="Content-Type: application/json\r\nContent-Length: 9\r\n")
            body.send(b"{")
            idle.ask("GET", "/livez")
            await idle.answer()
            served.terminate()
            told = [await head.answer(), await body.answer()]
            rests = [await client.rest() for client in (silent, idle, head, body)]
        code = await asyncio.to_thread(served.ended)

    assert [(answer.status, answer.problem, answer.is_last) for answer in told] == [(503, "draining", True)] * 2
    assert (rests, code) == ([b""] * 4, 0)


async def test_a_process_that_is_told_twice_ends_at_once_and_keeps_what_it_acknowledged(tmp_path: Path):
    journal = f"sqlite:{tmp_path / 'p.db'}"

    with process(journal, drain_ms="60000") as served:
        load = Load(served.url, "match-7", random.Random(9))

        def twice(answers: int) -> None:
            if answers == 100:
                served.terminate()
                asyncio.get_running_loop().call_later(0.5, served.terminate)

        await load.run(twice)
        code = await asyncio.to_thread(served.ended)

    assert code == 1
    with process(journal) as served:
        async with httpx.AsyncClient(base_url=served.url, timeout=WAIT_S_MAX) as client:
            decisions = await history_of(client, load.scene)
            check_acknowledged(load.sent, decisions)
            await check_state(client, load.scene, decisions)


async def test_a_body_in_chunks_is_held_to_the_same_limit(tmp_path: Path):
    """Without a Content-Length the service must count; it answers as soon as the limit is passed."""
    with process("memory:") as served:
        fits = await waiting(served, "/v1/scenes/match-7/batch")
        answer_that_fits = await fits.answer(b'{"commands": []}'.ljust(4 * 1024 * 1024))
        too_large = await waiting(served, "/v1/scenes/match-7/batch")
        status, answer = await too_large.answer(b'{"commands": []}'.ljust(4 * 1024 * 1024 + 1))

    assert answer_that_fits == (200, {"answers": []})
    assert (status, answer["type"], answer["limit"]) == (413, "/problems/too-large", 4 * 1024 * 1024)
