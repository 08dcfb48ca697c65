"""A wire between a node and a server that can be slow, silent in either direction, or cut: a TCP proxy."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

CHUNK_BYTES = 65_536
DROPPED_S = 0.2

UP, DOWN = "up", "down"
"""From the node to its server, and back."""


class Wires:
    """Proxies to some addresses, one each. `addresses` are where they listen.

    `delay_s` is added to whatever passes, in either direction; what is said in a direction of `silent` waits.
    """

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.delay_s = 0.0
        self.silent: set[str] = set()
        self.cuts = 0
        self._servers: list[asyncio.Server] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, addresses: Sequence[str], *, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen for each address."""
        for address in addresses:
            server = await asyncio.start_server(self._serving(address), host, port)
            self._servers.append(server)
            here, free = server.sockets[0].getsockname()[:2]
            self.addresses.append(f"{here}:{free}")

    def cut(self) -> None:
        """Break every connection that there is; new ones are taken."""
        self.cuts += 1
        for writer in list(self._writers):
            writer.transport.abort()

    def heal(self) -> None:
        """Pass everything at once again. What waited in a silent direction passes too."""
        self.delay_s, self.silent = 0.0, set()

    async def close(self) -> None:
        """Break everything, and listen no more."""
        for server in self._servers:
            server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _serving(
        self, address: str
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]:
        host, _, port = address.rpartition(":")

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            try:
                there, back = await asyncio.open_connection(host, int(port))
            except OSError:
                writer.transport.abort()
                return
            ends = (writer, back)
            self._writers.update(ends)
            passing = [
                asyncio.create_task(self._passed(reader, back, UP)),
                asyncio.create_task(self._passed(there, writer, DOWN)),
            ]
            try:
                with contextlib.suppress(asyncio.CancelledError):
                    # Cancelled at the end of all: a task of the library's streams may not be, so this one just ends.
                    await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in passing:
                    each.cancel()
                await asyncio.gather(*passing, return_exceptions=True)
                self._writers.difference_update(ends)
                for end in ends:
                    end.transport.abort()

        return serve

    async def _passed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str) -> None:
        """Pass what is said in one direction until it ends."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)

        async def write() -> None:
            while True:
                at, data = await waiting.get()
                await asyncio.sleep(at - loop.time())
                while direction in self.silent:  # noqa: ASYNC110  # it is looked at rarely, and only while it is silent
                    await asyncio.sleep(0.05)
                writer.write(data)
                await writer.drain()

        with contextlib.suppress(OSError):
            writing = asyncio.create_task(write())
            try:
                while data := await reader.read(CHUNK_BYTES):
                    await waiting.put((loop.time() + self.delay_s, data))
            finally:
                writing.cancel()


@asynccontextmanager
async def wires(addresses: Sequence[str], *, host: str = "127.0.0.1") -> AsyncIterator[Wires]:
    """Give wires to some addresses for the block."""
    laid = Wires()
    await laid.open(addresses, host=host)
    try:
        yield laid
    finally:
        await laid.close()


async def _relay(listen: str, address: str) -> None:
    """Pass everything that comes to one address on to another, until killed."""
    laid = Wires()
    host, _, port = listen.rpartition(":")
    await laid.open([address], host=host, port=int(port))
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_relay(*sys.argv[1:]))
