"""Receipts: which idempotency key got which decision, so that a retry is answered and not decided again.

Source: contract, section 8, "Idempotency".
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from app.gates.decision import Command

_canonical = msgspec.msgpack.Encoder(order="deterministic")


class Mark(Struct, frozen=True, array_like=True, gc=False):
    """A keyed command as its record remembers it: whose key, the key's hash, and what was asked under it."""

    caller: str
    key: bytes
    fingerprint: bytes


class Receipt(Struct, frozen=True, array_like=True, gc=False):
    """What was asked under a key, and the sequence of the decision; `at` is milliseconds since 1970."""

    fingerprint: bytes
    sequence: int
    at: int


def mark(
    caller: str, key: str, character: str | None, command: Command, references: dict[str, int] | None = None
) -> Mark:
    """Reduce a key and its command to what is compared: command, character and fields, never the envelope.

    `references` are the fields that stand for what earlier commands of the same request got.
    """
    asks = (character, command, references) if references else (character, command)
    asked = hashlib.blake2b(_canonical.encode(asks), digest_size=16).digest()
    return Mark(caller, hashlib.blake2b(key.encode(), digest_size=16).digest(), asked)


class Receipts:
    """The receipts of one scene, each kept for a time of the scene's own clock and a number a caller.

    Bound:     `kept` receipts a caller, each for `kept_ms` milliseconds; beyond either the oldest goes.
    Order:     of decision, a caller; so the oldest is the first.
    Senders:   one, the scene's sequencer.  Thread-safe: no.
    """

    def __init__(self, *, kept: int, kept_ms: int) -> None:
        self._kept = kept
        self._kept_ms = kept_ms
        # An ordinary dictionary would look for its first item behind all those that were let go of before it.
        self._callers: dict[str, OrderedDict[bytes, Receipt]] = {}

    def find(self, caller: str, key: bytes, *, at: int) -> Receipt | None:
        """Give the receipt of a key that is still kept at time `at`."""
        held = self._callers.get(caller)
        receipt = None if held is None else held.get(key)
        return receipt if receipt is not None and at - receipt.at <= self._kept_ms else None

    def keep(self, marks: Iterable[tuple[int, Mark]], *, at: int) -> None:
        """Remember decisions, each by its sequence, in order; let go of what is beyond the bounds."""
        callers, touched = self._callers, set[str]()
        for sequence, mark in marks:
            held = callers.get(mark.caller)
            if held is None:
                held = callers[mark.caller] = OrderedDict()
            touched.add(mark.caller)
            # Taken out and put in anew: moved to the end it would be stored where it was, for the encoder reads the
            # dictionary beneath.
            held.pop(mark.key, None)
            held[mark.key] = Receipt(mark.fingerprint, sequence, at)
        for caller in touched:
            held = callers[caller]
            while len(held) > self._kept or at - next(iter(held.values())).at > self._kept_ms:
                held.popitem(last=False)

    def expire(self, *, at: int) -> None:
        """Let go of every receipt whose time is over, of silent callers too."""
        for caller in list(self._callers):
            held = self._callers[caller]
            while held and at - next(iter(held.values())).at > self._kept_ms:
                held.popitem(last=False)
            if not held:
                del self._callers[caller]

    def forget(self, *, after: int) -> None:
        """Let go of the receipts of every decision behind a sequence: a rollback undid it."""
        for caller in list(self._callers):
            held = self._callers[caller]
            while held and held[key := next(reversed(held))].sequence > after:
                del held[key]
            if not held:
                del self._callers[caller]

    def oldest(self) -> int | None:
        """Give the lowest sequence that a receipt still needs; None when there is none."""
        return min((next(iter(held.values())).sequence for held in self._callers.values() if held), default=None)

    def dump(self) -> dict[str, dict[bytes, Receipt]]:
        """Give everything, to be stored. Do not change it."""
        return dict(self._callers)

    def restore(self, callers: dict[str, dict[bytes, Receipt]]) -> None:
        """Take back what `dump` gave."""
        self._callers = {caller: OrderedDict(held) for caller, held in callers.items()}
