"""A relay between a client and a service: the service may go away and come back elsewhere, and lines may be cut."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CHUNK_BYTES = 65_536
WAIT_S_MAX = 10.0


class Relay:
    """Passes bytes on to `target`, a port of this machine; without one it closes whoever comes."""

    def __init__(self) -> None:
        self.target: int | None = None
        self.connections = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def cut(self) -> None:
        """Cut every line there is."""
        with self._lock:
            lines, self._open = self._open, set()
        for line in lines:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            line.close()

    def stop(self) -> None:
        """Pass nothing on any more."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()
        for thread in self._threads:
            thread.join(WAIT_S_MAX)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            try:
                server = socket.create_connection(("127.0.0.1", self.target or 1), WAIT_S_MAX)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                self._open |= {client, server}
            for one, other in ((client, server), (server, client)):
                thread = threading.Thread(target=self._pass_on, args=(one, other), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while chunk := one.recv(CHUNK_BYTES):
                other.sendall(chunk)
        for line in (one, other):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)


@contextmanager
def relayed(target: int | None = None) -> Iterator[Relay]:
    """Relay to a port, or to none yet."""
    relay = Relay()
    relay.target = target
    try:
        yield relay
    finally:
        relay.stop()
