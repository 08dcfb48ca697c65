"""Tallies: how often a character's gates refused. They live beside the gates, so that a refusal leaves a gate equal.

Source: contract, sections 4 ("Tallies per layer") and 10: over a restart these are best effort.
"""

from collections.abc import Container
from copy import copy

from msgspec import UNSET, Struct

from app.gates.decision import Command, Refused
from app.gates.event_commands import Enqueue, EventRefusal
from app.gates.graph import SubmitCandidate
from app.gates.transition import Cancel, Complete, Fail, TransitionRefusal


class LayerTally(Struct, array_like=True, gc=False):
    """Refused tokens of one layer. `stale` is the diagnostic of priority jitter and callback delay."""

    stale: int = 0
    already_completed: int = 0
    unknown: int = 0


class LastRefusal(Struct, frozen=True, array_like=True, gc=False):
    """The newest candidate that a graph refused, and why."""

    request: int
    outcome: str


class Tally(Struct, array_like=True):
    """What one life's gates refused: by layer, suppressed doubles by open instance, the last refusal by graph."""

    layers: dict[str, LayerTally] = {}
    suppressed: dict[int, int] = {}
    last_refusals: dict[str, LastRefusal] = {}


def counts(command: Command) -> bool:
    """Say whether a refusal of this command is tallied."""
    return type(command) in (Complete, Cancel, Fail, Enqueue, SubmitCandidate)


def count(tally: Tally, command: Command, refused: Refused) -> None:
    """Add one refusal to a tally."""
    match command:
        case Complete() | Cancel() | Fail():
            _count_token(tally.layers.setdefault(command.token.layer, LayerTally()), refused)
        case Enqueue() if refused.outcome == EventRefusal.DUPLICATE and refused.clip_instance is not UNSET:
            number = refused.clip_instance
            tally.suppressed[number] = tally.suppressed.get(number, 0) + 1
        case SubmitCandidate():
            tally.last_refusals[command.graph] = LastRefusal(command.request, str(refused.outcome))
        case _:
            pass


def _count_token(tally: LayerTally, refused: Refused) -> None:
    match refused.outcome:
        case TransitionRefusal.STALE_GENERATION | TransitionRefusal.STALE_EPOCH:
            tally.stale += 1
        case TransitionRefusal.ALREADY_COMPLETED:
            tally.already_completed += 1
        case TransitionRefusal.UNKNOWN_TOKEN:
            tally.unknown += 1
        case _:
            pass


def copied(tally: Tally) -> Tally:
    """Give a tally of the same counts, which may be counted into while somebody reads the other."""
    layers = {layer: copy(counted) for layer, counted in tally.layers.items()}
    return Tally(layers, tally.suppressed.copy(), tally.last_refusals.copy())


def prune(tally: Tally, instances: Container[int], layers: Container[str], graphs: Container[str]) -> None:
    """Forget what concerns instances that are no longer open, and layers or graphs the rig does not have."""
    tally.suppressed = {number: n for number, n in tally.suppressed.items() if number in instances}
    tally.layers = {layer: counted for layer, counted in tally.layers.items() if layer in layers}
    tally.last_refusals = {graph: last for graph, last in tally.last_refusals.items() if graph in graphs}


NOTHING = Tally()
"""What a character shows that nothing was ever refused. Never count into it."""
