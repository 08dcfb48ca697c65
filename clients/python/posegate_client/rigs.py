"""Rigs: the declared contract of a kind of character, as values. Whatever is left out has the service's default.

A dictionary as the wire has it does as well, everywhere a rig is taken.
"""

from typing import Any, Literal

from msgspec import Struct, field

EventClass = Literal["presentation", "immediate", "gameplay"]


class Layer(Struct, frozen=True, omit_defaults=True):
    """A layer: the state it starts in, and the states it may begin (any where none are listed)."""

    initial: str = "Idle"
    states: list[str] | None = None


class Parameter(Struct, frozen=True, omit_defaults=True):
    """A declared parameter; ranges are inclusive, the id is CRC-32 of the name unless given."""

    type: Literal["float", "int", "bool", "trigger"]
    min: int | float | None = None
    max: int | float | None = None
    default: int | float | bool | None = None
    required: bool = False
    id: int | None = None


class Parameters(Struct, frozen=True, omit_defaults=True):
    """The parameters: any number of any name where `declared` is None."""

    mode: Literal["sparse", "full"] = "sparse"
    declared: dict[str, Parameter] | None = None


class Kind(Struct, frozen=True, omit_defaults=True):
    """An event kind: its class, and the kind that ends what it begins."""

    class_: EventClass = field(name="class")
    ends: str | None = None


class Events(Struct, frozen=True, omit_defaults=True):
    """The event kinds (any where none are listed) and the bounds of the event gate."""

    kinds: dict[str, EventClass | Kind] | None = None
    loop_window: int | None = None
    events_per_instance: int | None = None
    events_bytes: int | None = None
    instances_open: int | None = None
    deliveries_kept: int | None = None


class ClipEvent(Struct, frozen=True, omit_defaults=True):
    """An event that a clip reaches in each loop."""

    frame: int
    kind: str
    mark: str | None = None


class Clip(Struct, frozen=True, omit_defaults=True):
    """A clip: the frames of a loop, and the events it reaches in them."""

    frames: int
    events: list[ClipEvent] = []


class GraphSlot(Struct, frozen=True, omit_defaults=True):
    """A graph slot: what a candidate must bind, the layers it drives, the pose that proves no evaluation."""

    required_outputs: list[str] | None = None
    layers: list[str] | None = None
    bind_pose: Any = None


class Rig(Struct, frozen=True, omit_defaults=True):
    """A rig; every part is optional."""

    layers: dict[str, Layer] | None = None
    parameters: Parameters | None = None
    events: Events | None = None
    graphs: dict[str, GraphSlot] | None = None
    clips: dict[str, Clip] | None = None
