"""Deciding: submissions onto one candidate, in order, each key once; nothing of it is visible or durable yet."""

from app.gates.bundle import Bundle, resolved
from app.gates.candidate import Candidate
from app.gates.character import Answer
from app.gates.decision import Problem, Undecided
from app.gates.event_commands import Covered
from app.gates.graph import SubmitCandidate
from app.gates.lives import Spawn
from app.gates.receipt import Mark, mark
from app.gates.scene import Record
from app.gates.tick import Tick
from app.journal.codec import Traced
from app.journal.port import Journal, JournalDamaged, JournalUnavailable
from app.sequencing.mailbox import Addressed, Decided, Earlier, Result, Submission
from app.sequencing.pace import Pace
from app.sequencing.store import entry_of
from app.telemetry.tracing import traceparent_of

PACED = 64
"""After how many commands a turn looks whether others should run."""

_LONG = frozenset({Bundle, Covered, Spawn, SubmitCandidate})
"""The commands that may take long, before each of which it looks too."""


class Deciding:
    """Decides what one turn takes, onto one candidate, once.

    Nobody sees the candidate before it is adopted, so whoever waits may run in between.
    """

    def __init__(self, scene: str, journal: Journal, candidate: Candidate) -> None:
        self._scene = scene
        self._journal = journal
        self._candidate = candidate
        self._recalled: dict[int, Answer] = {}

    async def decide(self, submissions: list[Submission]) -> tuple[list[list[Result | Earlier]], list[Traced]]:
        """Decide submissions in order; say too which sequences came from traced requests.

        The results of each are those of its commands from the first on: what earlier turns decided of it stands before
        what is decided here.
        """
        await self._recall(submissions)
        candidate, pace = self._candidate, Pace()
        results: list[list[Result | Earlier]] = []
        traced: list[Traced] = []
        for submission in submissions:
            before = candidate.sequence
            results.append(await self._decide(submission, pace))
            if submission.span is not None and candidate.sequence > before:
                traced.append(Traced(before + 1, candidate.sequence, traceparent_of(submission.span)))
        return results, traced

    async def _recall(self, submissions: list[Submission]) -> None:
        """Read by sequence the answers of retried keys that later commands of the same submission refer to.

        What cannot be read is left out: a command that refers to it is then no command.
        """
        recalled = self._recalled
        for submission in submissions:
            commands = submission.commands
            if not any([addressed.references for addressed in commands]):  # noqa: C419  # a list is faster here
                continue
            for index in {index for addressed in commands for index in addressed.references.values()}:
                held = commands[index]
                if held.key is None:
                    continue
                keyed = mark(submission.caller, held.key, held.character, held.asked or held.command, held.references)
                earlier = self._candidate.earlier(keyed)
                if earlier is not None and earlier[0] not in recalled:
                    try:
                        entry = await entry_of(self._journal, self._scene, earlier[0])
                    except (JournalUnavailable, JournalDamaged):
                        continue
                    recalled[earlier[0]] = entry.records[earlier[0] - entry.first].answer

    async def _decide(self, submission: Submission, pace: Pace) -> list[Result | Earlier]:
        """Decide one submission's commands in order; a key that was used before is answered and not decided."""
        candidate, results = self._candidate, submission.decided.copy()
        decide, at = candidate.decide, candidate.at
        for number, addressed in enumerate(submission.part, 1):
            command = addressed.command
            kind = type(command)
            if (number % PACED == 0 or kind in _LONG) and pace.is_due:
                await pace.pause()
            if kind is Tick:
                results.append(await self._decide_tick(submission.caller, addressed, pace))
            elif addressed.key is not None or addressed.references:
                results.append(self._decide_tied(submission.caller, addressed, results))
            else:
                record = decide(addressed.character, command)
                results.append(record if type(record) is Undecided else Decided(candidate.sequence, at, record))
        return results

    def _decide_tied(self, caller: str, addressed: Addressed, before: list[Result | Earlier]) -> Result | Earlier:
        """Decide a command that is tied to others, by its key or by what it takes from the answers before it.

        With a key, once: the same command again gets the first answer, another is told so.
        """
        character, key, references = addressed.character, addressed.key, addressed.references
        keyed = None if key is None else mark(caller, key, character, addressed.asked or addressed.command, references)
        earlier = None if keyed is None else self._earlier(keyed)
        if earlier is not None:
            return earlier
        command, candidate = addressed.command, self._candidate
        if references:
            named = [index for index in references.values() if index < len(before)]
            answers = {index: self._answer_of(before[index]) for index in named}
            found = resolved(command, references, answers)
            if type(found) is Undecided:
                return found
            command = found
        record = candidate.decide(character, command, keyed)
        return record if type(record) is Undecided else Decided(candidate.sequence, candidate.at, record)

    async def _decide_tick(self, caller: str, addressed: Addressed, pace: Pace) -> Result | Earlier:
        """Decide a tick, which may be much work: whoever waits may run in between, and sees nothing of it."""
        keyed = None if addressed.key is None else mark(caller, addressed.key, None, addressed.command)
        earlier = None if keyed is None else self._earlier(keyed)
        if earlier is not None:
            return earlier
        candidate = self._candidate
        steps = candidate.decide_in_steps(addressed.command, keyed)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                record: Record | Undecided = done.value
                return record if type(record) is Undecided else Decided(candidate.sequence, candidate.at, record)
            if pace.is_due:
                await pace.pause()

    def _earlier(self, keyed: Mark) -> Result | Earlier | None:
        """Give what a key was answered before; None for one that was not used, or no longer counts."""
        candidate = self._candidate
        found = candidate.earlier(keyed)
        if found is None:
            return None
        sequence, fingerprint = found
        if fingerprint != keyed.fingerprint:
            return Undecided(Problem.KEY_REUSED, "this key was used with another command; make a new key for this one")
        if sequence < candidate.first:
            return Earlier(sequence)
        return Decided(sequence, candidate.at, candidate.records[sequence - candidate.first])

    def _answer_of(self, result: Result | Earlier) -> Answer | None:
        """Give what a command before was answered, now or earlier; None for what no gate decided."""
        if type(result) is Earlier:
            return self._recalled.get(result.sequence)
        return result.record.answer if type(result) is Decided else None
