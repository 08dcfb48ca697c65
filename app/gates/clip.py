"""One playing of one clip: the loops it has delivered, what still waits, and the keys it remembers.

Source: 2026-07-29-2000; contract, section 6.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

Key = tuple[int, str]
"""(frame, kind) within one loop of one instance."""


Kept = list[Any] | None
"""What waits beside its key: None when nothing does, [payload], [tick, group, mark] or [tick, group, mark, payload].

[tick, True] stands for an event that the gate itself put in.
"""

Holder = tuple[str, str, int, int]
"""(character, layer, epoch, generation) of the token that holds a window open."""


class OpenWindow(Struct, frozen=True, array_like=True, gc=False):
    """What an event of a kind that another ends has opened: where it stands, and the token that holds it open."""

    kind: str
    loop: int
    frame: int
    tick: int | None = None
    holder: Holder | None = None


class Event(Struct, frozen=True, gc=False):
    """One event as it was enqueued; `synthetic` marks one that the gate itself put in."""

    clip_instance: int
    loop: int
    frame: int
    kind: str
    payload: Any = UNSET
    tick: int | UnsetType = UNSET
    group: str | UnsetType = UNSET
    mark: str | UnsetType = UNSET
    synthetic: bool | UnsetType = UNSET

    @property
    def key(self) -> tuple[int, int, int, str]:
        """Give what the event is known by: (clip instance, loop, frame, kind)."""
        return self.clip_instance, self.loop, self.frame, self.kind


def kept(
    payload: Any,
    tick: int | UnsetType = UNSET,
    group: str | UnsetType = UNSET,
    mark: str | UnsetType = UNSET,
) -> Kept:
    """Give what must wait beside an event's key so that it can be delivered as it was enqueued."""
    if tick is UNSET and group is UNSET and mark is UNSET:
        return None if payload is UNSET else [payload]
    said = [None if part is UNSET else part for part in (tick, group, mark)]
    return said if payload is UNSET else [*said, payload]


def kept_payload(waits: Kept) -> Any:
    """Give the payload that waits, UNSET where none does."""
    return UNSET if waits is None or len(waits) in (2, 3) else waits[-1]


def kept_event(number: int, loop: int, key: Key, waits: Kept) -> Event:
    """Give an event that waits as it was enqueued."""
    if waits is None or len(waits) == 1:
        return Event(number, loop, key[0], key[1], UNSET if waits is None else waits[0])
    if len(waits) == 2:
        tick = UNSET if waits[0] is None else waits[0]
        return Event(number, loop, key[0], key[1], tick=tick, synthetic=True)
    tick, group, mark = (UNSET if part is None else part for part in waits[:3])
    return Event(number, loop, key[0], key[1], kept_payload(waits), tick, group, mark)


class ClipInstance(Struct, frozen=True, array_like=True, gc=False):
    """One playing of one clip: its loop watermark and the keys it remembers.

    `waiting` holds by loop and key what was accepted and not delivered. `seen` holds by loop and key what was
    delivered, as a digest of its payload. `first_loop` stands in for the watermark until the first commit. `epoch` is
    that of the layer (or of graph `main`) when it was opened; `touched` orders instances by their last accepted
    command. `opened_at` is milliseconds since 1970. `group` is the last one that the instance was used with.
    `windows` are open in the order they were opened.
    """

    epoch: int
    opened_at: int
    touched: int
    clip: str | None = None
    layer: str | None = None
    data: Any = None
    committed_loop: int | None = None
    first_loop: int | None = None
    waiting: dict[int, dict[Key, Kept]] = {}
    seen: dict[int, dict[Key, bytes]] = {}
    remembered: int = 0
    pending: int = 0
    accepted: int = 0
    group: str | None = None
    windows: tuple[OpenWindow, ...] = ()

    def events(self, number: int, through: int | None = None) -> list[Event]:
        """List what waits up to loop `through` (all when None), by (loop, frame, arrival)."""
        waiting = self.waiting
        return [
            Event(number, loop, key[0], key[1]) if waits is None else kept_event(number, loop, key, waits)
            for loop in (sorted(waiting) if len(waiting) > 1 else waiting)
            if through is None or loop <= through
            for key, waits in sorted(waiting[loop].items(), key=_frame)
        ]

    def remembers(self, loop: int, key: Key) -> bool:
        """Say whether a key was accepted and is not forgotten."""
        waiting, seen = self.waiting.get(loop), self.seen.get(loop)
        return (waiting is not None and key in waiting) or (seen is not None and key in seen)

    def with_waiting(
        self, loop: int, key: Key, waits: Kept, touched: int, group: str | UnsetType = UNSET
    ) -> "ClipInstance":
        """Let one accepted event wait in its loop's bucket."""
        waiting = self.waiting.copy()
        bucket = waiting.get(loop)
        bucket = waiting[loop] = {} if bucket is None else bucket.copy()
        bucket[key] = waits
        if group is not UNSET or self.first_loop is None:
            return self._with(touched, loop, waiting, self.seen, 1, 1, group)
        # Made here and not by `_with`: most of all events come this way.
        return ClipInstance(
            self.epoch,
            self.opened_at,
            touched,
            self.clip,
            self.layer,
            self.data,
            self.committed_loop,
            self.first_loop,
            waiting,
            self.seen,
            self.remembered + 1,
            self.pending + 1,
            self.accepted + 1,
            self.group,
            self.windows,
        )

    def with_seen(
        self, loop: int, key: Key, payload: Any, touched: int, group: str | UnsetType = UNSET
    ) -> "ClipInstance":
        """Remember the key of an event that its acceptance delivered."""
        bucket = {**self.seen.get(loop, {}), key: payload_digest(payload)}
        return self._with(touched, loop, self.waiting, {**self.seen, loop: bucket}, 0, 1, group)

    def with_span(
        self, waits: Iterable[Event], given: Iterable[Event], touched: int, *, first: int | None, group: str | UnsetType
    ) -> "ClipInstance":
        """Take the events of a span at once: those that wait, and those that their acceptance delivered.

        `first` is the loop of the one that was crossed first, None where the span brought nothing new.
        """
        waiting, seen, pending, delivered = self.waiting.copy(), self.seen.copy(), 0, 0
        buckets: dict[int, dict[Key, Kept]] = {}
        digests: dict[int, dict[Key, bytes]] = {}
        for event in waits:
            keeps = kept(event.payload, event.tick, event.group, event.mark)
            buckets.setdefault(event.loop, {})[event.frame, event.kind] = keeps
            pending += 1
        for event in given:
            digests.setdefault(event.loop, {})[event.frame, event.kind] = payload_digest(event.payload)
            delivered += 1
        waiting.update({loop: {**waiting.get(loop, {}), **bucket} for loop, bucket in buckets.items()})
        seen.update({loop: {**seen.get(loop, {}), **keys} for loop, keys in digests.items()})
        return self._with(touched, first, waiting, seen, pending, pending + delivered, group)

    def _with(
        self,
        touched: int,
        loop: int | None,
        waiting: dict[int, dict[Key, Kept]],
        seen: dict[int, dict[Key, bytes]],
        grown: int,
        accepted: int,
        group: str | UnsetType,
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
            self.remembered + accepted,
            self.pending + grown,
            self.accepted + accepted,
            self.group if group is UNSET else group,
            self.windows,
        )

    def with_committed(self, loop: int, touched: int) -> "ClipInstance":
        """Move the watermark to `loop`: its keys stay and catch late doubles, all below are forgotten."""
        waiting, seen, pending = self.waiting, self.seen, 0
        if seen:
            seen = {other: keys for other, keys in seen.items() if other >= loop}
        if waiting:
            delivered = waiting.get(loop)
            if delivered is not None:
                digests = {
                    key: b"" if waits is None else payload_digest(kept_payload(waits))
                    for key, waits in delivered.items()
                }
                seen = {**seen, loop: seen[loop] | digests if loop in seen else digests}
            if delivered is None or len(waiting) > 1:
                waiting = {other: bucket for other, bucket in waiting.items() if other > loop}
                pending = sum(map(len, waiting.values()))
            else:
                waiting = {}
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
            pending + (sum(map(len, seen.values())) if seen else 0),
            pending,
            self.accepted,
            self.group,
            self.windows,
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
