"""Outlets: nothing goes out behind the last words, and the last words are a whole answer."""

import asyncio
import json

from app.api.outlet import Outlet, last_words
from app.api.problems import ProblemError


class Wire(asyncio.Transport):
    """Remembers what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.is_closed


def test_bytes_go_out_until_the_outlet_is_shut():
    wire = Wire()
    outlet = Outlet(wire, lambda: None)

    outlet.write(b"one")
    was_closing = outlet.is_closing()
    outlet.shut()
    outlet.write(b"two")

    assert wire.written == [b"one"]
    assert (was_closing, outlet.is_closing()) == (False, True)


def test_closing_is_left_to_the_connection():
    told: list[str] = []
    wire = Wire()
    outlet = Outlet(wire, lambda: told.append("leave"))

    outlet.close()

    assert (told, outlet.is_closing()) == (["leave"], False)


def test_an_outlet_whose_socket_is_closed_is_closing():
    wire = Wire()
    wire.is_closed = True

    assert Outlet(wire, lambda: None).is_closing()


def test_last_words_are_a_whole_answer_that_says_it_is_the_last():
    words = last_words(ProblemError("request-timeout", "why", limit=7), [(b"date", b"today")], retry_after=3)

    head, _, body = words.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "HTTP/1.1 408 Request Timeout"
    assert set(lines[1:]) == {
        "date: today",
        "retry-after: 3",
        f"content-length: {len(body)}",
        "content-type: application/problem+json",
        "connection: close",
    }
    assert json.loads(body)["type"] == "/problems/request-timeout"
