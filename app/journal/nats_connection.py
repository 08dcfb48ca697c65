"""One connection to one NATS server, from its handshake to its loss: nats-py's, but writing and hearing at once.

nats-py does the handshake, TLS, authentication, parsing and pings. Leaning on its insides (the version is held in
`pyproject.toml`) spares a task and a queue for each subscription, lets a listener begin and end without waiting, and
sees to it that a server which stands still cannot hold up the end of its connection. A lost connection is never used
again: whoever owns it makes another, so that nothing written for the lost one is sent twice.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

from nats import errors
from nats.aio.client import Client, Srv
from nats.aio.transport import TcpTransport
from nkeys import NkeysError  # type: ignore[import-untyped]  # it carries no types

from app.journal.nats_address import Address, Server

CONNECT_S_MAX = 2
"""How long one step of connecting to a server may take, seconds."""

PING_S = 2
"""How often a server is asked whether it is there, seconds; it is given up when two questions stay open."""

PINGS_OPEN_MAX = 2

FAILURES = (
    OSError,
    EOFError,
    TimeoutError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    RuntimeError,
    errors.Error,
    NkeysError,
)
"""Whatever a handshake may end with: what a server says goes through nats-py, and must not end the search."""

Heard = Callable[[bytes, bytes, bytes], None]
"""Is told of one message, in the event loop: its subject, its header block (empty when it has none), its payload."""


class Connection(Client):
    """A connection that is made once and lost once.

    Bound:     what is written and not yet taken by the system is asked for by `unsent_bytes`; the owner holds it down.
    Senders:   one event loop.  Thread-safe: no.
    """

    def __init__(self, refused: Callable[[str], None], leaving: Callable[[], None] = lambda: None) -> None:
        """Have `refused` told what the server says no to, and `leaving` that it is about to end."""
        super().__init__()
        self._leaving = leaving
        self._listeners: dict[int, Heard] = {}
        self._refused = refused
        self._is_tls_wanted = False
        self._unwritten: list[bytes] = []
        self._unwritten_bytes = 0

    async def open(
        self, server: Server, address: Address, tls: ssl.SSLContext | None, lost: Callable[[], Awaitable[None]]
    ) -> None:
        """Connect to one server. `lost` is awaited once, in a task of nats-py, when the connection has ended.

        Raises:
            FAILURES: There is no connection, and `lost` will not be called.
        """
        require_creds(address.creds)
        self._is_tls_wanted = tls is not None

        async def lost_now() -> None:
            await lost()

        async def leaving_now() -> None:
            self._leaving()

        is_open = False
        try:
            await self.connect(
                servers=[f"{'tls' if tls else 'nats'}://{server}"],
                error_cb=_unheard,
                closed_cb=lost_now,
                lame_duck_mode_cb=leaving_now,
                name="posegate",
                allow_reconnect=False,
                connect_timeout=CONNECT_S_MAX,
                ping_interval=PING_S,
                max_outstanding_pings=PINGS_OPEN_MAX,
                dont_randomize=True,
                tls=tls,
                tls_hostname=server.host if tls else None,
                user=address.user,
                password=address.password,
                user_credentials=address.creds,
            )
            is_open = True
        finally:
            if not is_open:
                self.sever()

    def listen(self, subject: str, heard: Heard) -> int:
        """Have `heard` called for every message on a subject from now on; give the number that ends it."""
        self._sid += 1
        self._listeners[self._sid] = heard
        self.write(b"SUB %b  %d\r\n" % (subject.encode(), self._sid))
        return self._sid

    def unlisten(self, number: int) -> None:
        """End what `listen` began."""
        if self._listeners.pop(number, None) is not None and self.is_connected:
            self.write(b"UNSUB %d\r\n" % number)

    def write(self, *chunks: bytes) -> None:
        """Write whole commands to the server, in order. What a lost connection is given is dropped."""
        if not self.is_connected:
            return
        if not self._unwritten:
            # One call of the system for all that is written in one round of the event loop.
            asyncio.get_running_loop().call_soon(self._write_all)
        self._unwritten += chunks
        self._unwritten_bytes += sum(map(len, chunks))

    @property
    def unsent_bytes(self) -> int:
        """How much was written that the system has not taken yet."""
        transport = self._transport
        if not isinstance(transport, TcpTransport) or transport._io_writer is None:  # noqa: SLF001  # no other way to it
            return 0
        size: int = transport._io_writer.transport.get_write_buffer_size()  # noqa: SLF001
        return size + self._unwritten_bytes

    def sever(self) -> None:
        """Drop the connection with whatever is unsent: a server that stands still would never take it."""
        self._unwritten = []
        self._unwritten_bytes = 0
        self._pending.clear()
        self._pending_data_size = 0
        transport = self._transport
        if isinstance(transport, TcpTransport) and transport._io_writer is not None:  # noqa: SLF001
            transport._io_writer.transport.abort()  # noqa: SLF001

    def _write_all(self) -> None:
        unwritten, self._unwritten, self._unwritten_bytes = self._unwritten, [], 0
        if unwritten and self.is_connected and self._transport is not None:
            self._transport.write(b"".join(unwritten))

    async def _select_next_server(self) -> None:
        """Take the one server there is, once; nats-py would try again by itself, for ever and without telling."""
        server: Srv = self._server_pool[0]
        await self._connect_to_server(server)
        self._current_server = server

    def _connect_command(self) -> bytes:
        """Give what introduces us, password included: never in the clear to a server that was to speak TLS."""
        if self._is_tls_wanted and not self._server_info.get("tls_required"):
            raise errors.Error("the server does not ask for TLS")
        command: bytes = super()._connect_command()
        return command

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
        """Hand one message to who listens."""
        heard = self._listeners.get(sid)
        if heard is not None:
            heard(subject, headers or b"", data)

    async def _process_err(self, err_msg: str) -> None:
        """End the connection over an error, but for a subject that is not permitted: the others go on."""
        self._refused(err_msg.strip("'"))
        if "permissions violation" not in err_msg:
            await self._process_op_err(errors.Error(err_msg))

    async def _process_op_err(self, e: Exception) -> None:
        """End the connection at once, whatever is unsent."""
        if not self.is_closed:
            self.sever()
        await super()._process_op_err(e)


class Repetition:
    """What is written to a connection again, each time after twice as long, until it is stopped or that is lost."""

    __slots__ = ("_again_s", "_chunks", "_connection", "_timer")

    def __init__(self, connection: Connection, chunks: tuple[bytes, ...], again_s: float) -> None:
        self._connection, self._chunks, self._again_s = connection, chunks, again_s
        self._timer = asyncio.get_running_loop().call_later(again_s, self._repeat)

    def stop(self) -> None:
        """Send it no more."""
        self._timer.cancel()

    def _repeat(self) -> None:
        self._connection.write(*self._chunks)
        self._again_s *= 2
        self._timer = asyncio.get_running_loop().call_later(self._again_s, self._repeat)


def require_creds(path: str | None) -> None:
    """See that a file of credentials is one; nats-py would look for its first line for ever.

    Raises:
        OSError, ValueError: It is none.
    """
    if path is not None:
        text = Path(path).read_bytes()
        if b"BEGIN NATS USER JWT" not in text or b"BEGIN USER NKEY SEED" not in text:
            raise ValueError("the file that `creds` names holds no JWT and seed")


async def _unheard(_: Exception) -> None:
    """Take what nats-py tells of attempts: whoever opens a connection hears it as an exception."""
