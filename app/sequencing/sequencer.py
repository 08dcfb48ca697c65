"""The sequencer: one scene's turns. Decide all, append once, adopt, answer all: nothing else decides and waits."""

from collections import Counter
from collections.abc import Callable
from time import perf_counter

from app.gates.bundle import Bundle, resolved
from app.gates.candidate import Candidate
from app.gates.catalogue import COMMANDS, outcome_of, word_of
from app.gates.character import Answer
from app.gates.decision import Problem, Refused, Undecided, name_of
from app.gates.event_commands import Covered
from app.gates.graph import SubmitCandidate
from app.gates.lives import Spawn
from app.gates.receipt import Mark, mark
from app.gates.scene import Record, Scene
from app.gates.tick import Tick, Ticked
from app.journal.codec import Traced, encode_entry
from app.journal.port import START, CommitUnknown, Journal, JournalDamaged, JournalUnavailable, NotTheWriter
from app.sequencing.census import Census
from app.sequencing.feed import OBJECTS_BYTES, Feed, Feeds, Turn
from app.sequencing.mailbox import Addressed, Decided, Earlier, Mailbox, Result, Submission
from app.sequencing.pace import Pace
from app.sequencing.store import SceneStore, entry_of
from app.settings import Settings
from app.telemetry.log import log
from app.telemetry.metrics import Metrics
from app.telemetry.tracing import Tracing, link, traceparent_of

_STOPPED = "the scene is being opened again; try again"

PACED = 64
"""After how many commands a turn looks whether others should run."""

_LONG = frozenset({Bundle, Covered, Spawn, SubmitCandidate})
"""The commands that may take long, before each of which it looks too."""

CONFLICTS_MAX = 8
"""How often a turn is decided again because the history was longer, before the caller is told to come back."""


class Sequencer:
    """Decides what waits for one scene, one turn after another.

    `scene` is the adopted state, for readers too; it is None until the scene was opened. Nobody is answered before the
    turn is durable, and a turn that is not drops its candidate. `deciding` is what the present or last turn took.
    """

    def __init__(
        self,
        name: str,
        journal: Journal,
        settings: Settings,
        clock: Callable[[], int],
        metrics: Metrics,
        tracing: Tracing,
        census: Census,
        feeds: Feeds,
    ) -> None:
        self.name = name
        self.mailbox = Mailbox(settings.mailbox_commands_max)
        self.scene: Scene | None = None
        self.store = SceneStore(name, journal, settings)
        self.deciding: list[Submission] = []
        self._journal = journal
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self.tracing = tracing
        self._census = census
        self._feeds = feeds
        self._appended_bytes = 0
        self._position = START
        self._is_stale = True
        self._may_be_durable = False
        self._recalled: dict[int, Answer] = {}

    async def open(self) -> Scene:
        """Read the scene from the journal, unless what is held is what the journal holds.

        Raises:
            JournalUnavailable, JournalDamaged: Nothing was changed; readers keep what they had.
        """
        if self.scene is None or self._is_stale:
            store = SceneStore(self.name, self._journal, self._settings)
            self.scene, self._position = await store.open()
            self.store, self._is_stale = store, False
            feed = self._feeds.get(self.name)
            if feed is not None:
                feed.reached(self.scene.sequence, exists=self.scene.state.exists)
        return self.scene

    async def turn(self) -> None:
        """Decide what waits, make it durable, adopt it, and answer.

        Raises:
            JournalUnavailable, JournalDamaged: The scene cannot be opened. Nothing was decided; what waits still does.
        """
        scene = await self.open()
        submissions = self.deciding = self.mailbox.take(self._settings.turn_commands_max)
        started = perf_counter()
        waited = next((started - submission.since for submission in submissions if submission.commands), None)
        if waited is not None:
            self._metrics.waited(waited)
        spans = [submission.span for submission in submissions if submission.span is not None]
        with self.tracing.turn(self.name, spans):
            await self._take(scene, submissions, started)

    async def _take(self, scene: Scene, submissions: list[Submission], started: float) -> None:
        """Decide submissions, again where the history was longer, until they are adopted or dropped."""
        for _ in range(CONFLICTS_MAX):
            candidate = Candidate(scene, self._clock())
            if not candidate.exists and any(submission.commands for submission in submissions):
                candidate.may_begin = await self._census.has_room()
            self._recalled = await self._recall(candidate, submissions)
            results, traced = await self._decide_all(candidate, submissions)
            try:
                await self._append(candidate, traced)
            except NotTheWriter:
                self._is_stale, self._may_be_durable = True, False
                try:
                    scene = await self.open()
                except (JournalUnavailable, JournalDamaged) as error:
                    self._drop(submissions, results, candidate, JournalUnavailable(str(error)))
                    return
            except (JournalUnavailable, JournalDamaged, CommitUnknown) as error:
                self._is_stale, self._may_be_durable = not isinstance(error, JournalUnavailable), False
                self._drop(submissions, results, candidate, error)
                return
            else:
                self._census.note(before=scene.state.exists, after=candidate.exists)
                if candidate.records:
                    # A turn that decided nothing is not adopted: the journal would know nothing of its time.
                    scene.adopt(candidate)
                    self.store.adopted(scene, candidate, self._position, traced)
                    self._metrics.turn(outcomes(candidate.records), perf_counter() - started)
                await self._answer(scene, candidate, submissions, results)
                return
        self._drop(
            submissions, results, candidate, JournalUnavailable("the scene is being written elsewhere; try again")
        )

    async def leave(self) -> bool:
        """Checkpoint the scene, unless the journal may hold more of it; say whether nothing came meanwhile.

        When nothing did, the scene may leave memory.
        """
        if self.scene is not None and not self._is_stale and self.store.has_changes:
            await self.store.checkpoint(self.scene)
        return not self.mailbox.has_waiting

    def abandon(self) -> None:
        """Tell everyone who was not answered that this sequencer stopped: the scene is opened again by replay."""
        unknown = "the scene stopped while it was being written; the same keys settle what became of it"
        for submission in self.deciding:
            submission.refuse(CommitUnknown(unknown) if self._may_be_durable else JournalUnavailable(_STOPPED))
        for submission in self.mailbox.drain():
            submission.refuse(JournalUnavailable(_STOPPED))

    async def _answer(
        self, scene: Scene, candidate: Candidate, submissions: list[Submission], results: list[list[Result | Earlier]]
    ) -> None:
        """Answer what a candidate that is visible now decided; afterwards store a checkpoint when one is due."""
        for submission, answers in zip(submissions, results, strict=True):
            if submission.span is not None:
                # Before its answer: afterwards its span has ended.
                link(submission.span, {of for each in submission.commands for of in self.store.grants.of(each.command)})
            submission.answer(answers)
        self._may_be_durable = False
        feed = self._feeds.get(self.name)
        if feed is not None and candidate.records:
            self._publish(feed, candidate)
        if self.store.is_due or candidate.closes:
            await self.store.checkpoint(scene)

    def _publish(self, feed: Feed, candidate: Candidate) -> None:
        """Let those who watch have the turn; they are woken later."""
        turn = Turn(
            candidate.first,
            candidate.sequence,
            candidate.records,
            at=candidate.at,
            size=OBJECTS_BYTES * self._appended_bytes,
            closes=not candidate.exists,
        )
        feed.publish(turn)

    async def _append(self, candidate: Candidate, traced: list[Traced]) -> None:
        """Make a candidate's decisions durable as one entry; a turn that decided nothing writes nothing."""
        if not candidate.records:
            return
        first, last = candidate.first, candidate.sequence
        blob = encode_entry(at=candidate.at, first=first, records=candidate.records, traced=traced)
        self._appended_bytes = len(blob)
        self._may_be_durable = True
        started = perf_counter()
        try:
            with self.tracing.append(first=first, last=last, size=len(blob)):
                self._position = await self._journal.append(
                    self.name, after=self._position, first=first, last=last, blob=blob
                )
        finally:
            self._metrics.append(perf_counter() - started)

    async def _recall(self, candidate: Candidate, submissions: list[Submission]) -> dict[int, Answer]:
        """Read by sequence the answers of retried keys that later commands of the same submission refer to.

        What cannot be read is left out: a command that refers to it is then no command.
        """
        recalled: dict[int, Answer] = {}
        for submission in submissions:
            commands = submission.commands
            if not any([addressed.references for addressed in commands]):  # noqa: C419  # a list is faster here
                continue
            for index in {index for addressed in commands for index in addressed.references.values()}:
                held = commands[index]
                if held.key is None:
                    continue
                keyed = mark(submission.caller, held.key, held.character, held.asked or held.command, held.references)
                earlier = candidate.earlier(keyed)
                if earlier is not None and earlier[0] not in recalled:
                    try:
                        entry = await entry_of(self._journal, self.name, earlier[0])
                    except (JournalUnavailable, JournalDamaged):
                        continue
                    recalled[earlier[0]] = entry.records[earlier[0] - entry.first].answer
        return recalled

    async def _decide_all(
        self, candidate: Candidate, submissions: list[Submission]
    ) -> tuple[list[list[Result | Earlier]], list[Traced]]:
        """Decide submissions in order; say too which sequences came from traced requests."""
        results, traced, pace = [], [], Pace()
        for submission in submissions:
            before = candidate.sequence
            results.append(await self._decide(candidate, submission, pace))
            if submission.span is not None and candidate.sequence > before:
                traced.append(Traced(before + 1, candidate.sequence, traceparent_of(submission.span)))
        return results, traced

    async def _decide(self, candidate: Candidate, submission: Submission, pace: Pace) -> list[Result | Earlier]:
        """Decide one submission's commands in order; a key that was used before is answered and not decided.

        Nobody sees the candidate before it is adopted, so whoever waits may run in between.
        """
        results: list[Result | Earlier] = []
        decide, at = candidate.decide, candidate.at
        for number, addressed in enumerate(submission.commands, 1):
            command = addressed.command
            kind = type(command)
            if (number % PACED == 0 or kind in _LONG) and pace.is_due:
                await pace.pause()
            if kind is Tick:
                results.append(await self._decide_tick(candidate, submission.caller, addressed, pace))
            elif addressed.key is not None or addressed.references:
                results.append(self._decide_tied(candidate, submission.caller, addressed, results))
            else:
                record = decide(addressed.character, command)
                results.append(record if type(record) is Undecided else Decided(candidate.sequence, at, record))
        return results

    def _decide_tied(
        self, candidate: Candidate, caller: str, addressed: Addressed, before: list[Result | Earlier]
    ) -> Result | Earlier:
        """Decide a command that is tied to others, by its key or by what it takes from the answers before it.

        With a key, once: the same command again gets the first answer, another is told so.
        """
        character, key, references = addressed.character, addressed.key, addressed.references
        keyed = None if key is None else mark(caller, key, character, addressed.asked or addressed.command, references)
        earlier = None if keyed is None else self._earlier(candidate, keyed)
        if earlier is not None:
            return earlier
        command = addressed.command
        if references:
            named = [index for index in references.values() if index < len(before)]
            answers = {index: self._answer_of(before[index]) for index in named}
            found = resolved(command, references, answers)
            if type(found) is Undecided:
                return found
            command = found
        record = candidate.decide(character, command, keyed)
        return record if type(record) is Undecided else Decided(candidate.sequence, candidate.at, record)

    async def _decide_tick(
        self, candidate: Candidate, caller: str, addressed: Addressed, pace: Pace
    ) -> Result | Earlier:
        """Decide a tick, which may be much work: whoever waits may run in between, and sees nothing of it."""
        keyed = None if addressed.key is None else mark(caller, addressed.key, None, addressed.command)
        earlier = None if keyed is None else self._earlier(candidate, keyed)
        if earlier is not None:
            return earlier
        steps = candidate.decide_in_steps(addressed.command, keyed)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                record: Record | Undecided = done.value
                return record if type(record) is Undecided else Decided(candidate.sequence, candidate.at, record)
            if pace.is_due:
                await pace.pause()

    def _earlier(self, candidate: Candidate, keyed: Mark) -> Result | Earlier | None:
        """Give what a key was answered before; None for one that was not used, or no longer counts."""
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

    def _drop(
        self,
        submissions: list[Submission],
        results: list[list[Result | Earlier]],
        candidate: Candidate,
        error: Exception,
    ) -> None:
        """Let the candidate go, and tell everyone what is known.

        A problem may follow from a decision that is dropped, so it is no answer either: nothing was decided for that
        caller.
        """
        log.warning("turn-dropped", scene=self.name, commands=len(candidate.records), error=str(error))
        for submission, answers in zip(submissions, results, strict=True):
            if any(type(answer) is Decided for answer in answers):
                submission.refuse(error)
            elif any(type(answer) is Undecided for answer in answers):
                submission.refuse(JournalUnavailable(str(error)))
            else:
                submission.answer(answers)


def outcomes(records: list[Record]) -> dict[tuple[str, str, str], int]:
    """Count decisions by gate, command and outcome, as the metrics label them."""
    accepted = Counter([(type(record.command), type(record.answer)) for record in records])
    counted = {
        (COMMANDS[command].gate, name_of(command), word_of(answer)): number
        for (command, answer), number in accepted.items()
        if answer is not Refused and answer is not Ticked
    }
    for record in records if len(counted) < len(accepted) else ():
        if type(record.answer) is Refused or type(record.answer) is Ticked:
            command = type(record.command)
            labels = (COMMANDS[command].gate, name_of(command), outcome_of(record.answer))
            counted[labels] = counted.get(labels, 0) + 1
    return counted
