"""The load: raw HTTP/1.1 on kept connections, one request under way on each, so that the client is no bottleneck."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast


class Measured(NamedTuple):
    """One run: requests a second, and latencies in seconds, ascending."""

    rate: float
    latencies: list[float]

    def percentile(self, share: float) -> float:
        """Give the latency that `share` of the requests stay within."""
        return self.latencies[min(len(self.latencies) - 1, int(len(self.latencies) * share))]


def request(path: str, body: bytes) -> bytes:
    """Give the bytes of one POST."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Connection(asyncio.Protocol):
    """One connection: sends a request, hands the body of the answer on, sends the next."""

    def __init__(self, following: Callable[[bytes | None], bytes | None], latencies: list[float]) -> None:
        self._following = following
        self._latencies = latencies
        self._buffer = b""
        self._sent_at = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self._transport = cast(asyncio.WriteTransport, transport)
        self._send(None)

    def _send(self, answer: bytes | None) -> None:
        following = self._following(answer)
        if following is None:
            self._transport.close()
            if not self.done.done():
                self.done.set_result(None)
            return
        self._sent_at = time.perf_counter()
        self._transport.write(following)

    def data_received(self, data: bytes) -> None:
        """Take a piece of an answer; when it is whole, go on."""
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        lower = head.lower()
        start = lower.index(b"content-length:") + 15
        length = int(lower[start:].split(b"\r\n", 1)[0])
        if len(body) < length:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self.done.set_exception(RuntimeError(f"{head[:60]!r} {body[:300]!r}"))
            self._transport.close()
            return
        self._latencies.append(time.perf_counter() - self._sent_at)
        self._buffer = b""
        self._send(body)

    def connection_lost(self, exc: Exception | None) -> None:
        """End, whatever was under way."""
        if not self.done.done():
            self.done.set_exception(exc or RuntimeError("the server closed the connection"))


async def run(
    host: str, port: int, *, connections: int, following: Callable[[int, bytes | None], bytes | None]
) -> Measured:
    """Keep `connections` busy until `following` (given the connection's number and its last answer) has no more."""
    loop = asyncio.get_running_loop()
    latencies: list[float] = []
    started = time.perf_counter()
    made = [Connection(partial(following, number), latencies) for number in range(connections)]
    for connection in made:
        await loop.create_connection(partial(_itself, connection), host, port)
    await asyncio.gather(*(connection.done for connection in made))
    return Measured(len(latencies) / (time.perf_counter() - started), sorted(latencies))


def _itself(connection: Connection) -> Connection:
    return connection
