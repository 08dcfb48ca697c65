"""Packing: turns as messages, made once and shared by all who want the same of them in the same form."""

from collections.abc import Generator
from typing import Protocol

import msgspec

from app.api.answers import shown_in_steps
from app.api.wanted import Wanted
from app.gates.candidate import finished
from app.sequencing.feed import Turn
from app.sequencing.pace import Pace

MESSAGE_BYTES = 1_048_576
"""How large a message grows before it ends with the decision it is at; the rest of its turn comes in the next."""

AT_ONCE_DECISIONS = 32
"""How many decisions that nobody has packed yet are packed in one step."""

KEY_BYTES = 256
"""About what it costs to keep one more thing that was made of a turn."""

_SHOWN = "shown"
_encode = msgspec.json.encode


class Packing(Protocol):
    """How a door packs what a reader gets. All bytes that are given in are JSON.

    `name` says by which packing something was made, for what is made once and shared: two that pack alike, byte for
    byte, have one name. What depends on the reader (the `id` of a channel's message) belongs into the name too.
    """

    name: str

    def decisions(self, decisions: list[bytes], *, last: int) -> bytes:
        """Pack decisions of one turn as one message; `last` is the sequence that was read with it."""
        ...

    def place(self, sequence: int) -> bytes:
        """Pack how far the reader is, where there was nothing for it to see; empty where the door has no such thing."""
        ...

    def portrait(self, kind: str, body: bytes, *, last: int | None) -> bytes:
        """Pack a piece of a `snapshot` or a `reset`; `last` is its sequence on the last piece, before that None."""
        ...

    def end(self, body: bytes) -> bytes:
        """Pack why nothing more comes: `{"reason": …, "sequence": …}`, with a `problem` unless the scene was closed."""
        ...

    def beat(self) -> bytes:
        """Pack a sign of life; empty where the door has another."""
        ...


async def packed_turn(turn: Turn, place: int, wanted: Wanted, packing: Packing, pace: Pace) -> tuple[bytes, int]:
    """Give what a reader at `place` gets of a turn as one message, nothing when it wants none of it; and its new place.

    Each decision is rendered once, and a whole turn packed once, for all who want the same. A turn of more than
    `MESSAGE_BYTES` comes in parts: the new place is then within it.

    Raises:
        JournalDamaged: The turn's decisions cannot be read.
    """
    made: bytes | None = turn.made.get((packing.name, wanted)) if place < turn.first else None
    if made is not None:
        return made, turn.last
    steps = _packed(turn, place, wanted, packing)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            packed: tuple[bytes, int] = done.value
            return packed
        if pace.is_due:
            await pace.pause()


def _packed(turn: Turn, place: int, wanted: Wanted, packing: Packing) -> Generator[None, None, tuple[bytes, int]]:
    """Pack a turn decision by decision: others may run at each step, and may have packed some of it meanwhile."""
    parts, size = list[bytes](), 0
    records = yield from turn.records_in_steps()
    rendered: list[bytes | None] = turn.made.setdefault(_SHOWN, [None] * len(records))
    for index in range(max(place + 1 - turn.first, 0), len(records)):
        yield
        if not wanted.is_everything and not wanted.takes(records[index]):
            continue
        part = rendered[index]
        if part is None:
            made = _encode((yield from shown_in_steps(turn.first + index, turn.at, records[index])))
            part = rendered[index]
            if part is None:
                part = rendered[index] = made
                turn.grow(len(part))
        parts.append(part)
        size += len(part)
        last = turn.first + index
        if size >= MESSAGE_BYTES and last < turn.last:
            return packing.decisions(parts, last=last), last
    packed = packing.decisions(parts, last=turn.last) if parts else b""
    key = (packing.name, wanted)
    if place < turn.first and key not in turn.made:
        turn.keep(key, packed, len(packed) + KEY_BYTES)
    return packed, turn.last


def packed_at_once(turn: Turn, place: int, wanted: Wanted, packing: Packing) -> bytes | None:
    """Give what a reader at `place` gets of a whole turn, where that takes one short step; None where it takes more."""
    if place >= turn.first:
        return None
    packed: bytes | None = turn.made.get((packing.name, wanted))
    if packed is None and turn.last - turn.first < AT_ONCE_DECISIONS:
        packed, last = finished(_packed(turn, place, wanted, packing))
        return packed if last == turn.last else None
    return packed
