"""Manifests: what a clip's listed events say of a span of its frames, and of loops that were committed without them.

Source: contract, section 8, "Blends and missing events".
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from operator import attrgetter

from msgspec import UNSET, Struct, UnsetType

from app.gates.clip import ClipInstance, Event, Key
from app.gates.marks import Firsts, Mark
from app.gates.rig import ClipRule, ManifestEvent, Rig

MISSING_LISTED = 256
"""How many missing events an answer lists; beyond them it counts."""

_frame_of = attrgetter("frame")


class MissingEvent(Struct, frozen=True, gc=False):
    """An event of a manifest that was never accepted in a loop."""

    loop: int
    frame: int
    kind: str
    mark: str | UnsetType = UNSET


class Span(Struct, frozen=True):
    """Frames that a clip crossed, both ends inclusive, counted from frame 0 of loop 0; backwards where end < start."""

    start: int
    end: int

    def loops(self, rule: ClipRule) -> tuple[int, int]:
        """Give the loops that the span starts and ends in."""
        return self.start // rule.frames, self.end // rule.frames

    def count(self, rule: ClipRule) -> int:
        """Count the events that are crossed, without walking the loops."""
        low, high = sorted((self.start, self.end))
        return _count_through(rule, high) - _count_through(rule, low - 1)

    def crossed(self, rule: ClipRule) -> Iterator[tuple[int, ManifestEvent]]:
        """Give the events, each with its loop, in the order in which they are crossed."""
        if not rule.events:
            return
        first, last = self.loops(rule)
        is_forwards = self.end >= self.start
        low, high = sorted((self.start, self.end))
        events = rule.events if is_forwards else rule.events[::-1]
        for loop in range(first, last + 1) if is_forwards else range(first, last - 1, -1):
            offset = loop * rule.frames
            for event in events:
                if low <= offset + event.frame <= high:
                    yield loop, event


def _count_through(rule: ClipRule, frame: int) -> int:
    """Count the events from frame 0 of loop 0 up to a frame, which may be -1."""
    loop, rest = divmod(frame, rule.frames)
    return loop * len(rule.events) + bisect_right(rule.events, rest, key=_frame_of)


def mark_of(event: ManifestEvent) -> Mark | None:
    """Give the mark that an event shares with those of blended clips, if it has one."""
    return None if event.mark is None else (event.mark, event.kind)


def newly_crossed(
    rule: ClipRule,
    span: Span,
    held: ClipInstance,
    firsts: Mapping[int, Firsts],
    *,
    number: int,
    group: str | UnsetType,
    tick: int | UnsetType,
) -> tuple[list[Event], int]:
    """Give the events of a span that were not accepted before, in the order they are crossed, and how many were.

    Walks every event of the span. `firsts` are the marks of `group` by loop; without a group there are none.
    """
    events: list[Event] = []
    brought: set[tuple[int, Mark]] = set()
    already = 0
    for loop, event in span.crossed(rule):
        mark = None if group is UNSET else mark_of(event)
        if is_given(held, firsts, loop, event) or (mark is not None and (loop, mark) in brought):
            already += 1
            continue
        if mark is not None:
            brought.add((loop, mark))
        shown = UNSET if event.mark is None else event.mark
        events.append(
            Event(number, loop, event.frame, event.kind, UNSET, tick, UNSET if mark is None else group, shown)
        )
    return events, already


def missing(
    rule: ClipRule, held: ClipInstance, firsts: Mapping[int, Firsts], loops: range
) -> tuple[list[MissingEvent], int]:
    """Find what a manifest lists in a range of loops and was never accepted: the lowest ones, and how many.

    An event was accepted by its own key, or by its mark in the instance's group: `firsts` are that group's marks by
    loop. Costs no more than what is remembered and what is listed, however many loops there are.
    """
    marks = Counter(mark for mark in map(mark_of, rule.events) if mark is not None)
    keyed: dict[Key, Mark | None] = {(event.frame, event.kind): mark_of(event) for event in rule.events}
    given: dict[int, int] = {}
    for loop in {*held.waiting, *held.seen, *firsts}:
        if loop in loops:
            given[loop] = _given(keyed, marks, held, firsts.get(loop, {}), loop)
    total = len(rule.events) * (loops.stop - loops.start) - sum(given.values())
    listed: list[MissingEvent] = []
    if total:
        for loop in loops:
            if given.get(loop) == len(rule.events):
                continue
            for event in rule.events:
                if not is_given(held, firsts, loop, event):
                    mark = UNSET if event.mark is None else event.mark
                    listed.append(MissingEvent(loop, event.frame, event.kind, mark))
            if len(listed) >= min(total, MISSING_LISTED):
                break
    return listed[:MISSING_LISTED], total


def _given(
    keyed: Mapping[Key, Mark | None], marks: Mapping[Mark, int], held: ClipInstance, firsts: Firsts, loop: int
) -> int:
    """Count the manifest's events that were given in one loop, each once, though it was given by key and by mark."""
    by_mark = sum(marks.get(mark, 0) for mark in firsts)
    by_key = [
        keyed[key] for keys in (held.waiting.get(loop, {}), held.seen.get(loop, {})) for key in keys if key in keyed
    ]
    return by_mark + sum(mark is None or mark not in firsts for mark in by_key)


def is_given(held: ClipInstance, firsts: Mapping[int, Firsts], loop: int, event: ManifestEvent) -> bool:
    """Say whether an event was accepted in a loop: by its key, or by its mark."""
    if held.remembers(loop, (event.frame, event.kind)):
        return True
    mark = mark_of(event)
    return mark is not None and mark in firsts.get(loop, {})


def manifest_of(held: ClipInstance, rig: Rig) -> ClipRule | None:
    """Give what the rig lists of an instance's clip; None where it lists nothing, or the clip was never named."""
    return None if held.clip is None else rig.clips.get(held.clip)


def newly_committed(held: ClipInstance, loop: int) -> range:
    """Give the loops that a commit adds, skipped ones included; the first commit adds those from the first event."""
    if held.committed_loop is not None:
        return range(held.committed_loop + 1, loop + 1)
    return range(loop if held.first_loop is None else min(held.first_loop, loop), loop + 1)
