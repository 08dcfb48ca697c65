"""Clients of channels that speak WebSocket frame by frame, so that they can also speak it badly."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import CLIENT, Protocol

from tests.support.wire import WAIT_S_MAX, Answer, Wire, wire

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
"""What RFC 6455 itself gives as the answer to `KEY`."""

JSON, MSGPACK = "posegate.json.v1", "posegate.msgpack.v1"

_READ = (Opcode.TEXT, Opcode.BINARY)


def handshake(scene: str = "room", *, more: str = "", without: str = "") -> bytes:
    """Give the bytes that ask for a channel; `more` are whole lines, `without` names a field that is left out."""
    lines = [
        f"GET /v1/scenes/{scene}/channel HTTP/1.1",
        "Host: posegate",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {KEY}",
    ]
    kept = [line for line in lines if not without or not line.lower().startswith(f"{without.lower()}:")]
    return ("\r\n".join(kept) + f"\r\n{more}\r\n").encode()


def framed(opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
    """Give one masked frame of a client."""
    return Frame(opcode, data, fin=fin).serialize(mask=True)


class Caller:
    """One client with an open channel. It reads when it is asked for a message, and not before."""

    def __init__(self, connection: Wire, sub_protocol: str | None) -> None:
        self.wire = connection
        self.sub_protocol = sub_protocol
        self.head: Answer
        self.pongs: list[bytes] = []
        self.pings = 0
        self.answers_pings = True
        self._reading = Protocol(CLIENT, max_size=None)
        self._heard: list[Any] = []
        self._close: Close | None = None

    async def begin(self, scene: str, more: str, early: bytes) -> None:
        """Shake hands."""
        if self.sub_protocol is not None:
            more += f"Sec-WebSocket-Protocol: {self.sub_protocol}\r\n"
        self.wire.send(handshake(scene, more=more) + early)
        self.head = await self.wire.answer()

    def frame(self, message: Any) -> bytes:
        """Give a message as a frame."""
        if self.sub_protocol == MSGPACK:
            return framed(Opcode.BINARY, msgspec.msgpack.encode(message))
        return framed(Opcode.TEXT, json.dumps(message).encode())

    def say(self, *messages: Any) -> None:
        """Send messages together."""
        self.wire.send(b"".join(map(self.frame, messages)))

    async def hear(self) -> Any:
        """Read the next message."""
        async with asyncio.timeout(WAIT_S_MAX):
            while not self._heard:
                assert self._close is None, f"the channel was closed: {self._close}"
                await self._read()
        return self._heard.pop(0)

    async def ask(self, **message: Any) -> Any:
        """Send one message, and read the next that comes."""
        self.say(message)
        return await self.hear()

    async def hear_all(self, count: int) -> list[Any]:
        """Read so many messages."""
        return [await self.hear() for _ in range(count)]

    async def closed(self) -> tuple[int, str]:
        """Read to the end, with nothing else to be heard; give the close frame's code and reason, and answer it."""
        async with asyncio.timeout(WAIT_S_MAX):
            while self._close is None:
                await self._read()
        assert not self._heard, self._heard
        if not self._reading.close_sent:
            self.wire.send(framed(Opcode.CLOSE, b""))
        assert await self.wire.rest() == b""
        return self._close.code, self._close.reason

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Send a close frame."""
        self.wire.send(framed(Opcode.CLOSE, Close(code, reason).serialize()))

    async def _read(self) -> None:
        self._reading.receive_data(await self.wire.some())
        assert self._reading.parser_exc is None, self._reading.parser_exc
        for event in self._reading.events_received():
            assert isinstance(event, Frame)
            if event.opcode in _READ:
                is_text = event.opcode is Opcode.TEXT
                assert is_text is (self.sub_protocol != MSGPACK)
                self._heard.append(json.loads(bytes(event.data)) if is_text else msgspec.msgpack.decode(event.data))
            elif event.opcode is Opcode.CLOSE:
                self._close = Close.parse(event.data)
            elif event.opcode is Opcode.PONG:
                self.pongs.append(bytes(event.data))
            elif event.opcode is Opcode.PING:
                self.pings += 1
                if self.answers_pings:
                    self.wire.send(framed(Opcode.PONG, bytes(event.data)))


@asynccontextmanager
async def channel(
    port: int,
    scene: str = "room",
    *,
    sub_protocol: str | None = None,
    more: str = "",
    early: bytes = b"",
    receive_bytes: int | None = None,
) -> AsyncIterator[Caller]:
    """Open a channel; `more` are lines of its head, `early` is sent with it."""
    async with wire(port, receive_bytes=receive_bytes) as connection:
        caller = Caller(connection, sub_protocol)
        await caller.begin(scene, more, early)
        assert caller.head.status == 101, caller.head
        yield caller


async def refused(port: int, asked: bytes) -> Answer:
    """Ask for a channel that is not opened, and give the answer."""
    async with wire(port) as connection:
        connection.send(asked)
        answer = await connection.answer()
        assert answer.status != 101, answer
        return answer
