"""The parameter gate: a whole batch becomes one immutable snapshot, or nothing does.

Source: 2026-07-23-1930; contract, section 5.
"""

from collections.abc import Iterator
from enum import StrEnum
from math import isfinite
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from app.gates.decision import Command, Fact, Refused
from app.gates.identity import NUMBER_MAX, Name, Number, has_control_characters
from app.gates.rig import ParameterRule, Rig

Value = int | float | bool
"""What a snapshot holds: a number as it was sent, a bool, or a trigger's count of firings."""

FLOAT32_INFINITE = 3.4028235677973366e38
"""The smallest magnitude that a 32-bit float cannot hold: engines would read infinity."""

_NON_FINITE_TEXTS = frozenset(
    {"nan", "-nan", "+nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity", "1.#inf", "-1.#inf"}
    | {"1.#qnan", "-1.#qnan", "1.#ind", "-1.#ind", "∞", "+∞", "-∞"}
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
        names = [_name(item, rig) for item in command.values]
        if len(set(names)) < len(names) or not all(map(_fits, command.values, self._rules(names, rig))):
            return self._refusal(command.values, names, rig)
        if rig.mode == "full":
            missing = [name for name in rig.required if name not in names]
            if missing:
                return Refused(ParameterRefusal.MISSING_PARAMETER, at=missing[0], missing=missing)
        if command.base_version is not UNSET and command.base_version != self.version:
            return Refused(ParameterRefusal.STALE_VERSION, at="base_version", by={"version": self.version})
        return ParametersCommitted(self.version + 1 if names else self.version)

    @staticmethod
    def _rules(names: list[str | int], rig: Rig) -> Iterator[ParameterRule | None | UnsetType]:
        """Give each name's rule: None where the rig declares nothing, UNSET where it does not declare this one."""
        declared = rig.declared
        for name in names:
            if declared is None:
                yield UNSET if type(name) is int else None
            else:
                yield declared.get(name, UNSET) if type(name) is str else UNSET

    def _refusal(self, items: list[ParameterValue], names: list[str | int], rig: Rig) -> Refused:
        """Walk the ladder rung by rung, each over the whole batch: the first rung that fails is the answer."""
        seen: set[str | int] = set()
        for item, name in zip(items, names, strict=True):
            if name in seen:
                return Refused(ParameterRefusal.DUPLICATE_PARAMETER, at=_as_sent(item))
            seen.add(name)
        rules = list(self._rules(names, rig))
        for item in items:
            if is_non_finite(item.value):
                return Refused(ParameterRefusal.NON_FINITE_VALUE, at=_as_sent(item))
        for item, rule in zip(items, rules, strict=True):
            if rule is UNSET:
                return Refused(ParameterRefusal.UNKNOWN_PARAMETER, at=_as_sent(item))
        for item, rule in zip(items, rules, strict=True):
            if not _has_type(item.value, rule):
                return Refused(ParameterRefusal.TYPE_MISMATCH, at=_as_sent(item))
        for item, rule in zip(items, rules, strict=True):
            if not _in_range(item.value, rule):
                return Refused(ParameterRefusal.OUT_OF_RANGE, at=_as_sent(item))
        raise AssertionError("a batch that does not fit fails one rung of the ladder")

    def evolve(self, command: CommitParameters, fact: ParametersCommitted, rig: Rig) -> "Snapshot":
        """Apply what was decided. In full mode a batch is the whole snapshot; a trigger's count never falls."""
        if fact.version == self.version:
            return self
        if rig.mode == "full":
            values = rig.defaults() | {
                name: self.values[name] for name, rule in (rig.declared or {}).items() if rule.type == "trigger"
            }
        else:
            values = self.values.copy()
        for item in command.values:
            name = _name(item, rig)
            assert type(name) is str, "an accepted batch names what the rig knows"
            values[name] = _kept(
                item.value, rig.declared[name] if rig.declared is not None else None, values.get(name, 0)
            )
        return Snapshot(fact.version, values)


def _name(item: ParameterValue, rig: Rig) -> str | int:
    """Give a parameter's name; an id that the rig does not know stays a number."""
    if item.name is not UNSET:
        return item.name
    assert item.id is not UNSET
    return rig.names.get(item.id, item.id)


def _as_sent(item: ParameterValue) -> str:
    return item.name if item.name is not UNSET else str(item.id)


def _fits(item: ParameterValue, rule: ParameterRule | UnsetType | None) -> bool:
    """Say whether one value passes every rung: the fast way to a yes."""
    return (
        rule is not UNSET
        and not is_non_finite(item.value)
        and _has_type(item.value, rule)
        and _in_range(item.value, rule)
    )


def _has_type(value: object, rule: ParameterRule | UnsetType | None) -> bool:
    kind = type(value)
    if rule is None or rule is UNSET:
        return kind is float or kind is int or kind is bool
    if rule.type == "float":
        return kind is float or kind is int
    if rule.type == "int":
        return kind is int or (type(value) is float and value.is_integer())
    if rule.type == "bool":
        return kind is bool
    return value is True


def _in_range(value: object, rule: ParameterRule | UnsetType | None) -> bool:
    """Say whether a value of the right type is within its rule; a declared whole number is one that every client keeps."""
    if rule is None or rule is UNSET or (type(value) is not int and type(value) is not float):
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
