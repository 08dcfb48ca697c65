"""Surviving: what of a character's events outlives their instances, their life, and a rollback.

Source: contract, section 8, "Gameplay events", "Window pairs" and "Rollback".
"""

from msgspec.structs import replace

from app.gates.clip import ClipInstance, Event, Key, OpenWindow, kept, kept_payload, payload_bytes, payload_digest
from app.gates.due import in_order, is_due
from app.gates.event import EventGate
from app.gates.marks import Marks
from app.gates.pair import is_hidden, with_end_behind, without_window
from app.gates.rig import Rig, is_gameplay
from app.gates.window import bounds_of_marks

Keys = dict[int, dict[Key, bytes]]
"""By loop and key, the digest of a payload."""


def next_life(gate: EventGate, rig: Rig) -> EventGate:
    """Start a new life: every number seen is spent; deliveries and their numbers go on (contract, section 10).

    Gameplay events that were accepted outlive their instances.
    """
    floor = gate.highest if gate.highest or 0 in gate.instances else gate.floor
    due = gate.due
    if rig.kinds is not None:
        waiting = (event for number, held in gate.instances.items() for event in held.events(number))
        due = (*due, *(event for event in waiting if is_gameplay(rig, event.kind)))
    weight = sum(payload_bytes(event.payload) for event in due)
    return EventGate({}, gate.highest, floor, (), weight, gate.given, due=due)


def confirmable(gate: EventGate, tick: int) -> list[Event]:
    """List what waits only for ticks up to one to be confirmed, by (tick, loop, frame, arrival)."""
    return sorted((event for event in gate.due if is_due(event, tick)), key=in_order)


def with_confirmed(gate: EventGate, events: list[Event], *, kept: int) -> EventGate:
    """Deliver what was confirmable."""
    delivered = {id(event) for event in events}
    return replace(
        gate,
        given=gate.given.with_events(events, kept=kept, is_gameplay=True),
        due=tuple(event for event in gate.due if id(event) not in delivered),
        waiting_bytes=gate.waiting_bytes - sum(payload_bytes(event.payload) for event in events),
    )


def is_end_behind(gate: EventGate, window: OpenWindow, number: int) -> bool:
    """Say whether a window's end must wait behind its opening, which waits for its loop itself."""
    held = gate.instances.get(number)
    return held is not None and is_hidden(window, held)


def with_window_closed(
    gate: EventGate, window: OpenWindow, end: Event, delivery: int | None, *, kept: int, is_again: bool
) -> EventGate:
    """Deliver a window's end, or let it wait: behind its opening, or for its tick to be confirmed.

    An end that `is_again` was delivered before a rollback already: only the window is forgotten.
    """
    held = gate.instances.get(end.clip_instance)
    instances = gate.instances
    if held is not None:
        is_behind = delivery is None and not is_again and is_hidden(window, held)
        left = with_end_behind(held, window, end) if is_behind else without_window(held, window)
        instances = instances | {end.clip_instance: left}
        if is_behind:
            return replace(gate, instances=instances)
    if is_again:
        return replace(gate, instances=instances)
    if delivery is None:
        return replace(gate, instances=instances, due=(*gate.due, end))
    return replace(gate, instances=instances, given=gate.given.with_events([end], kept=kept))


def restored(
    gate: EventGate, before: EventGate, delivered: list[Event], rig: Rig, *, touched: int
) -> tuple[EventGate, set[tuple[int, int, int, str]]]:
    """Go back to what waited and was remembered earlier, but remember what was `delivered` since.

    Give the gate, and the keys (clip instance, loop, frame, kind) of what would wait again had it not been delivered.
    """
    by_number: dict[int, Keys] = {}
    for event in delivered:
        keys = by_number.setdefault(event.clip_instance, {}).setdefault(event.loop, {})
        keys[event.frame, event.kind] = payload_digest(event.payload)
    instances = before.instances.copy()
    waited: set[tuple[int, int, int, str]] = set()
    for number, keys_of in by_number.items():
        if number in instances:
            instances[number], moved = _with_delivered(instances[number], keys_of)
            waited.update((number, loop, frame, kind) for loop, (frame, kind) in moved)
    gone = {event.key for event in delivered}
    due = tuple(event for event in before.due if event.key not in gone)
    weight = sum(payload_bytes(kept_payload(kept)) for held in instances.values() for kept in _waiting(held))
    return (
        EventGate(
            instances,
            gate.highest,
            before.floor,
            before.retired,
            weight + sum(payload_bytes(event.payload) for event in due),
            gate.given,
            _with_marks(before.marks, delivered, rig, touched),
            due,
            {number: keys_of for number, keys_of in by_number.items() if number not in instances},
        ),
        waited,
    )


def with_withdrawn(gate: EventGate, event: Event, *, has_waited: bool) -> EventGate:
    """Let an event that is withdrawn be one that was never delivered: it may come later, or waits for its loop again.

    The same gate when nothing of it is remembered.
    """
    number, loop, key = event.clip_instance, event.loop, (event.frame, event.kind)
    held = gate.instances.get(number)
    if held is None or key not in held.seen.get(loop, {}):
        return gate
    keys = {other: digest for other, digest in held.seen[loop].items() if other != key}
    seen = {other: of_loop for other, of_loop in held.seen.items() if other != loop}
    if keys:
        seen[loop] = keys
    if has_waited:
        waits = kept(event.payload, event.tick, event.group, event.mark)
        waiting = held.waiting | {loop: held.waiting.get(loop, {}) | {key: waits}}
        again = replace(held, seen=seen, waiting=waiting, pending=held.pending + 1)
        weight = gate.waiting_bytes + payload_bytes(event.payload)
        return replace(gate, instances=gate.instances | {number: again}, waiting_bytes=weight)
    again = replace(held, seen=seen, remembered=held.remembered - 1)
    marks = gate.marks
    if isinstance(event.group, str) and isinstance(event.mark, str):
        marks = marks.without(event.group, loop, (event.mark, event.kind), instance=number)
    return replace(gate, instances=gate.instances | {number: again}, marks=marks)


def _waiting(held: ClipInstance) -> list[list[object] | None]:
    return [kept for bucket in held.waiting.values() for kept in bucket.values()]


def _with_delivered(held: ClipInstance, delivered: Keys) -> tuple[ClipInstance, list[tuple[int, Key]]]:
    """Remember keys as delivered; give the instance, and by loop the keys that waited in it."""
    waiting, seen = held.waiting.copy(), held.seen.copy()
    moved: list[tuple[int, Key]] = []
    added = 0
    for loop, keys in delivered.items():
        if held.committed_loop is not None and loop < held.committed_loop:
            continue
        bucket = waiting.get(loop, {})
        moved += [(loop, key) for key in keys if key in bucket]
        added += sum(key not in bucket and key not in seen.get(loop, {}) for key in keys)
        waiting[loop] = {key: kept for key, kept in bucket.items() if key not in keys}
        if not waiting[loop]:
            del waiting[loop]
        seen[loop] = seen.get(loop, {}) | keys
    pending = sum(map(len, waiting.values()))
    remembered = held.remembered + added
    return replace(held, waiting=waiting, seen=seen, pending=pending, remembered=remembered), moved


def _with_marks(marks: Marks, delivered: list[Event], rig: Rig, touched: int) -> Marks:
    for event in delivered:
        if isinstance(event.group, str) and isinstance(event.mark, str):
            if (event.mark, event.kind) in marks.firsts(event.group).get(event.loop, {}):
                continue
            marks = marks.with_marks(
                event.group,
                [(event.loop, (event.mark, event.kind))],
                instance=event.clip_instance,
                touched=touched,
                **bounds_of_marks(rig),
            )
    return marks
