"""The sequencer: one scene's turns. Decide all, append once, adopt, answer all: nothing else decides and waits."""

import random
from collections import Counter
from collections.abc import Callable
from time import perf_counter

from app.gates.candidate import Candidate
from app.gates.catalogue import COMMANDS, outcome_of, word_of
from app.gates.decision import Refused, Undecided, name_of
from app.gates.scene import Record, Scene
from app.gates.tick import Ticked
from app.journal.codec import Traced
from app.journal.port import CommitUnknown, Journal, JournalDamaged, JournalUnavailable, NotTheWriter, StoredEntry
from app.sequencing.census import Census
from app.sequencing.contention import CONFLICTS_MAX, Contention
from app.sequencing.cutting import Unproved, cut, encoded, fitting
from app.sequencing.deciding import Deciding
from app.sequencing.feed import OBJECTS_BYTES, Feeds, Turn
from app.sequencing.following import Following
from app.sequencing.mailbox import Decided, Earlier, Mailbox, Result, Submission
from app.sequencing.pace import Pace
from app.sequencing.releasing import Releasing
from app.sequencing.store import Gap, SceneStore, cooled
from app.settings import Settings
from app.telemetry.log import log
from app.telemetry.metrics import Metrics
from app.telemetry.tracing import Tracing, link

_STOPPED = "the scene is being opened again; try again"

LONG_DECISIONS = 1_024
"""How many decisions are counted in the step in which they were answered, about 2 ms."""

BARREN_MAX = 2
"""How often a turn is refused for what cannot be found behind the scene, before the scene is read anew as a whole."""


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
        chance: Callable[[], float] = random.random,
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
        self.following = Following(name, journal, self.mailbox.wake)
        self._contention = Contention(chance)
        self._position = self.store.position
        self._found_whole: int | None = None
        self._barren = 0
        self._is_stale = False
        self._may_be_durable = False

    @property
    def sequence(self) -> int:
        """Give the last decision that is visible; 0 until the scene was opened."""
        return 0 if self.scene is None else self.scene.sequence

    async def open(self) -> Scene:
        """Read what the journal holds behind the scene, where there may be more than is held; the whole scene first.

        Raises:
            JournalUnavailable, JournalDamaged: Readers keep what they had, or see more of it: the scene as the journal
                had it at some later entry.
        """
        if self.scene is None:
            self.following.begin()
            await self._open_whole()
        elif self.following.is_asked:
            await self._read_all()
        elif self._is_stale:
            await self._catch_up()
        assert self.scene is not None, "it was opened"
        return self.scene

    async def look(self) -> None:
        """Read what others wrote; one look that is due by its time finds an end too of which nothing is left to read.

        Raises:
            JournalUnavailable, JournalDamaged: As `open`.
        """
        scene, following = self.scene, self.following
        if scene is None:
            return
        is_thorough = following.is_due and scene.state.exists and not self._is_stale
        if is_thorough:
            following.reading()
            if await self._is_last():
                following.has_read(scene.sequence)
                return
        if is_thorough:
            await self._read_all()
        elif not await self._catch_up() and scene.state.exists:
            following.is_owed = True

    async def _read_all(self) -> None:
        """Adopt what is behind the scene, be it that it was closed and nothing of its history is left to read."""
        if await self._catch_up():
            return
        scene = self.scene
        assert scene is not None, "it was opened"
        if scene.state.exists and self._found_whole != self.store.position and not await self._is_last():
            await self._open_whole()
            self._found_whole = self.store.position

    async def _is_last(self) -> bool:
        """Say whether the entry that the scene shows last is the journal's newest: that one is always kept."""
        scene = self.scene
        assert scene is not None, "it was opened"
        after = await self._journal.seek(self.name, sequence=scene.sequence)
        entries = await self._journal.read(self.name, after=after, limit=2)
        return len(entries) == 1 and entries[0].position == self.store.position

    async def _catch_up(self, *, to_the_end: bool = True) -> int:
        """Adopt what is behind the scene, entry by entry; give how many entries that were."""
        scene = self.scene
        assert scene is not None, "it was opened"
        self.following.reading()
        try:
            found = await self.store.read_tail(scene, self._told, to_the_end=to_the_end, is_own=False)
        except Gap:
            # The scene was closed and trimmed, or trimmed behind a checkpoint: what lies between is gone.
            await self._open_whole()
            return 1
        except (JournalUnavailable, JournalDamaged):
            self.following.is_owed = True
            raise
        self._is_stale = False
        self.following.has_read(scene.sequence)
        return found

    def _told(self, stored: StoredEntry, candidate: Candidate, existed: bool) -> None:
        """Let those who watch have another node's turn, in the step in which it became visible."""
        self._contention.note_other()
        self._census.note_other(before=existed, after=candidate.exists)
        self._publish(candidate, len(stored.blob))
        self.following.reached(candidate.sequence)

    async def _open_whole(self) -> None:
        """Read the scene from its newest checkpoint on, in place of what is held."""
        self.following.reading()
        store, held = SceneStore(self.name, self._journal, self._settings), self.scene
        scene, position = await store.open()
        if held is not None:
            if position < self.store.position:
                raise JournalUnavailable("the journal gave an older state of the scene than it gave before; try again")
            self._census.note_other(before=held.state.exists, after=scene.state.exists)
        self.scene, self.store, self._is_stale = scene, store, False
        feed = self._feeds.get(self.name)
        if feed is not None:
            feed.reached(scene.sequence, exists=scene.state.exists)
        self.following.has_read(scene.sequence)

    async def turn(self) -> None:
        """Decide what waits, make it durable, adopt it, and answer.

        Raises:
            JournalUnavailable, JournalDamaged: The scene cannot be opened. Nothing was decided; what waits still does.
        """
        if self._contention.has_lead:
            await self._contention.give_way()
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
        conflicts = self._barren = 0
        is_current = not self.following.is_shared
        while True:
            candidate = Candidate(scene, self._clock())
            try:
                results = [submission.decided for submission in submissions]
                if not candidate.exists and any(submission.commands for submission in submissions):
                    candidate.may_begin = await self._census.has_room()
                results, traced = await Deciding(self.name, self._journal, candidate).decide(submissions)
                blob = await encoded(candidate, traced)
                if len(blob) > self._journal.entry_bytes_max:
                    await self._cut(candidate, traced, submissions, results, is_current=is_current)
                    continue
                if not blob and not is_current and any(results):
                    raise Unproved
                await self._append(candidate, blob)
            except NotTheWriter as refused:
                is_unproved = isinstance(refused, Unproved)
                is_current, conflicts = is_current or is_unproved, conflicts + (not is_unproved)
                error = await self._read_behind(0 if is_unproved else conflicts)
                if error is not None:
                    self._drop(submissions, results, candidate, error)
                    return
                assert self.scene is not None, "it was opened"
                scene = self.scene
            except (JournalUnavailable, JournalDamaged, CommitUnknown) as error:
                self._is_stale, self._may_be_durable = not isinstance(error, JournalUnavailable), False
                # What became of it is read although nobody asks: whoever watches waits for it.
                self.following.has_moved = self.following.has_moved or self._is_stale
                self._drop(submissions, results, candidate, error)
                return
            else:
                self._census.note(before=scene.state.exists, after=candidate.exists)
                former = Releasing(scene.ticks)
                if candidate.records:
                    # A turn that decided nothing is not adopted: the journal would know nothing of its time.
                    scene.adopt(candidate)
                    self.store.adopted(scene, candidate, self._position, traced)
                self._answer(candidate, submissions, results)
                await self._rest(scene, candidate, former, perf_counter() - started)
                return

    async def _read_behind(self, conflicts: int) -> Exception | None:
        """Read what a turn was refused for, if it was; give why it cannot be decided again, None when it can."""
        self._is_stale, self._may_be_durable = True, False
        if conflicts >= CONFLICTS_MAX:
            return JournalUnavailable("the scene is being written elsewhere; try again")
        await self._contention.pause(conflicts)
        try:
            if not conflicts:
                await self._read_all()
            elif not await self._catch_up(to_the_end=False):
                self._barren += 1
            if self._barren >= BARREN_MAX:
                self._barren = 0
                await self._open_whole()
        except (JournalUnavailable, JournalDamaged) as error:
            self._is_stale = True
            return JournalUnavailable(str(error))
        return None

    async def _cut(
        self,
        candidate: Candidate,
        traced: list[Traced],
        submissions: list[Submission],
        results: list[list[Result | Earlier]],
        *,
        is_current: bool,
    ) -> None:
        """Leave in `submissions` what fits into one entry, and let the rest wait before all others.

        Raises:
            Unproved: As `cut`.
        """
        bytes_max = self._journal.entry_bytes_max
        last = await fitting(candidate, traced, bytes_max)
        rest = cut(submissions, results, first=candidate.first, last=last, bytes_max=bytes_max, is_current=is_current)
        self.mailbox.put_back(rest)

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
        self.following.end(_STOPPED)

    def _answer(
        self, candidate: Candidate, submissions: list[Submission], results: list[list[Result | Earlier]]
    ) -> None:
        """Answer what a candidate decided, in the step in which it became visible."""
        for submission, answers in zip(submissions, results, strict=True):
            if submission.span is not None:
                # Before its answer: afterwards its span has ended.
                link(submission.span, {of for each in submission.part for of in self.store.grants.of(each.command)})
            if not submission.settle(answers):
                self.mailbox.put_back([submission])
        self._may_be_durable = False
        if candidate.records:
            self._publish(candidate, self._appended_bytes)
            self.following.reached(candidate.sequence)

    async def _rest(self, scene: Scene, candidate: Candidate, former: Releasing, took: float) -> None:
        """Do what is left of a turn of `took` seconds: count it, let go, checkpoint when that is due."""
        pace = Pace()
        if len(candidate.records) > LONG_DECISIONS:
            await pace.pause()
        if candidate.records:
            self._metrics.turn(outcomes(candidate.records), took)
            await former.release(scene.ticks, pace)
            await cooled(scene, pace)
        if self.store.is_due or candidate.closes:
            await self.store.checkpoint(scene)

    def _publish(self, candidate: Candidate, size: int) -> None:
        """Let those who watch have a turn that is visible, `size` bytes in the journal; they are woken later."""
        feed = self._feeds.get(self.name)
        if feed is None:
            return
        turn = Turn(
            candidate.first,
            candidate.sequence,
            candidate.records,
            at=candidate.at,
            size=OBJECTS_BYTES * size,
            closes=not candidate.exists,
        )
        feed.publish(turn)

    async def _append(self, candidate: Candidate, blob: bytes) -> None:
        """Make a candidate's decisions durable as one entry; a turn that decided nothing writes nothing."""
        if not blob:
            return
        first, last, following = candidate.first, candidate.sequence, self.following
        self._appended_bytes = len(blob)
        self._may_be_durable, is_written = True, False
        started = perf_counter()
        following.appending()
        self._contention.appending()
        try:
            with self.tracing.append(first=first, last=last, size=len(blob)):
                self._position = await self._journal.append(
                    self.name, after=self.store.position, first=first, last=last, blob=blob
                )
            is_written = True
        finally:
            following.appended(succeeded=is_written)
            self._metrics.append(perf_counter() - started)
        self._contention.appended()

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
            elif (
                len(answers) < len(submission.commands)
                or any(type(answer) is Undecided for answer in answers)
                or (answers and self.following.is_shared)
            ):
                # Where others may write, what a key got may be undone by a rollback that was not read.
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
