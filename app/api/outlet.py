"""Outlets: what requests are answered through, so that closing stays the connection's, and how it ends one."""

import asyncio
from collections.abc import Callable, Iterable

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from app.api.problems import ProblemError, written


class Outlet(asyncio.Transport):
    """Bytes go straight to the socket until the outlet is shut; when to close it is the connection's to know."""

    def __init__(self, wire: asyncio.Transport, leave: Callable[[], None]) -> None:
        super().__init__()
        self._wire = wire
        self._is_shut = False
        self.close = leave  # type: ignore[method-assign]  # what the connection does instead
        self.write = wire.write  # type: ignore[method-assign]  # one call less for each answer

    def shut(self) -> None:
        """Drop whatever is still written: the last words have been said."""
        self._is_shut = True
        self.write = self._drop  # type: ignore[method-assign]  # see above

    def is_closing(self) -> bool:
        """Say whether nothing more is sent."""
        return self._is_shut or self._wire.is_closing()

    def _drop(self, data: bytes | bytearray | memoryview) -> None:
        """Drop what is written."""


def last_words(problem: ProblemError, headers: Iterable[tuple[bytes, bytes]], *, retry_after: int) -> bytes:
    """Give the whole answer, with `headers` besides its own, that tells a problem and ends a connection."""
    response = written(problem, retry_after=retry_after)
    return wire_bytes(response, [*headers, *response.raw_headers, (b"connection", b"close")])


def wire_bytes(response: Response, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Give an answer as it is sent, with these headers."""
    head = b"".join(b"%b: %b\r\n" % line for line in headers)
    return STATUS_LINE[response.status_code] + head + b"\r\n" + bytes(response.body)
