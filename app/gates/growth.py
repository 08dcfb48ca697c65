"""Growth: a character's stored form stays within its bound, and is measured only when it may have reached it."""

from typing import Any

import msgspec
from msgspec import UNSET

from app.gates.character import Answer, Character
from app.gates.decision import Command
from app.gates.event_commands import Covered, Enqueue, Play, SpanCovered
from app.gates.graph import RequestGraph, SubmitCandidate
from app.gates.parameter import CommitParameters
from app.gates.roster import freeze
from app.gates.scene import Overlay
from app.gates.transition import Begin

GROWING = frozenset({Begin, CommitParameters, Covered, Enqueue, Play, RequestGraph, SubmitCandidate})
"""The commands that add to a character. The others move what is there, or let go of it, and are always taken."""

_NAMED_BYTES = 600
"""More than a name of 128 characters with what is stored beside it."""

_PLAIN_BYTES = 2_048
"""More than what a command adds that has nothing opaque and no list: a few names and numbers."""

_encode = msgspec.msgpack.Encoder().encode


def outgrows(scene: Overlay, name: str, command: Command, fact: Answer, after: Character) -> bool:
    """Say whether a character would be larger than a scene holds; when it would not, note how large it is at most.

    `scene.sizes` has an upper bound for each character that was touched. Only when that reaches the limit is the
    character encoded, so that an ordinary command costs an addition.
    """
    limit = scene.scene.bounds.character_bytes_max
    held = scene.sizes.get(name)
    if held is None:
        held = scene.scene.roster.size(name)
    size = limit + 1 if held is None else held + _growth(command, fact)
    if size > limit:
        size = len(freeze(after))
        if size > limit:
            return True
    scene.sizes[name] = size
    return False


def surely_holds(scene: Overlay, name: str, command: Command) -> bool:
    """Say whether a character surely stays within its bound with an ordinary command, and note how large it is at most.

    False where it has to be looked at; nothing is noted then.
    """
    held = scene.sizes.get(name)
    if held is None:
        held = scene.scene.roster.size(name)
        if held is None:
            return False
    size = held + _PLAIN_BYTES
    if type(command) is CommitParameters:
        size += _NAMED_BYTES * len(command.values)
    if size > scene.scene.bounds.character_bytes_max:
        return False
    scene.sizes[name] = size
    return True


def _growth(command: Command, fact: Answer) -> int:
    """Give the most bytes that an accepted command adds to a character's stored form."""
    kind = type(command)
    if kind is Enqueue:
        return _PLAIN_BYTES + _opaque(command.payload)  # type: ignore[attr-defined]  # it is an Enqueue
    if kind is Begin or kind is Play:
        return _PLAIN_BYTES + _opaque(command.data)  # type: ignore[attr-defined]  # it is one of the two
    match command:
        case CommitParameters(values=values):
            return _PLAIN_BYTES + _NAMED_BYTES * len(values)
        case Covered():
            return _PLAIN_BYTES + _PLAIN_BYTES * (len(fact.events) if type(fact) is SpanCovered else 0)
        case SubmitCandidate(outputs=outputs, evaluation=evaluation):
            return _PLAIN_BYTES + _NAMED_BYTES * len(outputs) + _opaque(evaluation.pose)
        case _:
            return _PLAIN_BYTES


def _opaque(value: Any) -> int:
    return 0 if value is UNSET or value is None else len(_encode(value))
