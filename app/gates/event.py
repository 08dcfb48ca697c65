"""The event gate: each (clip instance, loop, frame, kind) is delivered once, by the loop watermark of its instance.

Source: 2026-07-29-2000; contract, sections 6, 8 and 10.
"""

from typing import assert_never

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from app.gates.clip import (
    ClipInstance,
    Event,
    Key,
    kept,
    kept_payload,
    payload_bytes,
    payload_digest,
)
from app.gates.decision import Refused
from app.gates.delivery import Deliveries, Delivery
from app.gates.due import refusal_of_tick, ripe
from app.gates.event_commands import (
    Acknowledge,
    CommitLoop,
    Covered,
    DeliveriesAcknowledged,
    Enqueue,
    EventAccepted,
    EventCommand,
    EventFact,
    EventRefusal,
    InstanceOpened,
    InstanceRetired,
    LoopDelivered,
    Play,
    Retire,
    SpanCovered,
)
from app.gates.manifest import manifest_of, missing, newly_committed
from app.gates.marks import NO_MARKS, Mark, Marks
from app.gates.moment import Moment
from app.gates.ordinary import Epochs, is_bare, surely_fits
from app.gates.pair import windows_left, with_taken
from app.gates.rig import Rig, is_gameplay, is_immediate
from app.gates.span import brought, decide_span
from app.gates.spent import Runs, is_spent, spent
from app.gates.window import Reach, bounds_of_marks, doubled_mark, is_full, late_in_group, marked, refusal_of_loops

INSTANCE_LEAD_MAX = 2**20
"""How far above the highest number seen a host may bring a new one."""

ACCEPTED = EventAccepted()
"""What an event that waits for nothing but its loop is answered."""


class EventGate(Struct, frozen=True, array_like=True, gc=False):
    """All clip instances of a character, the numbers that are spent, and the deliveries that are kept.

    `highest` is the highest number ever seen. Every number at or below `floor` is retired, and so are the runs in
    `retired` ((first, last), ascending, above the floor). `waiting_bytes` is the compact JSON of all waiting payloads.
    `marks` is what blended clips brought in this life. `due` are gameplay events that wait only for their tick to be
    confirmed, in the order in which they began to. `echoes` are keys of numbers that a rollback closed again, by number
    and loop: what was delivered of them is not delivered twice.
    """

    instances: dict[int, ClipInstance] = {}
    highest: int = 0
    floor: int = -1
    retired: Runs = ()
    waiting_bytes: int = 0
    given: Deliveries = Deliveries()
    marks: Marks = NO_MARKS
    due: tuple[Event, ...] = ()
    echoes: dict[int, dict[int, dict[Key, bytes]]] = {}

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

    def decide_enqueue(self, command: Enqueue, rig: Rig, epochs: Epochs, moment: Moment) -> EventAccepted | Refused:
        """Accept one event into its loop's bucket, or name the first check that fails."""
        kinds, number = rig.kinds, command.clip_instance
        if kinds is not None and command.kind not in kinds:
            return Refused(EventRefusal.UNKNOWN_KIND, at="kind")
        held = self.instances.get(number)
        made_room: list[int] | UnsetType = UNSET
        if held is not None:
            if surely_fits(command, held, rig, epochs):
                return ACCEPTED
            refused = self._refusal_of_event(command, held, rig, epochs, moment)
            if refused is not None:
                return refused
        else:
            opening = self._opening(number, rig)
            if type(opening) is Refused:
                return opening
            made_room = opening
            refused = self._refusal_of_first(command, rig, moment)
            if refused is not None:
                return refused
        if held is not None and held.remembered >= rig.events_per_instance:
            return Refused(EventRefusal.QUEUE_FULL, at="clip_instance", clip_instance=number)
        if command.group is not UNSET and is_full(self.marks, command.group, [marked(command)], rig):
            return Refused(EventRefusal.QUEUE_FULL, at="group", clip_instance=number)
        if (
            command.payload is not UNSET
            and not is_immediate(rig, command.kind)
            and self.waiting_bytes + payload_bytes(command.payload) > rig.events_bytes
        ):
            return Refused(EventRefusal.QUEUE_FULL, at="payload", clip_instance=number)
        if kinds is None or kinds[command.kind].class_ != "gameplay":
            return EventAccepted(made_room)
        if len(self.due) >= rig.events_per_instance:
            return Refused(EventRefusal.QUEUE_FULL, at="kind", clip_instance=number)
        return EventAccepted(made_room, moment.tick if command.tick is UNSET else command.tick)

    def _refusal_of_first(self, command: Enqueue, rig: Rig, moment: Moment) -> Refused | None:
        """Say why the first event of a number that is not open is refused; the number is not named, nothing has it."""
        late = None
        if command.group is not UNSET:
            late = late_in_group(self.marks, command.group, command.loop, rig, command.clip_instance)
        refused = late or refusal_of_tick(command.tick, [command.kind], rig, moment)
        if refused is not None:
            return refused
        echo = self.echoes.get(command.clip_instance, {}).get(command.loop, {}).get((command.frame, command.kind))
        if echo is not None:
            differs = True if echo != payload_digest(command.payload) else UNSET
            return Refused(EventRefusal.DUPLICATE, payload_differs=differs)
        return None if command.group is UNSET else doubled_mark(self.marks, command, is_open=False)

    def _refusal_of_event(
        self, command: Enqueue, held: ClipInstance, rig: Rig, epochs: Epochs, moment: Moment
    ) -> Refused | None:
        number, loop, key = command.clip_instance, command.loop, (command.frame, command.kind)
        reach = Reach(number, command.group, epochs(held.layer), loop, loop, loop)
        refused = refusal_of_loops(reach, held, self.marks, rig)
        refused = refused or refusal_of_tick(command.tick, [command.kind], rig, moment, number)
        if refused is not None:
            return refused
        waiting = held.waiting.get(loop)
        if waiting is not None and key in waiting:
            digest = payload_digest(kept_payload(waiting[key]))
        else:
            seen = held.seen.get(loop)
            if seen is None or key not in seen:
                return None if command.group is UNSET else doubled_mark(self.marks, command, is_open=True)
            digest = seen[key]
        differs = True if digest != payload_digest(command.payload) else UNSET
        return Refused(EventRefusal.DUPLICATE, clip_instance=number, payload_differs=differs)

    def decide_covered(self, command: Covered, rig: Rig, epochs: Epochs, moment: Moment) -> SpanCovered | Refused:
        """Accept what a span brings that was not accepted before, all of it, or name the first check that fails."""
        held = self.instances.get(command.clip_instance)
        if held is None:
            return self._not_open(command.clip_instance)
        answer = decide_span(command, held, self.marks, rig, epochs(held.layer), moment)
        if type(answer) is Refused or len(self.due) < rig.events_per_instance:
            return answer
        has_gameplay = any(is_gameplay(rig, event.kind) for event in answer.events)
        full = Refused(EventRefusal.QUEUE_FULL, at="clip_instance", clip_instance=command.clip_instance)
        return full if has_gameplay else answer

    def _not_open(self, number: int) -> Refused:
        outcome = EventRefusal.RETIRED_INSTANCE if self.is_retired(number) else EventRefusal.UNKNOWN_INSTANCE
        return Refused(outcome, at="clip_instance", clip_instance=number)

    def decide_commit_loop(self, command: CommitLoop, rig: Rig, moment: Moment) -> LoopDelivered | Refused:
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
        leaving = held.events(number, command.loop)
        events = leaving if rig.kinds is None else ripe(leaving, rig, moment.confirmed)
        if events and self.given.is_full(rig.deliveries_kept):
            return Refused(EventRefusal.DELIVERY_BACKLOG, by={"delivery": self.given.pinned[0].delivery})
        delivery, pending = self.last_delivery + 1 if events else None, held.pending - len(leaving)
        rule = manifest_of(held, rig)
        if rule is None:
            return LoopDelivered(events, delivery, pending)
        listed, count = missing(rule, held, self.marks.firsts(held.group), newly_committed(held, command.loop))
        said = listed or UNSET
        return LoopDelivered(events, delivery, pending, UNSET, said, count if count > len(listed) else UNSET)

    def decide_retire(self, command: Retire, rig: Rig) -> InstanceRetired | Refused:
        """Close an open instance and report what it never delivered; gameplay events outlive it."""
        number = command.clip_instance
        held = self.instances.get(number)
        if held is None:
            return self._not_open(number)
        return InstanceRetired([event for event in held.events(number) if not is_gameplay(rig, event.kind)])

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
        if type(fact) is SpanCovered:
            assert type(command) is Covered
            return self._covered(command, fact, rig, touched=touched)
        if type(fact) is LoopDelivered:
            assert type(command) is CommitLoop
            return self._delivered(command, fact, rig, epochs, at=at, touched=touched)
        if type(fact) is InstanceOpened:
            assert type(command) is Play
            layer = None if command.layer is UNSET else command.layer
            data = None if command.data is UNSET else command.data
            opened = self._opened(fact.clip_instance, epochs(layer), at, touched)
            opened = replace(opened, clip=command.clip, layer=layer, data=data)
            return self._with(fact.clip_instance, opened, fact.retired)
        if type(fact) is InstanceRetired:
            assert type(command) is Retire
            return self._without(command.clip_instance, fact.undelivered, rig)
        if type(fact) is DeliveriesAcknowledged:
            assert type(command) is Acknowledge
            return self._acknowledged(command.through)
        assert_never(fact)

    def evolve_enqueue(
        self, command: Enqueue, fact: EventAccepted, rig: Rig, epochs: Epochs, *, at: int, touched: int
    ) -> "EventGate":
        """Let an accepted event wait, or remember its key when accepting it was the delivery."""
        number, key, payload = command.clip_instance, (command.frame, command.kind), command.payload
        held = self.instances.get(number)
        if fact is ACCEPTED and held is not None and is_bare(command, rig):
            return self.with_held(number, held.with_waiting(command.loop, key, None, touched), self.given)
        held = held or self._opened(number, epochs(None), at, touched)
        tick = command.tick if fact.tick is UNSET else fact.tick
        marks = None
        if command.group is not UNSET:
            marks = self._with_marks(command.group, [marked(command)], number, rig, touched)
        if is_immediate(rig, command.kind):
            held, grown = held.with_seen(command.loop, key, payload, touched, command.group), 0
        else:
            waits = kept(payload, tick, command.group, command.mark)
            held = held.with_waiting(command.loop, key, waits, touched, command.group)
            grown = 0 if payload is UNSET else payload_bytes(payload)
        if rig.kinds is not None:
            event = Event(number, command.loop, command.frame, command.kind, payload, tick)
            held = with_taken(held, [event], command.holder, rig)
        return self._with(number, held, fact.retired, grown=grown, marks=marks)

    def _covered(self, command: Covered, fact: SpanCovered, rig: Rig, *, touched: int) -> "EventGate":
        number, events = command.clip_instance, fact.events
        held = self.instances[number].with_span(
            [event for event in events if not is_immediate(rig, event.kind)],
            [event for event in events if is_immediate(rig, event.kind)],
            touched,
            first=events[0].loop if events else None,
            group=command.group,
        )
        held = with_taken(held, events, command.holder, rig)
        if command.group is UNSET:
            return self._with(number, held)
        return self._with(number, held, marks=self._with_marks(command.group, brought(events), number, rig, touched))

    def _with_marks(self, group: str, brought: list[tuple[int, Mark]], number: int, rig: Rig, touched: int) -> Marks:
        return self.marks.with_marks(group, brought, instance=number, touched=touched, **bounds_of_marks(rig))

    def _with(
        self,
        number: int,
        held: ClipInstance,
        made_room: list[int] | UnsetType = UNSET,
        *,
        grown: int = 0,
        given: Deliveries | None = None,
        marks: Marks | None = None,
        due: tuple[Event, ...] = (),
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
            self.marks if marks is None else marks,
            self.due + due if due else self.due,
            {n: e for n, e in self.echoes.items() if n != number} if self.echoes else self.echoes,
        )

    def with_held(self, number: int, held: ClipInstance, given: Deliveries) -> "EventGate":
        """Put an open instance in its place, and what was given out; nothing else of the gate changes."""
        instances = self.instances.copy()
        instances[number] = held
        highest, floor, retired, waiting_bytes = self.highest, self.floor, self.retired, self.waiting_bytes
        return EventGate(instances, highest, floor, retired, waiting_bytes, given, self.marks, self.due, self.echoes)

    def _delivered(
        self, command: CommitLoop, fact: LoopDelivered, rig: Rig, epochs: Epochs, *, at: int, touched: int
    ) -> "EventGate":
        number = command.clip_instance
        held = self.instances.get(number)
        if held is not None and rig.kinds is None and not self.waiting_bytes:
            return self.with_held(number, held.with_committed(command.loop, touched), self._given(fact, rig))
        held = held or self._opened(number, epochs(None), at, touched)
        freed = sum(payload_bytes(event.payload) for event in fact.events) if self.waiting_bytes else 0
        committed, due = held.with_committed(command.loop, touched), tuple[Event, ...]()
        has_gameplay = False
        if rig.kinds is not None:
            leaving = held.events(number, command.loop)
            given_now = {(event.loop, event.frame, event.kind) for event in fact.events}
            due = tuple(event for event in leaving if (event.loop, event.frame, event.kind) not in given_now)
            committed = replace(committed, windows=windows_left(held, leaving, rig))
            has_gameplay = any(is_gameplay(rig, event.kind) for event in fact.events)
        given = self._given(fact, rig, is_gameplay=has_gameplay)
        return self._with(number, committed, fact.retired, grown=-freed, given=given, due=due)

    def _given(self, fact: LoopDelivered, rig: Rig, *, is_gameplay: bool = False) -> Deliveries:
        if fact.delivery is None:
            return self.given
        return self.given.with_events(fact.events, kept=rig.deliveries_kept, is_gameplay=is_gameplay)

    def _opened(self, number: int, epoch: int, at: int, touched: int) -> ClipInstance:
        """Open an instance; what was delivered of its number before a rollback is remembered."""
        seen = self.echoes.get(number, {})
        return ClipInstance(epoch, at, touched, seen=seen, remembered=sum(map(len, seen.values())))

    def _without(self, number: int, undelivered: list[Event], rig: Rig) -> "EventGate":
        instances = self.instances.copy()
        held = instances.pop(number)
        floor, retired = spent(self.floor, self.retired, number)
        freed = sum(payload_bytes(event.payload) for event in undelivered)
        due = self.due
        if rig.kinds is not None:
            due = (*due, *(event for event in held.events(number) if is_gameplay(rig, event.kind)))
        return replace(
            self,
            instances=instances,
            floor=floor,
            retired=retired,
            waiting_bytes=self.waiting_bytes - freed,
            due=due,
        )

    def _acknowledged(self, through: int) -> "EventGate":
        return replace(self, given=self.given.with_acknowledged(through))
