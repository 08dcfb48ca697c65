"""Rigs and lone values for tests: every part has a default, so that a test names only what it is about."""

from typing import Any

from app.gates.graph import Evaluation, SubmitCandidate
from app.gates.rig import (
    DEFAULT_BOUNDS,
    MAIN,
    REQUIRED_OUTPUTS,
    ClipRule,
    GraphRule,
    KindRule,
    LayerRule,
    ManifestEvent,
    ParameterRule,
    Rig,
    build_rig,
    parameter_id,
)

ANY_STATE = LayerRule("Idle", None)
OUTPUTS = list(REQUIRED_OUTPUTS)


def rig(
    *,
    layers: dict[str, LayerRule] | None = None,
    mode: Any = "sparse",
    declared: dict[str, ParameterRule] | None = None,
    kinds: Any = None,
    graphs: dict[str, GraphRule] | None = None,
    clips: dict[str, ClipRule] | None = None,
    **bounds: int,
) -> Rig:
    """Build a rig: layer `base` in Idle, graph `main` driving every layer, and the default bounds unless told.

    A kind may be the name of its class.
    """
    if kinds is not None:
        kinds = {name: rule if isinstance(rule, KindRule) else KindRule(rule) for name, rule in kinds.items()}
    layers = {"base": ANY_STATE} if layers is None else layers
    graphs = {MAIN: GraphRule(REQUIRED_OUTPUTS, tuple(layers), None)} if graphs is None else graphs
    return build_rig(
        layers=layers,
        mode=mode,
        declared=declared,
        kinds=kinds,
        bounds={**DEFAULT_BOUNDS, **bounds},
        graphs=graphs,
        clips=clips,
    )


def clip(frames: int, *events: tuple[int, str] | tuple[int, str, str]) -> ClipRule:
    """Declare a clip's manifest; an event is its frame and kind, and its mark where it has one."""
    return ClipRule(frames, tuple(ManifestEvent(*event) for event in sorted(events)))


def parameter(
    name: str,
    kind: Any = "float",
    *,
    default: int | float | bool = 0,
    required: bool = False,
    low: int | float | None = None,
    high: int | float | None = None,
    identity: int | None = None,
) -> ParameterRule:
    """Declare one parameter; its id is CRC-32 of its name unless told."""
    return ParameterRule(kind, parameter_id(name) if identity is None else identity, default, required, low, high)


def graph_rule(*layers: str, outputs: tuple[str, ...] = REQUIRED_OUTPUTS, bind_pose: Any = None) -> GraphRule:
    """Declare a graph that drives `layers`."""
    return GraphRule(outputs, layers, bind_pose)


def candidate(request: int, name: str = "CombatV9", **fields: Any) -> SubmitCandidate:
    """Offer a candidate that fits the default graph, apart from what the test changes."""
    given: dict[str, Any] = {"outputs": OUTPUTS, "evaluation": Evaluation(True, "combat@0"), **fields}
    return SubmitCandidate(request=request, name=name, **given)
