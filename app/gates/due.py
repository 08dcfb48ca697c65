"""Due: gameplay events are delivered once, when their loop is committed and their tick is confirmed.

Source: contract, section 8, "Gameplay events".
"""

from collections.abc import Iterable

from msgspec import UNSET, UnsetType

from app.gates.clip import Event
from app.gates.decision import Refused
from app.gates.event_commands import EventRefusal
from app.gates.moment import Moment
from app.gates.rig import Rig, is_gameplay


def refusal_of_tick(
    tick: int | UnsetType, kinds: Iterable[str], rig: Rig, moment: Moment, number: int | UnsetType = UNSET
) -> Refused | None:
    """Say why gameplay events cannot belong to a tick; without one they belong to the tick being open."""
    if tick is UNSET or rig.kinds is None or not any(is_gameplay(rig, kind) for kind in kinds):
        return None
    if tick <= moment.confirmed:
        return Refused(EventRefusal.LATE_TICK, at="tick", by={"tick": moment.confirmed}, clip_instance=number)
    if moment.last is not None and tick > moment.last:
        return Refused(EventRefusal.BEYOND_WINDOW, at="tick", by={"tick": moment.tick}, clip_instance=number)
    return None


def ripe(events: list[Event], rig: Rig, confirmed: int) -> list[Event]:
    """Give of the events whose loop is committed those that are delivered with it.

    Gameplay events whose tick is confirmed come last, by (tick, loop, frame, arrival).
    """
    gameplay = [event for event in events if is_gameplay(rig, event.kind)]
    if not gameplay:
        return events
    others = [event for event in events if not is_gameplay(rig, event.kind)]
    return others + sorted((event for event in gameplay if is_due(event, confirmed)), key=in_order)


def is_due(event: Event, tick: int) -> bool:
    """Say whether an event belongs to a tick up to one."""
    return event.tick is not UNSET and event.tick <= tick


def in_order(event: Event) -> tuple[int, int, int]:
    """Give the order of gameplay events in a delivery: those that are equal in it stay in order of arrival."""
    return 0 if event.tick is UNSET else event.tick, event.loop, event.frame
