"""Formats: in which bytes a body and its answer come, JSON or MessagePack, both read just as strictly."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NoReturn

import msgpack  # type: ignore[import-untyped]  # it has no types
import msgspec
from msgspec import Struct

from app.api import decode, plain
from app.api.problems import ProblemError
from app.settings import Settings

_decode = msgspec.msgpack.Decoder().decode
_encode = msgspec.msgpack.Encoder().encode
CLOSELY_MAX = 16_384
"""How many values of MessagePack are read closely, member by member: about 30 ms. What is plain may hold more."""

_SCALARS = frozenset({str, int, float, bool, type(None)})


class Format(Struct, frozen=True):
    """One format: its media type, how a body is read, and how JSON that was made for an answer becomes its own.

    `parse` gives the values of a body or message in one step, and raises `ProblemError` as `decode.parse_one` does:
    whatever the format, a member that stands twice, a value that JSON has none of, too many values and too deep nesting
    have the same names. `wires` reads a batch in one step where nothing about it is out of the ordinary.
    """

    media_type: str
    parse: Callable[[bytes, Settings], Any]
    wires: Callable[[bytes, Settings], list[plain.Wire] | None]
    of_json: Callable[[bytes], bytes]


def _parse_msgpack(body: bytes, settings: Settings) -> Any:
    try:
        values = _decode(body)
    except RecursionError as error:
        limit = settings.json_depth_max
        raise ProblemError("too-large", f"the body is nested more than {limit} levels deep", limit=limit) from error
    except (msgspec.DecodeError, ValueError, OverflowError) as error:
        raise ProblemError("malformed-msgpack", str(error)) from error
    _require_json(values, settings)
    if len(_encode(values)) != len(body) or plain.FLOAT32 in body:
        # Shorter when a member stood twice, or when something was written longer than it needs; a 32-bit float is
        # written longer here, which could make up for a member. Read it slowly.
        _require_members_once(body)
    return values


def _require_json(values: Any, settings: Settings) -> None:
    """See that values are such as JSON has, no deeper than JSON is read, and not more than a body may hold.

    Raises:
        ProblemError: `malformed-msgpack`, or `too-large`.
    """
    unseen, inner, seen, limit = [values], list[Any](), 0, min(settings.json_values_max, CLOSELY_MAX)
    levels = 0
    while unseen or inner:
        if not unseen:
            unseen, inner, levels = inner, [], levels + 1
            if levels > decode.LEVELS_READ_MAX:
                raise decode.too_deep(settings)
        value = unseen.pop()
        kind = type(value)
        if kind in _SCALARS:
            continue
        if kind is list:
            items = value
        elif kind is dict:
            if not all(type(name) is str for name in value):
                raise ProblemError("malformed-msgpack", "the names of members must be text")
            items = value.values()
        else:
            shown = "a time" if kind is datetime else "binary or an extension"
            raise ProblemError("malformed-msgpack", f"JSON has no such value: {shown}")
        seen += len(items)
        if seen > limit:
            detail = f"the body holds more than {limit} values, which is as many as are read closely"
            raise ProblemError("too-large", detail, limit=limit)
        inner.extend(items)


def _require_members_once(body: bytes) -> None:
    """Read a body once more, member by member.

    Raises:
        ProblemError: `duplicate-json-key`.
    """
    try:
        msgpack.unpackb(body, object_pairs_hook=_once)
    except (ValueError, msgpack.UnpackException) as error:
        raise ProblemError("malformed-msgpack", str(error)) from error


def _once(members: list[tuple[Any, Any]]) -> dict[Any, Any]:
    once = dict(members)
    if len(once) < len(members):
        _refuse_twice()
    return once


def _refuse_twice() -> NoReturn:
    raise ProblemError("duplicate-json-key", "a member stands twice in one object")


def _msgpack_of_json(answer: bytes) -> bytes:
    return _encode(msgspec.json.decode(answer))


JSON = Format("application/json", decode.parse_one, plain.wires_of_json, bytes)
MSGPACK = Format("application/msgpack", _parse_msgpack, plain.wires_of_msgpack, _msgpack_of_json)
FORMATS = {each.media_type: each for each in (JSON, MSGPACK)}
