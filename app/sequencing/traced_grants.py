"""Traced grants: which trace a token was granted in, so that a late report of it can be joined to that trace."""

from collections.abc import Iterable, Iterator

from msgspec import UNSET

from app.gates.bundle import Bundle, Bundled
from app.gates.character import Answer
from app.gates.decision import Command
from app.gates.identity import Token
from app.gates.roster import Roster
from app.gates.scene import Record
from app.gates.tick import Tick, Ticked
from app.gates.transition import Cancel, Complete, Fail, TransitionGranted
from app.journal.codec import Traced, TracedGrant


class TracedGrants:
    """The `traceparent` of the request that each of a scene's newest traced grants came from.

    A checkpoint carries those of pending tokens only, so after a restart an ended token of before it is not known.

    Bound:     `kept` grants; beyond, the oldest is forgotten.
    Order:     of granting.
    Senders:   one, the scene's sequencer.  Thread-safe: no.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._held: dict[tuple[str, str, int, int], str] = {}

    def note(self, first: int, records: list[Record], traced: Iterable[Traced]) -> None:
        """Remember what traced requests were granted: `records` are an entry's, the first of sequence `first`."""
        for part in traced:
            for record in records[part.first - first : part.last - first + 1]:
                for token in granted(record.answer):
                    self._keep(token.character, token.layer, token.epoch, token.generation, part.traceparent)

    def restore(self, grants: Iterable[TracedGrant]) -> None:
        """Remember what a checkpoint holds."""
        for grant in grants:
            self._keep(grant.character, grant.layer, grant.epoch, grant.generation, grant.traceparent)

    def _keep(self, character: str, layer: str, epoch: int, generation: int, traceparent: str) -> None:
        self._held[character, layer, epoch, generation] = traceparent
        while len(self._held) > self._kept:
            del self._held[next(iter(self._held))]

    def of(self, command: Command) -> set[str]:
        """Give the traces in which the tokens that a command reports were granted, as far as known."""
        if not self._held:
            return set()
        found = (self._held.get((t.character, t.layer, t.epoch, t.generation)) for t in reported(command))
        return {traceparent for traceparent in found if traceparent is not None}

    def pending(self, roster: Roster) -> list[TracedGrant]:
        """Give those whose token is pending."""
        return [
            TracedGrant(character, layer, epoch, generation, traceparent)
            for (character, layer, epoch, generation), traceparent in self._held.items()
            if _is_pending(roster, character, layer, epoch, generation)
        ]

    def clear(self) -> None:
        """Forget all."""
        self._held.clear()


def _is_pending(roster: Roster, character: str, layer: str, epoch: int, generation: int) -> bool:
    held = roster.get(character)
    arbiter = None if held is None else held.layers.get(layer)
    if arbiter is None or arbiter.pending is None:
        return False
    return (arbiter.epoch, arbiter.pending.generation) == (epoch, generation)


def granted(answer: Answer) -> Iterator[Token]:
    """Give the tokens that an answer grants, those inside a bundle or a tick too."""
    if type(answer) is TransitionGranted:
        yield answer.token
    elif type(answer) is Bundled:
        for given in answer.answers:
            yield from granted(given.answer)
    elif type(answer) is Ticked and answer.seal is not UNSET:
        for tick in answer.seal.ticks:
            for applied in tick.applied:
                yield from granted(applied.answered.answer)


def reported(command: Command) -> Iterator[Token]:
    """Give the tokens whose end a command reports, those inside a bundle or a tick too."""
    if isinstance(command, Complete | Cancel | Fail):
        yield command.token
    elif type(command) is Bundle:
        for member in command.commands:
            if "token" not in member.references:
                yield from reported(member.command)
    elif type(command) is Tick and command.requests is not UNSET:
        for request in command.requests:
            yield from reported(request.command)
