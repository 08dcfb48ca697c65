"""What the event gate is asked and what it answers: commands, facts, and refusals in the order of the checks.

Source: 2026-07-29-2000; contract, sections 6 and 8.
"""

from enum import StrEnum
from typing import Annotated, Any, final

from msgspec import UNSET, Meta, UnsetType

from app.gates.clip import Event
from app.gates.decision import Command, Fact
from app.gates.identity import NUMBER_MAX, Name, Number, TickNumber, has_control_characters
from app.gates.manifest import MissingEvent

Offset = Annotated[int, Meta(ge=-NUMBER_MAX, le=NUMBER_MAX)]
"""Frames from frame 0 of a loop, which may lead into the loops before and after it."""


class EventRefusal(StrEnum):
    """Why an event, a loop or an instance was refused, in the order of the checks: the first that applies."""

    UNKNOWN_INSTANCE = "unknown_instance"
    UNKNOWN_LAYER = "unknown_layer"
    UNKNOWN_KIND = "unknown_kind"
    RETIRED_INSTANCE = "retired_instance"
    UNKNOWN_CLIP = "unknown_clip"
    SPAN_OUT_OF_RANGE = "span_out_of_range"
    INSTANCE_OUT_OF_RANGE = "instance_out_of_range"
    INSTANCE_OPEN = "instance_open"
    INSTANCES_FULL = "instances_full"
    STALE_EPOCH = "stale_epoch"
    LATE_LOOP = "late_loop"
    BEYOND_WINDOW = "beyond_window"
    LATE_TICK = "late_tick"
    DUPLICATE = "duplicate"
    QUEUE_FULL = "queue_full"
    LOOP_ROLLBACK = "loop_rollback"
    DELIVERY_BACKLOG = "delivery_backlog"
    UNKNOWN_DELIVERY = "unknown_delivery"


class Play(Command, frozen=True, tag="play"):
    """Open a clip instance. Answers: InstanceOpened, or an EventRefusal."""

    clip: Name
    layer: Name | UnsetType = UNSET
    clip_instance: Number | UnsetType = UNSET
    data: Any = UNSET

    def __post_init__(self) -> None:
        if has_control_characters(self.clip + ("" if self.layer is UNSET else self.layer)):
            raise ValueError("`clip` and `layer` take no control characters")


class Enqueue(Command, frozen=True, tag="enqueue"):
    """Report that a clip reached an event. Answers: EventAccepted, or an EventRefusal.

    `payload` is opaque to the gate (1 KiB of JSON). It is no part of the key: the first report of a key stands. Of one
    (`group`, loop, `mark`, kind) only the first is taken, whichever instance brings it. `tick` is the logic frame that
    the event belongs to.
    """

    clip_instance: Number
    loop: Number
    frame: Number
    kind: Name
    payload: Any = UNSET
    group: Name | UnsetType = UNSET
    mark: Name | UnsetType = UNSET
    tick: TickNumber | UnsetType = UNSET

    def __post_init__(self) -> None:
        if has_control_characters(self.kind):
            raise ValueError("`kind` takes no control characters")
        if self.mark is not UNSET:
            if has_control_characters(self.mark + ("" if self.group is UNSET else self.group)):
                raise ValueError("`group` and `mark` take no control characters")
        elif self.group is not UNSET:
            raise ValueError("`group` needs a `mark`: it is the mark that blended clips share")


class Covered(Command, frozen=True, tag="covered"):
    """Report the frames that a clip crossed, both ends inclusive. Answers: SpanCovered, or an EventRefusal.

    Frames count from frame 0 of `loop` and may run over into other loops: with 30 frames a loop, frame 31 is frame 1 of
    the next and frame -1 is frame 29 of the one before. Backwards where `to_frame` is below `from_frame`. What is
    accepted is what the rig lists for the instance's clip; `group` and `tick` are given to all of it.
    """

    clip_instance: Number
    loop: Number
    from_frame: Offset
    to_frame: Offset
    group: Name | UnsetType = UNSET
    tick: TickNumber | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.group is not UNSET and has_control_characters(self.group):
            raise ValueError("`group` takes no control characters")


class CommitLoop(Command, frozen=True, tag="commit-loop"):
    """Deliver what waits up to a loop. Answers: LoopDelivered, or an EventRefusal."""

    clip_instance: Number
    loop: Number


class Retire(Command, frozen=True, tag="retire"):
    """Close a clip instance for good. Answers: InstanceRetired, or an EventRefusal."""

    clip_instance: Number


class Acknowledge(Command, frozen=True, tag="ack"):
    """Let go of kept deliveries. Answers: DeliveriesAcknowledged, or an EventRefusal."""

    through: Number


@final
class InstanceOpened(Fact, frozen=True, tag="opened"):
    """The instance's number; `retired` names one that made room."""

    clip_instance: int
    retired: list[int] | UnsetType = UNSET


@final
class EventAccepted(Fact, frozen=True, tag="accepted"):
    """The event waits for its loop; of an `immediate` kind this answer is the delivery.

    A gameplay event waits for its `tick` to be confirmed too.
    """

    retired: list[int] | UnsetType = UNSET
    tick: int | UnsetType = UNSET


@final
class SpanCovered(Fact, frozen=True, tag="covered"):
    """The events of the span that were accepted, in the order they were crossed, and how many had been before.

    Those of an `immediate` kind are delivered by this answer, the others wait for their loop.
    """

    events: list[Event]
    already: int


@final
class LoopDelivered(Fact, frozen=True, tag="delivered"):
    """What was delivered, by (loop, frame, arrival), and how many still wait in the instance.

    `missing` is what the clip's manifest lists in the loops that were newly committed and was never accepted, the
    lowest first; `missing_count` is there when more are missing than are listed.
    """

    events: list[Event]
    delivery: int | None
    pending: int
    retired: list[int] | UnsetType = UNSET
    missing: list[MissingEvent] | UnsetType = UNSET
    missing_count: int | UnsetType = UNSET


@final
class InstanceRetired(Fact, frozen=True, tag="retired"):
    """What the instance had accepted and never delivered."""

    undelivered: list[Event]


@final
class DeliveriesAcknowledged(Fact, frozen=True, tag="acknowledged"):
    """Kept deliveries up to the given number are gone."""


EventCommand = Play | Enqueue | Covered | CommitLoop | Retire | Acknowledge
EventFact = InstanceOpened | EventAccepted | SpanCovered | LoopDelivered | InstanceRetired | DeliveriesAcknowledged
