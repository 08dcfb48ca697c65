"""The channel: one connection with 64 commands under way, beside uvicorn's echo and Redis at the same pipelining."""

from contextlib import ExitStack
from functools import partial
from itertools import cycle
from struct import Struct
from typing import Any

import msgspec

from bench.load import Counting, windowed
from bench.mix import CHARACTERS, SCENE, spawned
from bench.redis_rules import counting, scripted
from bench.rounds import Findings, Plan, at_least, interleaved
from bench.servers import Address, posegate, redis, served
from bench.singles import CALLS, ORDER

UNDER_WAY, MESSAGES = 64, 4_096
TEXT, BINARY, PING = 0x81, 0x82, 0x89

OURS, ECHO, REDIS = "posegate, memory", "uvicorn's websockets echo", "Redis rules only, no AOF"

_HANDSHAKE = (
    "GET {path} HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Protocol: {protocol}\r\n\r\n"
)
_LENGTH, _LONG_LENGTH = Struct("!H"), Struct("!Q")


def framed(first: int, data: bytes) -> bytes:
    """Give a client's frame; its mask is all zeros, so that masking it costs the load nothing."""
    assert len(data) < 65_536
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + _LENGTH.pack(len(data))
    return bytes([first]) + size + bytes(4) + data


def begins(first: int) -> list[bytes]:
    """Give frames that each hold a `begin` with a number of its own."""
    encode: Any = msgspec.json.encode if first == TEXT else msgspec.msgpack.encode
    command = {"command": "begin", "layer": "base", "target": "Run"}
    return [
        framed(first, encode({"id": number, **command, "character": character}))
        for number, character in zip(range(MESSAGES), cycle(ORDER), strict=False)
    ]


class FrameCounting:
    """Counts the messages of one connection.

    Raises:
        RuntimeError: What came is no message that answers.
    """

    def __init__(self) -> None:
        self._left = b""

    def __call__(self, data: bytes) -> int:
        """Take the next bytes; give how many more messages are whole."""
        data = self._left + data if self._left else data
        if b'"problem"' in data:
            raise RuntimeError(f"{data[:600]!r}")
        return self._frames(data)

    def _frames(self, data: bytes) -> int:
        at, end, messages = 0, len(data), 0
        while at + 2 <= end:
            first, size = data[at], data[at + 1]
            start = at + 2
            if size == 126:
                if start + 2 > end:
                    break
                size = _LENGTH.unpack_from(data, start)[0]
                start += 2
            elif size == 127:
                if start + 8 > end:
                    break
                size = _LONG_LENGTH.unpack_from(data, start)[0]
                start += 8
            if start + size > end:
                break
            at = start + size
            if first in (TEXT, BINARY):
                messages += 1
            elif first != PING:
                raise RuntimeError(f"a frame that is no whole message: {data[start:at]!r}")
        self._left = data[at:]
        return messages


async def pipelined(
    address: Address, messages: list[bytes], counted: Counting, seconds: float, *, opening: bytes = b""
) -> float:
    """Keep 64 messages under way; give answers a second."""
    return await windowed(
        address.host,
        address.port,
        opening=opening,
        messages=cycle(messages),
        counting=counted,
        under_way=UNDER_WAY,
        seconds=seconds,
    )


async def framewise(address: Address, first: int, seconds: float) -> float:
    """Keep 64 frames under way on a WebSocket."""
    path, protocol = f"/v1/scenes/{SCENE}/channel", f"posegate.{'json' if first == TEXT else 'msgpack'}.v1"
    opening = _HANDSHAKE.format(path=path, protocol=protocol).encode()
    return await pipelined(address, begins(first), FrameCounting(), seconds, opening=opening)


async def measured(plan: Plan) -> Findings:
    """Measure one connection with many under way, on every side."""
    with ExitStack() as servers:
        enter = servers.enter_context
        sqlite, memory = enter(posegate(f"sqlite:{plan.directory}/channel.db")), enter(posegate("memory:"))
        none = enter(redis(plan.directory, always=False))
        echo, newer = enter(served("bench.echo", "websockets")), enter(served("bench.echo", "websockets-sansio"))
        for address in (sqlite, memory):
            await spawned(address, SCENE, range(CHARACTERS))
        await scripted(none)
        seconds = plan.seconds
        figures = await interleaved(
            plan,
            "channel",
            {
                OURS: partial(framewise, memory, TEXT, seconds),
                f"{OURS}, MessagePack": partial(framewise, memory, BINARY, seconds),
                "posegate, SQLite FULL": partial(framewise, sqlite, TEXT, seconds),
                ECHO: partial(framewise, echo, TEXT, seconds),
                f"{ECHO}, sans-io": partial(framewise, newer, TEXT, seconds),
                REDIS: lambda: pipelined(none, CALLS, counting(), seconds),
            },
        )
    what = f"channel, one connection, {UNDER_WAY} under way, memory journal"
    lines = [
        at_least("channel-echo", what, figures, OURS, ECHO, 1.5),
        at_least("channel-redis", what, figures, OURS, REDIS, 0.6),
    ]
    return Findings(lines, figures)
