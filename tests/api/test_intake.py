"""Intake: bytes from a client are taken within bounds, and whatever is wrong with them is told as a problem."""

import pytest

from tests.support.listening import listening
from tests.support.wire import chunk, request, until, wire

CHUNKED = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
MALFORMED = {
    "noise": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20,
    "no method": b"HELLO\r\n\r\n",
    "http 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "two lengths": b"POST /echo HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "length and chunks": b"POST /echo HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
    "length that is none": b"POST /echo HTTP/1.1\r\nContent-Length: many\r\n\r\n",
    "empty length": b"POST /echo HTTP/1.1\r\nContent-Length:\r\n\r\n",
    "endless length": b"POST /echo HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    "header without name": b"GET /quick HTTP/1.1\r\n: a\r\n\r\n",
    "tunnel": b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "target of other bytes": b"GET /\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
    "length of a chunk that is none": b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
async def test_what_is_no_http_is_told_so_as_a_problem_and_closed(data: bytes):
    async with listening() as served, wire(served.port) as client:
        client.send(data)
        answer = await client.answer()

        assert (answer.status, answer.problem, answer.is_last) == (400, "malformed-http", True)
        assert await client.rest() == b""


async def test_noise_behind_a_request_is_told_after_its_answer():
    async with listening() as served, wire(served.port) as client:
        client.send(request("POST", "/held", b"{}") + b"\x00\x01 noise\r\n\r\n")
        await served.started.get()
        served.release.set()
        answers = [await client.answer(), await client.answer()]

        assert [answers[0].status, answers[1].problem] == [200, "malformed-http"]
        assert await client.rest() == b""


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ("X: y\r\n" * 21, 20),
        (f"X: {'y' * 300}\r\n", 256),
        (f"{'X' * 300}: y\r\n", 256),
        (f"X: {'y' * 90}\r\n" * 3, 256),
    ],
    ids=["many", "long value", "long name", "all together"],
)
async def test_a_head_beyond_a_bound_is_told_which(fields: str, limit: int):
    async with listening(head_bytes_max=256, header_items_max=20) as served, wire(served.port) as client:
        client.send(request("GET", "/quick", headers=fields))
        answer = await client.answer()

        assert (answer.status, answer.problem, answer.body["limit"]) == (431, "head-too-large", limit)
        assert await client.rest() == b""
        assert served.started.empty()


async def test_a_head_within_the_bounds_is_taken_however_it_is_cut():
    async with listening(head_bytes_max=256, header_items_max=20) as served, wire(served.port) as client:
        for _ in range(3):
            for byte in request("GET", "/quick", headers="X: y\r\n" * 19):
                await client.send_all(bytes([byte]))
            assert (await client.answer()).status == 200


async def test_a_single_field_that_never_ends_is_refused():
    async with listening(head_bytes_max=4096) as served, wire(served.port) as client:
        client.send(b"GET /quick HTTP/1.1\r\nX: ")
        for _ in range(1000):
            if not await client.send_all(b"y" * 65_536):
                break
        answer = await client.answer()

        assert answer.problem == "head-too-large"


async def test_a_target_beyond_the_bound_is_told_it():
    async with listening(target_bytes_max=100) as served, wire(served.port) as client:
        client.ask("GET", "/quick?" + "x" * 93)
        assert (await client.answer()).status == 200
        client.ask("GET", "/quick?" + "x" * 94)
        answer = await client.answer()

        assert (answer.status, answer.problem, answer.body["limit"]) == (414, "target-too-long", 100)
        assert await client.rest() == b""


async def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_sent():
    async with listening(body_bytes_max=100) as served, wire(served.port) as client:
        client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n")
        answer = await client.answer()

        assert (answer.status, answer.problem, answer.body["limit"]) == (413, "too-large", 100)
        assert served.started.empty()


async def test_a_body_in_chunks_is_refused_when_it_becomes_too_large():
    async with listening(body_bytes_max=100) as served, wire(served.port) as client:
        client.ask("POST", "/echo", headers=CHUNKED)
        client.send(chunk(b"x" * 100) + chunk(b"y"))
        answer = await client.answer()

        assert (answer.status, answer.problem, answer.is_last) == (413, "too-large", True)
        assert await client.rest() == b""
        assert await served.gone.get() == "/echo"


async def test_all_bodies_together_have_a_bound_and_give_back_what_they_held():
    async with listening(bodies_bytes_max=100) as served, wire(served.port) as first, wire(served.port) as second:
        first.ask("POST", "/echo", headers=CHUNKED)
        first.send(chunk(b"x" * 60))
        await served.started.get()
        await until(lambda: served.capacity.body_bytes == 60)
        second.ask("POST", "/echo", b"y" * 60)
        refused = await second.answer()
        first.send(chunk(b""))
        answer = await first.answer()
        first.ask("POST", "/echo", b"z" * 100)
        again = await first.answer()

        assert (refused.status, refused.problem, refused.body["limit"]) == (503, "overloaded", 100)
        assert (answer.body["body"], again.body["body"]) == ("x" * 60, "z" * 100)
        assert served.capacity.body_bytes == 0


async def test_a_body_whose_client_goes_is_given_back():
    async with listening() as served, wire(served.port) as client:
        client.ask("POST", "/echo", headers=CHUNKED)
        client.send(chunk(b"x" * 60))
        await served.started.get()
        client.reset()

        assert await served.gone.get() == "/echo"
        await served.until(0)
        assert served.capacity.body_bytes == 0


async def test_fields_behind_a_body_are_dropped_and_have_a_bound():
    """A route has read the head by then: a key that came later would be read by some and not by others."""
    async with listening(head_bytes_max=300) as served, wire(served.port) as client:
        client.ask("POST", "/echo", headers=CHUNKED)
        client.send(chunk(b"ab") + b"0\r\nIdempotency-Key: late-one\r\n\r\n")
        answer = await client.answer()
        client.ask("POST", "/echo", headers=CHUNKED)
        client.send(chunk(b"ab") + b"0\r\nX: ")
        for _ in range(1000):
            if not await client.send_all(b"y" * 65_536):
                break
        refused = await client.answer()

        assert (answer.body["body"], "idempotency-key" in answer.body["headers"]) == ("ab", False)
        assert refused.problem == "head-too-large"


async def test_the_framing_of_many_small_chunks_is_no_head():
    async with listening(head_bytes_max=256) as served, wire(served.port) as client:
        client.ask("POST", "/echo", headers=CHUNKED)
        for _ in range(200):
            await client.send_all(b"1\r\n")
            await client.send_all(b"x\r\n")
        client.send(chunk(b""))

        assert (await client.answer()).body["body"] == "x" * 200


async def test_requests_behind_one_another_are_answered_in_order_and_only_so_many_are_taken():
    async with listening(pipelined_requests_max=3) as served, wire(served.port) as client:
        client.send(b"".join(request("GET", f"/quick/{number}") for number in range(1000)))
        answers = [await client.answer() for _ in range(4)]

        assert [answer.body["path"] for answer in answers] == [f"/quick/{number}" for number in range(4)]
        assert [answer.is_last for answer in answers] == [False, False, False, True]
        assert await client.rest() == b""


async def test_requests_behind_one_another_within_the_bound_leave_the_connection_open():
    async with listening(pipelined_requests_max=3) as served, wire(served.port) as client:
        for _ in range(3):
            client.send(b"".join(request("POST", "/echo", b"%d" % number) for number in range(4)))
            assert [(await client.answer()).body["body"] for _ in range(4)] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    "asked",
    [
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAA\r\n",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAA\r\n",
    ],
    ids=["websocket", "http 2"],
)
async def test_a_request_for_another_protocol_is_answered_in_this_one_with_its_body(asked: str):
    """Some clients ask with every first request, and the parser would pass over the body of such a one."""
    async with listening() as served, wire(served.port) as client:
        for _ in range(2):
            client.ask("POST", "/echo", b'{"a": 1}', headers=asked)
            answer = await client.answer()
            assert (answer.status, answer.body["body"], answer.is_last) == (200, '{"a": 1}', False)
        client.ask("GET", "/quick", headers=asked)
        assert (await client.answer()).status == 200


async def test_a_client_that_asks_before_it_sends_its_body_is_told_to_go_on_and_closes_after_it():
    async with listening() as served, wire(served.port) as client:
        client.ask("POST", "/echo", headers=f"{CHUNKED}Expect: 100-continue\r\n")
        go_on = await client.answer()
        client.send(chunk(b"ab") + chunk(b""))
        answer = await client.answer()

        assert (go_on.status, answer.status, answer.is_last) == (100, 200, True)


async def test_a_body_comes_in_so_many_pieces_and_no_more():
    async with listening(body_items_max=100) as served, wire(served.port) as client:
        client.ask("POST", "/echo", headers=CHUNKED)
        client.send(chunk(b"x") * 100 + chunk(b""))
        answer = await client.answer()
        client.ask("POST", "/echo", headers=CHUNKED)
        client.send(chunk(b"x") * 101)
        refused = await client.answer()

        assert answer.body["body"] == "x" * 100
        assert (refused.status, refused.problem, refused.body["limit"]) == (413, "too-large", 100)
