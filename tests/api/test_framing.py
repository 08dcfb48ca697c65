"""Framing: whole messages out of whatever comes, and a reason for what is no frame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from picows import WSMsgType
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, Protocol

from app.api import framing
from app.api.framing import (
    BINARY,
    CLOSE,
    NO_STATUS,
    PING,
    TEXT,
    Closing,
    Framing,
    Message,
    NotAKey,
    close_frame,
    closing_of,
    framed,
)
from tests.support.channelled import ACCEPT, KEY
from tests.support.channelled import framed as masked

LIMIT = 1_000


@pytest.fixture(autouse=True)
async def _in_a_loop() -> None:
    """The library wants to be within an event loop."""


def framing_of(*, message_bytes_max: int = LIMIT, fragments_max: int = 4) -> Framing:
    return Framing(message_bytes_max=message_bytes_max, fragments_max=fragments_max)


def read(reader: Framing, data: bytes, size: int) -> list[Message]:
    """Feed data in pieces."""
    return [message for at in range(0, len(data), size) for message in reader.read(data[at : at + size])]


async def test_a_handshake_is_answered_as_the_standard_says():
    assert Framing(KEY, message_bytes_max=LIMIT, fragments_max=4).accept == ACCEPT


@pytest.mark.parametrize("key", ["", "short", "AAAA", "é" * 24, "A" * 10_000, "AAAAAAAAAAAAAAAAAAAAAA==\r\nX: y"])
async def test_what_is_no_key_is_refused(key: str):
    with pytest.raises(NotAKey):
        Framing(key, message_bytes_max=LIMIT, fragments_max=4)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
async def test_messages_are_whole_however_they_are_cut(size: int):
    said = [b"", b"a", b"b" * 125, b"c" * 126, b"d" * 999]
    data = b"".join(masked(Opcode.TEXT, each) for each in said)
    reader = framing_of()

    messages = read(reader, data, size)

    assert messages == [(TEXT, each) for each in said]
    assert reader.held_bytes == 0
    assert reader.violation is None


async def test_fragments_are_joined_and_a_ping_may_come_between_them():
    reader = framing_of()

    messages = reader.read(
        masked(Opcode.BINARY, b"one ", fin=False)
        + masked(Opcode.PING, b"there?")
        + masked(Opcode.CONT, b"", fin=False)
        + masked(Opcode.CONT, b"two")
    )

    assert messages == [(PING, b"there?"), (BINARY, b"one two")]
    assert reader.held_bytes == 0


async def test_it_says_how_much_is_held_of_a_message_that_is_not_whole():
    reader = framing_of()

    reader.read(masked(Opcode.TEXT, b"x" * 100, fin=False) + masked(Opcode.CONT, b"y" * 50)[:20])

    assert reader.held_bytes == 120


HEAD = bytes([0x81, 0x80])
"""A text frame without anything in it, before its mask."""


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(Frame(Opcode.TEXT, b"bare").serialize(mask=False), 1002, id="unmasked"),
        pytest.param(b"\x83\x80mask", 1002, id="an opcode that there is none of"),
        pytest.param(b"\xc1\x80mask", 1002, id="a reserved bit"),
        pytest.param(b"\xa9\x80mask", 1002, id="a reserved bit of a ping"),
        pytest.param(b"\x89\xfe\x00\x7e", 1002, id="a ping of 126 bytes"),
        pytest.param(b"\x09\x80mask", 1002, id="half a ping"),
        pytest.param(b"\x81\xfe\x00\x05mask", 1002, id="a length that is longer than it needs"),
        pytest.param(b"\x81\xff\x80" + b"\0" * 7, 1002, id="a length that is negative"),
        pytest.param(masked(Opcode.CONT, b"of what?"), 1002, id="a fragment of nothing"),
        pytest.param(masked(Opcode.TEXT, b"a", fin=False) + masked(Opcode.TEXT, b"b"), 1002, id="a text in a text"),
        pytest.param(masked(Opcode.CLOSE, b"\x03"), 1002, id="half a close code"),
        pytest.param(masked(Opcode.CLOSE, b"\x03\xed"), 1002, id="a close code that is never sent"),
        pytest.param(masked(Opcode.CLOSE, b"\x03\xe8\xff"), 1007, id="a reason that is no text"),
        pytest.param(masked(Opcode.TEXT, b"x" * (LIMIT + 1)), 1009, id="a large message"),
        pytest.param(b"\x81\xff" + b"\x7f" + b"\xff" * 7, 1009, id="a message of 2^63 bytes"),
        pytest.param(
            masked(Opcode.TEXT, b"x" * LIMIT, fin=False) + masked(Opcode.CONT, b"x"), 1009, id="large in fragments"
        ),
        pytest.param(
            masked(Opcode.TEXT, b"", fin=False) + masked(Opcode.CONT, b"", fin=False) * 4, 1009, id="many fragments"
        ),
    ],
)
async def test_what_is_no_message_ends_the_reading_behind_what_came_before(data: bytes, code: int):
    reader = framing_of()

    messages = reader.read(masked(Opcode.TEXT, b"before") + data + masked(Opcode.TEXT, b"behind"))

    assert messages == [(TEXT, b"before")]
    assert reader.violation is not None
    assert reader.violation.code == code
    assert 0 < len(reader.violation.reason.encode()) <= 123
    assert reader.read(masked(Opcode.TEXT, b"later")) == []


async def test_a_message_of_just_the_limit_is_taken():
    reader = framing_of()

    assert reader.read(masked(Opcode.TEXT, b"x" * LIMIT)) == [(TEXT, b"x" * LIMIT)]
    assert reader.violation is None


async def test_what_a_large_message_needed_is_let_go_and_small_ones_do_not_need_it():
    reader = framing_of(message_bytes_max=4_000_000)
    small = masked(Opcode.TEXT, b"small") * 50_000

    many = read(reader, small, 262_144)
    room_after_many = len(reader._reader.get_buffer(-1))
    large = read(reader, masked(Opcode.TEXT, b"x" * 3_000_000), 262_144)

    assert len(many) == 50_000
    assert room_after_many <= framing.BUFFER_KEPT_BYTES_MAX
    assert [len(data) for _, data in large] == [3_000_000]
    assert len(reader._reader.get_buffer(-1)) < framing.BUFFER_BYTES
    assert reader.read(masked(Opcode.TEXT, b"again")) == [(TEXT, b"again")]


PARTS = st.lists(st.binary(max_size=300), min_size=1, max_size=4)


@given(said=st.lists(PARTS, max_size=6), cuts=st.lists(st.integers(1, 40), min_size=1, max_size=20))
async def test_any_fragments_in_any_pieces_give_the_messages_that_were_sent(said: list[list[bytes]], cuts: list[int]):
    reader = framing_of(message_bytes_max=2_000)
    data = b"".join(
        masked(Opcode.CONT if at else Opcode.BINARY, part, fin=at == len(parts) - 1)
        for parts in said
        for at, part in enumerate(parts)
    )

    messages: list[Message] = []
    number = 0
    while data:
        size = cuts[number % len(cuts)]
        messages += reader.read(data[:size])
        data, number = data[size:], number + 1

    assert messages == [(BINARY, b"".join(parts)) for parts in said]


@given(data=st.binary(max_size=400))
async def test_no_bytes_at_all_are_too_much_for_it(data: bytes):
    reader = framing_of()

    for kind, message in reader.read(data):
        assert kind in set(WSMsgType)
        assert len(message) <= LIMIT
    assert reader.held_bytes <= len(data)


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
async def test_a_frame_is_what_a_client_reads(size: int):
    reading = Protocol(CLIENT, max_size=None)

    reading.receive_data(framed(TEXT, b"x" * size) + framed(PING, b""))

    frames = [event for event in reading.events_received() if isinstance(event, Frame)]
    assert [(frame.opcode, len(frame.data)) for frame in frames] == [(Opcode.TEXT, size), (Opcode.PING, 0)]


async def test_a_close_frame_says_why_as_long_as_that_is_not_too_long():
    short = closing_of(close_frame(Closing(4408, "no pong came"))[2:])
    long = closing_of(close_frame(Closing(1011, "é" * 100))[2:])

    assert short == (4408, "no pong came")
    assert long == (1011, "é" * 61)
    assert close_frame(Closing(NO_STATUS)) == framed(CLOSE, b"")


async def test_a_clients_close_frame_is_read():
    assert closing_of(b"") == Closing(NO_STATUS)
    assert closing_of(b"\x03\xe8bye") == (1000, "bye")
    assert closing_of(b"\x13\x88").code == 1002


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 2999, 5000, 65_535])
async def test_a_code_that_no_close_frame_may_have_is_not_given_back(code: int):
    framing = framing_of()

    messages = framing.read(masked(Opcode.CLOSE, code.to_bytes(2, "big")))

    found = framing.violation or closing_of(messages[0][1])
    assert found.code == 1002
