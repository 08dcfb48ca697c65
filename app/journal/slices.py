"""Slices: large values packed and read piece by piece, so that others may run in between; the bytes are the same."""

from collections.abc import Callable, Generator, Iterable
from functools import cache
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Raw, Struct

PACED = 64
"""After how many items of a list or dictionary there is a step."""

PIECE_BYTES = 16_384
"""What is read at once: in no more bytes are so many values that it would take long."""

_encode = msgspec.msgpack.Encoder().encode
_COLLECTIONS = (list, dict)
_ITEMS_SHORT, _ITEMS_MIDDLE = 0x10, 0x10000
"""From how many items on MessagePack says in two bytes more, and in four, how many there are."""


def encoded_in_steps(value: Any, opened: frozenset[type[Struct]]) -> Generator[None, None, bytes]:
    """Pack a value as an encoder of MessagePack does, with a step after every few items.

    What is taken apart: lists, dictionaries, and structs `opened`, which are `array_like`, wherever one of them holds
    the other. Nobody may change the value between two steps.
    """
    parts = list[bytes]()
    yield from _pack(value, opened, parts)
    return b"".join(parts)


def _pack(value: Any, opened: frozenset[type[Struct]], parts: list[bytes]) -> Generator[None, None, None]:
    kind = type(value)
    if kind in opened:
        yield from _pack_items(msgspec.structs.astuple(value), opened, parts)
    elif kind is list:
        yield from _pack_items(value, opened, parts)
    elif isinstance(value, dict):
        yield from _pack_members(value, opened, parts)
    else:
        parts.append(_encode(value))


def _pack_items(
    items: list[Any] | tuple[Any, ...], opened: frozenset[type[Struct]], parts: list[bytes]
) -> Generator[None, None, None]:
    parts.append(_head(len(items), short=0x90, middle=b"\xdc"))
    together = list[Any]()
    for item in items:
        if _is_opened(item, opened):
            parts.append(_without_head(together))
            together = []
            yield from _pack(item, opened, parts)
        else:
            together.append(item)
            if len(together) == PACED:
                parts.append(_without_head(together))
                together = []
                yield
    parts.append(_without_head(together))


def _pack_members(
    members: dict[Any, Any], opened: frozenset[type[Struct]], parts: list[bytes]
) -> Generator[None, None, None]:
    parts.append(_head(len(members), short=0x80, middle=b"\xde"))
    together = dict[Any, Any]()
    for name, value in members.items():
        if _is_opened(value, opened):
            parts += (_without_head(together), _encode(name))
            together = {}
            yield from _pack(value, opened, parts)
        else:
            together[name] = value
            if len(together) == PACED:
                parts.append(_without_head(together))
                together = {}
                yield
    parts.append(_without_head(together))


def _is_opened(value: Any, opened: frozenset[type[Struct]]) -> bool:
    return type(value) in opened or isinstance(value, _COLLECTIONS)


def _head(items: int, *, short: int, middle: bytes) -> bytes:
    """Say how many items follow; in its longest form, the kind is one above that of its middle one."""
    if items < _ITEMS_SHORT:
        return bytes([short | items])
    if items < _ITEMS_MIDDLE:
        return middle + items.to_bytes(2, "big")
    return bytes([middle[0] + 1]) + items.to_bytes(4, "big")


def _without_head(items: list[Any] | dict[Any, Any]) -> bytes:
    """Pack at most `PACED` items, without saying how many there are."""
    return _encode(items)[1 if len(items) < _ITEMS_SHORT else 3 :]


def decoded_in_steps(blob: bytes | Raw, kind: Any) -> Generator[None, None, Any]:
    """Read a value of a type as a decoder of MessagePack does, with a step after every few items.

    What is taken apart, where it is large: lists, dictionaries, and structs that are `array_like`.

    Raises:
        msgspec.DecodeError, RecursionError: The bytes are no such value.
    """
    if len(memoryview(blob)) <= PIECE_BYTES:
        return _decoder(kind)(blob)
    origin = get_origin(kind)
    if origin is list:
        [of_item] = get_args(kind)
        return (yield from _read(_decoder(list[Raw])(blob), of_item))
    if origin is dict:
        of_name, of_value = get_args(kind)
        members: dict[Any, Raw] = _decoder(dict[of_name, Raw])(blob)  # type: ignore[valid-type]  # made of what there is
        return dict(zip(members, (yield from _read(members.values(), of_value)), strict=True))
    fields = _fields(kind)
    items: list[Raw] = [] if fields is None else _decoder(list[Raw])(blob)
    if fields is None or (len(items) < len(fields) and fields[len(items)].required):
        return _decoder(kind)(blob)
    values = list[Any]()
    for item, field in zip(items, fields, strict=False):
        values.append((yield from decoded_in_steps(item, field.type)))
    return kind(*values)


def _read(items: Iterable[Raw], kind: Any) -> Generator[None, None, list[Any]]:
    decode, read, together = _decoder(list[kind]), list[Any](), list[Raw]()
    for item in items:
        if len(memoryview(item)) > PIECE_BYTES:
            read += decode(_together(together))
            together = []
            read.append((yield from decoded_in_steps(item, kind)))
            yield
        else:
            together.append(item)
            if len(together) == PACED:
                read += decode(_together(together))
                together = []
                yield
    read += decode(_together(together))
    return read


def _together(items: list[Raw]) -> bytes:
    """Give a list of values that are packed already."""
    return _head(len(items), short=0x90, middle=b"\xdc") + b"".join(items)


@cache
def _decoder(kind: Any) -> Callable[[bytes | Raw], Any]:
    return msgspec.msgpack.Decoder(kind).decode


@cache
def _fields(kind: Any) -> tuple[msgspec.structs.FieldInfo, ...] | None:
    """Give the fields of a struct that is an array in its bytes; None for anything else."""
    is_array = isinstance(kind, type) and issubclass(kind, Struct) and kind.__struct_config__.array_like
    return msgspec.structs.fields(kind) if is_array and kind.__struct_config__.tag is None else None
