"""What a simulated journal holds, from when it is durable: decided again, held to plain rules, never forgotten."""

from collections import Counter
from typing import NamedTuple

from msgspec.structs import replace

from app.gates.candidate import Candidate
from app.gates.decision import Undecided
from app.gates.lives import Remains
from app.gates.scene import Bounds, OpenTicks, Record, Scene, SceneState
from app.journal.codec import decode_entry
from app.journal.port import START, StoredEntry
from app.sequencing.mailbox import Addressed
from app.sequencing.verify import _difference
from tests.support.simulated_rules import Identity, Once, PlainReceipts, Violation, identity_of_record, is_retryable


class Shown(NamedTuple):
    """All that readers of a scene can see at one moment, as values that nobody changes."""

    state: SceneState
    characters: dict[str, bytes | None]
    remains: dict[str, Remains]
    ticks: OpenTicks


def shown(scene: Scene) -> Shown:
    """Take down what a scene shows now."""
    ticks = scene.open_ticks()
    copied = OpenTicks(ticks.ticks, dict(ticks.before), dict(ticks.newborn), list(ticks.delivered))
    characters = {name: scene.roster.blob(name) for name in scene.roster.names()}
    return Shown(scene.state, characters, dict(scene.remains), copied)


class SceneHistory:
    """One scene's durable history: `decisions[n]` is (time, record) of sequence n + 1, whatever was trimmed since.

    `scene` is the history replayed; `acknowledged` the highest sequence that anybody was answered; `exists_since` the
    end of the entry that made the scene, None while there is none.
    """

    def __init__(self, name: str, secret: bytes, bounds: Bounds) -> None:
        self.scene = Scene(name, secret, bounds)
        self.position = START
        self.decisions: list[tuple[int, Record]] = []
        self.acknowledged = 0
        self.exists_since: int | None = None
        self._shown: dict[int, Shown] = {0: shown(self.scene)}
        self._receipts = PlainReceipts(bounds.receipts_max, bounds.receipts_ms)
        self._once = Once()
        self._decided: dict[Identity, list[int]] = {}
        self._revisions: dict[str, int] = {}
        self._owners: dict[int, Identity] = {}

    def land(self, stored: StoredEntry) -> None:
        """Take an entry that became durable just now.

        Raises:
            Violation: It does not follow on the history, or decides otherwise or again what the history decided.
        """
        entry, scene = decode_entry(stored.blob), self.scene
        if (stored.first, stored.last) != (entry.first, entry.last) or entry.first != scene.sequence + 1:
            raise Violation(f"sequences {stored.first} to {stored.last} follow on {scene.sequence}")
        if entry.at < scene.state.at:
            raise Violation(f"time fell from {scene.state.at} to {entry.at} with sequence {entry.first}")
        candidate = Candidate(scene, entry.at)
        self._receipts.begin(entry.at)
        for sequence, record in enumerate(entry.records, start=entry.first):
            difference = _difference(candidate, record)
            if difference is not None:
                raise Violation(f"sequence {sequence} is decided otherwise: {difference}")
            if candidate.apply(record).revision != record.revision:
                raise Violation(f"sequence {sequence} has another revision than {record.revision}")
            self._note(sequence, entry.at, record)
        self._adopt(candidate, entry.records)
        self.position = stored.position

    def _note(self, sequence: int, at: int, record: Record) -> None:
        kept = self._receipts.decide(sequence, record)
        self._once.decide(sequence, record, forgotten_after=kept)
        identity = identity_of_record(record)
        if identity is not None:
            self._decided.setdefault(identity, []).append(sequence)
        self.decisions.append((at, record))

    def _adopt(self, candidate: Candidate, records: list[Record]) -> None:
        before = self._shown[self.scene.sequence]
        self.scene.adopt(candidate)
        self._receipts.end()
        after = self._shown[self.scene.sequence] = shown(self.scene)
        if not after.state.exists:
            self.exists_since = None
        elif self.exists_since is None or candidate.closes:
            self.exists_since = after.state.sequence
        if not any(record.accepted for record in records) and not _is_same_but_for_returns(before, after):
            raise Violation(f"refusals up to sequence {self.scene.sequence} changed something")
        for name in after.characters:
            held = self.scene.roster.get(name)
            revision = 0 if held is None else held.revision
            if revision < self._revisions.get(name, 0):
                raise Violation(f"the revision of {name!r} fell from {self._revisions[name]} to {revision}")
            self._revisions[name] = revision

    # What callers and readers are held to

    def check_answer(self, owner: Identity, asked: Identity | None, sequence: int, at: int, record: Record) -> None:
        """Hold an answer against the history: it is there by now, the same, and nobody else's.

        `owner` stands for the command as its caller knows it, `asked` for it as the journal does.
        """
        if sequence > len(self.decisions):
            raise Violation(f"sequence {sequence} was answered, and only {len(self.decisions)} are durable")
        held_at, held = self.decisions[sequence - 1]
        answered = (record.character, record.answer, record.revision, at)
        if answered != (held.character, held.answer, held.revision, held_at):
            raise Violation(f"sequence {sequence} was answered as {answered}; durable is {held} at {held_at}")
        if identity_of_record(held) not in {None, asked}:
            raise Violation(f"sequence {sequence} was answered for {asked}; durable is {identity_of_record(held)}")
        if asked is not None and asked[0] == "key" and held.mark is None and not is_retryable(held.answer):
            raise Violation(f"sequence {sequence} was decided without its key: {asked}")
        if self._owners.setdefault(sequence, owner) != owner:
            raise Violation(f"sequence {sequence} was answered to {self._owners[sequence]} and to {owner}")
        self.acknowledged = max(self.acknowledged, sequence)

    def settled(self, identity: Identity | None) -> int | None:
        """Give the decision that settles a key, unless it is too old by now; None when none does."""
        return None if identity is None else self._receipts.settled(identity)

    def is_settled(self, identity: Identity, *, sequence: int, at: int) -> bool:
        """Say whether a key is still settled by a decision, whenever up to a time it is asked."""
        return self._receipts.is_settled(identity, sequence=sequence, at=at)

    def is_decided(self, identity: Identity) -> bool:
        """Say whether the history holds any decision of a command."""
        return identity in self._decided

    def check_problem(self, addressed: Addressed, problem: Undecided) -> None:
        """Hold a problem against the present state, in which it was found: it must be one there."""
        again = Candidate(self.scene, self.scene.state.at).answer(addressed.character, addressed.command)
        if not isinstance(again, Undecided) or again.problem is not problem.problem:
            raise Violation(f"{addressed} was told {problem}; durable is a scene that answers {again}")

    def check_read(self, read: Scene, *, at_least: int) -> None:
        """Hold what a reader sees against the history: a durable moment, whole, with everything it was told of."""
        seen = shown(read)
        if seen.state.sequence < at_least:
            raise Violation(f"a reader saw sequence {seen.state.sequence}, and {at_least} had been answered")
        expected = self._shown.get(seen.state.sequence)
        if expected is None:
            raise Violation(f"a reader saw sequence {seen.state.sequence}, which no durable entry ends with")
        if seen != expected:
            raise Violation(f"a reader saw at sequence {seen.state.sequence} {seen}; durable is {expected}")

    def check_history(self, read: list[tuple[int, int, Record | None]]) -> None:
        """Hold a page of the history, as it was read, against the history."""
        last = 0
        for sequence, at, record in read:
            is_known = last < sequence <= len(self.decisions)
            if not is_known or self.decisions[sequence - 1] != (at, record or self.decisions[sequence - 1][1]):
                raise Violation(f"the history read has {record} at sequence {sequence}, behind {last}")
            last = sequence

    def kinds(self) -> Counter[str]:
        """Count what was decided, by command and whether it was accepted: whether a simulation reached it at all."""
        return Counter(
            f"{type(record.command).__name__} {'accepted' if record.accepted else 'refused'}"
            for _, record in self.decisions
        )


def _is_same_but_for_returns(before: Shown, after: Shown) -> bool:
    """Compare apart from sequence and time, and from what came again.

    The double of an event that was rolled back is refused, and yet says that it came again: that moves it to the open
    tick, and may show at its character.
    """
    returning = {gone.character for gone in before.ticks.ticks.unreturned}
    return _given(before) == _given(after) and _but_for(before, returning) == _but_for(after, returning)


def _but_for(at: Shown, names: set[str]) -> Shown:
    ticks = OpenTicks(
        replace(at.ticks.ticks, unreturned=[]),
        {name: held for name, held in at.ticks.before.items() if name not in names},
        at.ticks.newborn,
        [],
    )
    characters = {name: held for name, held in at.characters.items() if name not in names}
    return Shown(replace(at.state, sequence=0, at=0), characters, at.remains, ticks)


def _given(at: Shown) -> set[tuple[str, tuple[int, int, int, str]]]:
    """Name the events of the open tick and of those that were rolled back."""
    return {(gone.character, gone.event.key) for gone in (*at.ticks.ticks.unreturned, *at.ticks.delivered)}
