"""Spans: a client reports the frames that a clip crossed, and the manifest says which events that were.

Source: contract, section 8, "Blends and missing events".
"""

from msgspec import UNSET
from msgspec.structs import replace

from app.gates.clip import ClipInstance, Event
from app.gates.decision import Refused
from app.gates.due import refusal_of_tick
from app.gates.event_commands import Covered, EventRefusal, SpanCovered
from app.gates.identity import NUMBER_MAX
from app.gates.manifest import Span, manifest_of, newly_crossed
from app.gates.marks import Mark, Marks
from app.gates.moment import Moment
from app.gates.rig import Rig, is_gameplay
from app.gates.window import Reach, is_full, refusal_of_loops

SPAN_EVENTS_MAX = 16_384
"""How many events one span may cross, taken before or not: more than any instance has room for."""


def decide_span(
    command: Covered, held: ClipInstance, marks: Marks, rig: Rig, epoch: int, moment: Moment
) -> SpanCovered | Refused:
    """Accept the events of a span that an open instance did not accept before, all of them, or none.

    Costs no more than the events of the span, of which there are at most SPAN_EVENTS_MAX: loops are not walked before
    they are counted.
    """
    number, group = command.clip_instance, command.group
    rule = manifest_of(held, rig)
    if rule is None:
        return Refused(EventRefusal.UNKNOWN_CLIP, at="clip_instance", clip_instance=number)
    zero = command.loop * rule.frames
    span = Span(zero + command.from_frame, zero + command.to_frame)
    start, end = span.loops(rule)
    for loop, at in ((start, "from_frame"), (end, "to_frame")):
        if not 0 <= loop <= NUMBER_MAX:
            return Refused(EventRefusal.SPAN_OUT_OF_RANGE, at=at, clip_instance=number)
    reach = Reach(number, group, epoch, min(start, end), max(start, end), start)
    refused = refusal_of_loops(reach, held, marks, rig)
    refused = refused or refusal_of_tick(command.tick, [event.kind for event in rule.events], rig, moment, number)
    if refused is not None:
        return refused
    full = Refused(EventRefusal.QUEUE_FULL, at="clip_instance", clip_instance=number)
    if span.count(rule) > SPAN_EVENTS_MAX:
        return Refused(EventRefusal.SPAN_OUT_OF_RANGE, at="to_frame", clip_instance=number)
    events, already = newly_crossed(
        rule, span, held, marks.firsts(group), number=number, group=group, tick=command.tick
    )
    if held.remembered + len(events) > rig.events_per_instance:
        return full
    if group is not UNSET and is_full(marks, group, brought(events), rig):
        return Refused(EventRefusal.QUEUE_FULL, at="group", clip_instance=number)
    if command.tick is UNSET:
        events = [replace(event, tick=moment.tick) if is_gameplay(rig, event.kind) else event for event in events]
    return SpanCovered(events, already)


def brought(events: list[Event]) -> list[tuple[int, Mark]]:
    """List the marks that events brought into their group, by loop."""
    return [
        (event.loop, (event.mark, event.kind))
        for event in events
        if event.group is not UNSET and event.mark is not UNSET
    ]
