"""The registry: which scenes are held here, and who runs them."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import Context
from typing import Any

from app.gates.scene import Record, Scene
from app.journal.port import CommitUnknown, Journal, JournalDamaged, JournalUnavailable
from app.sequencing.actor import Actor
from app.sequencing.census import Census
from app.sequencing.feed import Feeds, Turn, Watcher
from app.sequencing.following import SequenceAhead
from app.sequencing.mailbox import Addressed, Earlier, Reply, Result, Submission, awaited
from app.sequencing.past import Past
from app.sequencing.present import Opened, Present, Presents
from app.sequencing.readiness import Readiness
from app.sequencing.resident import Resident
from app.sequencing.rounds import Rounds
from app.sequencing.scrubbing import Damages, Scrubber
from app.sequencing.sequencer import Sequencer
from app.settings import Settings
from app.telemetry.log import log
from app.telemetry.metrics import Metrics
from app.telemetry.tracing import Tracing


class MailboxFull(Exception):
    """Too much waits for the scene already. Nothing was decided."""


class MemoryFull(Exception):
    """The process has as much memory as it may have. Nothing was decided; reads go on."""


class Draining(Exception):
    """The service is stopping and takes nothing new. Nothing was decided."""


def now_ms() -> int:
    """Give the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Registry:
    """All scenes of one journal. A scene has a task while it has traffic, and leaves memory when it has none.

    Bound:     about `scenes_open_max` scenes; beyond, the longest idle one is asked to leave early.
    Order:     of submissions, a scene.
    """

    def __init__(
        self,
        journal: Journal,
        settings: Settings,
        *,
        clock: Callable[[], int] = now_ms,
        metrics: Metrics | None = None,
        tracing: Tracing | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._journal = journal
        self._chance = chance
        self._settings = settings
        self._clock = clock
        self.metrics = metrics or Metrics()
        self.metrics.commands_waiting = lambda: sum(len(held.mailbox) for held in self._held.values())
        self._tracing = tracing or Tracing()
        self._census = Census(journal, settings.scenes_max)
        self.damages = Damages()
        self._past, self._presents = Past(journal, settings, self.damages), Presents()
        self.feeds = Feeds(settings)
        self.feeds.unwatched = self._past.forget
        self.metrics.watchers = lambda: self.feeds.watchers
        self._resident = Resident(settings.process_bytes_max)
        self.readiness = Readiness(lambda: self._resident.is_full, lambda: journal.is_reachable)
        self.metrics.is_ready = lambda: not self.readiness.reasons()
        self._held: dict[str, Sequencer] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._has_rounds = False
        self._beside: dict[asyncio.Task[None], None] = {}
        self._recalls: set[asyncio.Task[None]] = set()
        self.metrics.damaged_scenes = lambda: len(self.damages.scenes)
        self._touched: dict[str, float] = {}
        self._leaving: set[str] = set()
        self._closing = False

    @property
    def is_draining(self) -> bool:
        """Say whether the service is stopping."""
        return self.readiness.is_draining

    def start(self, **beside: Coroutine[Any, Any, None]) -> None:
        """Begin to look for idle scenes and for damage, if that was not begun: the first scene does it at the latest.

        What runs `beside`, each under its name, is cancelled at the end too.
        """
        for name, work in beside.items():
            self.attend(name, work)
        if self._has_rounds:
            return
        self._has_rounds = True
        rounds = Rounds(self._held, self.feeds, self._past, self._settings)
        self.attend("idle scenes", rounds.sweep(self._touched, self._ask_to_leave))
        self.attend("watched scenes", rounds.look(self._visited))
        self.attend("scrubber", Scrubber(self._journal, self._settings, self.damages).run())

    def drain(self) -> None:
        """Be stopping: the doors take no new command, and what they took before is still decided."""
        self.readiness.is_draining = True
        self.feeds.end()

    def actor(self, scene: str, character: str) -> Actor:
        """Give the actor of a character; it need not be alive."""
        return Actor(self.submit, scene, character)

    async def submit(self, scene: str, commands: Sequence[Addressed], *, caller: str = "") -> list[Result]:
        """Have commands decided in order, each on its own; return when all of it is durable.

        Raises:
            MailboxFull, MemoryFull, Draining, JournalUnavailable: Nothing was decided.
            CommitUnknown: The decisions may or may not be durable; the same keys settle it.
            JournalDamaged: The scene cannot be opened, or was found damaged. Nothing was decided.
        """
        replied, reply = awaited()
        self.send(scene, commands, reply, caller=caller)
        results: list[Result] = await replied
        return results

    def send(
        self,
        scene: str,
        commands: Sequence[Addressed],
        reply: Callable[[list[Result] | Exception], None],
        *,
        caller: str,
    ) -> None:
        """Have commands decided as `submit` does, and let `reply` hear once what became of them; it must not raise.

        Order:     of what is sent for one scene.

        Raises:
            MailboxFull, MemoryFull, Draining, JournalDamaged: Nothing was decided, and `reply` hears nothing.
        """
        self.damages.require_whole(scene)
        if self._resident.is_full:
            raise MemoryFull(f"the service may have {self._resident.limit_bytes} bytes of memory, and has them")

        def replied(results: list[Result | Earlier] | Exception) -> None:
            if isinstance(results, Exception):
                if isinstance(results, (JournalUnavailable, CommitUnknown)):
                    self.readiness.failed()
                reply(results)
                return
            self.readiness.decided()
            if Earlier in map(type, results):
                self._recall(scene, results, reply)
            else:
                reply(results)  # type: ignore[arg-type]  # none of them is Earlier

        _put(self._sequencer(scene), commands, replied, caller)

    def _recall(
        self, scene: str, results: list[Result | Earlier], reply: Callable[[list[Result] | Exception], None]
    ) -> None:
        """Read the answers of retried keys beside the turns, then reply."""
        work = self._past.recall(scene, results, reply)
        task = asyncio.create_task(work, name=f"recall {scene}", context=Context())
        self._recalls.add(task)
        task.add_done_callback(self._recalls.discard, context=Context())
        task.add_done_callback(_log_failure, context=Context())

    async def opened(self, scene: str, *, at_least: int = 0, is_current: bool = False) -> Opened | None:
        """Give a scene to read, with the decision `at_least` visible; None for one that does not exist.

        One that `is_current` shows all that was durable when it was asked for, wherever it was decided.

        A reader never waits for a turn. One that asks for a decision which is not visible here has the journal read,
        and waits up to `REACHED_S_MAX` for what others may be writing.

        Raises:
            SequenceAhead: The scene has not come that far, as far as is known here.
            Draining, JournalUnavailable, JournalDamaged: The scene cannot be opened, or was found damaged.
        """
        self.damages.require_whole(scene)
        held = self._held.get(scene)
        was_open, is_shared = held is not None and held.scene is not None, held is not None and held.following.is_shared
        if held is None or held.scene is None or held.scene.sequence < at_least or (is_current and is_shared):
            if held is not None:
                held.following.is_asked = is_shared
            held = await self._visited(scene)
            if not was_open and held.sequence < at_least:
                # It was opened on a checkpoint behind which all may have been trimmed meanwhile, since it was closed.
                held.following.is_asked = held.following.is_shared
                held = await self._visited(scene)
            await held.following.until(at_least, seen=held.sequence)
        if held.scene is None or not held.scene.state.exists:
            return None
        return Opened(held, held.scene)

    async def _visited(self, scene: str) -> Sequencer:
        """Have a scene opened that is not, and read by its sequencer when somebody asks for that."""
        held = self._sequencer(scene)
        replied, reply = awaited()
        _put(held, [], reply, "")
        await replied
        return held

    def in_memory(self, scene: str) -> Scene | None:
        """Give a scene's adopted state, be it one that does not exist; None when it must be opened to be known.

        Raises:
            JournalDamaged: The scene was found damaged.
        """
        self.damages.require_whole(scene)
        held = self._held.get(scene)
        return None if held is None else held.scene

    async def history(
        self, scene: str, *, after: int, character: str | None
    ) -> AsyncIterator[tuple[int, int, Record | None]]:
        """Read decisions after a sequence, in order, each with its time: what is kept, while the caller wants more.

        An entry that does not touch `character`, where one is named, is passed over as one step: its last sequence, no
        record.

        Raises:
            JournalUnavailable, JournalDamaged: The history cannot be read.
        """
        self.damages.require_whole(scene)
        async for decision in self._past.decisions(scene, after=after, character=character):
            yield decision

    async def watch(
        self, scene: str, *, after: int | None, wake: Callable[[], None], at_least: int = 0
    ) -> Watcher | None:
        """Begin to watch a scene behind a sequence, or from now on; None for a scene that does not exist. Close it.

        A place that is ahead of what is visible here is looked for in the journal first; it need not be there.

        Raises:
            WatchersFull: As many watch as may.
            SequenceAhead: As `opened`.
            Draining, JournalUnavailable, JournalDamaged: As `opened`; and while the service is stopping.
        """
        if self.is_draining:
            raise Draining("the service is stopping; watch at another node, or again when it is back")
        opened = await self.opened(scene, at_least=at_least)
        if opened is not None and after is not None and after > opened.scene.sequence:
            with suppress(SequenceAhead):
                opened = await self.opened(scene, at_least=after)
        if opened is None:
            return None
        return self.feeds.watch(scene, last=opened.scene.sequence, after=after, wake=wake)

    async def present(self, scene: str) -> Present | None:
        """Give a scene as it is now, to be read slowly while turns go on; None for one that does not exist.

        Raises as `opened`.
        """
        opened = await self.opened(scene)
        return None if opened is None else self._presents.of(opened.scene, opened.tallies)

    async def turn_after(self, scene: str, place: int) -> Turn | None:
        """Read the turn that holds the decision behind a place; where that is gone, the next that is kept, or None.

        Raises:
            JournalUnavailable, JournalDamaged: It cannot be read.
        """
        self.damages.require_whole(scene)
        return await self._past.turn_after(scene, place)

    async def scenes(self, *, after: str, limit: int) -> list[str]:
        """Give at most `limit` names of scenes above `after`, ascending."""
        return await self._journal.scenes(after=after, limit=limit)

    def _sequencer(self, scene: str) -> Sequencer:
        """Give the scene's sequencer, started when it was not held."""
        if self._closing:
            raise Draining("the service is stopping; ask another node, or again when it is back")
        held = self._held.get(scene)
        if held is None:
            if len(self._held) >= self._settings.scenes_open_max and self._touched:
                self._ask_to_leave(next(iter(self._touched)))
            held = Sequencer(
                scene,
                self._journal,
                self._settings,
                self._clock,
                self.metrics,
                self._tracing,
                self._census,
                self.feeds,
                self._chance,
            )
            self._held[scene] = held
            # In a context of its own: a scene outlives the request that opened it, and is not part of its trace or log.
            task = asyncio.create_task(self._run(held), name=f"scene {scene}", context=Context())
            task.add_done_callback(_log_failure, context=Context())
            self._tasks[scene] = task
            self.metrics.open_scenes = len(self._held)
            self.start()
        self._leaving.discard(scene)
        self._touched.pop(scene, None)
        self._touched[scene] = asyncio.get_running_loop().time()
        return held

    async def _run(self, sequencer: Sequencer) -> None:
        """Run one scene's turns until it may leave memory, or an invariant broke."""
        scene = sequencer.name
        try:
            while True:
                if sequencer.mailbox.has_waiting:
                    await self._turn(sequencer)
                elif self._may_leave(sequencer) and await sequencer.leave():
                    return
                elif sequencer.following.wants_look and not self._closing:
                    await self._look(sequencer)
                else:
                    await sequencer.mailbox.wait()
        finally:
            self._release(scene)
            sequencer.abandon()

    async def _turn(self, sequencer: Sequencer) -> None:
        try:
            await sequencer.turn()
        except (JournalUnavailable, CommitUnknown, JournalDamaged) as error:
            if isinstance(error, JournalDamaged):
                self.damages.note(sequencer.name, error)
            else:
                log.warning("scene-cannot-be-opened", scene=sequencer.name, error=str(error))
            for submission in sequencer.mailbox.drain():
                submission.refuse(error)

    async def _look(self, sequencer: Sequencer) -> None:
        try:
            await sequencer.look()
        except JournalDamaged as error:
            self.damages.note(sequencer.name, error)
        except JournalUnavailable as error:
            sequencer.following.failed(error)

    def _may_leave(self, sequencer: Sequencer) -> bool:
        if sequencer.following.waiting:
            return self._closing
        exists = sequencer.scene is not None and sequencer.scene.state.exists
        return self._closing or not exists or sequencer.name in self._leaving

    def _release(self, scene: str) -> None:
        """Let a scene go: whoever asks next opens it again."""
        self._held.pop(scene, None)
        self._tasks.pop(scene, None)
        self._touched.pop(scene, None)
        self._leaving.discard(scene)
        self.metrics.open_scenes = len(self._held)

    def _ask_to_leave(self, scene: str) -> None:
        """Ask a scene to leave once; traffic for it takes the request back."""
        self._touched.pop(scene, None)
        self._leaving.add(scene)
        self._held[scene].mailbox.wake()

    def attend(self, name: str, work: Coroutine[Any, Any, None]) -> Callable[[], object]:
        """Run what a door does for as long as somebody is there; give what ends it, as the end of all does too."""
        task = asyncio.create_task(work, name=name, context=Context())
        self._beside[task] = None
        task.add_done_callback(self._beside.pop, context=Context())
        task.add_done_callback(_log_failure, context=Context())
        return task.cancel

    async def close(self) -> None:
        """Take nothing new, answer what waits, checkpoint every scene, and close the journal last."""
        self._closing = True
        self.drain()
        beside = list(self._beside)
        for task in beside:
            task.cancel()
        for sequencer in list(self._held.values()):
            sequencer.mailbox.wake()
        await asyncio.gather(*beside, *self._tasks.values(), return_exceptions=True)
        await asyncio.gather(*self._recalls, return_exceptions=True)
        await self._journal.close()


def _put(sequencer: Sequencer, commands: Sequence[Addressed], reply: Reply, caller: str) -> None:
    """Let a submission wait for its turn."""
    if not sequencer.mailbox.put(Submission(commands, caller, reply, sequencer.tracing.caller())):
        raise MailboxFull(f"{len(sequencer.mailbox)} commands wait for scene {sequencer.name!r} already")


def _log_failure(task: asyncio.Task[None]) -> None:
    """Log a broken invariant: its scene has left memory, and whoever asks next opens it again by replay."""
    if not task.cancelled() and task.exception() is not None:
        log.error("invariant-broken", task=task.get_name(), exc_info=task.exception())
