"""The rig: the declared contract of a kind of character, complete with every default filled in."""

import zlib
from collections.abc import Mapping
from functools import cache
from typing import Literal

from msgspec import Struct

MAIN = "main"
"""The graph a command means when it names none."""

ParameterType = Literal["float", "int", "bool", "trigger"]
Mode = Literal["sparse", "full"]
KindClass = Literal["presentation", "immediate"]


class LayerRule(Struct, frozen=True, array_like=True):
    """Where a layer starts, and which states it may begin; None where any state is allowed."""

    initial: str
    states: frozenset[str] | None


class ParameterRule(Struct, frozen=True, array_like=True):
    """What one declared parameter takes. Ranges are inclusive; None where there is no bound."""

    type: ParameterType
    id: int
    default: int | float | bool
    required: bool
    min: int | float | None
    max: int | float | None


class GraphRule(Struct, frozen=True, array_like=True):
    """What a graph must bind, which layers it drives, and the pose that proves nothing was evaluated."""

    required_outputs: tuple[str, ...]
    layers: tuple[str, ...]
    bind_pose: str | dict[str, list[int | float]] | None


class Rig(Struct, frozen=True, array_like=True):
    """The whole contract. `declared` and `kinds` are None where anything is accepted.

    `names` finds a parameter by its id, written as text: a rig has one digest, and only text keys can be put in order.

    Bounds: `loop_window` in loops, `events_per_instance` in remembered keys, `events_bytes` in bytes of waiting payload
    a character, `instances_open` in clip instances, `deliveries_kept` in deliveries.
    """

    layers: dict[str, LayerRule]
    mode: Mode
    declared: dict[str, ParameterRule] | None
    kinds: dict[str, KindClass] | None
    loop_window: int
    events_per_instance: int
    events_bytes: int
    instances_open: int
    deliveries_kept: int
    graphs: dict[str, GraphRule]
    names: dict[str, str]
    required: tuple[str, ...]

    def defaults(self) -> dict[str, int | float | bool]:
        """Give a fresh snapshot's values, in the order of declaration; a trigger has fired 0 times."""
        return {name: rule.default for name, rule in (self.declared or {}).items()}


def parameter_id(name: str) -> int:
    """Give the stable 32-bit id of a parameter: CRC-32 of its UTF-8, as Unity's `Animator.StringToHash` yields."""
    return zlib.crc32(name.encode())


def build_rig(
    *,
    layers: dict[str, LayerRule],
    mode: Mode,
    declared: dict[str, ParameterRule] | None,
    kinds: dict[str, KindClass] | None,
    bounds: Mapping[str, int],
    graphs: dict[str, GraphRule],
) -> Rig:
    """Join the parts of a rig that were each checked already, and derive what the gates look up."""
    rules: dict[str, ParameterRule] = declared or {}
    return Rig(
        layers=layers,
        mode=mode,
        declared=declared,
        kinds=kinds,
        loop_window=bounds["loop_window"],
        events_per_instance=bounds["events_per_instance"],
        events_bytes=bounds["events_bytes"],
        instances_open=bounds["instances_open"],
        deliveries_kept=bounds["deliveries_kept"],
        graphs=graphs,
        names={str(rule.id): name for name, rule in rules.items()},
        required=tuple(sorted(name for name, rule in rules.items() if rule.required)),
    )


DEFAULT_BOUNDS = {
    "loop_window": 8,
    "events_per_instance": 1024,
    "events_bytes": 262_144,
    "instances_open": 64,
    "deliveries_kept": 256,
}
"""What a rig that names no bounds gets."""

REQUIRED_OUTPUTS = ("Animator", "GameplayEvents")
"""What a graph must bind when the rig does not say otherwise. Source: the PlayableGraph swap article."""


@cache
def default_rig() -> Rig:
    """Give the rig of a spawn that declares nothing: layer `base` in `Idle`, any parameter, any kind, graph `main`."""
    return build_rig(
        layers={"base": LayerRule("Idle", None)},
        mode="sparse",
        declared=None,
        kinds=None,
        bounds=DEFAULT_BOUNDS,
        graphs={MAIN: GraphRule(REQUIRED_OUTPUTS, ("base",), None)},
    )
