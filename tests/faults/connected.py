"""A client that costs little, for loads of requests: kept connections, one request at a time on each."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol

import httpx
from msgspec import json as fast_json

ANSWER_S_MAX = 60.0
_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Response(Protocol):
    """What tests read of a response, httpx's or the one below."""

    @property
    def status_code(self) -> int: ...
    @property
    def text(self) -> str: ...
    def json(self) -> Any: ...


class Asks(Protocol):
    """A client of a service, httpx's or the one below."""

    async def get(self, path: str, /) -> Response: ...
    async def post(self, path: str, /, *, json: Any, headers: dict[str, str] = ...) -> Response: ...
    async def put(self, path: str, /, *, json: Any) -> Response: ...


class Came(NamedTuple):
    """A response that came whole."""

    status_code: int
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


class Client:
    """Speaks HTTP to one service. Raises httpx.TransportError when a response does not come whole."""

    def __init__(self, url: str) -> None:
        self._host, _, port = url.removeprefix("http://").rpartition(":")
        self._port = int(port)
        self._idle: list[_Connection] = []

    async def get(self, path: str, /) -> Came:
        return await self._ask("GET", path, b"", {})

    async def post(self, path: str, /, *, json: Any, headers: dict[str, str] | None = None) -> Came:
        return await self._ask("POST", path, fast_json.encode(json), headers or {})

    async def put(self, path: str, /, *, json: Any) -> Came:
        return await self._ask("PUT", path, fast_json.encode(json), {})

    async def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Came:
        given = {"Host": "posegate", "Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "\r\n"]
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                reader, writer = connection = await self._connected()
                writer.write("\r\n".join(lines).encode() + body)
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0])
                came = Came(int(head.split(b" ", 2)[1]), await reader.readexactly(length))
        except (OSError, EOFError) as error:
            raise httpx.TransportError(f"no answer to {method} {path}: {error!r}") from error
        if b"\r\nconnection: close" in head:
            writer.close()
        else:
            self._idle.append(connection)
        return came

    async def _connected(self) -> _Connection:
        """Give a connection that the service has not closed meanwhile, as far as the loop has heard."""
        await asyncio.sleep(0)
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(self._host, self._port, limit=2**24)

    def close(self) -> None:
        """Let go of all connections."""
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Client]:
    """Give a client of the service at `url` for the block."""
    client = Client(url)
    try:
        yield client
    finally:
        client.close()
