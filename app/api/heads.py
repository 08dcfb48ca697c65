"""Heads: those of the lane's requests that were read before, so that the same bytes need not be read again."""

from typing import NamedTuple

HEADS_KEPT = 8_192
"""How many heads are remembered; beyond, all are read again."""

HEAD_BYTES_MAX = 1_024
"""The largest head that is remembered, bytes; what else it says is kept besides, so it takes a few times as much."""

_END = b"\r\n\r\n"
_KEY_LINES = (b"\r\nIdempotency-Key: ", b"\r\nidempotency-key: ")
"""How the line of a key begins, as clients write it."""

_VISIBLE = bytes(range(0x21, 0x7F))


class Target(NamedTuple):
    """What a target of the lane names: scene, character and command, and the template of its route."""

    scene: str
    character: str
    command: str
    route: str


class Head(NamedTuple):
    """What the lane takes from a head: its target, what it says of its caller and itself, and all of its fields."""

    target: Target
    url: bytes
    fields: list[tuple[bytes, bytes]]
    authorization: str | None
    named: bytes | None
    is_kept: bool


class Heads:
    """Remembers what heads said. A parser that stands between two requests reads the same from the same bytes.

    A head with an idempotency key is remembered without the line of the key: it is another each time, and a line of
    visible characters behind its name changes nothing about the others.

    Bound:     `HEADS_KEPT` heads of at most `HEAD_BYTES_MAX` bytes.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[Head, int]] = {}

    def find(self, data: bytes) -> tuple[Head, bytes | None, bytes] | None:
        """Give the head, the key and the body of the one request that `data` is, whole and nothing besides.

        None when the head is not known, or that is not what `data` is.
        """
        end, key = data.find(_END, 0, HEAD_BYTES_MAX) + len(_END), None
        known = self._known.get(data[:end])
        if known is None:
            rest, key = _without_key(data[:end])
            known = None if key is None else self._known.get(rest)
            if known is None:
                return None
        head, size = known
        return (head, key, data[end:]) if len(data) == end + size else None

    def learn(self, data: bytes, head: Head, key: bytes | None) -> None:
        """Remember the head of a request that began with `data`, if it also ended with it."""
        end, size = data.find(_END, 0, HEAD_BYTES_MAX) + len(_END), int(dict(head.fields).get(b"content-length", 0))
        if len(data) != end + size:
            return
        rest, found = _without_key(data[:end])
        if found != key:
            return
        if len(self._known) >= HEADS_KEPT:
            self._known.clear()
        self._known[rest] = head, size


def _without_key(head: bytes) -> tuple[bytes, bytes | None]:
    """Take the line of the key out of a head; None when there is none, or one that is not plainly one line."""
    for line in _KEY_LINES:
        start = head.find(line)
        if start >= 0:
            stop = head.find(b"\r\n", start + len(line))
            key = head[start + len(line) : stop]
            if not key or key.translate(None, _VISIBLE) or head[stop + 2] in b" \t":
                break
            return head[:start] + head[stop:], key
    return head, None
