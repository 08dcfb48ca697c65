"""Formats: MessagePack is read as strictly as JSON, and means the same."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api.formats import FORMATS, JSON, MSGPACK
from app.api.problems import ProblemError
from app.settings import Settings
from tests.support.caller import Caller

SETTINGS = Settings()
pack = msgspec.msgpack.encode
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
)


def problem(body: bytes, limits: Settings = SETTINGS) -> str:
    with pytest.raises(ProblemError) as raised:
        MSGPACK.parse(body, limits)
    return raised.value.name


@given(VALUES)
@settings(deadline=None)
def test_both_formats_read_the_same_values(values: Any):
    assert MSGPACK.parse(pack(values), SETTINGS) == values
    assert repr(JSON.parse(msgspec.json.encode(values), SETTINGS)) == repr(MSGPACK.parse(pack(values), SETTINGS))
    assert MSGPACK.of_json(msgspec.json.encode(values)) == pack(msgspec.json.decode(msgspec.json.encode(values)))


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b"", "malformed-msgpack"),
        (b"\xc1", "malformed-msgpack"),
        (b"\x81\xa1a", "malformed-msgpack"),
        (b"\xa1\xff", "malformed-msgpack"),
        (pack(1) + pack(2), "malformed-msgpack"),
        (pack({"a": b"bytes"}), "malformed-msgpack"),
        (pack([datetime(2026, 11, 30, tzinfo=UTC)]), "malformed-msgpack"),
        (pack([msgspec.msgpack.Ext(5, b"x")]), "malformed-msgpack"),
        (pack({1: "a"}), "malformed-msgpack"),
        (pack({b"a": 1}), "malformed-msgpack"),
        (b"\x82\xa1a\x01\xa1a\x02", "duplicate-json-key"),
        (b"\x91\x82\xa1a\x01\xa1a\x01", "duplicate-json-key"),
        # A 32-bit float is written four bytes longer again, and the member that stands twice has four.
        (b"\x83\xa2id\x01\xa2id\x02\xa1x\xca\x3f\xc0\x00\x00", "duplicate-json-key"),
        (b"\x91" * 201 + b"\x01", "too-large"),
        (b"\x81\xa1a" * 900 + b"\x01", "too-large"),
        (b"\x91" * 100_000 + b"\x01", "too-large"),
    ],
)
def test_what_json_has_not_is_refused_by_name(body: bytes, name: str):
    assert problem(body) == name


def test_a_value_that_is_written_longer_than_it_needs_is_a_value():
    assert MSGPACK.parse(b"\xdf\x00\x00\x00\x01\xd9\x01a\xcd\x00\x07", SETTINGS) == {"a": 7}


def test_too_many_values_are_not_looked_at():
    assert problem(pack([0] * 9), Settings(json_values_max=8)) == "too-large"
    assert MSGPACK.parse(pack([0] * 16_384), SETTINGS) == [0] * 16_384
    assert problem(pack([0] * 16_385)) == "too-large"


@given(st.binary(max_size=40))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_values_or_a_problem(body: bytes):
    with suppress(ProblemError):
        MSGPACK.parse(body, SETTINGS)


def test_formats_are_found_by_their_media_types():
    assert {"application/json": JSON, "application/msgpack": MSGPACK} == FORMATS


def test_a_batch_is_answered_in_the_format_it_came_in(call: Caller):
    call.spawn()
    commands = [
        {"command": "begin", "character": "hero", "layer": "base", "target": "Run"},
        {"command": "begin", "character": "nobody", "layer": "base", "target": "Run"},
        {"command": "begin", "character": "hero", "layer": "nowhere", "target": "Run"},
        {"command": "nonsense", "character": "hero"},
    ]

    reply = call.ask("POST", "batch", pack({"commands": commands}), **{"content-type": "application/msgpack"})

    assert (reply.status, reply.media_type) == (200, "application/msgpack")
    answers = msgspec.msgpack.decode(reply.content)["answers"]
    assert [answer.get("outcome", answer.get("problem", {}).get("type")) for answer in answers] == [
        *("granted", "/problems/unknown-character", "unknown_layer", "/problems/invalid")
    ]
    assert answers[0]["token"]["seal"]
