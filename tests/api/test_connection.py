"""Connections: each ends in time, none holds more than it may, and every end is told in its turn."""

import asyncio

import pytest

from tests.support.listening import Listening, listening
from tests.support.wire import Wire, chunk, request, until, wire

CHUNKED = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
SOON_MS = 60


async def test_one_connection_too_many_is_told_so_and_closed_and_a_later_one_finds_the_place():
    async with listening(connections_open_max=1) as served:
        async with wire(served.port) as first:
            first.ask("GET", "/quick")
            assert (await first.answer()).status == 200
            async with wire(served.port) as second:
                answer = await second.answer()
                assert (answer.status, answer.problem, answer.body["limit"]) == (503, "too-many-connections", 1)
                assert await second.rest() == b""
        assert served.told == ["too-many-connections"]
        await served.until(0)
        async with wire(served.port) as third:
            third.ask("GET", "/quick")
            assert (await third.answer()).status == 200


async def test_a_connection_that_says_nothing_is_closed():
    async with listening(first_byte_ms_max=SOON_MS) as served, wire(served.port) as client:
        assert await client.rest() == b""
        await served.until(0)


async def test_a_connection_between_requests_is_closed_later():
    async with listening(first_byte_ms_max=1, idle_ms_max=SOON_MS) as served, wire(served.port) as client:
        client.ask("GET", "/quick")
        assert not (await client.answer()).is_last
        assert await client.rest() == b""


async def test_empty_lines_do_not_keep_a_connection_open():
    async with listening(first_byte_ms_max=SOON_MS) as served, wire(served.port) as client:
        while await client.send_all(b"\r\n"):
            pass
        await served.until(0)


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"G", "head"),
        (b"GET /quick HTTP/1.1\r\nHost: a\r\nX", "head"),
        (b"POST /echo HTTP/1.1\r\nContent-Length: 9\r\n\r\n", "body"),
        (b"POST /echo HTTP/1.1\r\nContent-Length: 9\r\n\r\n{", "body"),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", "body"),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nX: y", "body"),
    ],
)
async def test_half_a_request_is_told_that_it_took_too_long(data: bytes, part: str):
    async with listening(head_ms_max=SOON_MS, body_ms_max=SOON_MS + 1) as served, wire(served.port) as client:
        client.send(data)
        answer = await client.answer()

        assert (answer.status, answer.problem, answer.is_last) == (408, "request-timeout", True)
        assert answer.body["limit"] == (SOON_MS if part == "head" else SOON_MS + 1)
        assert part in answer.body["detail"]
        assert await client.rest() == b""
        assert (await served.gone.get() if part == "body" else "/echo") == "/echo"


async def test_a_head_that_comes_drop_by_drop_has_the_same_deadline():
    async with listening(head_ms_max=SOON_MS) as served, wire(served.port) as client:
        client.send(b"GET /quick HTTP/1.1\r\nX: ")
        answer = asyncio.create_task(client.answer(), name="answer")
        while not answer.done():
            await client.send_all(b"y")
            await asyncio.sleep(0.001)

        assert (await answer).problem == "request-timeout"


async def test_a_second_request_has_its_own_deadlines():
    async with listening(head_ms_max=SOON_MS, idle_ms_max=60_000) as served, wire(served.port) as client:
        client.ask("GET", "/quick")
        await client.answer()
        client.send(b"GET /quick HTTP/1.1\r\n")

        assert (await client.answer()).problem == "request-timeout"


async def test_half_a_request_behind_one_that_is_answered_is_told_in_its_turn():
    async with listening(head_ms_max=SOON_MS) as served, wire(served.port) as client:
        client.send(request("GET", "/held") + b"GET /quick HTTP/1.1\r\n")
        await served.started.get()
        await asyncio.sleep(2 * SOON_MS / 1000)
        served.release.set()
        answers = [await client.answer(), await client.answer()]

        assert [answers[0].status, answers[1].problem] == [200, "request-timeout"]
        assert await client.rest() == b""


async def test_half_a_body_behind_a_request_that_is_answered_waits_for_it_and_is_told_then():
    """While the service itself does not read, the client is not late."""
    async with listening(body_ms_max=SOON_MS) as served, wire(served.port) as client:
        client.send(request("GET", "/held") + b"POST /echo HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")
        await served.started.get()
        await asyncio.sleep(3 * SOON_MS / 1000)
        served.release.set()
        answers = [await client.answer(), await client.answer()]

        assert [answers[0].status, answers[1].problem] == [200, "request-timeout"]


async def test_a_request_that_is_being_answered_has_no_deadline():
    settings = {"first_byte_ms_max": 1, "idle_ms_max": 10, "head_ms_max": 10, "body_ms_max": 10}
    async with listening(**settings) as served, wire(served.port) as client:
        client.ask("POST", "/held", b"{}")
        await served.started.get()
        await asyncio.sleep(0.1)
        served.release.set()

        assert (await client.answer()).status == 200


async def test_an_answer_that_does_not_wait_for_the_body_leaves_the_rest_to_be_read_past():
    async with listening() as served, wire(served.port) as client:
        client.send(b"POST /quick HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n{")
        first = await client.answer()
        client.send(b' "}' + request("GET", "/quick"))
        second = await client.answer()

        assert (first.status, second.status, served.capacity.body_bytes) == (200, 200, 0)


async def test_the_rest_of_a_body_that_was_answered_has_a_deadline_and_a_bound():
    async with listening(body_ms_max=SOON_MS, body_bytes_max=100, linger_ms_max=SOON_MS) as served:
        async with wire(served.port) as client:
            client.send(b"POST /quick HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n{")
            assert (await client.answer()).status == 200
            assert await client.rest() == b""
        async with wire(served.port) as client:
            client.ask("POST", "/quick", headers=CHUNKED)
            assert (await client.answer()).status == 200
            while await client.send_all(chunk(b"x" * 50)):
                pass
        await served.until(0)


async def test_a_despawn_with_a_body_too_large_gets_the_answer_of_what_was_decided():
    """Its route waits for no body, so that telling it of the body would hide what was decided."""
    async with listening(body_bytes_max=10) as served, wire(served.port) as client:
        client.send(request("DELETE", "/quick", headers=CHUNKED) + chunk(b"x" * 11))
        answer = await client.answer()

        assert (answer.status, answer.body["path"], answer.is_last) == (200, "/quick", True)
        assert await client.rest() == b""


async def test_what_a_refused_client_still_sends_is_dropped_within_a_bound_while_it_reads_its_answer():
    """Closed with bytes unread, the connection would be reset, and the answer might be lost on its way."""
    async with listening(body_bytes_max=10, linger_ms_max=SOON_MS) as served, wire(served.port) as client:
        client.ask("POST", "/echo", headers=CHUNKED)
        sent = 0
        while await client.send_all(chunk(b"x" * 65_536)):
            sent += 1
            assert sent < 10_000
        answer = await client.answer()

        assert answer.problem == "too-large"
        await served.until(0)


async def test_a_client_that_reads_nothing_holds_a_bounded_buffer_and_is_reset_in_time():
    settings = {"write_buffer_bytes_max": 1000, "write_ms_max": 200, "pipelined_requests_max": 16}
    async with listening(**settings) as served, wire(served.port, receive_bytes=4096) as client:
        client.send(request("GET", "/much?16000000") * 10)
        await until(lambda: served.capacity.unread_bytes > 0)

        assert 0 < served.capacity.unread_bytes < 2 * 16_000_000
        await served.until(0)
        assert served.capacity.unread_bytes == 0


async def test_a_client_that_reads_slowly_gets_everything():
    settings = {"write_buffer_bytes_max": 1000, "write_ms_max": 5000}
    async with listening(**settings) as served, wire(served.port, receive_bytes=65_536) as client:
        client.send(request("GET", "/much?5000000") * 2)
        answers = [await client.answer() for _ in range(2)]

        assert [len(answer.content) for answer in answers] == [5_000_000] * 2
        assert served.capacity.unread_bytes == 0


async def test_a_small_answer_that_nobody_reads_does_not_keep_a_closed_connection_for_ever():
    settings = {"write_buffer_bytes_max": 64_000_000, "write_ms_max": SOON_MS}
    async with listening(**settings) as served, wire(served.port, receive_bytes=4096) as client:
        client.ask("GET", "/much?16000000", headers="Connection: close\r\n")
        await served.started.get()

        await served.until(0)


async def test_what_all_slow_readers_leave_unread_has_a_bound():
    settings = {"write_buffer_bytes_max": 1000, "unread_bytes_max": 1_000_000}
    async with listening(**settings) as served, wire(served.port, receive_bytes=4096) as client:
        client.ask("GET", "/much?16000000")
        await served.started.get()

        await served.until(0)
        assert served.capacity.unread_bytes == 0


async def test_a_client_that_goes_while_it_is_answered_leaves_nothing_behind():
    async with listening() as served, wire(served.port) as client:
        client.send(request("POST", "/held", b"{}") + request("GET", "/quick"))
        await served.started.get()
        client.reset()
        await served.until(0)
        served.release.set()
        await until(lambda: not served.server.server_state.tasks)

        assert (served.capacity.body_bytes, served.started.empty()) == (0, True)


async def asked_while_draining(served: Listening, client: Wire, method: str) -> tuple[int, bool]:
    served.capacity.is_draining = True
    client.ask(method, "/echo", b"{}")
    answer = await client.answer()
    assert await client.rest() == b""
    return answer.status, answer.is_last


@pytest.mark.parametrize(("method", "status"), [("GET", 200), ("POST", 503), ("PUT", 503), ("DELETE", 503)])
async def test_while_the_service_drains_reads_are_answered_and_commands_are_not(method: str, status: int):
    async with listening() as served, wire(served.port) as client:
        client.ask(method, "/echo", b"{}")
        assert (await client.answer()).status == 200

        assert await asked_while_draining(served, client, method) == (status, True)


async def test_a_connection_that_expires_tells_what_is_known_of_its_request():
    async with listening() as served:
        told = {}
        for method, path, data in (
            ("GET", "/held", b""),
            ("POST", "/echo", b"1\r\nx\r\n"),
            ("POST", "/held", chunk(b"{}") + chunk(b"")),
            ("DELETE", "/held", b""),
        ):
            async with wire(served.port) as client:
                client.ask(method, path, headers=CHUNKED if data else "")
                client.send(data or b"\r\n")
                await served.started.get()
                await asyncio.sleep(0.01)
                [connection] = served.open
                connection.expire()
                told[method, path] = (await client.answer()).problem
                assert await client.rest() == b""
            await served.until(0)

    assert told == {
        ("GET", "/held"): "draining",
        ("POST", "/echo"): "draining",
        ("POST", "/held"): "commit-unknown",
        ("DELETE", "/held"): "commit-unknown",
    }
