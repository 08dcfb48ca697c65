"""Spouts: how the pieces of an answer without an end get to its connection."""

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

CYCLE = "posegate.cycle"
"""Where a connection puts what writes the answer of a request, for paths that end in `STREAMED`."""

STREAMED = "/watch"


class Spout:
    """Writes pieces of an answer straight to its connection, past the layers that its head went through.

    Each of them would take a step for each piece, and there is nothing in a piece for them to see.
    """

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle

    @property
    def is_open(self) -> bool:
        """Say whether the client is there and reads, so that a piece may be written now."""
        cycle = self._cycle
        return not (cycle.flow.write_paused or cycle.disconnected or cycle.response_complete) and bool(
            cycle.chunked_encoding and not cycle.transport.is_closing()
        )

    def write(self, piece: bytes) -> None:
        """Write a piece as a chunk."""
        self._cycle.transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
