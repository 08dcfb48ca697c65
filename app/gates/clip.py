"""One playing of one clip: the loops it has delivered, what still waits, and the keys it remembers.

Source: 2026-07-29-2000; contract, section 6.
"""

import hashlib
from typing import Any

import msgspec
from msgspec import UNSET, Struct

Key = tuple[int, str]
"""(frame, kind) within one loop of one instance."""


class Event(Struct, frozen=True, gc=False):
    """One event as it was enqueued."""

    clip_instance: int
    loop: int
    frame: int
    kind: str
    payload: Any = UNSET


class ClipInstance(Struct, frozen=True, array_like=True, gc=False):
    """One playing of one clip: its loop watermark and the keys it remembers.

    `waiting` holds by loop and key what was accepted and not delivered: None, or a list of the one payload. `seen`
    holds by loop and key what was delivered, as a digest of its payload. `first_loop` stands in for the watermark until
    the first commit. `epoch` is that of the layer (or of graph `main`) when it was opened; `touched` orders instances
    by their last accepted command. `opened_at` is milliseconds since 1970.
    """

    epoch: int
    opened_at: int
    touched: int
    clip: str | None = None
    layer: str | None = None
    data: Any = None
    committed_loop: int | None = None
    first_loop: int | None = None
    waiting: dict[int, dict[Key, list[Any] | None]] = {}
    seen: dict[int, dict[Key, bytes]] = {}
    remembered: int = 0
    pending: int = 0
    accepted: int = 0

    def events(self, number: int, through: int | None = None) -> list[Event]:
        """List what waits up to loop `through` (all when None), by (loop, frame, arrival)."""
        return [
            Event(number, loop, key[0], key[1], UNSET if payload is None else payload[0])
            for loop in sorted(self.waiting)
            if through is None or loop <= through
            for key, payload in sorted(self.waiting[loop].items(), key=_frame)
        ]

    def with_waiting(self, loop: int, key: Key, payload: Any, touched: int) -> "ClipInstance":
        """Let one accepted event wait in its loop's bucket."""
        waiting = self.waiting.copy()
        bucket = waiting[loop] = waiting[loop].copy() if loop in waiting else {}
        bucket[key] = None if payload is UNSET else [payload]
        return self._with(touched, loop, waiting, self.seen, 1)

    def with_seen(self, loop: int, key: Key, payload: Any, touched: int) -> "ClipInstance":
        """Remember the key of an event that its acceptance delivered."""
        bucket = {**self.seen.get(loop, {}), key: payload_digest(payload)}
        return self._with(touched, loop, self.waiting, {**self.seen, loop: bucket}, 0)

    def _with(
        self,
        touched: int,
        loop: int,
        waiting: dict[int, dict[Key, list[Any] | None]],
        seen: dict[int, dict[Key, bytes]],
        grown: int,
    ) -> "ClipInstance":
        return ClipInstance(
            self.epoch,
            self.opened_at,
            touched,
            self.clip,
            self.layer,
            self.data,
            self.committed_loop,
            loop if self.first_loop is None else self.first_loop,
            waiting,
            seen,
            self.remembered + 1,
            self.pending + grown,
            self.accepted + 1,
        )

    def with_committed(self, loop: int, touched: int) -> "ClipInstance":
        """Move the watermark to `loop`: its keys stay and catch late doubles, all below are forgotten."""
        waiting, seen, pending = self.waiting, self.seen, 0
        if seen:
            seen = {other: keys for other, keys in seen.items() if other >= loop}
        if waiting:
            delivered = waiting.get(loop)
            if delivered is not None:
                digests = {key: b"" if kept is None else payload_digest(kept[0]) for key, kept in delivered.items()}
                seen = {**seen, loop: seen.get(loop, {}) | digests}
            waiting = {other: bucket for other, bucket in waiting.items() if other > loop}
            pending = sum(map(len, waiting.values()))
        return ClipInstance(
            self.epoch,
            self.opened_at,
            touched,
            self.clip,
            self.layer,
            self.data,
            loop,
            self.first_loop,
            waiting,
            seen,
            pending + sum(map(len, seen.values())),
            pending,
            self.accepted,
        )


def _frame(item: tuple[Key, object]) -> int:
    return item[0][0]


def payload_bytes(payload: Any) -> int:
    """Measure a payload as compact UTF-8 JSON; one that was not given weighs nothing."""
    return 0 if payload is UNSET else len(msgspec.json.encode(payload))


def payload_digest(payload: Any) -> bytes:
    """Stand for a payload, so that two that are equal as JSON values have the same digest; empty for none."""
    if payload is UNSET:
        return b""
    return hashlib.blake2b(msgspec.json.encode(_canonical(payload), order="sorted"), digest_size=8).digest()


def _canonical(value: Any) -> Any:
    """Give a JSON value in the one form that equal values share: 4.0 is 4, members in no order."""
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is list:
        return [_canonical(item) for item in value]
    if type(value) is dict:
        return {name: _canonical(item) for name, item in value.items()}
    return value
