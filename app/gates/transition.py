"""The transition arbiter: one layer's state, and the one token that may commit the next.

Source: 2026-08-03-1930; contract, section 4.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal, assert_never, final

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import force_setattr, replace

from app.gates.decision import Command, Fact, Grant, LayerNow, Refused
from app.gates.identity import Name, Number, Sealer, TickCount, Token, has_control_characters

ENDINGS_KEPT = 64
"""How many generations before the newest a layer remembers the ending of."""

COMMITTED, SUPERSEDED, CANCELLED, FAILED, EPOCH_ENDED, EXPIRED, ROLLED_BACK = "c", "s", "x", "f", "e", "t", "r"
"""How a generation ended, one letter each, so that 64 of them are one short text."""


class TransitionRefusal(StrEnum):
    """Why a transition was refused, in the order of the checks: the first that applies."""

    UNKNOWN_LAYER = "unknown_layer"
    UNKNOWN_STATE = "unknown_state"
    GENERATION_CONFLICT = "generation_conflict"
    UNKNOWN_TOKEN = "unknown_token"
    STALE_EPOCH = "stale_epoch"
    ALREADY_COMPLETED = "already_completed"
    ALREADY_CANCELLED = "already_cancelled"
    ALREADY_FAILED = "already_failed"
    EXPIRED = "expired"
    ROLLED_BACK = "rolled_back"
    STALE_GENERATION = "stale_generation"
    TOO_EARLY = "too_early"


_REFUSAL_OF_ENDING = {
    COMMITTED: TransitionRefusal.ALREADY_COMPLETED,
    CANCELLED: TransitionRefusal.ALREADY_CANCELLED,
    FAILED: TransitionRefusal.ALREADY_FAILED,
    EXPIRED: TransitionRefusal.EXPIRED,
    ROLLED_BACK: TransitionRefusal.ROLLED_BACK,
}


class Begin(Command, frozen=True, tag="begin"):
    """Ask for a layer's commit right. Answers: TransitionGranted, TransitionKept, or a TransitionRefusal.

    `data` is opaque to the gate (1 KiB of JSON): clip, start offset, speed, for whoever joins late. `min_ticks` after
    the tick being open is the earliest that the token may complete; once the tick `deadline_ticks` after it is sealed,
    the token is expired.
    """

    layer: Name
    target: Name
    if_same: Literal["restart", "keep"] | UnsetType = UNSET
    if_generation: Number | UnsetType = UNSET
    data: Any = UNSET
    min_ticks: TickCount | UnsetType = UNSET
    deadline_ticks: TickCount | UnsetType = UNSET

    def __post_init__(self) -> None:
        if has_control_characters(self.layer + self.target):
            raise ValueError("`layer` and `target` take no control characters")
        if self.if_same == "restart":
            # The default, spelled out: the same command under an idempotency key.
            force_setattr(self, "if_same", UNSET)


class Complete(Command, frozen=True, tag="complete"):
    """Report that the target has taken over. Answers: TransitionCommitted, or a TransitionRefusal."""

    token: Token


class Cancel(Command, frozen=True, tag="cancel"):
    """Give a token back because the transition was stopped. Answers: TransitionCancelled, or a TransitionRefusal."""

    token: Token


class Fail(Command, frozen=True, tag="fail"):
    """Give a token back because the transition could not run. Answers: TransitionFailed, or a TransitionRefusal."""

    token: Token
    why: Annotated[str, Meta(min_length=1, max_length=1024)]


@final
class TransitionGranted(Fact, frozen=True, tag="granted"):
    """A new token, and the one that lost its right to it.

    `not_before` is the tick before which it cannot complete, `deadline` the last tick in which it can; `link` joins the
    tokens that end together.
    """

    token: Token
    superseded: Token | None
    not_before: int | UnsetType = UNSET
    deadline: int | UnsetType = UNSET
    link: int | UnsetType = UNSET


@final
class TransitionKept(Fact, frozen=True, tag="kept"):
    """The same transition is pending or committed already: its token, or none when nothing is pending. Nothing lost."""

    token: Token | None
    superseded: None = None


@final
class TransitionCommitted(Fact, frozen=True, tag="committed"):
    """The target is the layer's state now."""

    current: str


@final
class TransitionCancelled(Fact, frozen=True, tag="cancelled"):
    """The token ended; the state stayed."""

    current: str


@final
class TransitionFailed(Fact, frozen=True, tag="failed"):
    """The token ended as a failure; the state stayed."""

    current: str


TransitionFact = TransitionGranted | TransitionKept | TransitionCommitted | TransitionCancelled | TransitionFailed


class Pending(Struct, frozen=True, array_like=True, gc=False):
    """The token that holds a layer's commit right, with the time it was begun (ms since 1970).

    `not_before` and `deadline` are ticks, `link` is the number of the bundle's link it ends with.
    """

    generation: int
    from_: str
    to: str
    seal: str
    begun_at: int
    data: Any = None
    not_before: int = 0
    deadline: int | None = None
    link: int | None = None


Hold = tuple[str, int]
"""(character, clip instance) whose windows a token opened as their holder."""


class TransitionArbiter(Struct, frozen=True, array_like=True, gc=False):
    """One layer: what is committed, what is pending, and how the last generations ended.

    `generation` is the highest ever granted, `standing` the newest that no rollback undid: everything between them is
    rolled back, and a pending token is always the standing one. `endings` holds one letter for each of the at most 64
    generations before the standing one, the latest last; `ended` is that one's own, empty while it is pending or was
    never begun; `newest_to` is its target, and `holds` are the windows that it opened as their holder. Times are
    milliseconds since 1970.
    """

    current: str
    committed_at: int
    epoch: int
    data: Any = None
    generation: int = 0
    newest_to: str = ""
    pending: Pending | None = None
    endings: str = ""
    ended: str = ""
    committed: int = 0
    superseded: int = 0
    standing: int = 0
    holds: tuple[Hold, ...] = ()

    def now(self) -> LayerNow:
        """Tell what a refused caller needs to know of this layer."""
        pending = self.pending
        return LayerNow(
            self.current,
            self.epoch,
            self.generation,
            None if pending is None else Grant(pending.generation, pending.to),
        )

    def newest(self) -> dict[str, Any] | UnsetType:
        """Name the newest grant that stands, as `by` of a refusal; nothing where there is none."""
        return {"generation": self.standing, "to": self.newest_to} if self.standing else UNSET

    def pending_token(self, character: str, layer: str) -> Token | None:
        """Name the pending transition, without its seal."""
        pending = self.pending
        if pending is None:
            return None
        return Token(character, layer, self.epoch, pending.generation, pending.from_, pending.to)

    def decide_begin(
        self,
        command: Begin,
        *,
        character: str,
        life: int,
        states: frozenset[str] | None,
        sealer: Sealer,
        tick: int = 1,
        link: int | None = None,
    ) -> TransitionGranted | TransitionKept | Refused:
        """Grant a new token from the last committed state, or say why not. The layer itself is known."""
        target = command.target
        if states is not None and target not in states:
            return Refused(TransitionRefusal.UNKNOWN_STATE, at="target", layer=self.now())
        if command.if_generation is not UNSET and command.if_generation != self.standing:
            return Refused(
                TransitionRefusal.GENERATION_CONFLICT, at="if_generation", by=self.newest(), layer=self.now()
            )
        layer, pending = command.layer, self.pending
        if command.if_same == "keep":
            if pending is not None and pending.to == target:
                held = Token(character, layer, self.epoch, pending.generation, pending.from_, pending.to, pending.seal)
                return TransitionKept(held)
            if pending is None and self.current == target:
                return TransitionKept(None)
        generation = self.generation + 1
        seal = sealer.seal(life, character, layer, self.epoch, generation, self.current, target)
        return TransitionGranted(
            Token(character, layer, self.epoch, generation, self.current, target, seal),
            None if pending is None else self.pending_token(character, layer),
            UNSET if command.min_ticks is UNSET else tick + command.min_ticks,
            UNSET if command.deadline_ticks is UNSET else tick + command.deadline_ticks,
            UNSET if link is None else link,
        )

    def is_held_by(self, token: Token, *, life: int, sealer: Sealer) -> bool:
        """Say whether `token` is the newest grant of this layer that stands, pending or committed.

        Source: contract, section 8, "Holder".
        """
        if self.pending is not None:
            return self.refusal(token, life=life, sealer=sealer) is None
        is_newest = token.epoch == self.epoch and token.generation == self.standing and self.ended == COMMITTED
        return is_newest and sealer.life_of(token) == life

    def refusal(self, token: Token, *, life: int, sealer: Sealer) -> Refused | None:
        """Say why `token` may not end this layer's pending transition; None when it may.

        Source: 2026-08-03-1930: the whole token is compared, never the name, a flag or a time.
        """
        return None if self.is_pending(token) else self._refusal_of_lost(token, life=life, sealer=sealer)

    def is_pending(self, token: Token) -> bool:
        """Say whether a token of this layer is the pending one, compared whole."""
        pending = self.pending
        return (
            pending is not None
            and token.seal == pending.seal
            and token.generation == pending.generation
            and token.epoch == self.epoch
            and token.to == pending.to
            and token.from_ == pending.from_
        )

    def _refusal_of_lost(self, token: Token, *, life: int, sealer: Sealer) -> Refused:
        granted_in = sealer.life_of(token)
        if granted_in is None or granted_in > life:
            return Refused(TransitionRefusal.UNKNOWN_TOKEN, at="token", layer=self.now())
        if granted_in < life or token.epoch < self.epoch:
            return Refused(TransitionRefusal.STALE_EPOCH, at="token", by={"epoch": self.epoch}, layer=self.now())
        if token.epoch > self.epoch or token.generation > self.generation:
            return Refused(TransitionRefusal.UNKNOWN_TOKEN, at="token", layer=self.now())
        refusal = _REFUSAL_OF_ENDING.get(self._ending(token.generation), TransitionRefusal.STALE_GENERATION)
        return Refused(refusal, at="token", by=self.newest(), layer=self.now())

    def _ending(self, generation: int) -> str:
        age = self.standing - generation
        if age < 0:
            return ROLLED_BACK
        if age == 0:
            return self.ended
        return self.endings[-age] if age <= len(self.endings) else ""

    def evolve(
        self, command: Begin | Complete | Cancel | Fail, fact: TransitionFact, *, at: int
    ) -> "TransitionArbiter":
        """Apply what was decided at time `at`. Asks no rule and cannot refuse."""
        if type(fact) is TransitionGranted:
            assert type(command) is Begin
            return self.granted(fact, command.data, at)
        if type(fact) is TransitionCommitted:
            return self.committed_by(at)
        if type(fact) is TransitionCancelled:
            return self.with_ending(CANCELLED)
        if type(fact) is TransitionFailed:
            return self.with_ending(FAILED)
        if type(fact) is TransitionKept:
            return self
        assert_never(fact)

    def granted(self, fact: TransitionGranted, data: Any, at: int) -> "TransitionArbiter":
        """Hold the granted token as the pending one, from time `at` (ms since 1970) on."""
        token, was_pending = fact.token, self.pending is not None
        assert token.seal is not UNSET
        pending = Pending(token.generation, token.from_, token.to, token.seal, at, None if data is UNSET else data)
        if fact.not_before is not UNSET or fact.deadline is not UNSET or fact.link is not UNSET:
            not_before = 0 if fact.not_before is UNSET else fact.not_before
            deadline = None if fact.deadline is UNSET else fact.deadline
            link = None if fact.link is UNSET else fact.link
            pending = replace(pending, not_before=not_before, deadline=deadline, link=link)
        ending = SUPERSEDED if was_pending else self.ended
        if self.generation > self.standing:
            ending += ROLLED_BACK * min(self.generation - self.standing, ENDINGS_KEPT)
        return TransitionArbiter(
            self.current,
            self.committed_at,
            self.epoch,
            self.data,
            token.generation,
            token.to,
            pending,
            (self.endings + ending)[-ENDINGS_KEPT:] if self.generation else "",
            "",
            self.committed,
            self.superseded + was_pending,
            token.generation,
        )

    def committed_by(self, at: int) -> "TransitionArbiter":
        """Be in the pending transition's target, since time `at` (ms since 1970)."""
        pending = self.pending
        assert pending is not None, "only a pending transition can commit"
        return TransitionArbiter(
            pending.to,
            at,
            self.epoch,
            pending.data,
            self.generation,
            self.newest_to,
            None,
            self.endings,
            COMMITTED,
            self.committed + 1,
            self.superseded,
            self.standing,
            self.holds,
        )

    def with_ending(self, ending: str) -> "TransitionArbiter":
        """End the pending transition otherwise than by committing it; the committed state stays."""
        assert self.pending is not None, "only a pending transition can end"
        superseded = self.superseded + (ending == SUPERSEDED)
        return replace(self, pending=None, ended=ending, holds=(), superseded=superseded)

    def next_epoch(self) -> "TransitionArbiter":
        """Hand the layer to a new graph: what was pending ends, the committed state stays."""
        ended = self.ended if self.pending is None else EPOCH_ENDED
        return replace(self, epoch=self.epoch + 1, pending=None, ended=ended, holds=())

    def with_hold(self, hold: Hold) -> "TransitionArbiter":
        """Remember a window that the standing token opened as its holder."""
        return self if hold in self.holds else replace(self, holds=(*self.holds, hold))

    def restored(self, before: "TransitionArbiter") -> "TransitionArbiter":
        """Go back to what the layer was at the end of an earlier tick; the numbers and the epoch go on.

        Source: contract, section 8, "Rollback". A token that was pending then is valid again, unless its epoch ended.
        """
        numbers = {"generation": self.generation, "committed": self.committed, "superseded": self.superseded}
        if self.epoch == before.epoch:
            return replace(before, **numbers)
        ended = before.ended if before.pending is None else EPOCH_ENDED
        return replace(before, **numbers, epoch=self.epoch, pending=None, ended=ended, holds=())
