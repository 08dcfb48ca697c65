"""What must hold of a scene's decisions whatever else happens, in rules too plain to share a fault with the service."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from app.gates.bundle import Bundle, Bundled
from app.gates.clip import Event
from app.gates.consequence import Consequences
from app.gates.decision import RETRYABLE, Refused
from app.gates.event_commands import CommitLoop, Covered, Enqueue, EventAccepted, LoopDelivered, SpanCovered
from app.gates.lives import CloseScene
from app.gates.receipt import mark
from app.gates.scene import Record
from app.gates.tick import Request, Tick, Ticked
from app.gates.transition import Begin, Complete, TransitionCommitted, TransitionGranted
from app.sequencing.mailbox import Addressed

IMMEDIATE = {"spark", "flash", "flashed"}
"""The kinds whose acceptance is their delivery; every rig of a simulation says so."""


class Violation(AssertionError):
    """Something happened that must never happen."""


Identity = tuple[Any, ...]
"""What a decision is known by: its caller and key, or the number that its caller wrote into its data."""


def identity_of(caller: str, addressed: Addressed) -> Identity | None:
    """Give what the decision of a command will be known by; None for one that cannot be told from others."""
    if addressed.key is not None:
        keyed = mark(caller, addressed.key, addressed.character, addressed.command, addressed.references)
        return "key", caller, keyed.key
    return _numbered(addressed.command)


def identity_of_record(record: Record) -> Identity | None:
    """Give what a decision is known by."""
    if record.mark is not None:
        return "key", record.mark.caller, record.mark.key
    return _numbered(record.command)


def _numbered(command: Any) -> Identity | None:
    is_numbered = isinstance(command, Begin) and isinstance(command.data, dict) and "asked" in command.data
    return ("asked", command.data["asked"]) if is_numbered else None


def is_retryable(answer: Any) -> bool:
    """Say whether an answer is a refusal that the same key may be asked again after."""
    refused = answer.refusal() if isinstance(answer, Ticked) else answer
    if not isinstance(refused, Refused):
        return False
    return (refused.outcome if refused.refused is UNSET else refused.refused.outcome) in RETRYABLE


class PlainReceipts:
    """Which keys are settled, by the contract: so long, so many a caller, until a rollback or the scene's end."""

    def __init__(self, kept: int, kept_ms: int) -> None:
        self._kept = kept
        self._kept_ms = kept_ms
        self._held: dict[Identity, tuple[int, int]] = {}
        self._turn: dict[Identity, tuple[int, int]] = {}
        self._sealed: list[tuple[int, int]] = []
        self._at = 0

    def begin(self, at: int) -> None:
        """Begin a turn at a time."""
        self._at = at
        self._turn = {}

    def decide(self, sequence: int, record: Record) -> int | None:
        """Note a decision; after a rollback, give the sequence behind which everything is decided afresh.

        Raises:
            Violation: Its key is settled already.
        """
        kept = None
        if isinstance(record.command, CloseScene) and record.accepted:
            self._held, self._turn, self._sealed = {}, {}, []
        elif isinstance(record.answer, Ticked):
            kept = self._tick(sequence, record.answer)
        identity = identity_of_record(record)
        if record.mark is not None and is_retryable(record.answer):
            raise Violation(f"sequence {sequence} settles {identity} by a refusal that may be asked again")
        if record.mark is not None and identity is not None:
            settled = self._turn.get(identity) or self._held.get(identity)
            if settled is not None and self._at - settled[1] <= self._kept_ms:
                raise Violation(f"{identity} was decided as sequence {settled[0]}, and again as {sequence}")
            self._turn[identity] = (sequence, self._at)
        return kept

    def _tick(self, sequence: int, fact: Ticked) -> int | None:
        if fact.refusal() is not None:
            return None
        kept = None
        if not self._sealed:
            self._sealed = [(0, sequence - 1)]
        if fact.rollback is not UNSET:
            tick = fact.rollback.tick
            kept = self._kept_after(tick)
            self._held = {known: held for known, held in self._held.items() if held[0] <= kept}
            self._turn = {known: held for known, held in self._turn.items() if held[0] <= kept}
            self._sealed = [(other, by) for other, by in self._sealed if other < tick] + [(tick, kept)]
        if fact.seal is not UNSET:
            self._sealed.append((fact.seal.tick, sequence))
        return kept

    def _kept_after(self, tick: int) -> int:
        """Give the last decision that going back to the end of a tick leaves standing as a whole."""
        for other, sequence in self._sealed:
            if other >= tick:
                return sequence - (other > tick)
        raise Violation(f"rolled back to tick {tick}, which is not sealed")

    def settled(self, identity: Identity) -> int | None:
        """Give the decision that settles a key, unless it is too old by now; None when none does."""
        settled = self._held.get(identity)
        return None if settled is None else settled[0]

    def is_settled(self, identity: Identity, *, sequence: int, at: int) -> bool:
        """Say whether a key is settled by this very decision, at any time up to one."""
        settled = self._held.get(identity)
        return settled is not None and settled[0] == sequence and at - settled[1] <= self._kept_ms

    def end(self) -> None:
        """Keep what the turn decided, and forget what is too old or too much."""
        for identity, settled in self._turn.items():
            self._held.pop(identity, None)
            self._held[identity] = settled
            caller = identity[1]
            of_caller = [known for known in self._held if known[1] == caller]
            for known in of_caller[: max(0, len(of_caller) - self._kept)]:
                del self._held[known]


class Inner(Struct):
    """One decision, be it alone, in a bundle, or in a tick."""

    character: str | None
    command: Any
    answer: Any
    consequences: Consequences | None


class Once:
    """What happens at most once: a token is granted, a token completes, an event is given out.

    A completion that was rolled back did not happen, and an event that was withdrawn was not given.
    """

    def __init__(self) -> None:
        self._granted: set[tuple[str, str, int, int]] = set()
        self._completed: dict[tuple[str, str, int, int], int] = {}
        self._given: Counter[tuple[str, int, int, int, str]] = Counter()
        self._withdrawn: Counter[tuple[str, int, int, int, str]] = Counter()
        self._requests: dict[tuple[str, int], Request] = {}

    def decide(self, sequence: int, record: Record, *, forgotten_after: int | None) -> None:
        """Note a decision and all inside it.

        Raises:
            Violation: It happened before.
        """
        if forgotten_after is not None:
            self._completed = {token: by for token, by in self._completed.items() if by <= forgotten_after}
        if isinstance(record.answer, Ticked) and isinstance(record.command, Tick):
            self._hold(record.command, record.answer)
        for inner in self._inside(Inner(record.character, record.command, record.answer, record.consequences)):
            self._decide(sequence, inner)
        if isinstance(record.answer, Ticked) and record.answer.confirm is not UNSET:
            for withdrawn in record.answer.confirm.withdrawn:
                self._withdrawn[withdrawn.character, *withdrawn.event.key] += 1
            for delivery in record.answer.confirm.deliveries:
                self._give(sequence, delivery.character, delivery.events)

    def _hold(self, command: Tick, fact: Ticked) -> None:
        if command.requests is not UNSET and fact.requests is not UNSET:
            for request, refused in zip(command.requests, fact.requests, strict=True):
                if refused is None:
                    self._requests[request.source, request.number] = request

    def _inside(self, one: Inner) -> Iterator[Inner]:
        """Give a decision, or those that it is made of, in order."""
        if isinstance(one.answer, Bundled) and isinstance(one.command, Bundle):
            answers = [given.answer for given in one.answer.answers]
            for member, given in zip(one.command.commands, one.answer.answers, strict=True):
                taken = {field: getattr(answers[index], field) for field, index in member.references.items()}
                asked: Any = replace(member.command, **taken)
                yield from self._inside(Inner(member.character, asked, given.answer, given.consequences))
        elif isinstance(one.answer, Ticked):
            for tick in () if one.answer.seal is UNSET else one.answer.seal.ticks:
                for applied in tick.applied:
                    held, given = self._requests[applied.source, applied.number], applied.answered
                    yield from self._inside(Inner(given.character, held.command, given.answer, given.consequences))
                yield Inner(None, None, None, tick.expired)
            if one.answer.rollback is not UNSET:
                yield Inner(None, None, None, one.answer.rollback.consequences)
        else:
            yield one

    def _decide(self, sequence: int, inner: Inner) -> None:
        answer, command = inner.answer, inner.command
        if isinstance(answer, TransitionGranted):
            token = answer.token
            granted = (token.character, token.layer, token.epoch, token.generation)
            if granted in self._granted:
                raise Violation(f"sequence {sequence} grants {granted} again")
            self._granted.add(granted)
        elif isinstance(answer, TransitionCommitted) and isinstance(command, Complete):
            token = command.token
            completed = (token.character, token.layer, token.epoch, token.generation)
            if completed in self._completed:
                raise Violation(f"sequence {sequence} completes {completed} again, after {self._completed[completed]}")
            self._completed[completed] = sequence
        if inner.character is not None:
            self._give(sequence, inner.character, _given(command, answer))
        for closed in () if inner.consequences is None else inner.consequences.windows:
            if closed.delivery is not None:
                self._give(sequence, closed.character, [closed.event])

    def _give(self, sequence: int, character: str, events: list[Event]) -> None:
        for event in events:
            key = (character, *event.key)
            self._given[key] += 1
            if self._given[key] > 1 + self._withdrawn[key]:
                raise Violation(f"sequence {sequence} gives {key} again")


def _given(command: Any, answer: Any) -> list[Event]:
    """Give the events that an answer delivers."""
    if isinstance(answer, LoopDelivered) and isinstance(command, CommitLoop):
        return answer.events
    if isinstance(answer, SpanCovered) and isinstance(command, Covered):
        return [event for event in answer.events if event.kind in IMMEDIATE]
    if isinstance(answer, EventAccepted) and isinstance(command, Enqueue) and command.kind in IMMEDIATE:
        return [Event(command.clip_instance, command.loop, command.frame, command.kind)]
    return []
