"""A TCP proxy that can be slow, hold back what a server says or what a client says, and cut all connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class TcpProxy:
    """Listens on a free port and passes everything on to one server, after `delay_s` in either direction."""

    def __init__(self, address: str, *, listen: str = "127.0.0.1:0") -> None:
        self._target = address.rpartition(":")
        self._listen = listen.rpartition(":")
        self.delay_s = 0.0
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
        return f"{self._listen[0]}:{self._server.sockets[0].getsockname()[1]}"

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
        host, _, port = self._listen
        self._server = await asyncio.start_server(self._accept, host, int(port))

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
            host, _, port = self._target
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        for source, sink, gate in ((reader, far_writer, self._questions), (far_reader, writer, self._answers)):
            self._writers.add(sink)
            task = asyncio.create_task(self._pass_on(source, sink, gate))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        """Pass on what is said in one direction. What waits because it is slow keeps nobody from saying more."""
        clock = asyncio.get_running_loop().time
        under_way = asyncio.Queue[tuple[float, bytes]]()

        async def arrive() -> None:
            with suppress(OSError):
                while chunk := await source.read(65_536):
                    under_way.put_nowait((clock() + self.delay_s, chunk))
            under_way.put_nowait((0.0, b""))

        arriving = asyncio.create_task(arrive())
        try:
            while (waits := await under_way.get())[1]:
                at, chunk = waits
                await asyncio.sleep(at - clock())
                await gate.wait()
                sink.write(chunk)
                await sink.drain()
        except OSError:
            pass
        finally:
            arriving.cancel()
            self._writers.discard(sink)
            sink.transport.abort()


@asynccontextmanager
async def tcp_proxy(address: str) -> AsyncIterator[TcpProxy]:
    """Run a proxy before `host:port`."""
    proxy = TcpProxy(address)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
