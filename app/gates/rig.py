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
KindClass = Literal["presentation", "immediate", "gameplay"]


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


class KindRule(Struct, frozen=True, array_like=True):
    """How events of a kind are delivered, and the kind of the same class that `ends` what this one begins."""

    class_: KindClass
    ends: str | None = None


class ManifestEvent(Struct, frozen=True, array_like=True, gc=False):
    """One event that a clip reaches in each of its loops."""

    frame: int
    kind: str
    mark: str | None = None


class ClipRule(Struct, frozen=True, array_like=True):
    """A clip's manifest: how many frames a loop has, and its events, ascending by (frame, kind), none twice."""

    frames: int
    events: tuple[ManifestEvent, ...]


class Rig(Struct, frozen=True, array_like=True):
    """The whole contract. `declared` and `kinds` are None where anything is accepted.

    `kinds` lists what ends a kind too. `clips` are the manifests of the clips whose events are known beforehand.
    `names` finds a parameter by its id, written as text: a rig has one digest, and only text keys can be put in order.

    Bounds: `loop_window` in loops, `events_per_instance` in remembered keys, `events_bytes` in bytes of waiting payload
    a character, `instances_open` in clip instances, `deliveries_kept` in deliveries.
    """

    layers: dict[str, LayerRule]
    mode: Mode
    declared: dict[str, ParameterRule] | None
    kinds: dict[str, KindRule] | None
    loop_window: int
    events_per_instance: int
    events_bytes: int
    instances_open: int
    deliveries_kept: int
    graphs: dict[str, GraphRule]
    names: dict[str, str]
    required: tuple[str, ...]
    clips: dict[str, ClipRule] = {}

    def defaults(self) -> dict[str, int | float | bool]:
        """Give a fresh snapshot's values, in the order of declaration; a trigger has fired 0 times."""
        return {name: rule.default for name, rule in (self.declared or {}).items()}


def is_immediate(rig: Rig, kind: str) -> bool:
    """Say whether accepting an event of this kind delivers it. A rig that lists kinds lists this one."""
    return rig.kinds is not None and rig.kinds[kind].class_ == "immediate"


def is_gameplay(rig: Rig, kind: str) -> bool:
    """Say whether events of this kind are delivered by loop and tick. A rig that lists kinds lists this one."""
    return rig.kinds is not None and rig.kinds[kind].class_ == "gameplay"


def parameter_id(name: str) -> int:
    """Give the stable 32-bit id of a parameter: CRC-32 of its UTF-8, as Unity's `Animator.StringToHash` yields."""
    return zlib.crc32(name.encode())


def build_rig(
    *,
    layers: dict[str, LayerRule],
    mode: Mode,
    declared: dict[str, ParameterRule] | None,
    kinds: dict[str, KindRule] | None,
    bounds: Mapping[str, int],
    graphs: dict[str, GraphRule],
    clips: dict[str, ClipRule] | None = None,
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
        clips=clips or {},
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
