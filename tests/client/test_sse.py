import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posegate_client.problems import NotPosegate
from posegate_client.sse import EventStream, Message

TEXT = (
    b"retry: 1000\n\n:\n\n: a comment\n\nevent: decisions\nid: 7\ndata: {\n"
    b"data: }\n\nid: 9\n\r\nevent: end\r\ndata:x\r\rdata\n\nunknown: y\ndata:  z\n\n"
)
MESSAGES = [
    Message("decisions", b"{\n}", "7"),
    Message("message", None, "9"),
    Message("end", b"x", None),
    Message("message", b"", None),
    Message("message", b" z", None),
]


def taken(*chunks, most=1000):
    stream = EventStream(event_bytes_max=most)
    return [message for chunk in chunks for message in stream.taken(chunk)]


@given(st.lists(st.integers(0, len(TEXT)), max_size=12).map(sorted))
def test_events_are_the_same_however_the_stream_is_cut(cuts):
    places = [0, *cuts, len(TEXT)]
    chunks = [TEXT[start:end] for start, end in itertools.pairwise(places)]

    assert taken(*chunks) == MESSAGES


def test_half_an_event_is_none():
    assert taken(b"data: x\n") == []
    assert taken(b"data: x") == []
    assert taken(b"data: x\n", b"\n") == [Message("message", b"x", None)]


@pytest.mark.parametrize("chunks", [[b"data: " + b"x" * 100], [b"data: 0123456789\n"] * 8, [b"x"] * 80])
def test_an_event_beyond_the_bound_is_not_held(chunks):
    with pytest.raises(NotPosegate, match="64 bytes"):
        taken(*chunks, most=64)


def test_what_is_no_text_does_not_break_the_stream():
    assert taken(b"event: \xff\nid: \0\ndata: \xff\n\n") == [Message("\ufffd", b"\xff", None)]
