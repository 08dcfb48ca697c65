"""Reading: a large body of many commands or requests, read a few of them at a time, so that others run in between."""

from collections.abc import Generator, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from app.api import decode
from app.api.problems import ProblemError
from app.settings import Settings

AT_ONCE_BYTES = 65_536
"""A body that is not larger is read in one step: a few milliseconds."""

PACED_VALUES = 2_048
"""After about how many values there is a step."""

VALUE_BYTES = 128
"""How many bytes count as one value more."""


class _Many(Struct, frozen=True):
    """A body of a list of many, as it came."""

    commands: Raw | UnsetType = UNSET
    requests: Raw | UnsetType = UNSET


_decode_many = msgspec.json.Decoder(_Many).decode
_decode_items = msgspec.json.Decoder(list[Raw]).decode


def parse_in_steps(body: bytes, settings: Settings) -> Generator[None, None, Any]:
    """Read a body as `decode.parse` does, with a step after every few items of its `commands` or `requests`.

    Raises:
        ProblemError: As `decode.parse`; besides `too-large` for an item, or all that is around the items, that holds
            more values than any command has.
    """
    if len(body) <= AT_ONCE_BYTES or decode.holds_many_values(body, settings):
        return decode.parse(body, settings)
    # As long as the body, and without what only some JSON writers write.
    plain = body.replace(b"NaN", b"0e0").replace(b"Infinity", b"12345678")
    try:
        many = _decode_many(plain)
        name = "commands" if many.commands is not UNSET else "requests"
        listed = getattr(many, name)
        items = [] if listed is UNSET else _decode_items(listed)
    except (msgspec.ValidationError, RecursionError):
        items = []
    except ValueError as error:
        if decode.values_in(body) > decode.VALUES_SEEN_MAX:
            raise ProblemError("malformed-json", str(error)) from error
        items = []
    # Where the same bytes stand twice, nobody knows which of them is the list.
    if not items or plain.count(listed) > 1:
        return decode.parse_one(body, settings)
    start = plain.index(listed)
    fields = decode.parse_one(body[:start] + b"[]" + body[start + len(memoryview(listed)) :], settings)
    yield
    fields[name] = yield from _read(name, _places(plain, start, items), body, settings)
    return fields


def _places(plain: bytes, start: int, items: list[Raw]) -> Iterator[tuple[int, int]]:
    """Say where each item of a list begins and ends that begins at `start`; between them is only space."""
    for item in items:
        start = plain.index(item, start)
        yield start, start + len(memoryview(item))
        start += len(memoryview(item))


def _read(
    name: str, places: Iterator[tuple[int, int]], body: bytes, settings: Settings
) -> Generator[None, None, list[Any]]:
    read, together, values, limit = list[Any](), list[bytes](), 0, decode.VALUES_SEEN_MAX
    for index, (start, end) in enumerate(places):
        item = body[start:end]
        held = decode.values_in(item) + 1
        if held > limit:
            raise ProblemError("too-large", f"more than {limit} values", at=f"{name}[{index}]", limit=limit)
        # A number of thousands of digits takes as long as many values.
        held += len(item) // VALUE_BYTES
        if together and values + held > PACED_VALUES:
            read += _parsed(name, len(read), together, settings)
            together, values = [], 0
            yield
        together.append(item)
        values += held
    return read + _parsed(name, len(read), together, settings)


def _parsed(name: str, first: int, items: list[bytes], settings: Settings) -> list[Any]:
    """Read some of the items, `first` of which is the index of the first."""
    try:
        parsed: list[Any] = decode.parse(b"[" + b",".join(items) + b"]", settings)
    except ProblemError as problem:
        # Where it is was counted from the first of these items.
        said = f"{problem.detail.partition(' at line ')[0]} in `{name}`, at or behind item {first}"
        raise ProblemError(problem.name, said, limit=problem.limit) from problem
    return parsed
