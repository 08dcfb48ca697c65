"""A request of the lane waits, fails and ends with its connection as any other, and leaves nothing behind."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from app.api.connection import Connection
from app.api.lane import LaneRequest
from app.gates.decision import Problem, Undecided
from app.journal.port import CommitUnknown, JournalUnavailable
from app.sequencing.registry import Draining, MailboxFull, MemoryFull, Registry
from app.settings import Settings
from tests.api.test_lane import RUN, post, statuses
from tests.support.process import process
from tests.support.twins import Service, Tape, Twins, plain, twins

ROUTE = "/v1/scenes/{scene}/characters/{character}/begin"
FAILED = [
    *(MailboxFull("full"), MemoryFull("full"), Draining("stopping"), JournalUnavailable("no disk")),
    CommitUnknown("who knows"),
]


@pytest.fixture
def both() -> Iterator[Twins]:
    """Both services, for a test that changes them."""
    with twins(linger_ms_max=1, pipelined_requests_max=4) as served:
        yield served


class Held:
    """Commands that wait for their scene's turn until they are let go."""

    def __init__(self, service: Service) -> None:
        self._send = partial(Registry.send, service.app.state.registry)
        self._waiting: list[tuple[Any, Any]] = []
        service.app.state.registry.send = self._hold

    def _hold(self, *given: Any, **named: Any) -> None:
        self._waiting.append((given, named))

    def let_go(self) -> None:
        """Let those that wait have their turn."""
        waiting, self._waiting = self._waiting, []
        for given, named in waiting:
            self._send(*given, **named)

    async def until(self, tape: Tape, count: int, *, ended: bool = False) -> bytes:
        """Let everything go until so many answers have come, and with `ended` the end; give what came."""
        async with asyncio.timeout(30):
            while len(statuses(tape.read)) < count or (ended and not tape.has_ended):
                self.let_go()
                await asyncio.sleep(0)
        return plain(tape.read)


def under_way(service: Service, data: bytes) -> tuple[Connection, Tape, Held]:
    """Send something whose commands are held."""
    held = Held(service)
    connection, tape = service.connect()
    connection.data_received(data)
    return connection, tape, held


async def idle() -> None:
    """Let everybody run who is ready, and whoever is ready then."""
    for _ in range(20):
        await asyncio.sleep(0)


def taken(service: Service, data: bytes) -> bool:
    """Say whether the lane takes a request."""
    connection, _ = service.connect()
    connection.data_received(data)
    newest = connection.cycle
    connection.connection_lost(None)
    return type(newest) is LaneRequest


@pytest.mark.parametrize(
    "headers", ["", "Idempotency-Key: key-of-eight\r\n", "Connection: keep-alive\r\n", "X-Request-Id: mine\r\n"]
)
def test_an_ordinary_command_is_not_the_applications(both: Twins, headers: str):
    command = post(both.scene(), "begin", RUN, headers=headers)

    async def asked() -> list[bool]:
        fast = [taken(both.fast, data) for data in (command, command, command[:-9])]
        return [*fast, taken(both.slow, command)]

    assert both.run(asked()) == [True, True, True, False]


@pytest.mark.parametrize("setting", [{"otlp_endpoint": "http://127.0.0.1:1"}, {"fast_lane": "off"}])
async def test_nothing_is_taken_from_a_service_that_is_traced_or_told_not_to(setting: dict[str, Any]):
    service = Service(Settings(journal="memory:", **setting))
    await service.start()
    was_taken = taken(service, post("s", "begin", RUN))
    await service.quiet()
    await service.stop()

    assert not was_taken


async def test_nothing_is_taken_before_the_service_is_up_and_after_it():
    service = Service(Settings(journal="memory:"))
    command = post("s", "begin", RUN)
    await service.start()
    assert taken(service, command)
    await service.stop()

    assert not taken(service, command)
    await service.quiet()


# What cannot be done.


@pytest.mark.parametrize("error", FAILED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("when", ["at once", "later"])
def test_what_the_registry_cannot_do_is_told_the_same(both: Twins, error: Exception, when: str):
    command = post(both.scene(), "begin", RUN)

    def send(scene: str, commands: Any, reply: Any, *, caller: str) -> None:
        if when == "at once":
            raise error
        asyncio.get_running_loop().call_soon(reply, error)

    with both.sending(send):
        assert statuses(both.say(command, command, command * 3)) == [503] * 5
    assert statuses(both.say(command)) == [200]


def test_what_no_gate_decides_is_told_the_same(both: Twins):
    scene = both.scene()
    undecided = Undecided(Problem.KEY_REUSED, "another command")

    def send(scene: str, commands: Any, reply: Any, *, caller: str) -> None:
        asyncio.get_running_loop().call_soon(reply, [undecided])

    with both.sending(send):
        said = both.say(post(scene, "begin", RUN), post(scene, "begin", RUN, headers="Connection: close\r\n"))
    assert statuses(said) == [422, 422]


@pytest.mark.parametrize("when", ["at once", "later"])
def test_a_mistake_is_told_as_one_and_harms_nobody_else(both: Twins, when: str):
    command = post(both.scene(), "begin", RUN, headers="X-Request-Id: mine\r\n")

    def send(scene: str, commands: Any, reply: Any, *, caller: str) -> None:
        if when == "at once":
            raise ZeroDivisionError
        asyncio.get_running_loop().call_soon(reply, ["no result"])

    with both.sending(send), capture_logs() as lines:
        told = both.run(both.fast.say([command]))
    assert (statuses(told), b'"/problems/internal-error"' in told, b"x-request-id: mine" in told) == ([500], True, True)
    assert ("fault", "mine") in [(line["event"], line.get("request_id")) for line in lines]
    assert statuses(both.say(command)) == [200]


# Order, ends and what is held.


def test_a_client_that_leaves_leaves_nothing_held(both: Twins):
    command = post(both.scene(), "begin", RUN)

    async def left(service: Service) -> bytes:
        connection, tape, held = under_way(service, command + command[:-3])
        await idle()
        connection.connection_lost(None)
        held.let_go()
        await idle()
        half, _ = service.connect()
        half.data_received(command[:-3])
        await idle()
        half.connection_lost(None)
        await service.quiet()
        return tape.read

    assert [both.run(left(service)) for service in (both.fast, both.slow)] == [b"", b""]
    assert [service.capacity.body_bytes for service in (both.fast, both.slow)] == [0, 0]
    assert both.fast.counted() == both.slow.counted()
    assert both.fast.counted()[ROUTE, "POST", "400"] == 1


def test_an_answer_waits_until_the_client_reads_and_so_does_what_is_behind_it(both: Twins):
    command = post(both.scene(), "begin", RUN)

    async def read() -> list[int]:
        connection, tape, held = under_way(both.fast, command * 2)
        connection.pause_writing()
        held.let_go()
        await idle()
        unread = len(statuses(tape.read))
        connection.resume_writing()
        said = await held.until(tape, 2)
        connection.connection_lost(None)
        return [unread, *statuses(said)]

    assert both.run(read()) == [0, 200, 200]


def test_an_answer_that_nobody_reads_is_counted_when_the_client_goes(both: Twins):
    command = post(both.scene(), "begin", RUN)

    async def unread(service: Service) -> bytes:
        connection, tape = service.connect()
        connection.pause_writing()
        connection.data_received(command)
        await idle()
        connection.connection_lost(None)
        await service.quiet()
        return tape.read

    assert [both.run(unread(service)) for service in (both.fast, both.slow)] == [b"", b""]
    assert both.fast.counted() == both.slow.counted()
    assert both.fast.counted()[ROUTE, "POST", "200"] == 1


def test_the_transport_may_have_closed_before_the_answer_comes(both: Twins):
    """A tape fails what is written to it then, as uvloop does; the one beside it is answered all the same."""
    command = post(both.scene(), "begin", RUN)

    async def closed() -> list[int]:
        connection, tape, held = under_way(both.fast, command)
        other, beside = both.fast.connect()
        other.data_received(command)
        connection.abort()
        said = await held.until(beside, 1)
        connection.connection_lost(None)
        return [*statuses(tape.read), *statuses(said)]

    assert both.run(closed()) == [200]


@pytest.mark.parametrize("way", ["drain", "shutdown"])
def test_what_is_under_way_is_answered_while_the_service_stops(both: Twins, way: str):
    command = post(both.scene(), "begin", RUN)

    async def stopped() -> bytes:
        connection, tape, held = under_way(both.fast, command)
        both.fast.capacity.is_draining = True
        getattr(connection, way)()
        return await held.until(tape, 1, ended=True)

    said = both.run(stopped())
    assert (statuses(said), b"connection: close" in said) == ([200], True)


def test_half_a_body_is_decided_and_what_waited_behind_is_refused_while_the_service_stops(both: Twins):
    command = post(both.scene(), "begin", RUN)

    async def half() -> bytes:
        connection, tape, held = under_way(both.fast, command[:-3])
        both.fast.capacity.is_draining = True
        connection.data_received(command[-3:])
        return await held.until(tape, 1)

    async def behind() -> bytes:
        both.fast.capacity.is_draining = False
        _, tape, held = under_way(both.fast, command * 2)
        both.fast.capacity.is_draining = True
        return await held.until(tape, 2, ended=True)

    assert statuses(both.run(half())) == [200]
    said = both.run(behind())
    assert (statuses(said), b'"/problems/draining"' in said) == ([200, 503], True)


def test_at_the_last_deadline_a_command_under_way_is_told_that_nobody_knows(both: Twins):
    command = post(both.scene(), "begin", RUN)

    async def expired() -> list[bytes]:
        connection, tape, held = under_way(both.fast, command)
        connection.expire()
        told = tape.read
        await held.until(tape, 1)
        await idle()
        half, behind = both.fast.connect()
        half.data_received(command[:-3])
        half.expire()
        return [told, tape.read, behind.read]

    told, later, half = both.run(expired())
    assert b'"/problems/commit-unknown"' in told
    assert later == told
    assert b'"/problems/draining"' in half


def test_what_comes_behind_too_many_is_not_taken(both: Twins):
    command = post(both.scene(), "begin", RUN)

    async def crowded() -> bytes:
        _, tape, held = under_way(both.fast, command * 9)
        return await held.until(tape, 5, ended=True)

    said = both.run(crowded())
    assert (statuses(said), said.count(b"connection: close")) == ([200] * 5, 1)


def test_a_body_stays_no_longer_than_it_takes_to_read_it(both: Twins):
    command = post(both.scene(), "begin", RUN)

    async def asked() -> list[int]:
        connection, tape, held = under_way(both.fast, command)
        lengths = [len(connection.cycle.body), both.fast.capacity.body_bytes]
        await held.until(tape, 1)
        return [*lengths, both.fast.capacity.body_bytes]

    assert both.run(asked()) == [0, len(RUN), 0]


@pytest.mark.parametrize("lane", ["on", "off"])
def test_a_process_serves_with_and_without_it(lane: str, tmp_path: Path):
    with process(f"sqlite:{tmp_path / 'journal.db'}", fast_lane=lane) as served:
        hero = f"{served.url}/v1/scenes/s/characters/hero"
        spawned = httpx.put(hero, json={})
        begun = httpx.post(f"{hero}/begin", json={"layer": "base", "target": "Run"})
        served.terminate()

        assert (spawned.status_code, begun.status_code, begun.json()["outcome"]) == (201, 200, "granted")
        assert served.ended() == 0
