"""Decoding: one strict way from the bytes of a body to a command, the same at every door."""

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import jiter
import msgspec
from msgspec import UNSET
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from app.api.bodies import DespawnBody, SpawnBody
from app.api.problems import ProblemError
from app.gates.bundle import Bundle
from app.gates.catalogue import COMMANDS
from app.gates.decision import Command, name_of
from app.gates.event_commands import Enqueue, Play
from app.gates.graph import SubmitCandidate
from app.gates.identity import NUMBER_MAX
from app.gates.lives import CloseScene, DeclareRig, Despawn, Spawn
from app.gates.parameter import FLOAT32_INFINITE, CommitParameters, ParameterValue
from app.gates.tick import Tick
from app.gates.transition import Begin
from app.settings import Settings

_NOT_OF_CHARACTERS = (Spawn, Despawn, DeclareRig, CloseScene, Bundle, Tick)
SINGLE = tuple(command for command in COMMANDS if command not in _NOT_OF_CHARACTERS)
"""The commands of one living character."""

_STRUCTS: dict[str, type[Command]] = {name_of(command): command for command in SINGLE}
_WHOLE_NUMBERS = frozenset(
    {"life", "if_generation", "epoch", "generation", "base_version", "id"}
    | {"clip_instance", "loop", "frame", "from_frame", "to_frame", "tick", "through", "request"}
    | {"min_ticks", "deadline_ticks", "number", "priority", "rollback", "seal", "confirm", "answer"}
)
_OPAQUE = frozenset({"payload", "data", "value", "pose"})
_DIGITS_MAX = 400
ITEMS_MAX = 4096
"""The most items of any list or object in a rig or spawn."""

VALUES_SEEN_MAX = 32_768
"""More values than any command, rig or pose that is taken has; about 40 ms of looking."""

LEVELS_READ_MAX = 200
"""How deep a body is read at all, whatever reads it: as deep as jiter does."""

_FLOAT_WHOLE_MAX = 10**300
"""Above every 32-bit float, and below what a float cannot be made of."""

StructT = TypeVar("StructT", bound=msgspec.Struct)

_convert = msgspec.convert
_FIELD_IN_WORDS = re.compile(r"(?:unknown|required) field `(.+)`")
"""Where msgspec names a field that is not on the way to it; the tests hold this against the pinned version."""


def parse(body: bytes, settings: Settings) -> Any:
    """Read a body as JSON: NaN in every spelling is a value, a member that stands twice is an error.

    Raises:
        ProblemError: `malformed-json`, `duplicate-json-key`, or `too-large` for nesting or for values. A lone surrogate
            is malformed.
    """
    if holds_many_values(body, settings):
        limit = settings.json_values_max
        raise ProblemError("too-large", f"the body holds more than {limit} values", limit=limit)
    try:
        return jiter.from_json(body, catch_duplicate_keys=True)
    except ValueError as error:
        # jiter says what was wrong in words only; the tests hold these three against the pinned version.
        said = str(error)
    if said.startswith("Detected duplicate key"):
        raise ProblemError("duplicate-json-key", said)
    if said.startswith("recursion limit exceeded"):
        _refuse_depth(settings)
    if said.startswith("number out of range"):
        return _parse_long_numbers(body, settings)
    raise ProblemError("malformed-json", said)


def parse_one(body: bytes, settings: Settings) -> Any:
    """Read a body that is one command, rig or the like, as `parse`.

    Raises:
        ProblemError: As `parse`; besides `too-large` for more values than any of them has.
    """
    if len(body) > 2 * VALUES_SEEN_MAX and values_in(body) > VALUES_SEEN_MAX:
        raise ProblemError("too-large", f"the body holds more than {VALUES_SEEN_MAX} values", limit=VALUES_SEEN_MAX)
    return parse(body, settings)


def values_in(body: bytes) -> int:
    """Give about how many values a body has: its commas, lists and objects."""
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def holds_many_values(body: bytes, settings: Settings) -> bool:
    """Say whether a body may hold more values than are read: reading holds the event loop, for as long as there are."""
    limit = settings.json_values_max
    # Each takes two bytes at least.
    return len(body) > 2 * limit and values_in(body) > limit


def _parse_long_numbers(body: bytes, settings: Settings) -> Any:
    """Read a body with a number of thousands of digits, which is infinite to every engine: not a syntax error."""
    try:
        parsed = json.loads(body, parse_int=_whole, object_pairs_hook=_members_once)
        json.dumps(parsed, ensure_ascii=False).encode()
    except RecursionError:
        _refuse_depth(settings)
    except ValueError as error:
        raise ProblemError("malformed-json", str(error)) from error
    if _levels_exceed(parsed, LEVELS_READ_MAX):
        _refuse_depth(settings)
    return parsed


def _levels_exceed(value: Any, most: int) -> bool:
    """Say whether a value has more levels than `most`, whatever their number: nothing here calls itself."""
    level, levels = [value], 0
    while level and levels <= most:
        held = [each.values() if type(each) is dict else each for each in level if type(each) in (dict, list)]
        level, levels = [item for items in held for item in items], levels + 1
    return bool(level)


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) < _DIGITS_MAX else float(digits)


def _members_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    once = dict(members)
    if len(once) < len(members):
        raise ProblemError("duplicate-json-key", "a member stands twice in one object")
    return once


def _refuse_depth(settings: Settings) -> NoReturn:
    raise too_deep(settings)


def too_deep(settings: Settings) -> ProblemError:
    """Give the problem of a body that is nested too deep."""
    limit = settings.json_depth_max
    return ProblemError("too-large", f"the body is nested more than {limit} levels deep", limit=limit)


def misfit(value: Any, detail: str, settings: Settings, *, at: str | None = None) -> ProblemError:
    """Give the problem of what does not fit its schema: `invalid`, unless it is too deep or too large to be looked at.

    Raises:
        ProblemError: `too-large`, for the latter.
    """
    _require_few(value)
    if _depth(value, settings.json_depth_max) > settings.json_depth_max:
        return too_deep(settings)
    return ProblemError("invalid", detail, at=at)


def members(parsed: Any, settings: Settings) -> dict[str, Any]:
    """Give the members of a body that must be an object."""
    if type(parsed) is dict:
        return parsed
    raise misfit(parsed, "the body must be an object", settings)


def command(name: str, fields: dict[str, Any], settings: Settings) -> Command:
    """Type the fields of one command of a character. `spawn` and `despawn` are commands too.

    Raises:
        ProblemError: `invalid` for what does not fit the schema, `too-large` for what is beyond a limit.
    """
    if "command" in fields:
        raise misfit(fields, "Object contains unknown field `command`", settings, at="command")
    struct = _STRUCTS.get(name)
    if struct is None:
        return _life_command(name, fields, settings)
    try:
        typed = _convert(fields, struct)
    except msgspec.ValidationError:
        typed = _fitted_exactly(fields, struct, settings)
    check = _CHECKS.get(struct)
    return typed if check is None else check(typed, settings)


def fitted(fields: dict[str, Any], struct: type[StructT], settings: Settings) -> StructT:
    """Fit fields to a struct.

    Raises:
        ProblemError: `invalid`, with the field at fault.
    """
    try:
        return _convert(fields, struct)
    except msgspec.ValidationError:
        return _fitted_exactly(fields, struct, settings)


def _checked_payload(typed: Enqueue, settings: Settings) -> Enqueue:
    if typed.payload is not UNSET:
        _check_opaque(typed.payload, "payload", settings)
    return typed


def _checked_data(typed: Any, settings: Settings) -> Any:
    if typed.data is not UNSET:
        _check_opaque(typed.data, "data", settings)
    return typed


def _fitted_exactly(fields: dict[str, Any], struct: type[StructT], settings: Settings) -> StructT:
    """Try again with 4.0 as 4 where a whole number is wanted; else say what is wrong."""
    _require_few(fields)
    try:
        return msgspec.convert(_with_whole_numbers(fields), struct)
    except msgspec.ValidationError as error:
        detail, _, path = str(error).partition(" - at `$.")
        field = _FIELD_IN_WORDS.search(detail)
        place = [path.rstrip("`"), "" if field is None else field[1]]
        raise misfit(fields, detail, settings, at=".".join(filter(None, place)) or None) from error


def _require_few(value: Any) -> None:
    """Refuse to look closely at more values than any command needs: each costs time while everybody waits.

    Raises:
        ProblemError: `too-large`.
    """
    unseen, seen = [value], 0
    while unseen:
        held = unseen.pop()
        if type(held) is dict or type(held) is list:
            seen += len(held)
            if seen > VALUES_SEEN_MAX:
                raise ProblemError("too-large", "what does not fit is too large to be looked at", limit=VALUES_SEEN_MAX)
            unseen.extend(held.values() if type(held) is dict else held)


def _with_whole_numbers(value: Any) -> Any:
    if type(value) is list:
        return [_with_whole_numbers(item) for item in value]
    if type(value) is not dict:
        return value
    return {
        name: int(item)
        if name in _WHOLE_NUMBERS and type(item) is float and item.is_integer()
        else item
        if name in _OPAQUE
        else _with_whole_numbers(item)
        for name, item in value.items()
    }


def _depth(value: Any, most: int) -> int:
    """Give how deep a JSON value is nested, not looking further than one level beyond `most`."""
    if most < 0 or type(value) not in (list, dict):
        return 0
    inner = value.values() if type(value) is dict else value
    return 1 + max((_depth(item, most - 1) for item in inner), default=0)


def _check_opaque(value: Any, at: str, settings: Settings) -> None:
    """Hold opaque JSON to its limits: size, depth, and numbers that every client keeps."""
    size, limit = len(msgspec.json.encode(value)), settings.payload_bytes_max
    if size > limit:
        raise ProblemError("too-large", f"`{at}` is {size} bytes of compact JSON", at=at, limit=limit)
    if _depth(value, settings.json_depth_max) >= settings.json_depth_max:
        _refuse_depth(settings)
    if not _is_kept(value):
        raise ProblemError("invalid", "numbers must be finite, whole ones within 2^53-1", at=at)


def _is_kept(value: Any) -> bool:
    if type(value) is float:
        return value - value == 0.0
    if type(value) is int:
        return -NUMBER_MAX <= value <= NUMBER_MAX
    if type(value) is list:
        return all(map(_is_kept, value))
    return all(map(_is_kept, value.values())) if type(value) is dict else True


def _kept_number(value: Any) -> Any:
    """Read a whole number beyond what every client keeps as the float it is to an engine, if it is that float exactly.

    Raises:
        ProblemError: `invalid` for one that would be rounded: nothing is altered in silence.
    """
    if type(value) is not int or -NUMBER_MAX <= value <= NUMBER_MAX:
        return value
    if not -_FLOAT_WHOLE_MAX < value < _FLOAT_WHOLE_MAX or not -FLOAT32_INFINITE < float(value) < FLOAT32_INFINITE:
        return float("inf") if value > 0 else float("-inf")
    if int(float(value)) != value:
        raise ProblemError("invalid", f"{value} is a whole number that no client keeps exactly", at="value")
    return float(value)


def _with_kept_numbers(typed: CommitParameters, settings: Settings) -> CommitParameters:
    for item in typed.values:
        if type(item.value) is int and not -NUMBER_MAX <= item.value <= NUMBER_MAX:
            values = [
                ParameterValue(value=_kept_number(item.value), name=item.name, id=item.id) for item in typed.values
            ]
            return msgspec.structs.replace(typed, values=values)
    return typed


def _with_kept_pose(typed: SubmitCandidate, settings: Settings) -> SubmitCandidate:
    pose = typed.evaluation.pose
    if pose is None:
        return typed
    if type(pose) is dict:
        pose = {bone: [_kept_number(value) for value in values] for bone, values in pose.items()}
    size, limit = len(msgspec.json.encode(pose)), settings.pose_bytes_max
    if size > limit:
        raise ProblemError("too-large", f"`pose` is {size} bytes of compact JSON", at="evaluation.pose", limit=limit)
    evaluation = msgspec.structs.replace(typed.evaluation, pose=pose)
    return msgspec.structs.replace(typed, evaluation=evaluation)


_CHECKS: dict[type[Command], Callable[[Any, Settings], Any]] = {
    Enqueue: _checked_payload,
    Begin: _checked_data,
    Play: _checked_data,
    CommitParameters: _with_kept_numbers,
    SubmitCandidate: _with_kept_pose,
}


def check_of(command: type[Command]) -> Callable[[Any, Settings], Any] | None:
    """Give what is looked at in a command of this type once it was typed; it raises as `command` does."""
    return _CHECKS.get(command)


def check_extent(value: Any) -> None:
    """Refuse a body with a list or object of more items than any part of a rig takes, before each is looked at.

    Raises:
        ProblemError: `too-large`.
    """
    if type(value) not in (list, dict):
        return
    if len(value) > ITEMS_MAX:
        raise ProblemError("too-large", f"a list or object has {len(value)} items", limit=ITEMS_MAX)
    for item in value.values() if type(value) is dict else value:
        if type(item) in (list, dict):
            check_extent(item)


def _life_command(name: str, fields: dict[str, Any], settings: Settings) -> Command:
    try:
        match name:
            case "spawn":
                check_extent(fields)
                return SpawnBody.model_validate(fields).to_command()
            case "despawn":
                return DespawnBody.model_validate(fields).to_command()
            case _:
                raise misfit(fields, f"there is no command {name[:64]!r}", settings, at="command")
    except ValidationError as error:
        raise invalid(error, fields, settings) from error


def invalid(error: ValidationError, fields: dict[str, Any], settings: Settings) -> ProblemError:
    """Say what pydantic found, without the input: the deepest fault, which of a union is in the branch meant."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    found = max(errors, key=lambda each: (len(_place(each, fields)), not each["type"].endswith("_type")))
    place, detail = _place(found, fields), found["msg"]
    at = "".join(f"[{part}]" if type(part) is int else f".{part}" for part in place).removeprefix(".")
    return misfit(fields, detail.removeprefix("Value error, "), settings, at=at or None)


def _place(found: ErrorDetails, fields: dict[str, Any]) -> list[int | str]:
    """Give the members and items on the way to a fault, without what pydantic calls the branches of its unions."""
    value: Any = fields
    place: list[int | str] = []
    for part in found["loc"]:
        if (type(value) is dict and part in value) or (isinstance(part, int) and type(value) is list):
            value = value[part]  # type: ignore[index]  # a number where it is a list
            place.append(part)
    return [*place, found["loc"][-1]] if found["type"] == "missing" else place


def key(text: str) -> str:
    """Give an idempotency key without its quotes: 8 to 255 visible ASCII characters."""
    bare = text[1:-1] if len(text) >= 2 and text[0] == text[-1] == '"' else text
    is_quoted = bare.startswith('"') or bare.endswith('"')
    is_visible = bare.isascii() and bare.isprintable() and " " not in bare
    if is_quoted or not (is_visible and 8 <= len(bare) <= 255):
        raise ProblemError("invalid", "an idempotency key is 8 to 255 visible ASCII characters", at="key")
    return bare
