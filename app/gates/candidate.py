"""The candidate: a turn's decisions in order, over an adopted scene that it leaves alone."""

from collections.abc import Generator, Iterable, Iterator
from typing import TypeVar

from msgspec import UNSET

from app.gates.bundle import Answered, Bundle, Bundled
from app.gates.bundling import apply_bundle, settle_bundle
from app.gates.character import Answer
from app.gates.consequence import Consequences
from app.gates.decision import Command, Refused, Undecided
from app.gates.receipt import Mark
from app.gates.scene import Overlay, Record, Scene
from app.gates.settling import apply, settle
from app.gates.spawning import LIFE_COMMANDS, decide_life, evolve_life
from app.gates.tick import Tick, Ticked
from app.gates.ticking import apply_tick, settle_tick

StepsT = TypeVar("StepsT")


class Candidate(Overlay):
    """A turn's outcome so far, until it is adopted or dropped.

    `records` are the decisions in order; the first has the sequence after the scene's.
    """

    def __init__(self, scene: Scene, at: int) -> None:
        super().__init__(scene, at)
        self.records: list[Record] = []

    @property
    def first(self) -> int:
        """Give the sequence of the first decision, where there is one."""
        return self.sequence - len(self.records) + 1

    def earlier(self, mark: Mark) -> tuple[int, bytes] | None:
        """Give the sequence and fingerprint of what was decided under a key before, in this turn or an earlier one."""
        held = self.marks.get((mark.caller, mark.key))
        if held is not None:
            return held[0], held[1].fingerprint
        receipt = None if self.closes else self.scene.receipts.find(mark.caller, mark.key, at=self.at)
        if receipt is None or (self.forgets_after is not None and receipt.sequence > self.forgets_after):
            return None
        return receipt.sequence, receipt.fingerprint

    def decide(self, name: str | None, command: Command, mark: Mark | None = None) -> Record | Undecided:
        """Decide one command; when it was accepted the candidate has moved on. An Undecided leaves no trace."""
        if name is None:
            return finished(self.decide_in_steps(command, mark))
        settled = settle(self, name, command)
        if type(settled) is Undecided:
            return settled
        answer, revision, consequences = settled
        if mark is not None or consequences is not None:
            return self._record(name, command, answer, revision, mark, consequences)
        self.sequence += 1
        record = Record(name, command, answer, revision)
        self.records.append(record)
        return record

    def decide_in_steps(self, command: Command, mark: Mark | None = None) -> Generator[None, None, Record | Undecided]:
        """Decide a command of the whole scene, as `decide`, in steps: a tick may be much work."""
        answer = yield from self._decide_scene(command)
        return answer if type(answer) is Undecided else self._record(None, command, answer, 0, mark, None)

    def _decide_scene(self, command: Command) -> Generator[None, None, Answer | Undecided]:
        if type(command) in LIFE_COMMANDS:
            answer = decide_life(self, None, command)
            if type(answer) is not Undecided and type(answer) is not Refused:
                evolve_life(self, None, command, answer)
            return answer
        if type(command) is Bundle:
            answer = settle_bundle(self, command)
            # A bundle may make the scene; one that does not leaves no decision in a scene that is not there.
            return answer if self.exists or type(answer) is Undecided else decide_life(self, None, command)
        if not self.exists:
            return decide_life(self, None, command)
        assert type(command) is Tick, f"{type(command).__name__} is for a character"
        return (yield from settle_tick(self, command))

    def answer(self, name: str | None, command: Command) -> Answer | Undecided:
        """Say how a command would be decided now; nothing moves on."""
        if type(command) in LIFE_COMMANDS:
            return decide_life(self, name, command)
        point, forgets_after, marks = self.savepoint(), self.forgets_after, self.marks
        settled = finished(self._decide_scene(command)) if name is None else settle(self, name, command)
        self.go_back(point)
        self.forgets_after, self.marks = forgets_after, marks
        return settled[0] if isinstance(settled, tuple) else settled

    def apply(self, record: Record) -> Record:
        """Add a recorded decision: apply its fact, ask no rule. Give the record with the revision after it."""
        name, command, answer, revision = record.character, record.command, record.answer, 0
        if name is not None:
            revision = apply(self, name, command, answer, record.consequences)
        elif type(command) is Bundle:
            if type(answer) is Bundled:
                apply_bundle(self, command, answer)
        elif type(command) is Tick:
            if type(answer) is Ticked:
                finished(apply_tick(self, command, answer))
        elif type(answer) is not Refused:
            evolve_life(self, None, command, answer)
        revision = record.revision if type(answer) is Refused else revision
        return self._record(name, command, answer, revision, record.mark, record.consequences)

    def apply_in_steps(self, record: Record) -> Generator[None, None, Record]:
        """Add a recorded decision, as `apply`, in steps: a tick may be much work."""
        command, answer = record.command, record.answer
        if type(command) is not Tick or type(answer) is not Ticked:
            return self.apply(record)
        yield from apply_tick(self, command, answer)
        return self._record(record.character, command, answer, 0, record.mark, record.consequences)

    def _record(
        self,
        name: str | None,
        command: Command,
        answer: Answer,
        revision: int,
        mark: Mark | None,
        consequences: Consequences | None,
    ) -> Record:
        self.sequence += 1
        refused = answer.refusal() if type(answer) is Ticked else answer
        if type(refused) is Refused and refused.is_retryable:
            mark = None
        record = Record(name, command, answer, revision, mark, consequences)
        self.records.append(record)
        if mark is not None:
            self.marks[mark.caller, mark.key] = (self.sequence, mark)
        return record


def finished(steps: Generator[None, None, StepsT]) -> StepsT:
    """Take every step, and give what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: StepsT = done.value
            return result


WIDE = frozenset({Bundle, Tick})
"""The commands whose decisions concern more characters than one, whatever their consequences."""


def concerned(record: Record) -> Iterator[str]:
    """Name the characters that a decision concerns, some of them more than once."""
    if record.character is not None:
        yield record.character
    if record.consequences is not None:
        yield from _ended(record.consequences)
    if type(record.command) is Bundle:
        for member in record.command.commands:
            yield member.character
    answer = record.answer
    if type(answer) is Bundled:
        for given in answer.answers:
            yield from _answered(given)
    if type(answer) is Ticked:
        yield from _ticked(answer)


def _ticked(fact: Ticked) -> Iterator[str]:
    if fact.rollback is not UNSET:
        yield from fact.rollback.characters
    for tick in () if fact.seal is UNSET else fact.seal.ticks:
        for applied in tick.applied:
            answered = applied.answered
            if answered.consequences is None and answered.character is not None:
                yield answered.character
            else:
                yield from _answered(answered)
        if tick.expired is not None:
            yield from _ended(tick.expired)
    for given in () if fact.confirm is UNSET else fact.confirm.deliveries:
        yield given.character


def _answered(given: Answered) -> Iterator[str]:
    if given.character is not None:
        yield given.character
    if type(given.answer) is Bundled:
        for inner in given.answer.answers:
            yield from _answered(inner)
    if given.consequences is not None:
        yield from _ended(given.consequences)


def _ended(consequences: Consequences) -> Iterator[str]:
    for ended in consequences.ended:
        yield ended.token.character
    for closed in consequences.windows:
        yield closed.character


def replay(scene: Scene, first: int, at: int, records: Iterable[Record]) -> Candidate:
    """Apply recorded facts to a scene and adopt them; give the candidate that was adopted. Asks no rule."""
    candidate = Candidate(scene, at)
    assert first == candidate.sequence + 1, "entries follow each other without a gap"
    for record in records:
        candidate.apply(record)
    scene.adopt(candidate)
    return candidate
