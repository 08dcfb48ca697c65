"""A client that speaks HTTP byte by byte, so that it can also speak it badly."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

WAIT_S_MAX = 30.0


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so that no event tells of."""
    async with asyncio.timeout(WAIT_S_MAX):
        while not is_so():  # noqa: ASYNC110  # it comes about in another process, or in a library
            await asyncio.sleep(0.005)


class Answer(Struct, frozen=True):
    """One answer as it came."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> dict[str, Any]:
        """The body as JSON."""
        body: dict[str, Any] = json.loads(self.content)
        return body

    @property
    def problem(self) -> str:
        """The name of the problem that it is, and is whole."""
        assert self.headers["content-type"] == "application/problem+json", self
        body = self.body
        assert body["status"] == self.status, self
        assert (self.headers.get("retry-after") is None) is not body["retryable"], self
        return str(body["type"]).removeprefix("/problems/")

    @property
    def is_last(self) -> bool:
        """Whether it says that the connection ends with it."""
        return self.headers.get("connection") == "close"


class Wire:
    """One connection, on a bare socket: what was answered can be read even when what was sent is refused."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self._read = b""

    def send(self, data: bytes) -> None:
        """Send bytes, whatever they are; they must fit into what the system takes at once."""
        sent = self._socket.send(data)
        assert sent == len(data), (sent, len(data))

    async def send_all(self, data: bytes) -> bool:
        """Send bytes and wait until the system has them; False when the other side would not have them."""
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                await asyncio.get_running_loop().sock_sendall(self._socket, data)
                # What fits is sent without waiting, and a service in the same loop would never have its turn.
                await asyncio.sleep(0)
        except ConnectionError:
            return False
        return True

    def ask(self, method: str, path: str, body: bytes = b"", *, headers: str = "") -> None:
        """Send one whole request."""
        self.send(request(method, path, body, headers=headers))

    async def answer(self) -> Answer:
        """Read one answer."""
        async with asyncio.timeout(WAIT_S_MAX):
            while b"\r\n\r\n" not in self._read:
                await self._more()
            head, _, self._read = self._read.partition(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            pairs = [line.split(": ", 1) for line in lines[1:]]
            headers = {name.lower(): value for name, value in pairs}
            assert len(headers) == len(pairs), pairs
            length = int(headers.get("content-length", "0"))
            while len(self._read) < length:
                await self._more()
        content, self._read = self._read[:length], self._read[length:]
        return Answer(int(lines[0].split(" ")[1]), headers, content)

    async def rest(self) -> bytes:
        """Read until the other side has ended the connection; give what came before."""
        async with asyncio.timeout(WAIT_S_MAX):
            try:
                while True:
                    await self._more()
            except ConnectionError:
                return self._read

    async def some(self) -> bytes:
        """Read what comes next."""
        async with asyncio.timeout(WAIT_S_MAX):
            part = await asyncio.get_running_loop().sock_recv(self._socket, 65_536)
        if not part:
            raise ConnectionResetError(f"the other side has closed; it said {self._read!r}")
        return part

    async def _more(self) -> None:
        self._read += await self.some()

    def finish(self) -> None:
        """Say that nothing more is sent."""
        self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Close as if the client had lost its power, once the other side sends something or looks."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()


def request(method: str, path: str, body: bytes = b"", *, headers: str = "") -> bytes:
    """Give the bytes of a request; `headers` are whole lines."""
    length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: posegate\r\n{headers}{length}\r\n".encode() + body


def chunk(data: bytes) -> bytes:
    """Give one chunk of a chunked body; without data the last."""
    return b"%x\r\n%b\r\n" % (len(data), data)


@asynccontextmanager
async def wire(port: int, *, receive_bytes: int | None = None) -> AsyncIterator[Wire]:
    """Connect to this machine; `receive_bytes` is how much the system may take in before it is read."""
    with socket.socket() as opened:
        opened.setblocking(False)
        if receive_bytes is not None:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        async with asyncio.timeout(WAIT_S_MAX):
            await asyncio.get_running_loop().sock_connect(opened, ("127.0.0.1", port))
        yield Wire(opened)
