"""Ordinary events: one cheap test that nearly every event passes. Whatever fails it is looked at rung by rung."""

from collections.abc import Callable

from msgspec import UNSET

from app.gates.clip import ClipInstance
from app.gates.event_commands import Enqueue
from app.gates.rig import Rig, is_gameplay

Epochs = Callable[[str | None], int]
"""Gives the present epoch of a layer, or of graph `main` for None (0 where the rig has no such graph)."""


def surely_fits(command: Enqueue, held: ClipInstance, rig: Rig, epochs: Epochs) -> bool:
    """Say whether an event of an open instance surely passes every rung; False where one has to climb them."""
    watermark, loop = held.committed_loop, command.loop
    if command.group is not UNSET or command.payload is not UNSET or watermark is None:
        return False
    if not watermark <= loop <= watermark + rig.loop_window or held.remembered >= rig.events_per_instance:
        return False
    if is_gameplay(rig, command.kind) or held.epoch < epochs(held.layer):
        return False
    key = command.frame, command.kind
    waiting, seen = held.waiting.get(loop), held.seen.get(loop)
    return (waiting is None or key not in waiting) and (seen is None or key not in seen)


def is_bare(command: Enqueue, rig: Rig) -> bool:
    """Say whether an event that surely fits waits under its key alone, and is of no kind that means more."""
    if command.mark is not UNSET or command.tick is not UNSET:
        return False
    if rig.kinds is None:
        return True
    rule = rig.kinds.get(command.kind)
    return rule is not None and rule.ends is None and rule.class_ == "presentation"
