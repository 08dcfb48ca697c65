"""The window: which loops an instance and its group still take events of, and which marks came before.

Source: contract, sections 6 and 8.
"""

from msgspec import UNSET, Struct, UnsetType

from app.gates.clip import ClipInstance
from app.gates.decision import Refused
from app.gates.event_commands import Enqueue, EventRefusal
from app.gates.marks import Mark, Marks
from app.gates.rig import Rig


class Reach(Struct, frozen=True, gc=False):
    """The loops that a report reaches in one instance, of which the one in `start` comes first.

    `epoch` is the present one of the instance's layer.
    """

    clip_instance: int
    group: str | UnsetType
    epoch: int
    lowest: int
    highest: int
    start: int


def refusal_of_loops(reach: Reach, held: ClipInstance, marks: Marks, rig: Rig) -> Refused | None:
    """Say why an instance takes no event in some loop of a report.

    Without a commit the first accepted loop stands in for the watermark, and before that the report's own.
    """
    number = reach.clip_instance
    if held.epoch < reach.epoch:
        return Refused(EventRefusal.STALE_EPOCH, at="clip_instance", by={"epoch": reach.epoch}, clip_instance=number)
    committed, first, window = held.committed_loop, held.first_loop, rig.loop_window
    watermark = committed if committed is not None else reach.start if first is None else first
    if reach.lowest < (watermark if committed is not None else watermark - window):
        return Refused(EventRefusal.LATE_LOOP, at="loop", by={"loop": watermark}, clip_instance=number)
    if reach.group is not UNSET:
        late = late_in_group(marks, reach.group, reach.lowest, rig, number, start=reach.start)
        if late is not None:
            return late
    if reach.highest > watermark + window:
        return Refused(EventRefusal.BEYOND_WINDOW, at="loop", by={"loop": watermark}, clip_instance=number)
    return None


def late_in_group(marks: Marks, group: str, loop: int, rig: Rig, number: int, *, start: int = 0) -> Refused | None:
    """Refuse a loop whose marks the group has forgotten, or will have once it takes one in loop `start`."""
    highest = max(marks.highest_loop(group), start)
    if loop >= highest - rig.loop_window:
        return None
    return Refused(EventRefusal.LATE_LOOP, at="loop", by={"group": group, "loop": highest}, clip_instance=number)


def doubled_mark(marks: Marks, command: Enqueue, *, is_open: bool) -> Refused | None:
    """Refuse an event whose mark was brought before; a number that is not open is not named: nothing counts it."""
    loop, mark = marked(command)
    first = marks.firsts(command.group).get(loop, {}).get(mark)
    if first is None:
        return None
    number = command.clip_instance if is_open else UNSET
    return Refused(EventRefusal.DUPLICATE, at="mark", by={"clip_instance": first}, clip_instance=number)


def marked(command: Enqueue) -> tuple[int, Mark]:
    """Give the loop and mark of an event that names a group."""
    assert command.mark is not UNSET, "a group comes with a mark"
    return command.loop, (command.mark, command.kind)


def is_full(marks: Marks, group: str, brought: list[tuple[int, Mark]], rig: Rig) -> bool:
    """Say whether a group has no room for these new marks."""
    return marks.count_with(group, brought, rig.loop_window) > rig.events_per_instance


def bounds_of_marks(rig: Rig) -> dict[str, int]:
    """Give how many loops of how many groups are remembered."""
    return {"window": rig.loop_window, "groups_max": rig.instances_open}
