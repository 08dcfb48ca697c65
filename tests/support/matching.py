"""Compares an answer with what a scenario expects of it: a part of it, unless the scenario says it is the whole."""

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.support.scenario import ABSENT

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_MISSING = object()


def differences(expected: Any, came: Any, *, where: str = "answer", whole: bool = False) -> Iterator[str]:
    """Say, one line each, where `came` is not what was expected; `whole`: objects may have no further members."""
    match expected:
        case "*":
            return
        case "<time>":
            if not (isinstance(came, str) and _TIME.fullmatch(came)):
                yield f"{where}: expected a time, came {shown(came)}"
        case {"=": same, **rest} if not rest:
            yield from differences(same, came, where=where, whole=True)
        case {"!": other, **rest} if not rest:
            if not list(differences(other, came, where=where, whole=True)):
                yield f"{where}: expected anything but {shown(other)}"
        case dict():
            yield from _of_objects(expected, came, where, whole)
        case list():
            yield from _of_lists(expected, came, where, whole)
        case _:
            if not _same(expected, came):
                yield f"{where}: expected {shown(expected)}, came {shown(came)}"


def _of_objects(expected: dict[str, Any], came: Any, where: str, whole: bool) -> Iterator[str]:
    if not isinstance(came, dict):
        yield f"{where}: expected an object, came {shown(came)}"
        return
    for key, value in expected.items():
        there = came.get(key, _MISSING)
        if value == ABSENT:
            if there is not _MISSING:
                yield f"{where}.{key}: expected no such member, came {shown(there)}"
        elif there is _MISSING:
            yield f"{where}.{key}: expected {shown(value)}, came nothing"
        else:
            yield from differences(value, there, where=f"{where}.{key}", whole=whole)
    if whole:
        for key in came.keys() - expected.keys():
            yield f"{where}.{key}: expected no such member, came {shown(came[key])}"


def _of_lists(expected: list[Any], came: Any, where: str, whole: bool) -> Iterator[str]:
    if not isinstance(came, list):
        yield f"{where}: expected a list, came {shown(came)}"
        return
    is_open = bool(expected) and expected[-1] == "..."
    items = expected[:-1] if is_open else expected
    if len(came) < len(items) or (len(came) > len(items) and not is_open):
        yield f"{where}: expected {len(items)} items, came {len(came)}: {shown(came)}"
        return
    for number, (item, there) in enumerate(zip(items, came, strict=False)):
        yield from differences(item, there, where=f"{where}[{number}]", whole=whole)


def _same(expected: Any, came: Any) -> bool:
    """Equal as JSON values: 4 is 4.0, and 1 is not true."""
    if isinstance(expected, bool) or isinstance(came, bool):
        return expected is came
    if isinstance(expected, int | float) and isinstance(came, int | float):
        return expected == came
    return type(expected) is type(came) and bool(expected == came)


def shown(value: Any) -> str:
    """A value as short JSON."""
    if value is _MISSING:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 600 else text[:600] + "…"
