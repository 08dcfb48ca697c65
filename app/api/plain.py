"""Plain bodies: commands that are read in one step, since nothing about them is out of the ordinary.

What is read here is what `decode` and `envelope` would have read. Whatever they might refuse, or read otherwise, is
left to them: an escaped letter, a member that stands twice or that nobody knows, 4.0 for 4, a command of the scene.
"""

from collections.abc import Callable
from ctypes import c_float
from operator import attrgetter
from typing import Any, TypeVar, Union

import msgspec
from msgspec import UNSET, Struct, UnsetType, defstruct

from app.api import decode
from app.api.problems import ProblemError
from app.gates.decision import Command, name_of
from app.gates.identity import Name, Number, TickNumber, Token, has_control_characters, is_identifier
from app.gates.parameter import CommitParameters
from app.gates.tick import Priority, Request, Tick
from app.sequencing.mailbox import Addressed
from app.settings import Settings

ReadT = TypeVar("ReadT")

_NO_REFERENCES: dict[str, int] = {}
_OPAQUE = ("payload", "data", "evaluation")
_UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)

FLOAT32 = b"\xca"
"""How a 32-bit float begins in MessagePack: the one value that is written longer again than it came, as 64 bits."""


class _Own(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One command as it comes with others: what it is for, and what every command may add."""

    character: str
    life: Number | UnsetType = UNSET
    holder: Token | UnsetType = UNSET


class Wire(_Own, frozen=True, gc=False, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One command of a batch, with its key."""

    key: str | None = None


class _RequestWire(_Own, frozen=True, gc=False, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One request of a tick; its `tick` is the one that it waits for, which its command does not see."""

    tick: TickNumber
    source: Name
    number: Number
    priority: Priority = 0


class _Reading(Struct, frozen=True):
    """How the wire form of one command becomes the command: `fields` gives its own, in the order it takes them."""

    command: type[Command]
    fields: Callable[[Any], tuple[Any, ...]]
    check: Callable[[Any, Settings], Any] | None
    opaque: Callable[[Any], Any] | None


def _names(command: type[Command], base: type[_Own]) -> list[str]:
    """Name the fields that are a command's alone, in the order it takes them."""
    return [field.name for field in msgspec.structs.fields(command) if field.name not in base.__struct_fields__]


def _wire(command: type[Command], base: type[_Own]) -> type[_Own]:
    """Give the wire form of a command: its own fields besides those of every command that comes so."""
    names = _names(command, base)
    own = [field for field in msgspec.structs.fields(command) if field.name in names]
    fields = [(each.name, each.type) if each.required else (each.name, each.type, each.default) for each in own]
    wire: type[_Own] = defstruct(  # type: ignore[assignment]  # with `base` for its base it is one
        f"{command.__name__}Of{base.__name__}",
        fields,
        bases=(base,),
        frozen=True,
        gc=False,
        kw_only=True,
        omit_defaults=True,
        forbid_unknown_fields=True,
        tag_field="command",
        tag=name_of(command),
    )
    return wire


def _reading(command: type[Command], base: type[_Own]) -> _Reading:
    names = _names(command, base)
    given = attrgetter(*names)
    fields = given if len(names) > 1 else lambda each: (given(each),)
    opaque = next((name for name in names if name in _OPAQUE), None)
    return _Reading(command, fields, decode.check_of(command), None if opaque is None else attrgetter(opaque))


def _readings(base: type[_Own]) -> dict[type[_Own], _Reading]:
    return {_wire(command, base): _reading(command, base) for command in decode.SINGLE}


_OF_BATCHES, _OF_TICKS = _readings(Wire), _readings(_RequestWire)
_READINGS = _OF_BATCHES | _OF_TICKS


class _Batch(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    commands: list[Union[tuple(_OF_BATCHES)]]  # type: ignore[valid-type]  # noqa: UP007  # made of what there is


class _Ticking(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    requests: list[Union[tuple(_OF_TICKS)]]  # type: ignore[valid-type]  # noqa: UP007  # made of what there is
    rollback: TickNumber | UnsetType = UNSET
    seal: TickNumber | UnsetType = UNSET
    confirm: TickNumber | UnsetType = UNSET


_decode_json = msgspec.json.Decoder(_Batch).decode
_decode_ticking = msgspec.json.Decoder(_Ticking).decode
_encode_json = msgspec.json.Encoder().encode
_decode_msgpack = msgspec.msgpack.Decoder(_Batch).decode
_encode_msgpack = msgspec.msgpack.Encoder().encode


def wires_of_json(body: bytes, settings: Settings) -> list[Wire] | None:
    """Read a batch of JSON; None where it has to be read closely."""
    batch = _read_json(body, settings, _decode_json)
    return None if batch is None else batch.commands


def _read_json(body: bytes, settings: Settings, decoded: Callable[[bytes], ReadT]) -> ReadT | None:
    """Read a body of JSON; None where it has to be read closely.

    A member that stands twice, and one that says what is so anyway, is not written again: then the colons differ.
    """
    if b"\\" in body or decode.holds_many_values(body, settings):
        return None
    try:
        read = decoded(body)
    except _UNREADABLE:
        return None
    return read if _encode_json(read).count(b":") == body.count(b":") else None


def tick_of_json(body: bytes, settings: Settings) -> Tick | None:
    """Read a tick with requests; None where it has to be read closely."""
    read = _read_json(body, settings, _decode_ticking)
    if read is None or len(read.requests) > settings.batch_commands_max:
        return None
    requests = list[Request]()
    for wire in read.requests:
        command = None if has_control_characters(wire.source) else _command(wire, settings)
        if command is None:
            return None
        requests.append(Request(wire.tick, wire.source, wire.number, wire.priority, wire.character, command))
    return Tick(requests=requests, rollback=read.rollback, seal=read.seal, confirm=read.confirm)


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
    key = wire.key
    try:
        kept = None if key is None else decode.key(key)
    except ProblemError:
        return None
    command = _command(wire, settings)
    return None if command is None else Addressed(wire.character, command, kept, _NO_REFERENCES)


def _command(wire: _Own, settings: Settings) -> Any:
    """Give the command itself; None where it has to be read closely."""
    if not is_identifier(wire.character):
        return None
    reading = _READINGS[type(wire)]
    try:
        command = reading.command(*reading.fields(wire))
        if wire.life is not UNSET or wire.holder is not UNSET:
            command = msgspec.structs.replace(command, life=wire.life, holder=wire.holder)
        return command if reading.check is None else reading.check(command, settings)
    except (ProblemError, ValueError):
        return None
