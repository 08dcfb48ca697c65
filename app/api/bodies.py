"""Bodies that are set once and read by people: rigs, spawns and despawns, checked whole, with their defaults."""

from math import ceil, floor
from typing import Annotated, Any, Literal, Self

from msgspec import structs
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from app.gates.graph import Graph
from app.gates.identity import NAME_LENGTH_MAX, NUMBER_MAX, Token, has_control_characters, is_identifier
from app.gates.lives import Despawn, Spawn
from app.gates.parameter import FLOAT32_INFINITE
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
TokenText = Annotated[str, StringConstraints(max_length=NAME_LENGTH_MAX)]
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


ClassText = Literal["presentation", "immediate", "gameplay"]


class KindBody(StrictBody):
    """An event kind: its class, and the kind that ends what it begins."""

    class_: ClassText = Field(alias="class")
    ends: NameText | None = None

    def to_rule(self) -> KindRule:
        """Give the gate's rule."""
        return KindRule(self.class_, self.ends)


class EventsBody(StrictBody):
    """The event kinds of a rig (any where none are listed) and the bounds of its event gate.

    A kind is its class, or an object that says what `ends` it too; that kind has the same class, and is declared by
    being named.
    """

    kinds: Annotated[dict[NameText, ClassText | KindBody], Field(max_length=4096)] | None = None
    loop_window: Count = DEFAULT_BOUNDS["loop_window"]
    events_per_instance: Annotated[int, Field(ge=1, le=4096), FROM_FLOAT] = DEFAULT_BOUNDS["events_per_instance"]
    events_bytes: Annotated[int, Field(ge=0, le=16_777_216), FROM_FLOAT] = DEFAULT_BOUNDS["events_bytes"]
    instances_open: Annotated[int, Field(ge=1, le=4096), FROM_FLOAT] = DEFAULT_BOUNDS["instances_open"]
    deliveries_kept: Annotated[int, Field(ge=0, le=4096), FROM_FLOAT] = DEFAULT_BOUNDS["deliveries_kept"]

    @model_validator(mode="after")
    def _kinds_agree(self) -> Self:
        rules = self.rules() or {}
        for kind, rule in rules.items():
            if rule.ends == kind:
                raise ValueError(f"kind {kind!r} cannot end itself")
            if rule.ends is not None and rules[rule.ends].class_ != rule.class_:
                raise ValueError(f"kind {kind!r} and {rule.ends!r}, which ends it, must have the same class")
        if self.deliveries_kept == 0 and any(rule.class_ == "gameplay" for rule in rules.values()):
            raise ValueError("gameplay kinds need `deliveries_kept` of 1 or more: they stay until acknowledged")
        return self

    def rules(self) -> dict[str, KindRule] | None:
        """Give the gate's rules, those of the kinds that are only named as what ends another included."""
        if self.kinds is None:
            return None
        rules = {
            name: body.to_rule() if isinstance(body, KindBody) else KindRule(body) for name, body in self.kinds.items()
        }
        for rule in tuple(rules.values()):
            if rule.ends is not None:
                rules.setdefault(rule.ends, KindRule(rule.class_))
        return rules


class ManifestEventBody(StrictBody):
    """An event that a clip reaches in each loop; `mark` names it among the clips it is blended with."""

    frame: Count
    kind: NameText
    mark: NameText | None = None


class ClipBody(StrictBody):
    """A clip's manifest: the frames of a loop, and the events it reaches in them."""

    frames: Annotated[int, Field(ge=1, le=2**31), FROM_FLOAT]
    events: Annotated[list[ManifestEventBody], Field(max_length=1024)] = []

    @model_validator(mode="after")
    def _events_fit(self) -> Self:
        keys = set[tuple[int, str]]()
        for event in self.events:
            if event.frame >= self.frames:
                raise ValueError(f"frame {event.frame} is not one of the {self.frames} frames, which count from 0")
            if (event.frame, event.kind) in keys:
                raise ValueError(f"frame {event.frame} has kind {event.kind!r} twice")
            keys.add((event.frame, event.kind))
        return self

    def to_rule(self) -> ClipRule:
        """Give the gate's rule, its events in order."""
        events = sorted(self.events, key=lambda event: (event.frame, event.kind))
        return ClipRule(self.frames, tuple(ManifestEvent(event.frame, event.kind, event.mark) for event in events))


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
    clips: Annotated[dict[NameText, ClipBody], Field(max_length=1024)] = {}

    @model_validator(mode="after")
    def _clips_bring_known_kinds(self) -> Self:
        kinds = self.events.rules()
        if kinds is not None:
            for clip, body in self.clips.items():
                for event in body.events:
                    if event.kind not in kinds:
                        raise ValueError(f"clip {clip!r} brings kind {event.kind!r}, which the rig does not list")
        return self

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
        declared = self.parameters.declared
        driven = self._driven()
        return build_rig(
            layers={
                name: LayerRule(body.initial, None if body.states is None else frozenset(body.states))
                for name, body in self.layers.items()
            },
            mode=self.parameters.mode,
            declared=None if declared is None else {name: body.to_rule(name) for name, body in declared.items()},
            kinds=self.events.rules(),
            bounds=self.events.model_dump(exclude={"kinds"}),
            graphs={
                name: GraphRule(tuple(dict.fromkeys(body.required_outputs)), driven[name], _pose(body.bind_pose))
                for name, body in self.graphs.items()
            },
            clips={name: body.to_rule() for name, body in self.clips.items()},
        )


class SpawnedGraphBody(StrictBody):
    """The graph that is active from the start."""

    name: NameText
    pose: Annotated[str, StringConstraints(max_length=1024)] | BonesBody | None = None
    outputs: Annotated[list[NameText], Field(max_length=256)] | None = Field(
        default=None, description="What it binds; the required outputs when not given."
    )


class HolderBody(StrictBody):
    """A token that must have its right: compared whole, as it was granted."""

    model_config = ConfigDict(title="Holder")

    character: TokenText
    layer: TokenText
    epoch: Count
    generation: Count
    from_: TokenText = Field(alias="from")
    to: TokenText
    seal: TokenText | None = None

    def to_token(self) -> Token:
        """Give the gates' token."""
        token = Token(self.character, self.layer, self.epoch, self.generation, self.from_, self.to)
        return token if self.seal is None else structs.replace(token, seal=self.seal)


def _named(life: int | None, holder: HolderBody | None) -> dict[str, Any]:
    """Give what any command may name, as far as it was given."""
    named: dict[str, Any] = {} if life is None else {"life": life}
    return named if holder is None else named | {"holder": holder.to_token()}


class SpawnBody(StrictBody):
    """A spawn: a rig by name, or inline, or neither for the default; and what is active from the start."""

    model_config = ConfigDict(title="Spawn")

    rig: IdentifierText | RigBody | None = None
    graphs: Annotated[dict[NameText, SpawnedGraphBody], Field(max_length=16)] = {}
    life: Count | None = Field(default=None, description="The life this spawn is for; another is `stale_life`.")
    holder: HolderBody | None = Field(default=None, description="A token; one without its right is `holder_lost`.")

    def to_command(self) -> Spawn:
        """Give the command that the scene decides."""
        inline = self.rig.to_rig() if isinstance(self.rig, RigBody) else None
        given = _named(self.life, self.holder)
        graphs = {
            name: Graph(body.name, 0, _pose(body.pose), list(body.outputs or ())) for name, body in self.graphs.items()
        }
        return Spawn(rig=self.rig if isinstance(self.rig, str) else None, inline=inline, graphs=graphs, **given)


class DespawnBody(StrictBody):
    """A despawn, of one life or of whichever is present."""

    model_config = ConfigDict(title="Despawn")

    life: Count | None = None
    holder: HolderBody | None = None

    def to_command(self) -> Despawn:
        """Give the command that the scene decides."""
        return Despawn(**_named(self.life, self.holder))


def _pose(pose: Any) -> Any:
    return {bone: list(values) for bone, values in pose.items()} if isinstance(pose, dict) else pose
