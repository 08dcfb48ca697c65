"""A spout is open only as long as a client is there and reads, and writes chunks as the head said."""

from types import SimpleNamespace
from typing import Any

import pytest

from app.api.spout import Spout


class Outlet:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.is_shut = False

    def write(self, data: bytes) -> None:
        """Keep it."""
        self.written += data

    def is_closing(self) -> bool:
        """Say whether it was shut."""
        return self.is_shut


def cycle(**changed: Any) -> Any:
    """Give what writes the answer of a request under way."""
    flow = SimpleNamespace(write_paused=changed.pop("write_paused", False))
    state = {"disconnected": False, "response_complete": False, "chunked_encoding": True, **changed}
    return SimpleNamespace(flow=flow, transport=Outlet(), **state)


def test_it_writes_chunks():
    answering = cycle()
    spout = Spout(answering)

    spout.write(b"x" * 17)

    assert spout.is_open
    assert answering.transport.written == b"11\r\n" + b"x" * 17 + b"\r\n"


@pytest.mark.parametrize(
    "changed",
    [{"write_paused": True}, {"disconnected": True}, {"response_complete": True}, {"chunked_encoding": None}],
)
def test_it_is_shut_when_the_client_does_not_read_or_is_gone(changed: dict[str, Any]):
    assert not Spout(cycle(**changed)).is_open


def test_it_is_shut_when_the_connection_closes():
    answering = cycle()
    answering.transport.is_shut = True

    assert not Spout(answering).is_open
