"""A node that does as it is told: it keeps what a balancer sends, and can be unready, slow, or go away at once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cluster.nodes import Node

DEATH = "/v1/scenes/a/death"
HELD = "/v1/scenes/a/held"


class Scripted(Node):
    """A node of the balancer that is no process. It says its name to every request but these: DEATH, HELD.

    At DEATH the connection ends without an answer. HELD is answered once `release` is set; `is_held` says that it came.
    """

    def __init__(self, name: str) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.is_welcoming = True
        self.is_held, self.release = threading.Event(), threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        super().__init__(name, Path("unused.log"), port=self._server.server_port, journal_url="", settings={})
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def paths(self) -> list[str]:
        """The paths that were asked for, in order."""
        return [path for path, _ in self.requests]

    def close(self) -> None:
        """Listen no more: whoever connects is refused."""
        self.release.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a connection that its other end let go of."""


def _handler(node: Scripted) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # One write for an answer: head and body apart would wait for each other's acknowledgement.
        wbufsize = -1

        def do_GET(self) -> None:
            if self.path == "/readyz":
                return self._answer(200 if node.is_welcoming else 503, b"")
            node.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            if self.path == DEATH:
                self.close_connection = True
                return None
            if self.path == HELD:
                node.is_held.set()
                node.release.wait(10)
            return self._answer(200, node.name.encode())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as the library names it
            """Say nothing."""

    return Handler


@contextmanager
def scripted(count: int) -> Iterator[list[Scripted]]:
    """Give nodes that listen, and close them at the end."""
    nodes = [Scripted(f"node-{number}") for number in range(1, count + 1)]
    try:
        yield nodes
    finally:
        for node in nodes:
            node.close()
