"""A server that says what a script says, one connection a line: whole answers, halves, silence, or nothing at all."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

WAIT_S_MAX = 10.0
HANG_UP = b""
"""Close the connection without a word, once the request has come."""

HOLD = b"hold"
"""Say nothing until the script ends."""


def answered(status: int, body: Any = None, **headers: str) -> bytes:
    """Write one answer after which the connection ends; a body is JSON, or bytes as they are."""
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    media_type = "application/problem+json" if status >= 400 and not isinstance(body, bytes) else "application/json"
    given = {"Content-Type": media_type, "Content-Length": str(len(content)), "Connection": "close"}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in (given | headers).items()]
    return "\r\n".join([f"HTTP/1.1 {status} Said", *lines, "", ""]).encode() + content


def problem(name: str, status: int, *, retryable: bool = False, **more: Any) -> dict[str, Any]:
    """Give the body of a problem."""
    told = {"type": f"/problems/{name}", "title": name, "status": status, "detail": "as scripted"}
    return told | {"retryable": retryable, **more}


class Script:
    """What is to be said, and what was heard: the bytes of each request, in order."""

    def __init__(self, *said: bytes) -> None:
        self.heard: list[bytes] = []
        self._said = said
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._held: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    @property
    def keys(self) -> list[bytes]:
        """The idempotency keys that came, in order."""
        lines = [line for heard in self.heard for line in heard.split(b"\r\n")]
        return [line.partition(b": ")[2] for line in lines if line.lower().startswith(b"idempotency-key")]

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Listen no more."""
        with suppress(OSError):
            # Closing alone leaves a thread in `accept` where it is.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self._held:
            connection.close()
        self._thread.join(WAIT_S_MAX)

    def _serve(self) -> None:
        for said in self._said:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            connection.settimeout(WAIT_S_MAX)
            self.heard.append(_request(connection))
            if said == HOLD:
                self._held.append(connection)
                continue
            with connection:
                connection.sendall(said)


def _request(connection: socket.socket) -> bytes:
    """Read one request, whole."""
    heard = b""
    while b"\r\n\r\n" not in heard:
        heard += connection.recv(65_536)
    head, _, body = heard.partition(b"\r\n\r\n")
    sizes = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    size = int(sizes[0].partition(b":")[2]) if sizes else 0
    while len(body) < size:
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


@contextmanager
def scripted(*said: bytes) -> Iterator[Script]:
    """Serve a script; whoever comes after its end is refused."""
    script = Script(*said)
    script.start()
    try:
        yield script
    finally:
        script.stop()
