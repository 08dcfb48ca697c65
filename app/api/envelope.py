"""Envelopes: commands as they come with others, in a batch, a bundle or a tick, and what ties them to each other."""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from msgspec import UNSET, Struct, UnsetType

from app.api import decode
from app.api.problems import ProblemError
from app.gates.bundle import Bundle, Member, References
from app.gates.candidate import finished
from app.gates.decision import Command
from app.gates.identity import (
    NAME_LENGTH_MAX,
    NUMBER_MAX,
    TICK_MAX,
    Name,
    Number,
    TickNumber,
    Token,
    has_control_characters,
    is_identifier,
)
from app.gates.tick import Priority, Request, Tick
from app.sequencing.mailbox import Addressed
from app.settings import Settings

_NO_TOKEN = {"character": "", "layer": "", "epoch": 0, "generation": 0, "from": "", "to": ""}
_STANDS_FOR: dict[str, Any] = {"token": _NO_TOKEN, "holder": _NO_TOKEN, "clip_instance": 0, "request": 0}
"""The fields that may be `{"answer": i}`, and what they hold until that answer is known."""

PACED = 16
"""After how many items of a list there is a step."""

ItemT = TypeVar("ItemT")

_NO_REFERENCES: References = {}
_OF_SCENES = ("bundle", "tick")


class _TickFields(Struct, frozen=True, forbid_unknown_fields=True):
    rollback: TickNumber | UnsetType = UNSET
    seal: TickNumber | UnsetType = UNSET
    confirm: TickNumber | UnsetType = UNSET
    holder: Token | UnsetType = UNSET


class _BundleFields(Struct, frozen=True, forbid_unknown_fields=True):
    link: bool = False
    holder: Token | UnsetType = UNSET


class _RequestFields(Struct, frozen=True, forbid_unknown_fields=True):
    tick: TickNumber
    source: Name
    number: Number
    priority: Priority = 0


_REQUEST_FIELDS = ("tick", "source", "number", "priority")


def addressed(item: Any, settings: Settings, *, index: int) -> Addressed:
    """Decode the command at one place of a batch: its envelope is `command`, `character` and `key`.

    Raises:
        ProblemError: As `decode.command`; the rest of the batch is none the worse for it.
    """
    fields, name, character, key = _envelope(item, settings)
    if name in _OF_SCENES:
        _without_character(character, name)
        return Addressed(None, of_scene(name, fields, settings), key)
    return _of_character(name, fields, character, key, settings, index)


def addressed_in_steps(item: Any, settings: Settings, *, index: int) -> Generator[None, None, Addressed]:
    """Decode the command at one place as `addressed` does, in steps: it may hold many."""
    fields, name, character, key = _envelope(item, settings)
    if name in _OF_SCENES:
        _without_character(character, name)
        return Addressed(None, (yield from of_scene_in_steps(name, fields, settings)), key)
    return _of_character(name, fields, character, key, settings, index)


def _envelope(item: Any, settings: Settings) -> tuple[dict[str, Any], str, Any, str | None]:
    """Take the envelope off: the fields of the command itself, its name, character and key."""
    fields = item if type(item) is dict else decode.members(item, settings)
    take = fields.pop
    name, character, key = take("command", None), take("character", None), take("key", None)
    if key is not None:
        if type(key) is not str:
            raise ProblemError("invalid", "`key` must be text", at="key")
        key = decode.key(key)
    if type(name) is not str:
        raise ProblemError("invalid", "a command needs its name", at="command")
    return fields, name, character, key


def _of_character(
    name: str, fields: dict[str, Any], character: Any, key: str | None, settings: Settings, index: int
) -> Addressed:
    if type(character) is not str or not is_identifier(character):
        raise ProblemError("invalid", "a command needs the id of a character", at="character")
    try:
        return Addressed(character, decode.command(name, fields, settings), key, _NO_REFERENCES)
    except ProblemError:
        command, references = _with_references(name, fields, settings, index)
        return Addressed(character, command, key, references)


def of_scene(name: str, fields: dict[str, Any], settings: Settings) -> Bundle | Tick:
    """Decode the fields of a bundle or a tick.

    Raises:
        ProblemError: `invalid` or `too-large`, with the place at fault.
    """
    return finished(of_scene_in_steps(name, fields, settings))


def of_scene_in_steps(name: str, fields: dict[str, Any], settings: Settings) -> Generator[None, None, Bundle | Tick]:
    """Decode the fields of a bundle or a tick as `of_scene` does, with a step after every few of what they hold."""
    if "command" in fields:
        raise ProblemError("invalid", "Object contains unknown field `command`", at="command")
    return (yield from _bundle(fields, settings) if name == "bundle" else _tick(fields, settings))


def _bundle(fields: dict[str, Any], settings: Settings) -> Generator[None, None, Bundle]:
    commands = _items(fields, "commands", settings.bundle_commands_max, settings)
    envelope = decode.fitted(fields, _BundleFields, settings)
    members = yield from _each("commands", commands, _member, settings)
    return Bundle(commands=members, link=envelope.link, holder=envelope.holder)


def _member(item: Any, settings: Settings, index: int) -> Generator[None, None, Member]:
    place = yield from addressed_in_steps(item, settings, index=index)
    if place.character is None:
        raise ProblemError("invalid", "a bundle holds commands of characters", at="command")
    if place.key is not None:
        raise ProblemError("invalid", "a bundle has one key, its own", at="key")
    return Member(place.character, place.command, place.references)  # type: ignore[arg-type]  # it is for a character


def _tick(fields: dict[str, Any], settings: Settings) -> Generator[None, None, Tick]:
    requests = _items(fields, "requests", settings.batch_commands_max, settings, default=UNSET)
    envelope = decode.fitted(fields, _TickFields, settings)
    held = UNSET if requests is UNSET else (yield from _each("requests", requests, _request, settings))
    try:
        return Tick(
            rollback=envelope.rollback,
            requests=held,
            seal=envelope.seal,
            confirm=envelope.confirm,
            holder=envelope.holder,
        )
    except ValueError as error:
        raise ProblemError("invalid", str(error)) from error


def _request(item: Any, settings: Settings, index: int) -> Generator[None, None, Request]:
    fields = item if type(item) is dict else decode.members(item, settings)
    tick, source, number, priority = _request_fields(fields, settings)
    if "key" in fields:
        raise ProblemError("invalid", "a request is known by its source and number; it takes no key", at="key")
    place = yield from addressed_in_steps(fields, settings, index=0)
    if type(place.command) is Tick:
        raise ProblemError("invalid", "a tick holds no ticks", at="command")
    return Request(
        tick,
        source,
        number,
        priority,
        place.character,
        place.command,  # type: ignore[arg-type]  # it is no tick, and nothing else of a scene is decoded here
    )


def _request_fields(fields: dict[str, Any], settings: Settings) -> tuple[int, str, int, int]:
    """Take what makes a command a request out of its fields: tick, source, number, priority.

    What is out of the ordinary is fitted to its schema, which says what is wrong.
    """
    own = {name: fields.pop(name) for name in _REQUEST_FIELDS if name in fields}
    tick, source, number, priority = map(own.get, _REQUEST_FIELDS, (None, None, None, 0))
    is_plain = type(tick) is int and type(number) is int and type(priority) is int and type(source) is str
    if not (
        is_plain
        and 0 <= tick <= TICK_MAX
        and 0 <= number <= NUMBER_MAX
        and -NUMBER_MAX <= priority <= NUMBER_MAX
        and 0 < len(source) <= NAME_LENGTH_MAX
    ):
        fitted = decode.fitted(own, _RequestFields, settings)
        tick, source, number, priority = fitted.tick, fitted.source, fitted.number, fitted.priority
    if has_control_characters(source):
        raise ProblemError("invalid", "`source` takes no control characters", at="source")
    return tick, source, number, priority


def _with_references(name: str, fields: dict[str, Any], settings: Settings, index: int) -> tuple[Command, References]:
    """Decode a command, some of whose fields stand for what an earlier answer gave."""
    references = {field: _reference(value) for field, value in fields.items() if _is_reference(field, value)}
    if not references:
        return decode.command(name, fields, settings), references
    stand_ins = {field: _STANDS_FOR[field] for field in references}
    # First of all the command must fit its schema, as where it comes alone.
    command = decode.command(name, fields | stand_ins, settings)
    for field, earlier in references.items():
        if not 0 <= earlier < index:
            raise ProblemError("invalid", "`answer` counts the commands before this one, from 0", at=f"{field}.answer")
    return command, references


def _is_reference(field: str, value: Any) -> bool:
    return field in _STANDS_FOR and type(value) is dict and value.keys() == {"answer"}


def _reference(value: dict[str, Any]) -> int:
    """Give the number of the command that is referred to; -1 for what can be none."""
    number = value["answer"]
    if type(number) is float and number.is_integer():
        number = int(number)
    return number if type(number) is int else -1


def _items(fields: dict[str, Any], name: str, limit: int, settings: Settings, *, default: Any = None) -> Any:
    """Take a list out of fields.

    Raises:
        ProblemError: `invalid` for what is none, `too-large` for one that is too long.
    """
    items = fields.pop(name, default)
    if items is default and default is UNSET:
        return UNSET
    if type(items) is not list:
        raise decode.misfit(items, f"`{name}` must be a list", settings, at=name)
    if len(items) > limit:
        raise ProblemError("too-large", f"`{name}` has {len(items)} items", at=name, limit=limit)
    return items


def _each(
    name: str,
    items: list[Any],
    decoded: Callable[[Any, Settings, int], Generator[None, None, ItemT]],
    settings: Settings,
) -> Generator[None, None, list[ItemT]]:
    """Decode the items of a list, with a step after every few; a problem with one names the place it stands at."""
    index, taken = 0, list[ItemT]()
    try:
        for index, item in enumerate(items):
            taken.append((yield from decoded(item, settings, index)))
            if len(taken) % PACED == 0:
                yield
    except ProblemError as problem:
        at = f"{name}[{index}]" if problem.at is None else f"{name}[{index}].{problem.at}"
        raise ProblemError(problem.name, problem.detail, at=at, limit=problem.limit) from problem
    return taken


def _without_character(character: Any, name: str) -> None:
    if character is not None:
        raise ProblemError("invalid", f"a {name} is for no one character", at="character")
