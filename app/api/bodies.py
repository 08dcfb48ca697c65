"""Bodies that are set once and read by people: rigs, spawns and despawns, checked whole, with their defaults."""

from math import ceil, floor
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from app.gates.graph import Graph
from app.gates.identity import NUMBER_MAX, has_control_characters, is_identifier
from app.gates.lives import Despawn, Spawn
from app.gates.parameter import FLOAT32_INFINITE
from app.gates.rig import (
    DEFAULT_BOUNDS,
    MAIN,
    REQUIRED_OUTPUTS,
    GraphRule,
    LayerRule,
    ParameterRule,
    Rig,
    build_rig,
    parameter_id,
)

NAME_PATTERN = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"
IDENTIFIER_PATTERN = "^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$"
"""What a name and an identifier are, for the schemas; `app.gates.identity` is what checks."""


def _without_control_characters(name: str) -> str:
    if has_control_characters(name):
        raise ValueError("a name takes no control characters")
    return name


def _identifier(name: str) -> str:
    if not is_identifier(name):
        raise ValueError("an identifier is 1 to 128 of A-Z a-z 0-9 . _ ~ - and starts with a letter or digit")
    return name


def _whole(value: Any) -> Any:
    """Take 4.0 as 4, as some JSON writers put it."""
    return int(value) if type(value) is float and value.is_integer() else value


NameText = Annotated[
    str,
    StringConstraints(min_length=1, max_length=128),
    AfterValidator(_without_control_characters),
    Field(json_schema_extra={"pattern": NAME_PATTERN}),
]
IdentifierText = Annotated[str, AfterValidator(_identifier), Field(json_schema_extra={"pattern": IDENTIFIER_PATTERN})]
Finite = Annotated[float, Field(allow_inf_nan=False, gt=-FLOAT32_INFINITE, lt=FLOAT32_INFINITE)]
FROM_FLOAT = BeforeValidator(_whole)
Whole = Annotated[int, Field(ge=-NUMBER_MAX, le=NUMBER_MAX), FROM_FLOAT]
Count = Annotated[int, Field(ge=0, le=NUMBER_MAX), FROM_FLOAT]
Scalar = bool | Whole | Finite
BonesBody = dict[NameText, Annotated[list[Whole | Finite], Field(min_length=7, max_length=64)]]


class StrictBody(BaseModel):
    """A body that takes what its schema names and nothing else."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class LayerBody(StrictBody):
    """A layer: the state it starts in, and the states it may begin (any where none are listed)."""

    initial: NameText = "Idle"
    states: Annotated[list[NameText], Field(max_length=1024)] | None = None

    @model_validator(mode="after")
    def _starts_in_a_state(self) -> Self:
        if self.states is not None and self.initial not in self.states:
            raise ValueError("`initial` must be one of `states`")
        return self


class ParameterBody(StrictBody):
    """A declared parameter; ranges are inclusive, the id is CRC-32 of the name unless given."""

    type: Literal["float", "int", "bool", "trigger"]
    min: Whole | Finite | None = None
    max: Whole | Finite | None = None
    default: Scalar | None = None
    required: bool = False
    id: Annotated[int, Field(ge=0, le=2**32 - 1), FROM_FLOAT] | None = None

    @model_validator(mode="after")
    def _fits_its_type(self) -> Self:
        if self.type in ("bool", "trigger") and (self.min is not None or self.max is not None):
            raise ValueError(f"a {self.type} takes no range")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("`min` is above `max`")
        if self.type == "int" and not self._start_is_whole():
            raise ValueError(f"`default` and the range of an int must hold a whole number within {NUMBER_MAX}")
        value = self.default
        if value is None:
            return self
        if self.type == "trigger":
            raise ValueError("a trigger takes no default: it starts at 0 firings")
        if (self.type == "bool") != isinstance(value, bool):
            raise ValueError(f"`default` must be a {self.type}")
        if (self.min is not None and value < self.min) or (self.max is not None and value > self.max):
            raise ValueError("`default` is out of range")
        return self

    def to_rule(self, name: str) -> ParameterRule:
        """Give the gate's rule. Without a default a number starts at 0, or at the end of its range nearest to 0."""
        start = self._start()
        identity = parameter_id(name) if self.id is None else self.id
        return ParameterRule(
            self.type, identity, int(start) if self.type == "int" else start, self.required, self.min, self.max
        )

    def _start(self) -> int | float | bool:
        if self.default is not None:
            return self.default
        if self.min is not None and self.min > 0:
            return ceil(self.min) if self.type == "int" else self.min
        if self.max is not None and self.max < 0:
            return floor(self.max) if self.type == "int" else self.max
        return False if self.type == "bool" else 0

    def _start_is_whole(self) -> bool:
        start = self._start()
        is_in_range = (self.min is None or start >= self.min) and (self.max is None or start <= self.max)
        return is_in_range and float(start).is_integer() and -NUMBER_MAX <= start <= NUMBER_MAX


class ParametersBody(StrictBody):
    """The parameters of a rig: any number of any name where `declared` is not given."""

    mode: Literal["sparse", "full"] = "sparse"
    declared: Annotated[dict[NameText, ParameterBody], Field(max_length=4096)] | None = None

    @model_validator(mode="after")
    def _ids_differ(self) -> Self:
        names: dict[int, str] = {}
        for name, body in (self.declared or {}).items():
            other = names.setdefault(body.to_rule(name).id, name)
            if other != name:
                raise ValueError(f"parameters {other!r} and {name!r} have the same id; give one of them another")
        return self


class EventsBody(StrictBody):
    """The event kinds of a rig (any where none are listed) and the bounds of its event gate."""

    kinds: Annotated[dict[NameText, Literal["presentation", "immediate"]], Field(max_length=4096)] | None = None
    loop_window: Count = DEFAULT_BOUNDS["loop_window"]
    events_per_instance: Annotated[int, Field(ge=1, le=4096), FROM_FLOAT] = DEFAULT_BOUNDS["events_per_instance"]
    events_bytes: Annotated[int, Field(ge=0, le=16_777_216), FROM_FLOAT] = DEFAULT_BOUNDS["events_bytes"]
    instances_open: Annotated[int, Field(ge=1, le=4096), FROM_FLOAT] = DEFAULT_BOUNDS["instances_open"]
    deliveries_kept: Annotated[int, Field(ge=0, le=4096), FROM_FLOAT] = DEFAULT_BOUNDS["deliveries_kept"]


class GraphBody(StrictBody):
    """A graph slot: what a candidate must bind, the layers it drives, and the pose that proves no evaluation."""

    required_outputs: Annotated[list[NameText], Field(max_length=256)] = Field(default=list(REQUIRED_OUTPUTS))
    layers: Annotated[list[NameText], Field(max_length=64)] | None = Field(
        default=None, description="The layers it drives; every layer that no other graph names when not given."
    )
    bind_pose: NameText | BonesBody | None = None


class RigBody(StrictBody):
    """The declared contract of a kind of character; every part is optional."""

    model_config = ConfigDict(title="Rig")

    layers: Annotated[dict[NameText, LayerBody], Field(max_length=64)] = Field(default={"base": LayerBody()})
    parameters: ParametersBody = ParametersBody()
    events: EventsBody = EventsBody()
    graphs: Annotated[dict[NameText, GraphBody], Field(max_length=16)] = Field(default={MAIN: GraphBody()})

    @model_validator(mode="after")
    def _graphs_share_no_layer(self) -> Self:
        drivers: dict[str, str] = {}
        for graph, layers in self._driven().items():
            for layer in layers:
                if layer not in self.layers:
                    raise ValueError(f"graph {graph!r} drives layer {layer!r}, which the rig does not have")
                if drivers.setdefault(layer, graph) != graph:
                    raise ValueError(f"layer {layer!r} is driven by graphs {drivers[layer]!r} and {graph!r}")
        return self

    def _driven(self) -> dict[str, tuple[str, ...]]:
        named = {layer for body in self.graphs.values() for layer in body.layers or ()}
        rest = tuple(sorted(layer for layer in self.layers if layer not in named))
        return {
            name: rest if body.layers is None else tuple(sorted(set(body.layers))) for name, body in self.graphs.items()
        }

    def to_rig(self) -> Rig:
        """Give the gates' rig, every default filled in."""
        declared, kinds = self.parameters.declared, self.events.kinds
        driven = self._driven()
        return build_rig(
            layers={
                name: LayerRule(body.initial, None if body.states is None else frozenset(body.states))
                for name, body in self.layers.items()
            },
            mode=self.parameters.mode,
            declared=None if declared is None else {name: body.to_rule(name) for name, body in declared.items()},
            kinds=None if kinds is None else dict(kinds),
            bounds=self.events.model_dump(exclude={"kinds"}),
            graphs={
                name: GraphRule(tuple(dict.fromkeys(body.required_outputs)), driven[name], _pose(body.bind_pose))
                for name, body in self.graphs.items()
            },
        )


class SpawnedGraphBody(StrictBody):
    """The graph that is active from the start."""

    name: NameText
    pose: Annotated[str, StringConstraints(max_length=1024)] | BonesBody | None = None
    outputs: Annotated[list[NameText], Field(max_length=256)] | None = Field(
        default=None, description="What it binds; the required outputs when not given."
    )


class SpawnBody(StrictBody):
    """A spawn: a rig by name, or inline, or neither for the default; and what is active from the start."""

    model_config = ConfigDict(title="Spawn")

    rig: IdentifierText | RigBody | None = None
    graphs: Annotated[dict[NameText, SpawnedGraphBody], Field(max_length=16)] = {}
    life: Count | None = Field(default=None, description="The life this spawn is for; another is `stale_life`.")

    def to_command(self) -> Spawn:
        """Give the command that the scene decides."""
        inline = self.rig.to_rig() if isinstance(self.rig, RigBody) else None
        given: dict[str, Any] = {} if self.life is None else {"life": self.life}
        graphs = {
            name: Graph(body.name, 0, _pose(body.pose), list(body.outputs or ())) for name, body in self.graphs.items()
        }
        return Spawn(rig=self.rig if isinstance(self.rig, str) else None, inline=inline, graphs=graphs, **given)


class DespawnBody(StrictBody):
    """A despawn, of one life or of whichever is present."""

    model_config = ConfigDict(title="Despawn")

    life: Count | None = None

    def to_command(self) -> Despawn:
        """Give the command that the scene decides."""
        return Despawn() if self.life is None else Despawn(life=self.life)


def _pose(pose: Any) -> Any:
    return {bone: list(values) for bone, values in pose.items()} if isinstance(pose, dict) else pose
