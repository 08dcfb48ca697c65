"""The parameter gate: a whole batch becomes one immutable snapshot, or nothing does.

Source: 2026-07-23-1930; contract, section 5.
"""

from enum import StrEnum
from math import isfinite
from typing import Annotated, final

from msgspec import UNSET, Meta, Struct, UnsetType

from app.gates.decision import MISSING_NAMED, Command, Fact, Refused
from app.gates.identity import NUMBER_MAX, Name, Number, has_control_characters
from app.gates.rig import ParameterRule, Rig

Value = int | float | bool
"""What a snapshot holds: a number as it was sent, a bool, or a trigger's count of firings."""

FLOAT32_INFINITE = 3.4028235677973366e38
"""The smallest magnitude that a 32-bit float cannot hold: engines would read infinity."""

_NON_FINITE_TEXTS = frozenset(
    {"nan", "-nan", "+nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity", "1.#inf", "-1.#inf"}
    | {"nan(ind)", "-nan(ind)", "1.#qnan", "-1.#qnan", "1.#ind", "-1.#ind", "∞", "+∞", "-∞"}
)
"""How writers spell NaN and infinity as text, folded to lower case."""


class ParameterRefusal(StrEnum):
    """Why a batch was refused, in the order of the checks: the first that applies."""

    DUPLICATE_PARAMETER = "duplicate_parameter"
    NON_FINITE_VALUE = "non_finite_value"
    UNKNOWN_PARAMETER = "unknown_parameter"
    TYPE_MISMATCH = "type_mismatch"
    OUT_OF_RANGE = "out_of_range"
    MISSING_PARAMETER = "missing_parameter"
    STALE_VERSION = "stale_version"


class ParameterValue(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """One parameter, by name or by 32-bit id, and the value a caller wants it to have."""

    value: int | float | bool | str | None
    name: Name | UnsetType = UNSET
    id: Annotated[int, Meta(ge=0, le=2**32 - 1)] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if (self.name is UNSET) == (self.id is UNSET):
            raise ValueError("give either `name` or `id`")
        if self.name is not UNSET and has_control_characters(self.name):
            raise ValueError("`name` takes no control characters")


class CommitParameters(Command, frozen=True, tag="commit-parameters"):
    """Publish a batch of values. Answers: ParametersCommitted, or a ParameterRefusal."""

    values: Annotated[list[ParameterValue], Meta(max_length=4096)]
    base_version: Number | UnsetType = UNSET


@final
class ParametersCommitted(Fact, frozen=True, tag="committed"):
    """The batch is visible as `version`; an empty batch leaves the version as it was."""

    version: int


def is_non_finite(value: object) -> bool:
    """Say whether a JSON writer meant NaN or infinity, or a number that a 32-bit float cannot hold."""
    if value is None:
        return True
    if type(value) is str:
        return value.strip().lower() in _NON_FINITE_TEXTS
    if type(value) is float:
        return not (isfinite(value) and -FLOAT32_INFINITE < value < FLOAT32_INFINITE)
    return type(value) is int and not -FLOAT32_INFINITE < value < FLOAT32_INFINITE


class Snapshot(Struct, frozen=True, array_like=True, gc=False):
    """All parameter values of a character at one version. It never changes; a batch makes another one."""

    version: int
    values: dict[str, Value]

    def decide(self, command: CommitParameters, rig: Rig) -> ParametersCommitted | Refused:
        """Validate the whole batch, then accept it once; or name the first check that fails and where."""
        if not surely_taken(command.values, rig):
            refused = _refusal(command.values, rig)
            if refused is not None:
                return refused
        if rig.mode == "full":
            named = {_name(item, rig) for item in command.values}
            missing = [name for name in rig.required if name not in named]
            if missing:
                return Refused(ParameterRefusal.MISSING_PARAMETER, at=missing[0], missing=missing[:MISSING_NAMED])
        if command.base_version is not UNSET and command.base_version != self.version:
            return Refused(ParameterRefusal.STALE_VERSION, at="base_version", by={"version": self.version})
        return ParametersCommitted(self.version + 1 if command.values else self.version)

    def evolve(self, command: CommitParameters, fact: ParametersCommitted, rig: Rig) -> "Snapshot":
        """Apply what was decided. In full mode a batch is the whole snapshot; a trigger's count never falls."""
        if fact.version == self.version:
            return self
        declared = rig.declared
        if declared is None and rig.mode == "sparse":
            values = self.values.copy()
            for item in command.values:
                value = item.value if type(item.value) is float else _kept(item.value, None, 0)
                values[item.name] = value  # type: ignore[index]  # every item of an accepted batch has a name here
            return Snapshot(fact.version, values)
        if rig.mode == "full":
            values = rig.defaults()
            values.update({name: self.values[name] for name in values if declared and declared[name].type == "trigger"})
        else:
            values = self.values.copy()
        for item in command.values:
            name = _name(item, rig)
            assert type(name) is str, "an accepted batch names what the rig knows"
            values[name] = _kept(item.value, None if declared is None else declared[name], values.get(name, 0))
        return Snapshot(fact.version, values)

    def restored(self, before: "Snapshot", rig: Rig) -> "Snapshot":
        """Go back to earlier values as a new version; a trigger's firings go on. Source: contract, section 8."""
        if self.version == before.version:
            return self
        values, declared = before.values.copy(), rig.declared or {}
        values.update({name: held for name, held in self.values.items() if _is_trigger(declared.get(name))})
        return Snapshot(self.version + 1, values)


def _is_trigger(rule: ParameterRule | None) -> bool:
    return rule is not None and rule.type == "trigger"


def surely_taken(items: list[ParameterValue], rig: Rig) -> bool:
    """Say whether a batch surely passes every rung; a batch that names parameters by id has to climb the ladder."""
    declared = rig.declared
    names = {item.name for item in items}
    if len(names) < len(items) or UNSET in names:
        return False
    for item in items:
        value = item.value
        if type(value) is bool:
            if declared is None:
                continue
        elif (type(value) is not float and type(value) is not int) or not -FLOAT32_INFINITE < value < FLOAT32_INFINITE:
            return False
        if declared is not None:
            rule = declared.get(item.name)  # type: ignore[arg-type]  # every item has a name
            if rule is None or not _has_type(value, rule) or not _in_range(value, rule):
                return False
    return True


def _refusal(items: list[ParameterValue], rig: Rig) -> Refused | None:
    """Walk the ladder rung by rung, each over the whole batch: the first rung that fails is the answer."""
    names = [_name(item, rig) for item in items]
    seen: set[str | int] = set()
    for item, name in zip(items, names, strict=True):
        if name in seen:
            return Refused(ParameterRefusal.DUPLICATE_PARAMETER, at=_as_sent(item))
        seen.add(name)
    for item in items:
        if is_non_finite(item.value):
            return Refused(ParameterRefusal.NON_FINITE_VALUE, at=_as_sent(item))
    rules: list[ParameterRule | None] = []
    for item, name in zip(items, names, strict=True):
        rule = None if rig.declared is None or type(name) is int else rig.declared.get(str(name))
        if type(name) is int or (rule is None and rig.declared is not None):
            return Refused(ParameterRefusal.UNKNOWN_PARAMETER, at=_as_sent(item))
        rules.append(rule)
    for item, rule in zip(items, rules, strict=True):
        if not _has_type(item.value, rule):
            return Refused(ParameterRefusal.TYPE_MISMATCH, at=_as_sent(item))
    for item, rule in zip(items, rules, strict=True):
        if not _in_range(item.value, rule):
            return Refused(ParameterRefusal.OUT_OF_RANGE, at=_as_sent(item))
    return None


def _name(item: ParameterValue, rig: Rig) -> str | int:
    """Give a parameter's name; an id that the rig does not know stays a number."""
    if item.name is not UNSET:
        return item.name
    assert item.id is not UNSET
    return rig.names.get(str(item.id), item.id)


def _as_sent(item: ParameterValue) -> str:
    return item.name if item.name is not UNSET else str(item.id)


def _has_type(value: object, rule: ParameterRule | None) -> bool:
    kind = type(value)
    if rule is None:
        return kind is float or kind is int or kind is bool
    if rule.type == "float":
        return kind is float or kind is int
    if rule.type == "int":
        return kind is int or (type(value) is float and value.is_integer())
    if rule.type == "bool":
        return kind is bool
    return value is True


def _in_range(value: object, rule: ParameterRule | None) -> bool:
    """Say whether a value of the right type is within its rule; a declared int must be one that every client keeps."""
    if rule is None or (type(value) is not int and type(value) is not float):
        return True
    if rule.type == "int" and not -NUMBER_MAX <= value <= NUMBER_MAX:
        return False
    return (rule.min is None or value >= rule.min) and (rule.max is None or value <= rule.max)


def _kept(value: object, rule: ParameterRule | None, held: Value) -> Value:
    """Give what the snapshot holds for an accepted value."""
    if rule is not None and rule.type == "trigger":
        return held + 1
    if rule is not None and rule.type == "int":
        assert type(value) is int or type(value) is float
        return int(value)
    assert type(value) is int or type(value) is float or type(value) is bool
    return float(value) if type(value) is int and not -NUMBER_MAX <= value <= NUMBER_MAX else value
