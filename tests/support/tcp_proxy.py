"""A TCP proxy that can hold back what a server says, hold back what a client says, and cut all connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class TcpProxy:
    """Listens on a free port of this machine and passes everything on to one server."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers = asyncio.Event()
        self._questions = asyncio.Event()
        self.release()
        self.accepted = 0

    @property
    def address(self) -> str:
        """Where clients connect: `host:port`."""
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def hold_answers(self) -> None:
        """Let the server hear everything, and the client nothing more."""
        self._answers.clear()

    def hold_questions(self) -> None:
        """Let the server hear nothing more, which a client cannot see."""
        self._questions.clear()

    def release(self) -> None:
        """Pass everything on again, what was held back too."""
        self._answers.set()
        self._questions.set()

    def cut(self) -> None:
        """End all connections at once; further ones are taken."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def start(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def stop(self) -> None:
        """End everything."""
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        for source, sink, gate in ((reader, far_writer, self._questions), (far_reader, writer, self._answers)):
            self._writers.add(sink)
            task = asyncio.create_task(self._pass_on(source, sink, gate))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        try:
            while chunk := await source.read(65_536):
                await gate.wait()
                sink.write(chunk)
                await sink.drain()
        except OSError:
            pass
        finally:
            self._writers.discard(sink)
            sink.transport.abort()


@asynccontextmanager
async def tcp_proxy(address: str) -> AsyncIterator[TcpProxy]:
    """Run a proxy before `host:port`."""
    host, _, port = address.rpartition(":")
    proxy = TcpProxy(host, int(port))
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
