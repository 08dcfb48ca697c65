"""The event gate: each (clip instance, loop, frame, kind) is delivered once, by the loop watermark of its instance.

Source: 2026-07-29-2000; contract, sections 6 and 10.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, assert_never, final

from msgspec import UNSET, Struct, UnsetType

from app.gates.clip import ClipInstance, Event, payload_bytes, payload_digest
from app.gates.decision import Command, Fact, Refused
from app.gates.delivery import Deliveries, Delivery
from app.gates.identity import Name, Number, has_control_characters
from app.gates.rig import Rig
from app.gates.spent import Runs, is_spent, spent

INSTANCE_LEAD_MAX = 2**20
"""How far above the highest number seen a host may bring a new one."""


class EventRefusal(StrEnum):
    """Why an event, a loop or an instance was refused, in the order of the checks: the first that applies."""

    UNKNOWN_INSTANCE = "unknown_instance"
    UNKNOWN_LAYER = "unknown_layer"
    UNKNOWN_KIND = "unknown_kind"
    RETIRED_INSTANCE = "retired_instance"
    INSTANCE_OUT_OF_RANGE = "instance_out_of_range"
    INSTANCE_OPEN = "instance_open"
    INSTANCES_FULL = "instances_full"
    STALE_EPOCH = "stale_epoch"
    LATE_LOOP = "late_loop"
    BEYOND_WINDOW = "beyond_window"
    DUPLICATE = "duplicate"
    QUEUE_FULL = "queue_full"
    LOOP_ROLLBACK = "loop_rollback"
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

    `payload` is opaque to the gate (1 KiB of JSON). It is no part of the key: the first report of a key stands.
    """

    clip_instance: Number
    loop: Number
    frame: Number
    kind: Name
    payload: Any = UNSET

    def __post_init__(self) -> None:
        if has_control_characters(self.kind):
            raise ValueError("`kind` takes no control characters")


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
    """The event waits for its loop; of an `immediate` kind this answer is the delivery."""

    retired: list[int] | UnsetType = UNSET


@final
class LoopDelivered(Fact, frozen=True, tag="delivered"):
    """What was delivered, by (loop, frame, arrival), and how many still wait in the instance."""

    events: list[Event]
    delivery: int | None
    pending: int
    retired: list[int] | UnsetType = UNSET


@final
class InstanceRetired(Fact, frozen=True, tag="retired"):
    """What the instance had accepted and never delivered."""

    undelivered: list[Event]


@final
class DeliveriesAcknowledged(Fact, frozen=True, tag="acknowledged"):
    """Kept deliveries up to the given number are gone."""


EventCommand = Play | Enqueue | CommitLoop | Retire | Acknowledge
EventFact = InstanceOpened | EventAccepted | LoopDelivered | InstanceRetired | DeliveriesAcknowledged

Epochs = Callable[[str | None], int]
"""Gives the present epoch of a layer, or of graph `main` for None (0 where the rig has no such graph)."""


class EventGate(Struct, frozen=True, array_like=True, gc=False):
    """All clip instances of a character, the numbers that are spent, and the deliveries that are kept.

    `highest` is the highest number ever seen. Every number at or below `floor` is retired, and so are the runs in
    `retired` ((first, last), ascending, above the floor). `waiting_bytes` is the compact JSON of all waiting payloads.
    """

    instances: dict[int, ClipInstance] = {}
    highest: int = 0
    floor: int = -1
    retired: Runs = ()
    waiting_bytes: int = 0
    given: Deliveries = Deliveries()

    @property
    def last_delivery(self) -> int:
        """Give the number of the last delivery."""
        return self.given.last

    @property
    def acknowledged(self) -> int:
        """Give the highest number that was acknowledged."""
        return self.given.acknowledged

    @property
    def deliveries(self) -> tuple[Delivery, ...]:
        """Give the deliveries that can be read again."""
        return tuple(self.given.readable())

    def is_retired(self, number: int) -> bool:
        """Say whether a number that is not open was retired."""
        return is_spent(self.floor, self.retired, number)

    def decide_play(self, command: Play, rig: Rig) -> InstanceOpened | Refused:
        """Open the next number, or the one the host brought. The layer, where one is named, is known."""
        number = self.highest + 1
        if command.clip_instance is not UNSET:
            number = command.clip_instance
            if number in self.instances:
                return Refused(EventRefusal.INSTANCE_OPEN, at="clip_instance", clip_instance=number)
        made_room = self._opening(number, rig)
        return made_room if type(made_room) is Refused else InstanceOpened(number, made_room)

    def decide_enqueue(self, command: Enqueue, rig: Rig, epochs: Epochs) -> EventAccepted | Refused:
        """Accept one event into its loop's bucket, or name the first check that fails."""
        kinds, number = rig.kinds, command.clip_instance
        if kinds is not None and command.kind not in kinds:
            return Refused(EventRefusal.UNKNOWN_KIND, at="kind")
        held = self.instances.get(number)
        made_room: list[int] | UnsetType = UNSET
        if held is not None:
            refused = self._loop_refusal(command, held, rig, epochs)
            if refused is not None:
                return refused
        else:
            opening = self._opening(number, rig)
            if type(opening) is Refused:
                return opening
            made_room = opening
        if held is not None and held.remembered >= rig.events_per_instance:
            return Refused(EventRefusal.QUEUE_FULL, at="clip_instance", clip_instance=number)
        if (
            command.payload is not UNSET
            and not is_immediate(rig, command.kind)
            and self.waiting_bytes + payload_bytes(command.payload) > rig.events_bytes
        ):
            return Refused(EventRefusal.QUEUE_FULL, at="payload", clip_instance=number)
        return EventAccepted(made_room)

    def _loop_refusal(self, command: Enqueue, held: ClipInstance, rig: Rig, epochs: Epochs) -> Refused | None:
        number, loop, key = command.clip_instance, command.loop, (command.frame, command.kind)
        epoch = epochs(held.layer)
        if held.epoch < epoch:
            return Refused(EventRefusal.STALE_EPOCH, at="clip_instance", by={"epoch": epoch}, clip_instance=number)
        committed, first = held.committed_loop, held.first_loop
        watermark = committed if committed is not None else first
        if watermark is not None:
            oldest = watermark if committed is not None else watermark - rig.loop_window
            if loop < oldest:
                return Refused(EventRefusal.LATE_LOOP, at="loop", by={"loop": watermark}, clip_instance=number)
            if loop > watermark + rig.loop_window:
                return Refused(EventRefusal.BEYOND_WINDOW, at="loop", by={"loop": watermark}, clip_instance=number)
        waiting = held.waiting.get(loop)
        if waiting is not None and key in waiting:
            kept = waiting[key]
            digest = b"" if kept is None else payload_digest(kept[0])
        else:
            seen = held.seen.get(loop)
            if seen is None or key not in seen:
                return None
            digest = seen[key]
        differs = True if digest != payload_digest(command.payload) else UNSET
        return Refused(EventRefusal.DUPLICATE, clip_instance=number, payload_differs=differs)

    def decide_commit_loop(self, command: CommitLoop, rig: Rig) -> LoopDelivered | Refused:
        """Deliver every waiting event with a loop up to the given one, or name the first check that fails."""
        number = command.clip_instance
        held = self.instances.get(number)
        if held is None:
            made_room = self._opening(number, rig)
            return made_room if type(made_room) is Refused else LoopDelivered([], None, 0, made_room)
        if held.committed_loop is not None and command.loop < held.committed_loop:
            return Refused(
                EventRefusal.LOOP_ROLLBACK, at="loop", by={"loop": held.committed_loop}, clip_instance=number
            )
        events = held.events(number, command.loop)
        return LoopDelivered(events, self.last_delivery + 1 if events else None, held.pending - len(events))

    def decide_retire(self, command: Retire) -> InstanceRetired | Refused:
        """Close an open instance and report what it never delivered."""
        number = command.clip_instance
        held = self.instances.get(number)
        if held is not None:
            return InstanceRetired(held.events(number))
        outcome = EventRefusal.RETIRED_INSTANCE if self.is_retired(number) else EventRefusal.UNKNOWN_INSTANCE
        return Refused(outcome, at="clip_instance", clip_instance=number)

    def decide_acknowledge(self, command: Acknowledge) -> DeliveriesAcknowledged | Refused:
        """Let go of kept deliveries up to a number that was given out; a lower one again has no effect."""
        if command.through > self.last_delivery:
            return Refused(EventRefusal.UNKNOWN_DELIVERY, at="through", by={"delivery": self.last_delivery})
        return DeliveriesAcknowledged()

    def _opening(self, number: int, rig: Rig) -> list[int] | UnsetType | Refused:
        """Say what opening `number` costs: the instance that must go, UNSET when there is room, or why it cannot be."""
        if self.is_retired(number):
            return Refused(EventRefusal.RETIRED_INSTANCE, at="clip_instance", clip_instance=number)
        if number > self.highest + INSTANCE_LEAD_MAX:
            highest = {"clip_instance": self.highest}
            return Refused(EventRefusal.INSTANCE_OUT_OF_RANGE, at="clip_instance", by=highest, clip_instance=number)
        if len(self.instances) < rig.instances_open:
            return UNSET
        idle = [(held.touched, other) for other, held in self.instances.items() if not held.pending]
        if not idle:
            return Refused(EventRefusal.INSTANCES_FULL, at="clip_instance", clip_instance=number)
        return [min(idle)[1]]

    def evolve(
        self, command: EventCommand, fact: EventFact, rig: Rig, epochs: Epochs, *, at: int, touched: int
    ) -> "EventGate":
        """Apply what was decided at time `at`; `touched` is the character's new revision. Cannot refuse."""
        if type(fact) is EventAccepted:
            assert type(command) is Enqueue
            return self.evolve_enqueue(command, fact, rig, epochs, at=at, touched=touched)
        if type(fact) is LoopDelivered:
            assert type(command) is CommitLoop
            return self._delivered(command, fact, rig, epochs, at=at, touched=touched)
        if type(fact) is InstanceOpened:
            assert type(command) is Play
            layer = None if command.layer is UNSET else command.layer
            data = None if command.data is UNSET else command.data
            opened = ClipInstance(epochs(layer), at, touched, command.clip, layer, data)
            return self._with(fact.clip_instance, opened, fact.retired)
        if type(fact) is InstanceRetired:
            assert type(command) is Retire
            return self._without(command.clip_instance, fact.undelivered)
        if type(fact) is DeliveriesAcknowledged:
            assert type(command) is Acknowledge
            return self._acknowledged(command.through)
        assert_never(fact)

    def evolve_enqueue(
        self, command: Enqueue, fact: EventAccepted, rig: Rig, epochs: Epochs, *, at: int, touched: int
    ) -> "EventGate":
        """Let an accepted event wait, or remember its key when accepting it was the delivery."""
        number, key, payload = command.clip_instance, (command.frame, command.kind), command.payload
        held = self.instances.get(number) or ClipInstance(epochs(None), at, touched)
        if rig.kinds is not None and rig.kinds[command.kind] == "immediate":
            return self._with(number, held.with_seen(command.loop, key, payload, touched), fact.retired)
        waiting = held.with_waiting(command.loop, key, payload, touched)
        return self._with(number, waiting, fact.retired, grown=0 if payload is UNSET else payload_bytes(payload))

    def _with(
        self,
        number: int,
        held: ClipInstance,
        made_room: list[int] | UnsetType = UNSET,
        *,
        grown: int = 0,
        given: Deliveries | None = None,
    ) -> "EventGate":
        """Put one instance in its place, after the one that made room for it is gone."""
        instances = self.instances.copy()
        floor, retired = self.floor, self.retired
        if made_room is not UNSET:
            for other in made_room:
                del instances[other]
                floor, retired = spent(floor, retired, other)
        instances[number] = held
        return EventGate(
            instances,
            max(self.highest, number),
            floor,
            retired,
            self.waiting_bytes + grown,
            self.given if given is None else given,
        )

    def _delivered(
        self, command: CommitLoop, fact: LoopDelivered, rig: Rig, epochs: Epochs, *, at: int, touched: int
    ) -> "EventGate":
        number = command.clip_instance
        held = self.instances.get(number) or ClipInstance(epochs(None), at, touched)
        freed = sum(payload_bytes(event.payload) for event in fact.events) if self.waiting_bytes else 0
        given = None if fact.delivery is None else self.given.with_events(fact.events, kept=rig.deliveries_kept)
        return self._with(
            number,
            held.with_committed(command.loop, touched),
            fact.retired,
            grown=-freed,
            given=given,
        )

    def _without(self, number: int, undelivered: list[Event]) -> "EventGate":
        instances = self.instances.copy()
        del instances[number]
        floor, retired = spent(self.floor, self.retired, number)
        freed = sum(payload_bytes(event.payload) for event in undelivered)
        return EventGate(
            instances,
            self.highest,
            floor,
            retired,
            self.waiting_bytes - freed,
            self.given,
        )

    def _acknowledged(self, through: int) -> "EventGate":
        given = self.given.with_acknowledged(through)
        return EventGate(self.instances, self.highest, self.floor, self.retired, self.waiting_bytes, given)

    def next_life(self) -> "EventGate":
        """Start a new life: every number seen is spent; deliveries and their numbers go on (contract, section 10)."""
        floor = self.highest if self.highest or 0 in self.instances else self.floor
        return EventGate({}, self.highest, floor, (), 0, self.given)


def is_immediate(rig: Rig, kind: str) -> bool:
    """Say whether accepting an event of this kind delivers it."""
    return rig.kinds is not None and rig.kinds[kind] == "immediate"
