"""Plain bodies: commands that are read in one step, since nothing about them is out of the ordinary.

What is read here is what `decode` and `envelope` would have read. Whatever they might refuse, or read otherwise, is
left to them: an escaped letter, a member that stands twice or that nobody knows, 4.0 for 4, a command of the scene.
"""

from collections.abc import Callable
from ctypes import c_float
from operator import attrgetter
from typing import Any, Union

import msgspec
from msgspec import UNSET, Struct, UnsetType, defstruct

from app.api import decode
from app.api.problems import ProblemError
from app.gates.decision import Command, name_of
from app.gates.identity import Number as Life
from app.gates.identity import Token, is_identifier
from app.gates.parameter import CommitParameters
from app.sequencing.mailbox import Addressed
from app.settings import Settings

_NO_REFERENCES: dict[str, int] = {}
_OPAQUE = ("payload", "data", "evaluation")
_UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)

FLOAT32 = b"\xca"
"""How a 32-bit float begins in MessagePack: the one value that is written longer again than it came, as 64 bits."""


class Wire(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One command as it comes with others: what it is for, its key, and what every command may add."""

    character: str
    key: str | None = None
    life: Life | UnsetType = UNSET
    holder: Token | UnsetType = UNSET


class _Reading(Struct, frozen=True):
    """How the wire form of one command becomes the command: `fields` gives its own, in the order it takes them."""

    command: type[Command]
    fields: Callable[[Any], tuple[Any, ...]]
    check: Callable[[Any, Settings], Any] | None
    opaque: Callable[[Any], Any] | None


def _wire(command: type[Command]) -> type[Wire]:
    """Give the wire form of a command: its own fields besides those of every command."""
    own = [field for field in msgspec.structs.fields(command) if field.name not in ("life", "holder")]
    fields = [(each.name, each.type) if each.required else (each.name, each.type, each.default) for each in own]
    wire: type[Wire] = defstruct(  # type: ignore[assignment]  # with `Wire` for its base it is one
        f"{command.__name__}Wire",
        fields,
        bases=(Wire,),
        frozen=True,
        gc=False,
        kw_only=True,
        omit_defaults=True,
        forbid_unknown_fields=True,
        tag_field="command",
        tag=name_of(command),
    )
    return wire


def _reading(command: type[Command], wire: type[Wire]) -> _Reading:
    names = [field.name for field in msgspec.structs.fields(command) if field.name not in ("life", "holder")]
    given = attrgetter(*names)
    fields = given if len(names) > 1 else lambda each: (given(each),)
    opaque = next((name for name in names if name in _OPAQUE), None)
    return _Reading(command, fields, decode.check_of(command), None if opaque is None else attrgetter(opaque))


_WIRES = {_wire(command): command for command in decode.SINGLE}
_READINGS = {wire: _reading(command, wire) for wire, command in _WIRES.items()}


class _Batch(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    commands: list[Union[tuple(_WIRES)]]  # type: ignore[valid-type]  # noqa: UP007  # made of what there is


_decode_json = msgspec.json.Decoder(_Batch).decode
_encode_json = msgspec.json.Encoder().encode
_decode_msgpack = msgspec.msgpack.Decoder(_Batch).decode
_encode_msgpack = msgspec.msgpack.Encoder().encode


def wires_of_json(body: bytes, settings: Settings) -> list[Wire] | None:
    """Read a batch of JSON; None where it has to be read closely.

    A member that stands twice, and one that says what is so anyway, is not written again: then the colons differ.
    """
    if b"\\" in body or decode.holds_many_values(body, settings):
        return None
    try:
        batch = _decode_json(body)
    except _UNREADABLE:
        return None
    return batch.commands if _encode_json(batch).count(b":") == body.count(b":") else None


def wires_of_msgpack(body: bytes, settings: Settings) -> list[Wire] | None:
    """Read a batch of MessagePack; None where it has to be read closely: opaque values may be no JSON."""
    try:
        batch = _decode_msgpack(body)
    except _UNREADABLE:
        return None
    if len(batch.commands) > settings.json_values_max or len(_encode_msgpack(batch)) != len(body):
        return None
    if FLOAT32 in body and any(map(_may_be_short, batch.commands)):
        return None
    for wire in batch.commands:
        opaque = _READINGS[type(wire)].opaque
        if opaque is not None and opaque(wire) is not UNSET:
            return None
    return batch.commands


def _may_be_short(wire: Any) -> bool:
    """Say whether a parameter may have come as a 32-bit float: it has a value that one can have."""
    if _READINGS[type(wire)].command is not CommitParameters:
        return False
    floats = [item.value for item in wire.values if type(item.value) is float]
    return any(value != value or c_float(value).value == value for value in floats)


def addressed(wire: Wire, settings: Settings) -> Addressed | None:
    """Give the command of its wire form; None where it has to be read closely."""
    reading, key, character = _READINGS[type(wire)], wire.key, wire.character
    if not is_identifier(character):
        return None
    try:
        command = reading.command(*reading.fields(wire))
        if wire.life is not UNSET or wire.holder is not UNSET:
            command = msgspec.structs.replace(command, life=wire.life, holder=wire.holder)
        if reading.check is not None:
            command = reading.check(command, settings)
        return Addressed(character, command, None if key is None else decode.key(key), _NO_REFERENCES)
    except (ProblemError, ValueError):
        return None
