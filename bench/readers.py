"""Readers of a watched scene, as a process of their own: many connections that count decisions and keep nothing.

    python -m bench.readers HOST PORT SCENE HOW_MANY

Prints a line when all of them are told what is decided from now on, and for each line that it reads, how many decisions
all of them were told together since then.
"""

import asyncio
import os
import sys
from typing import cast

import uvloop

from bench.load import connected

MARK = b'"command":'
"""What stands once in each decision of the mix as it is shown."""

BEHIND_WRITER = 10
"""How far the readers step back for the writer, which is on the same core: what it waits for is the server's doing."""

CONNECT_S_MAX = 120.0


class Reader(asyncio.Protocol):
    """One who watches."""

    def __init__(self, asked: bytes) -> None:
        self._asked = asked
        self._end = b""
        self.decisions = 0
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask to be told."""
        cast(asyncio.WriteTransport, transport).write(self._asked)

    def data_received(self, data: bytes) -> None:
        """Count what was told, also where it is told in two pieces."""
        if not self.begun.done():
            if b" 200 " not in data[:20]:
                self.begun.set_exception(RuntimeError(f"{data[:600]!r}"))
                return
            self.begun.set_result(None)
        self.decisions += data.count(MARK) + (self._end + data[: len(MARK) - 1]).count(MARK)
        self._end = data[1 - len(MARK) :]

    def connection_lost(self, exc: Exception | None) -> None:
        """Say that somebody was turned away."""
        if not self.begun.done():
            self.begun.set_exception(exc or RuntimeError("the server closed the connection"))


async def main(host: str, port: int, scene: str, readers: int) -> None:
    """Watch until nobody asks any more."""
    asked = f"GET /v1/scenes/{scene}/watch HTTP/1.1\r\nHost: bench\r\nAccept: text/event-stream\r\n\r\n".encode()
    made = [await connected(host, port, Reader(asked)) for _ in range(readers)]
    async with asyncio.timeout(CONNECT_S_MAX):
        await asyncio.gather(*(reader.begun for reader in made))
    print("watching", flush=True)
    asking = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(asking), sys.stdin)
    while await asking.readline():
        print(sum(reader.decisions for reader in made), flush=True)


if __name__ == "__main__":
    os.nice(BEHIND_WRITER)
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
