"""The line: whatever a client does with its connection, it ends with a code that says why, and nothing is left held."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from websockets.frames import Frame, Opcode

from app.api.channel import Channel
from app.api.line import ABNORMAL
from tests.support.channelled import MSGPACK, Caller, channel, framed
from tests.support.watching import Service, service
from tests.support.wire import until

SPAWN = {"id": 1, "command": "spawn", "character": "hero"}
MANY = 20_000
"""More bytes than the system holds for a client that says it holds few, and than the service lets lie."""


def channels(served: Service) -> list[Channel]:
    """The channels there are."""
    return [each for each in served.server.server_state.connections if isinstance(each, Channel)]


def closes(served: Service) -> dict[int, int]:
    """How many channels ended with each code."""
    return {code: count for code, count in served.app.state.metrics._channel_closes.items() if count}


async def nothing_held(served: Service) -> None:
    """Wait until no connection is left, and see that nothing is held for one."""
    await until(lambda: not channels(served))
    assert served.capacity.body_bytes == served.capacity.unread_bytes == 0
    assert served.app.state.metrics.open_channels == 0
    await until(lambda: served.registry.feeds.watchers == 0)


@asynccontextmanager
async def opened(sub_protocol: str | None = None, **settings: int) -> AsyncIterator[tuple[Service, Caller]]:
    """Serve, and open a channel to a scene with one character; nothing may be held at the end."""
    async with service(**settings) as served:
        await served.spawn("hero")
        async with channel(served.port, sub_protocol=sub_protocol, receive_bytes=4_096) as caller:
            yield served, caller
        await nothing_held(served)


async def test_a_client_closes_and_gets_its_own_code_back_behind_the_answers_to_what_it_asked():
    async with opened() as (served, caller):
        caller.wire.send(
            caller.frame(SPAWN)
            + framed(Opcode.CLOSE, b"\x0f\xa0done")
            + caller.frame({"id": 2, "command": "despawn", "character": "hero"})
        )

        assert (await caller.hear())["id"] == 1
        assert await caller.closed() == (4000, "done")
        await until(lambda: closes(served) == {0: 1})
        assert (await served.client.get("/v1/scenes/room/characters/hero")).status_code == 200


async def test_a_close_frame_without_a_code_is_answered_with_one_without():
    async with opened() as (served, caller):
        caller.wire.send(framed(Opcode.CLOSE, b""))

        assert (await caller.closed())[0] == 1005
        await until(lambda: closes(served) == {1005: 1})


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(Frame(Opcode.TEXT, b"{}").serialize(mask=False), 1002, id="unmasked"),
        pytest.param(b"\x85\x80mask", 1002, id="an opcode that there is none of"),
        pytest.param(b"\xc1\x80mask", 1002, id="a reserved bit"),
        pytest.param(b"\x89\xfe\x00\x7e", 1002, id="a ping of 126 bytes"),
        pytest.param(framed(Opcode.CONT, b"{}"), 1002, id="a fragment of nothing"),
        pytest.param(framed(Opcode.CLOSE, b"\x00\x01"), 1002, id="a close code that there is none of"),
        pytest.param(framed(Opcode.CLOSE, b"\x27\x0f"), 1002, id="a close code beyond all"),
        pytest.param(framed(Opcode.BINARY, b"{}"), 1003, id="the wrong kind"),
        pytest.param(framed(Opcode.TEXT, b'{"id":1,"command":"\xff"}'), 1007, id="no text"),
        pytest.param(
            framed(Opcode.TEXT, b'"\xe2', fin=False) + framed(Opcode.CONT, b'\x82"'), 1007, id="half a letter"
        ),
        pytest.param(b"\x81\xfe\x20\x00", 1009, id="a message beyond the limit"),
        pytest.param(
            framed(Opcode.TEXT, b"x" * 4_000, fin=False) * 1 + framed(Opcode.CONT, b"x" * 4_000), 1009, id="two"
        ),
    ],
)
async def test_what_is_none_of_the_protocol_closes_behind_the_answers_to_what_was(data: bytes, code: int):
    async with opened(body_bytes_max=4_096) as (served, caller):
        caller.wire.send(caller.frame(SPAWN) + data)

        told = await caller.hear()
        if code == 1007:
            assert (await caller.hear())["problem"]["type"] == "/problems/malformed-json"
        closed, reason = await caller.closed()

        assert told["id"] == 1
        assert closed == code
        assert reason
        await until(lambda: closes(served) == {code: 1})


async def test_text_is_the_wrong_kind_where_messagepack_was_agreed_on():
    async with opened(MSGPACK) as (_, caller):
        caller.wire.send(framed(Opcode.TEXT, b"{}"))

        assert (await caller.closed())[0] == 1003


async def test_a_message_in_fragments_with_pings_between_is_one_message():
    text = json.dumps(SPAWN).encode()
    async with opened() as (_, caller):
        caller.wire.send(
            framed(Opcode.TEXT, text[:9], fin=False)
            + framed(Opcode.PING, b"a")
            + framed(Opcode.CONT, b"", fin=False)
            + framed(Opcode.PONG, b"nobody asked")
            + framed(Opcode.CONT, text[9:])
            + framed(Opcode.PING, b"b")
        )

        assert (await caller.hear())["answer"]["outcome"] == "spawned"
        while len(caller.pongs) < 2:
            await caller._read()
        assert caller.pongs == [b"a", b"b"]


@pytest.mark.parametrize(
    "half",
    [b"\x81", b"\x81\xfe\x01", b"\x81\xfe\x01\x00mask", framed(Opcode.TEXT, b"{", fin=False)],
    ids=["a byte", "a size", "a head", "a fragment"],
)
async def test_half_a_message_and_then_silence_is_closed(half: bytes):
    async with opened(body_ms_max=50) as (served, caller):
        caller.wire.send(caller.frame(SPAWN) + half)

        assert (await caller.hear())["id"] == 1
        assert await caller.closed() == (4408, "a message did not come within 50 ms")
        await until(lambda: closes(served) == {4408: 1})


async def test_a_message_has_its_time_in_all_however_steadily_it_comes():
    async with opened(body_ms_max=100) as (_, caller):
        whole = caller.frame({**SPAWN, "x": "y" * 100_000})

        async def drip() -> None:
            for byte in whole:
                caller.wire.send(bytes([byte]))
                await asyncio.sleep(0.01)

        dripping = asyncio.ensure_future(drip())
        closed = await caller.closed()
        dripping.cancel()

        assert closed[0] == 4408


async def test_a_silent_client_is_pinged_and_may_stay_as_long_as_it_answers():
    async with opened(ping_ms=20, pong_ms_max=5_000) as (_, caller):
        while caller.pings < 5:
            await caller._read()

        assert (await caller.ask(**SPAWN))["id"] == 1


async def test_a_client_that_answers_no_ping_is_closed():
    async with opened(ping_ms=20, pong_ms_max=40) as (served, caller):
        caller.answers_pings = False

        assert await caller.closed() == (4408, "no pong came within 40 ms")
        assert caller.pings == 1
        await until(lambda: closes(served) == {4408: 1})


async def test_a_flood_of_pings_is_answered_as_fast_as_it_is_read_and_no_faster():
    async with opened(write_buffer_bytes_max=4_096) as (served, caller):
        flood = framed(Opcode.PING, b"p" * 125) * 40_000
        sending = asyncio.ensure_future(caller.wire.send_all(flood + caller.frame(SPAWN)))
        await until(lambda: channels(served)[0].is_unread)
        waits = channels(served)[0].wire.get_write_buffer_size()

        told = await caller.hear()
        await sending

        assert told["id"] == 1
        assert len(caller.pongs) == 40_000
        assert waits < 500_000


async def test_a_client_that_does_not_read_is_closed_when_its_time_is_over():
    async with opened(write_ms_max=100, write_buffer_bytes_max=4_096, linger_ms_max=50) as (served, caller):
        ask = caller.frame({"id": 1, "command": "begin", "character": "hero", "layer": "base", "target": "Run"})
        sending = asyncio.ensure_future(caller.wire.send_all(ask * MANY))

        await until(lambda: closes(served) == {4413: 1})
        await sending


async def test_a_client_that_leaves_too_much_unread_is_closed_at_once():
    async with opened(channel_unread_bytes_max=8_192, write_buffer_bytes_max=4_096, linger_ms_max=50) as (
        served,
        caller,
    ):
        ask = caller.frame({"id": 1, "command": "begin", "character": "hero", "layer": "base", "target": "Run"})
        sending = asyncio.ensure_future(caller.wire.send_all(ask * MANY))

        await until(lambda: closes(served) == {4413: 1})
        await sending


async def test_all_messages_under_way_together_have_a_bound():
    async with opened(bodies_bytes_max=10_000, linger_ms_max=50) as (served, caller):
        caller.wire.send(framed(Opcode.TEXT, b"x" * 8_000, fin=False) + framed(Opcode.CONT, b"x" * 8_000, fin=False))

        assert (await caller.closed())[0] == 1013
        await until(lambda: closes(served) == {1013: 1})


async def test_a_client_that_does_not_close_its_side_is_let_go_all_the_same():
    async with opened(linger_ms_max=50) as (_, caller):
        caller.wire.send(framed(Opcode.BINARY, b"{}"))

        assert b"this sub-protocol has text messages" in await caller.wire.rest()


async def test_a_client_that_leaves_without_a_word_is_counted_as_that():
    async with service() as served:
        async with channel(served.port) as caller:
            caller.wire.reset()
        await nothing_held(served)

        assert closes(served) == {ABNORMAL: 1}


async def test_a_client_that_goes_in_the_middle_of_its_messages_leaves_nothing_held():
    async with service() as served:
        await served.spawn("hero")
        for at in range(0, 150, 10):
            async with channel(served.port) as caller:
                caller.say({"id": 1, "watch": {"snapshot": True}}, *[{**SPAWN, "id": each} for each in range(at)])
                caller.wire.send(caller.frame(SPAWN)[:9])
                caller.wire.reset()
        await nothing_held(served)

        assert (await served.client.get("/v1/scenes/room")).status_code == 200


async def test_a_fault_closes_its_own_channel_and_no_other(monkeypatch: pytest.MonkeyPatch):
    async with service() as served, channel(served.port) as one, channel(served.port) as other:
        [first] = [
            each for each in channels(served) if each.wire.get_extra_info("peername") == one.wire._socket.getsockname()
        ]

        def broken(*_: object) -> None:
            raise RuntimeError("as a fault would")

        monkeypatch.setattr(first._talk, "heard", broken)
        one.say(SPAWN)

        assert (await one.closed())[0] == 1011
        assert (await other.ask(**SPAWN))["id"] == 1
        assert served.app.state.metrics._problems["internal-error"] == 1
