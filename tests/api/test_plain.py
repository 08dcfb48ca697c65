"""Plain bodies: whatever is read in one step is what the strict way reads; whatever may be wrong is left to it."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api import decode, plain
from app.api.batch import decoded
from app.api.callers import ANYBODY
from app.api.envelope import of_scene
from app.api.problems import ProblemError
from app.gates.bundle import Bundle
from app.gates.tick import Tick
from app.sequencing.mailbox import Addressed
from app.settings import Settings
from tests.api.test_decode import BODIES
from tests.api.test_doors import asked
from tests.api.test_fuzz import BROKEN

SETTINGS = Settings()
BEGIN = {"command": "begin", "character": "hero", "layer": "base", "target": "Run"}


def quickly(body: bytes, *, msgpack: bool = False) -> list[Addressed | None] | None:
    """Read a batch in one step; None at a place, or for all, that has to be read closely."""
    wires = (plain.wires_of_msgpack if msgpack else plain.wires_of_json)(body, SETTINGS)
    return None if wires is None else [plain.addressed(wire, SETTINGS) for wire in wires]


def closely(body: bytes) -> list[Any]:
    """Read a batch the strict way."""
    return asyncio.run(decoded(decode.members(decode.parse(body, SETTINGS), SETTINGS), SETTINGS, ANYBODY))


def of(*commands: dict[str, Any]) -> bytes:
    return json.dumps({"commands": commands}).encode()


def ticking(*requests: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"requests": requests, "seal": 3, **more}).encode()


def tick_closely(body: bytes) -> Tick | Bundle:
    """Read a tick the strict way."""
    return of_scene("tick", decode.members(decode.parse(body, SETTINGS), SETTINGS), SETTINGS)


def request(name: str, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Give a command as a request of a tick, whose `tick` is the one that it waits for."""
    return {"command": name, "character": "hero", **fields, "tick": 5, "source": "p1", "number": 7, **more}


def same(quick: list[Addressed | None] | None, close: list[Any]) -> bool:
    """Say whether what was read quickly is what was read closely, as far as it was read; NaN is NaN."""
    return quick is None or [repr(each) for each in quick] == [
        repr(None if one is None else other) for one, other in zip(quick, close, strict=True)
    ]


@pytest.mark.parametrize("name", BODIES)
def test_every_command_of_a_character_is_read_in_one_step(name: str):
    body = of({"command": name, "character": "hero", "key": "a-key-of-mine", **BODIES[name]})

    quick = quickly(body)

    assert quick is not None
    assert None not in quick
    assert quick == closely(body)
    as_msgpack = quickly(msgspec.msgpack.encode(json.loads(body)), msgpack=True)
    assert as_msgpack == (None if name == "submit-candidate" else quick)


@given(st.lists(asked(), min_size=1, max_size=3), st.booleans())
@settings(max_examples=500, deadline=None)
def test_what_is_read_in_one_step_is_what_the_strict_way_reads(commands: list[tuple[str, dict[str, Any]]], keyed: bool):
    items = [
        {"command": name, "character": "hero", **({"key": "a-key-of-mine"} if keyed else {}), **body}
        for name, body in commands
    ]
    body = of(*items)

    assert same(quickly(body), closely(body))


@given(st.data())
@settings(max_examples=500, deadline=None)
def test_a_body_that_was_damaged_is_never_read_otherwise_than_the_strict_way_reads_it(data: st.DataObject):
    name, fields = data.draw(asked())
    text = of({"command": name, "character": "hero", **fields})
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(len(text), at + 12)))
    body = (
        text[:at]
        + data.draw(st.just(b"") | BROKEN | st.binary(max_size=6) | st.sampled_from([text[at:until] * 2]))
        + text[until:]
    )
    quick = quickly(body)
    if quick is None:
        return

    assert same(quick, closely(body))


@pytest.mark.parametrize(
    "body",
    [
        b'{"commands": [{"command": "begin", "character": "hero", "layer": "base", "target": "Run", "target": "Run"}]}',
        b'{"commands": [], "commands": []}',
        b'{"commands": [{"command": "begin", "character": "hero", "layer": "base", "target": "Run", "x": 1}]}',
        b'{"commands": [{"command": "begin", "character": "hero", "layer": "b\\u0061se", "target": "Run"}]}',
        b'{"commands": [{"command": "commit-loop", "character": "hero", "clip_instance": 4.0, "loop": 0}]}',
        b'{"commands": [{"command": "play", "character": "hero", "clip": "Walk", "data": {"a": 1, "a": 1}}]}',
        b'{"commands": [{"command": "despawn", "character": "hero"}]}',
        b'{"commands": [{"command": "tick", "seal": 3}]}',
        b'{"commands": [{"command": "begin", "character": "hero", "layer": "base", "target": "Run", "key": null}]}',
        b'{"commands": [], "link": true}',
        b'{"commands": [{"command": "complete", "character": "hero", "token": {"answer": 0}}]}',
        b"[" * 5000,
        b"",
    ],
)
def test_what_is_out_of_the_ordinary_is_read_closely(body: bytes):
    assert quickly(body) is None


@pytest.mark.parametrize(
    "item",
    [
        {**BEGIN, "character": "no/id"},
        {**BEGIN, "key": "short"},
        {**BEGIN, "data": "x" * 2_000},
        {**BEGIN, "layer": "a\x7fb"},
        {"command": "commit-parameters", "character": "hero", "values": [{"name": "Speed", "value": 2**53 + 1}]},
    ],
)
def test_a_command_that_would_be_refused_is_read_closely(item: dict[str, Any]):
    body = json.dumps({"commands": [item]}, ensure_ascii=False).encode()

    assert quickly(body) == [None]
    assert all(isinstance(place, ProblemError) for place in closely(body))


def test_in_messagepack_a_member_that_stands_twice_or_is_written_long_is_read_closely():
    item = msgspec.msgpack.encode(BEGIN)
    twice = b"\x81" + msgspec.msgpack.encode("commands") + b"\x91" + bytes([item[0] + 1]) + item[1:]
    twice += msgspec.msgpack.encode("target") + msgspec.msgpack.encode("Run")
    long = b"\x81" + msgspec.msgpack.encode("commands") + b"\xdc\x00\x01" + item
    # A 32-bit float is written four bytes longer again, and the member that stands twice has four.
    value = b"\x83\xa2id\x01\xa2id\x02" + msgspec.msgpack.encode("value") + b"\xca\x3f\xc0\x00\x00"
    commit = {"command": "commit-parameters", "character": "hero", "values": [msgspec.Raw(value)]}
    made_up_for = msgspec.msgpack.encode({"commands": [commit]})

    assert quickly(twice, msgpack=True) is None
    assert quickly(made_up_for, msgpack=True) is None
    assert quickly(long, msgpack=True) is None
    assert quickly(b"\x81" + msgspec.msgpack.encode("commands") + b"\x91" + item, msgpack=True) == quickly(of(BEGIN))


def test_a_body_of_too_many_values_is_read_closely():
    few = Settings(json_values_max=8)

    assert plain.wires_of_json(of(*[BEGIN] * 9), few) is None
    assert plain.wires_of_msgpack(msgspec.msgpack.encode({"commands": [BEGIN] * 9}), few) is None


def test_a_life_and_a_holder_are_part_of_the_command():
    token = BODIES["complete"]["token"]
    body = of({**BEGIN, "life": 3, "holder": token})

    assert quickly(body) == closely(body)
    assert quickly(body) != quickly(of(BEGIN))


@pytest.mark.parametrize("name", BODIES)
def test_every_command_is_read_in_one_step_as_a_request_of_a_tick(name: str):
    body = ticking(request(name, BODIES[name]), request(name, BODIES[name], number=8, priority=-1), rollback=1)

    quick = plain.tick_of_json(body, SETTINGS)

    assert quick is not None
    assert quick == tick_closely(body)


@given(st.lists(asked(), min_size=1, max_size=3), st.integers(-2, 2**53), st.integers(-1, 2**53), st.text(max_size=3))
@settings(max_examples=500, deadline=None)
def test_a_tick_that_is_read_in_one_step_is_what_the_strict_way_reads(
    commands: list[tuple[str, dict[str, Any]]], tick: int, number: int, source: str
):
    items = [{**request(name, fields), "tick": tick, "number": number, "source": source} for name, fields in commands]
    body = json.dumps({"requests": items, "seal": tick}, ensure_ascii=False).encode("utf-8", "surrogatepass")

    quick = plain.tick_of_json(body, SETTINGS)

    assert quick is None or repr(quick) == repr(tick_closely(body))


@given(st.data())
@settings(max_examples=500, deadline=None)
def test_a_tick_that_was_damaged_is_never_read_otherwise_than_the_strict_way_reads_it(data: st.DataObject):
    name, fields = data.draw(asked())
    text = ticking(request(name, fields))
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(len(text), at + 12)))
    damage = data.draw(st.just(b"") | BROKEN | st.binary(max_size=6) | st.sampled_from([text[at:until] * 2]))
    body = text[:at] + damage + text[until:]

    quick = plain.tick_of_json(body, SETTINGS)

    assert quick is None or repr(quick) == repr(tick_closely(body))


FOR_TICK = request("begin", {"layer": "base", "target": "Run"})


@pytest.mark.parametrize(
    "body",
    [
        b'{"seal": 3}',
        ticking(FOR_TICK, holder=BODIES["complete"]["token"]),
        ticking({**FOR_TICK, "priority": 0}),
        ticking({**FOR_TICK, "number": 7.0}),
        ticking({**FOR_TICK, "source": ""}),
        ticking({**FOR_TICK, "source": "a\x7fb"}),
        ticking({**FOR_TICK, "key": "a-key-of-mine"}),
        ticking({**FOR_TICK, "character": "no/id"}),
        ticking({**FOR_TICK, "if_generation": -1}),
        ticking({"command": "bundle", "commands": [], "tick": 5, "source": "p1", "number": 7}),
        ticking(*[FOR_TICK] * (SETTINGS.batch_commands_max + 1)),
        ticking(FOR_TICK)[:-1] + b', "seal": 3}',
        ticking(FOR_TICK, unknown=1),
    ],
)
def test_a_tick_that_is_out_of_the_ordinary_is_read_closely(body: bytes):
    assert plain.tick_of_json(body, SETTINGS) is None
