"""The registry: which scenes are held here, who runs them, and the actor of each character."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextvars import Context
from typing import Any

from app.gates.decision import Command
from app.gates.scene import Record, Scene
from app.journal.port import CommitUnknown, Journal, JournalDamaged, JournalUnavailable
from app.sequencing.census import Census
from app.sequencing.feed import Feeds, Turn, Watcher
from app.sequencing.mailbox import Addressed, Decided, Earlier, Reply, Result, Submission, awaited
from app.sequencing.past import Past, decisions, recalled
from app.sequencing.present import Opened, Present, Presents
from app.sequencing.readiness import Readiness
from app.sequencing.resident import Resident
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


class Actor:
    """One character of one scene: takes commands, has them decided one at a time, answers each."""

    def __init__(self, registry: "Registry", scene: str, character: str) -> None:
        self._registry = registry
        self.scene = scene
        self.character = character

    async def submit(
        self, command: Command, *, key: str | None = None, caller: str = "", asked: Command | None = None
    ) -> Result:
        """Have one command decided; return when it is durable. Raises as `Registry.submit`; `asked` as `Addressed`."""
        addressed = Addressed(self.character, command, key, asked=asked)
        [result] = await self._registry.submit(self.scene, [addressed], caller=caller)
        return result


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
    ) -> None:
        self._journal = journal
        self._settings = settings
        self._clock = clock
        self.metrics = metrics or Metrics()
        self.metrics.commands_waiting = lambda: sum(len(held.mailbox) for held in self._held.values())
        self._tracing = tracing or Tracing()
        self._census = Census(journal, settings.scenes_max)
        self._past, self._presents, self.feeds = Past(journal, settings), Presents(), Feeds(settings)
        self.feeds.unwatched = self._past.forget
        self.metrics.watchers = lambda: self.feeds.watchers
        self._resident = Resident(settings.process_bytes_max)
        self.readiness = Readiness(lambda: self._resident.is_full)
        self.metrics.is_ready = lambda: not self.readiness.reasons()
        self._held: dict[str, Sequencer] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._sweeper: asyncio.Task[None] | None = None
        self._scrubber: asyncio.Task[None] | None = None
        self._beside: set[asyncio.Task[None]] = set()
        self._recalls: set[asyncio.Task[None]] = set()
        self.damages = Damages()
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
        if self._sweeper is not None:
            return
        self._sweeper = asyncio.create_task(self._sweep(), name="idle scenes", context=Context())
        scrubber = Scrubber(self._journal, self._settings, self.damages)
        self._scrubber = asyncio.create_task(scrubber.run(), name="scrubber", context=Context())
        self._scrubber.add_done_callback(_log_failure, context=Context())

    def drain(self) -> None:
        """Be stopping: the doors take no new command, and what they took before is still decided."""
        self.readiness.is_draining = True
        self.feeds.end()

    def actor(self, scene: str, character: str) -> Actor:
        """Give the actor of a character; it need not be alive."""
        return Actor(self, scene, character)

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

        async def recall() -> None:
            try:
                told = await recalled(self._journal, scene, results)
            except (JournalUnavailable, JournalDamaged) as error:
                if isinstance(error, JournalDamaged):
                    self.damages.note(scene, error)
                if any(type(result) is Decided for result in results):
                    # What was decided beside the retried keys is durable, so nobody may hear that nothing was.
                    reply(CommitUnknown(f"decided, but the answers cannot all be read; {error}"))
                else:
                    reply(error)
            else:
                reply(told)

        task = asyncio.create_task(recall(), name=f"recall {scene}", context=Context())
        self._recalls.add(task)
        task.add_done_callback(self._recalls.discard, context=Context())
        task.add_done_callback(_log_failure, context=Context())

    async def opened(self, scene: str) -> Opened | None:
        """Give a scene to read; None for one that does not exist. A reader never waits for a turn.

        Raises:
            Draining, JournalUnavailable, JournalDamaged: The scene cannot be opened, or was found damaged.
        """
        self.damages.require_whole(scene)
        held = self._held.get(scene)
        if held is None or held.scene is None:
            held = self._sequencer(scene)
            replied, reply = awaited()
            _put(held, [], reply, "")
            await replied
        if held.scene is None or not held.scene.state.exists:
            return None
        return Opened(held, held.scene)

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
        try:
            async for decision in decisions(self._journal, scene, after=after, character=character):
                yield decision
        except JournalDamaged as error:
            self.damages.note(scene, error)
            raise

    async def watch(self, scene: str, *, after: int | None, wake: Callable[[], None]) -> Watcher | None:
        """Begin to watch a scene behind a sequence, or from now on; None for a scene that does not exist. Close it.

        Raises:
            WatchersFull: As many watch as may.
            Draining, JournalUnavailable, JournalDamaged: As `opened`; and while the service is stopping.
        """
        if self.is_draining:
            raise Draining("the service is stopping; watch at another node, or again when it is back")
        opened = await self.opened(scene)
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
        try:
            return await self._past.turn_after(scene, place)
        except JournalDamaged as error:
            self.damages.note(scene, error)
            raise

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
                scene, self._journal, self._settings, self._clock, self.metrics, self._tracing, self._census, self.feeds
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
                while sequencer.mailbox.has_waiting:
                    await self._turn(sequencer)
                if self._may_leave(sequencer) and await sequencer.leave():
                    return
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

    def _may_leave(self, sequencer: Sequencer) -> bool:
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

    async def _sweep(self) -> None:
        """Ask scenes without traffic to leave, for as long as the registry is open."""
        idle_s = self._settings.scene_idle_ms / 1000
        while True:
            await asyncio.sleep(idle_s / 4)
            now = asyncio.get_running_loop().time()
            for scene, touched in list(self._touched.items()):
                if now - touched >= idle_s:
                    self._ask_to_leave(scene)

    def attend(self, name: str, work: Coroutine[Any, Any, None]) -> Callable[[], object]:
        """Run what a door does for as long as somebody is there; give what ends it, as the end of all does too."""
        task = asyncio.create_task(work, name=name, context=Context())
        self._beside.add(task)
        task.add_done_callback(self._beside.discard, context=Context())
        task.add_done_callback(_log_failure, context=Context())
        return task.cancel

    async def close(self) -> None:
        """Take nothing new, answer what waits, checkpoint every scene, and close the journal last."""
        self._closing = True
        self.drain()
        idle = [*self._beside, *(task for task in (self._sweeper, self._scrubber) if task is not None)]
        for task in idle:
            task.cancel()
        for sequencer in list(self._held.values()):
            sequencer.mailbox.wake()
        await asyncio.gather(*idle, *self._tasks.values(), return_exceptions=True)
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
