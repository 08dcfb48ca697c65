"""Stopping: in order, with every request answered or told what is known, and never for longer than it may take."""

import asyncio
import signal

from tests.support.listening import Listening, listening
from tests.support.wire import WAIT_S_MAX, Wire, wire


def stopped(served: Listening, *signals: int) -> "asyncio.Task[None]":
    """Tell it to stop."""
    for told in signals:
        served.server.handle_exit(told, None)
    return asyncio.create_task(served.server.shutdown(), name="stop")


async def ended(stop: "asyncio.Task[None]") -> None:
    """Wait until it has stopped."""
    async with asyncio.timeout(WAIT_S_MAX):
        await stop


async def refuses(port: int) -> bool:
    """Say whether nobody listens any more."""
    try:
        async with wire(port):
            return False
    except ConnectionError:
        return True


async def until_refused(port: int) -> None:
    """Wait until nobody listens any more."""
    async with asyncio.timeout(WAIT_S_MAX):
        while not await refuses(port):
            pass


async def running(served: Listening, client: Wire) -> None:
    """Have a request under way."""
    client.ask("POST", "/held", b"{}")
    await served.started.get()


async def test_it_drains_first_and_is_asked_until_the_grace_is_over():
    async with listening(drain_ms=1000) as served, wire(served.port) as idle, wire(served.port) as early:
        port = served.port
        idle.ask("GET", "/quick")
        await idle.answer()
        stop = stopped(served, signal.SIGTERM)
        await asyncio.sleep(0)
        was_told = served.is_draining and served.capacity.is_draining
        early.ask("POST", "/echo", b"{}")
        refused = await early.answer()
        async with wire(port) as late:
            late.ask("GET", "/quick")
            read = await late.answer()
        await ended(stop)

        assert was_told
        assert (refused.problem, refused.is_last) == ("draining", True)
        assert (read.status, read.is_last) == (200, True)
        assert await idle.rest() == b""
        assert await refuses(port)


async def test_at_a_terminal_there_is_no_grace():
    async with listening(drain_ms=60_000) as served:
        await ended(stopped(served, signal.SIGINT))


async def test_running_requests_are_answered_and_nothing_new_is_heard():
    async with listening(drain_ms=1) as served, wire(served.port) as client:
        port = served.port
        await running(served, client)
        stop = stopped(served, signal.SIGTERM)
        await until_refused(port)
        served.release.set()
        answer = await client.answer()
        await ended(stop)

        assert (answer.status, answer.is_last) == (200, True)


async def test_half_a_head_is_told_at_once_and_half_a_body_at_the_deadline():
    async with (
        listening(drain_ms=1, shutdown_ms_max=1500) as served,
        wire(served.port) as head,
        wire(served.port) as body,
    ):
        head.send(b"GET /quick HTTP/1.1\r\n")
        body.send(b"POST /echo HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")
        await served.started.get()
        stop = stopped(served, signal.SIGTERM)
        first = await head.answer()
        is_over = stop.done()
        second = await body.answer()
        await ended(stop)

        assert (first.status, first.problem, is_over) == (503, "draining", False)
        assert (second.status, second.problem) == (503, "draining")


async def test_a_body_that_comes_before_the_deadline_is_answered():
    async with listening(drain_ms=1) as served, wire(served.port) as client:
        port = served.port
        client.send(b"POST /echo HTTP/1.1\r\nContent-Length: 2\r\n\r\n{")
        await served.started.get()
        stop = stopped(served, signal.SIGTERM)
        await until_refused(port)
        client.send(b"}")

        assert (await client.answer()).body["body"] == "{}"
        await ended(stop)


async def test_a_request_that_is_not_answered_by_the_deadline_is_told_that_nobody_knows():
    async with listening(drain_ms=1, shutdown_ms_max=100) as served, wire(served.port) as client:
        await running(served, client)
        stop = stopped(served, signal.SIGTERM)
        answer = await client.answer()
        await ended(stop)

        assert (answer.status, answer.problem) == (503, "commit-unknown")
        assert not served.server.server_state.tasks


async def test_a_client_that_reads_nothing_does_not_hold_up_the_end():
    async with listening(drain_ms=1, shutdown_ms_max=100) as served, wire(served.port, receive_bytes=4096) as client:
        client.ask("GET", "/much?16000000")
        await served.started.get()

        await ended(stopped(served, signal.SIGTERM))


async def test_a_second_signal_ends_every_wait():
    async with listening(drain_ms=60_000, shutdown_ms_max=60_000) as served, wire(served.port) as client:
        await running(served, client)
        stop = stopped(served, signal.SIGTERM)
        await asyncio.sleep(0.05)
        served.server.handle_exit(signal.SIGTERM, None)
        answer = await client.answer()
        await ended(stop)

        assert answer.problem == "commit-unknown"
        assert served.server.force_exit


class Stuck:
    """A lifespan whose journal cannot be closed."""

    def __init__(self) -> None:
        self.was_asked = asyncio.Event()

    async def shutdown(self) -> None:
        self.was_asked.set()
        await asyncio.Event().wait()


async def test_a_journal_that_cannot_be_closed_is_left_at_the_deadline_or_at_a_second_signal():
    for shutdown_ms_max in (100, 60_000):
        async with listening(shutdown_ms_max=shutdown_ms_max) as served:
            stuck = Stuck()
            lifespan, served.server.lifespan = served.server.lifespan, stuck
            stop = stopped(served, signal.SIGINT)
            await stuck.was_asked.wait()
            if shutdown_ms_max == 60_000:
                served.server.handle_exit(signal.SIGINT, None)
            await ended(stop)
            served.server.lifespan = lifespan

            assert served.server.force_exit
