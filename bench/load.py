"""The load: raw bytes on kept connections, made ahead where that can be, so that the client is no bottleneck."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar, cast

JSON, MSGPACK = "application/json", "application/msgpack"

Reading = Callable[[bytes], Any]
"""Takes the next bytes of one connection and gives the answer when it is whole, before that None."""

Counting = Callable[[bytes], int]
"""Takes the next bytes of one connection and gives how many more answers are whole."""

ProtocolT = TypeVar("ProtocolT", bound=asyncio.Protocol)


class Sender(Protocol):
    """One who is measured by requests and answers: what each connection sends next, and how its answers are read."""

    def reading(self) -> Reading:
        """Give what reads the answers of one connection."""
        ...

    def following(self, number: int, answer: Any) -> bytes:
        """Give the next request of a connection; `answer` is its last one, before the first None."""
        ...


class Measured(NamedTuple):
    """One run: requests a second, and latencies in seconds, ascending."""

    rate: float
    latencies: list[float]

    def percentile(self, share: float) -> float:
        """Give the latency that `share` of the requests stay within."""
        return percentile(self.latencies, share)


def percentile(ascending: list[float], share: float) -> float:
    """Give the value that `share` of all stay within."""
    return ascending[min(len(ascending) - 1, int(len(ascending) * share))]


def request(path: str, body: bytes, media_type: str = JSON) -> bytes:
    """Give the bytes of one POST."""
    head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: {media_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class HttpReading:
    """Reads the answers of one connection: each gives its body."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._missing = 0

    def __call__(self, data: bytes) -> bytes | None:
        """Take the next bytes; give the body when it is whole.

        Raises:
            RuntimeError: The status is not 200.
        """
        if self._missing:
            self._pieces.append(data)
            self._missing -= len(data)
            return None if self._missing else self._whole()
        if self._pieces:
            data = self._pieces.pop() + data
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._pieces.append(data)
            return None
        if data[9:12] != b"200":
            raise RuntimeError(f"{data[:600]!r}")
        head = data[:end].lower() + b"\r\n"
        start = head.index(b"content-length:") + 15
        length = int(head[start : head.index(b"\r\n", start)])
        body = data[end + 4 :]
        self._missing = length - len(body)
        if not self._missing:
            return body
        self._pieces.append(body)
        return None

    def _whole(self) -> bytes:
        body = b"".join(self._pieces)
        self._pieces.clear()
        return body


class Connection(asyncio.Protocol):
    """One connection: sends a request, hands the answer on, sends the next, until there is none."""

    def __init__(self, following: Callable[[Any], bytes | None], reading: Reading, latencies: list[float]) -> None:
        self._following = following
        self._reading = reading
        self._latencies = latencies
        self._sent_at = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        self._transport = cast(asyncio.WriteTransport, transport)

    def go_on(self, answer: Any = None) -> None:
        """Send what comes next, or end."""
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
        try:
            answer = self._reading(data)
        except RuntimeError as error:
            if not self.done.done():
                self.done.set_exception(error)
            self._transport.close()
            return
        if answer is not None:
            self._latencies.append(time.perf_counter() - self._sent_at)
            self.go_on(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """End, whatever was under way."""
        if not self.done.done():
            self.done.set_exception(exc or RuntimeError("the server closed the connection"))


async def connected(host: str, port: int, protocol: ProtocolT) -> ProtocolT:
    """Connect a protocol, and give it."""

    def itself() -> ProtocolT:
        return protocol

    await asyncio.get_running_loop().create_connection(itself, host, port)
    return protocol


async def run(
    host: str,
    port: int,
    *,
    connections: int,
    following: Callable[[int, Any], bytes | None],
    reading: Callable[[], Reading] = HttpReading,
) -> Measured:
    """Keep `connections` busy until `following` (given the connection's number and its last answer) has no more.

    Connections are made before the clock starts.
    """
    latencies: list[float] = []
    made = [
        await connected(host, port, Connection(partial(following, number), reading(), latencies))
        for number in range(connections)
    ]
    started = time.perf_counter()
    for connection in made:
        connection.go_on()
    await asyncio.gather(*(connection.done for connection in made))
    return Measured(len(latencies) / (time.perf_counter() - started), sorted(latencies))


def timed(messages: Iterator[bytes], seconds: float) -> Callable[[int, Any], bytes | None]:
    """Give what sends one message after another, over all connections, for some seconds."""
    ends = time.perf_counter() + seconds

    def following(number: int, answer: Any) -> bytes | None:
        return None if time.perf_counter() >= ends else next(messages)

    return following


async def volleys(host: str, port: int, sender: Sender, *, connections: int, seconds: float) -> float:
    """Have one request answered on each connection, again and again, for some seconds; give volleys a second.

    Requests are made ahead of the clock, and every one is answered before its connection's next is made. The first
    volley is not counted: it opens what the rest find open.
    """
    callers = [await connected(host, port, Caller(sender.reading())) for _ in range(connections)]
    ready = [sender.following(number, None) for number in range(connections)]
    busy, done = 0.0, -1
    while busy < seconds:
        started = time.perf_counter()
        answers = await asyncio.gather(*(caller.ask(asked) for caller, asked in zip(callers, ready, strict=True)))
        if done >= 0:
            busy += time.perf_counter() - started
        done += 1
        ready = [sender.following(number, answer) for number, answer in enumerate(answers)]
    for caller in callers:
        caller.close()
    return done / busy


class Window(asyncio.Protocol):
    """One connection that keeps so many messages under way, for as long as it is told.

    `opening` is sent first, where there is one, and nothing else before its answer was read: a handshake's head.
    """

    def __init__(self, messages: Iterator[bytes], counting: Counting, opening: bytes) -> None:
        self._messages = messages
        self._counting = counting
        self._opening = opening
        self._head = b""
        self._under_way = 0
        self.answered = 0
        self.is_stopping = False
        loop = asyncio.get_running_loop()
        self.open: asyncio.Future[None] = loop.create_future()
        self.done: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open what is to be opened."""
        self.transport = cast(asyncio.WriteTransport, transport)
        if self._opening:
            self.transport.write(self._opening)
        else:
            self.open.set_result(None)

    def send(self, messages: int) -> None:
        """Have so many more under way."""
        following = self._messages
        self._under_way += messages
        self.transport.write(b"".join([next(following) for _ in range(messages)]))

    def data_received(self, data: bytes) -> None:
        """Count answers, and send as many messages as there were, all together."""
        if not self.open.done():
            data = self._opened(data)
        try:
            answers = self._counting(data)
        except RuntimeError as error:
            self._fail(error)
            self.transport.close()
            return
        self.answered += answers
        self._under_way -= answers
        if not self.is_stopping:
            if answers:
                self.send(answers)
        elif self._under_way <= 0 and not self.done.done():
            self.done.set_result(None)

    def _opened(self, data: bytes) -> bytes:
        """Read the answer to the opening; give what comes behind it."""
        self._head += data
        head, separator, rest = self._head.partition(b"\r\n\r\n")
        if not separator:
            return b""
        if b" 101 " in head:
            self.open.set_result(None)
        else:
            self.open.set_exception(RuntimeError(f"{self._head[:600]!r}"))
        return rest

    def _fail(self, error: Exception) -> None:
        for future in (self.open, self.done):
            if not future.done():
                future.set_exception(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """End, whatever was under way."""
        if self.done.done() and not self.done.exception():
            return
        self._fail(exc or RuntimeError("the server closed the connection"))


async def windowed(
    host: str,
    port: int,
    *,
    opening: bytes,
    messages: Iterator[bytes],
    counting: Counting,
    under_way: int,
    seconds: float,
) -> float:
    """Keep messages under way on one connection for some seconds; give answers a second."""
    window = await connected(host, port, Window(messages, counting, opening))
    await window.open
    window.send(under_way)
    # What the first answers take is a connection's beginning, and not what is measured.
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(window.done), seconds / 10)
    started, answered = time.perf_counter(), window.answered
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(window.done), seconds)
    rate = (window.answered - answered) / (time.perf_counter() - started)
    window.is_stopping = True
    async with asyncio.timeout(30):
        await window.done
    window.transport.close()
    return rate


class Caller(asyncio.Protocol):
    """One connection on which one request after another is asked for."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._answer: asyncio.Future[Any] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        self._transport = cast(asyncio.WriteTransport, transport)

    def ask(self, asked: bytes) -> asyncio.Future[Any]:
        """Send a request; the future gives its answer."""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(asked)
        return self._answer

    def data_received(self, data: bytes) -> None:
        """Take a piece of the answer."""
        assert self._answer is not None
        try:
            answer = self._reading(data)
        except RuntimeError as error:
            self._answer.set_exception(error)
            return
        if answer is not None:
            self._answer.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let nobody wait for ever."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or RuntimeError("the server closed the connection"))

    def close(self) -> None:
        """End the connection."""
        self._transport.close()
