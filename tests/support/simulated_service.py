"""The service in a simulation: one process at a time over one disk, that crashes, stops and starts again."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from app.gates.decision import Problem, Undecided
from app.gates.scene import Record
from app.sequencing.mailbox import Addressed, Decided, Result
from app.sequencing.registry import Registry
from app.settings import Settings
from tests.support.simulated_history import SceneHistory
from tests.support.simulated_journal import SimulatedDisk, SimulatedJournal, Weather
from tests.support.simulated_loop import Process, SimulatedLoop
from tests.support.simulated_rules import Identity, Violation, identity_of

ANSWER_S_MAX = 120.0
"""How much virtual time a request may take while its process lives: beyond, it hangs."""

Reply = asyncio.Future[Any]


class Down(Exception):
    """The process is not there, or went away before it answered."""


class Clock:
    """Milliseconds since 1970 by a wall clock that is set forward and back; `latest` is the highest it ever showed."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.set_ms = 1_000_000
        self.latest = 0
        self._loop = loop

    def __call__(self) -> int:
        """Give the present time."""
        now = self.set_ms + int(self._loop.time() * 1000)
        self.latest = max(self.latest, now)
        return now


class Service:
    """Takes requests as a server does: each runs by itself in the present process and is answered once, or never.

    Every answer is held against the durable history in the step in which it is given, wanted or not.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        disk: SimulatedDisk,
        weather: Weather,
        settings: Settings,
        chance: random.Random,
        happened: Counter[str],
        *,
        clock: Clock | None = None,
        number: int = 0,
    ) -> None:
        self.clock = clock or Clock(loop)
        self.disk = disk
        self._number = number
        self._loop = loop
        self.weather = weather
        self._settings = settings
        self._chance = chance
        self._happened = happened
        self.stops = 0
        self._started = 0
        self._sent = 0
        self._process: Process | None = None
        self._journal: SimulatedJournal | None = None
        self._registry: Registry | None = None
        self._requests: dict[asyncio.Task[Any], tuple[Reply, asyncio.TimerHandle]] = {}

    def start(self) -> None:
        """Start a process, unless there is one."""
        if self._process is None:
            self._started += 1
            self.disk.trace(f"start {self._started} of node {self._number}")
            self._process = Process(f"process {self._started} of node {self._number}")
            self._journal = SimulatedJournal(self.disk, self.weather, self._chance)
            self._registry = Registry(self._journal, self._settings, clock=self.clock, chance=self._chance.random)

    def crash(self) -> None:
        """End the process where it is: what it had not made durable is lost, or not; whoever waits is cut off."""
        process, journal = self._process, self._journal
        if process is None or journal is None:
            return
        self.disk.trace(f"crash with {len(self._requests)} requests under way")
        self._happened["crash"] += 1
        self._process = None
        self._loop.kill(process)
        journal.lose()
        cut_off, self._requests = self._requests, {}
        for reply, timer in cut_off.values():
            timer.cancel()
            if not reply.done():
                reply.set_exception(Down("the connection broke"))

    async def stop(self) -> None:
        """Close the process as a signal does; requests go on to come meanwhile."""
        process, registry = self._process, self._registry
        if process is None or registry is None:
            return
        self.disk.trace("stop")
        self._happened["stop"] += 1
        self.stops += 1
        reply = self._begin(registry.close())
        try:
            await reply
        except Down:
            return
        self._registry = None
        for reply, _ in list(self._requests.values()):
            await asyncio.wait([reply])
        if self._process is process:
            self._process = None
            self._loop.kill(process)
            assert self._journal is not None
            self._journal.lose()

    def submit(self, scene: str, commands: Sequence[Addressed], caller: str) -> tuple[Reply, Callable[[], bool]]:
        """Send commands; give the reply to come, and what cancels the request as a caller does that has gone.

        Raises:
            Down: Nobody is there to take it.
        """
        registry = self._present()
        reply = self._begin(self._submitted(registry, scene, list(commands), caller))
        task = next(task for task, (held, _) in self._requests.items() if held is reply)
        return reply, task.cancel

    async def _submitted(self, registry: Registry, scene: str, commands: list[Addressed], caller: str) -> list[Result]:
        results = await registry.submit(scene, commands, caller=caller)
        self._sent += 1
        history = self.disk.history(scene)
        for index, (addressed, result) in enumerate(zip(commands, results, strict=True)):
            if isinstance(result, Undecided):
                if result.problem is Problem.KEY_REUSED:
                    raise Violation(f"{caller} used {addressed.key} once, and is told that it used it before")
                continue
            identity = identity_of(caller, addressed)
            sent: Identity = ("sent", self._number, self._sent, index)
            owner = identity if addressed.key is not None and identity else sent
            self._check(history, owner, identity, result)
        return results

    def _check(self, history: SceneHistory, owner: Identity, asked: Identity | None, decided: Decided) -> None:
        history.check_answer(owner, asked, decided.sequence, decided.at, decided.record)

    def read(self, scene: str) -> Reply:
        """Read a scene as inspection does.

        Raises:
            Down: Nobody is there to take it.
        """
        return self._begin(self._read(self._present(), scene))

    async def _read(self, registry: Registry, scene: str) -> int:
        history = self.disk.history(scene)
        since, at_least = history.exists_since, history.acknowledged
        # What was answered by another node need not be known at this one, unless it is asked for.
        opened = await registry.opened(scene, at_least=at_least)
        if opened is not None:
            history.check_read(opened.scene, at_least=at_least)
            return opened.scene.sequence
        if since is not None and since <= at_least and history.exists_since == since:
            raise Violation(f"a reader saw no scene; it exists since sequence {since}")
        return 0

    def read_history(self, scene: str, *, after: int, character: str | None) -> Reply:
        """Read the history of a scene.

        Raises:
            Down: Nobody is there to take it.
        """
        return self._begin(self._read_history(self._present(), scene, after, character))

    async def _read_history(self, registry: Registry, scene: str, after: int, character: str | None) -> None:
        read: list[tuple[int, int, Record | None]] = [
            one async for one in registry.history(scene, after=after, character=character)
        ]
        self.disk.history(scene).check_history(read)

    def _present(self) -> Registry:
        if self._process is None or self._registry is None:
            raise Down("the connection was refused")
        return self._registry

    def _begin(self, request: Coroutine[Any, Any, Any]) -> Reply:
        """Run a request in the process, and see that it ends."""
        process = self._process
        assert process is not None
        reply: Reply = self._loop.create_future()
        task = self._loop.create_task(request, name="request", context=process.context.copy())
        timer = self._loop.call_later(ANSWER_S_MAX, self._hangs, task)
        self._requests[task] = (reply, timer)
        task.add_done_callback(self._deliver)
        return reply

    def _hangs(self, task: asyncio.Task[Any]) -> None:
        self._loop.abort(Violation(f"no answer within {ANSWER_S_MAX} s: {task.get_coro()}"))

    def _deliver(self, task: asyncio.Task[Any]) -> None:
        held = self._requests.pop(task, None)
        if held is None:
            return
        reply, timer = held
        timer.cancel()
        if task.cancelled():
            reply.cancel()
            return
        error = task.exception()
        if isinstance(error, AssertionError):
            self._loop.abort(error)
        elif reply.done():
            return
        elif error is not None:
            reply.set_exception(error)
        else:
            reply.set_result(task.result())


class Nodes:
    """Several services over one disk, behind a balancer that sends each request to any of them."""

    def __init__(self, services: list[Service], chance: random.Random) -> None:
        self.services = services
        self._chance = chance
        [first, *_] = services
        self.disk, self.clock, self.weather = first.disk, first.clock, first.weather

    @property
    def is_alone(self) -> bool:
        """Say whether there is only one."""
        return len(self.services) == 1

    @property
    def stops(self) -> int:
        """Count how often any of them was stopped."""
        return sum(service.stops for service in self.services)

    @property
    def any(self) -> Service:
        """Give one of them."""
        return self.services[int(self._chance.random() * len(self.services))]

    def start(self) -> None:
        """Start those that are not there."""
        for service in self.services:
            service.start()

    async def stop(self) -> None:
        """Stop one after the other."""
        for service in self.services:
            await service.stop()

    def submit(self, scene: str, commands: Sequence[Addressed], caller: str) -> tuple[Reply, Callable[[], bool]]:
        """Send commands to one of them, as `Service.submit`."""
        return self.any.submit(scene, commands, caller)

    def read(self, scene: str) -> Reply:
        """Read a scene at one of them, as `Service.read`."""
        return self.any.read(scene)

    def read_history(self, scene: str, *, after: int, character: str | None) -> Reply:
        """Read the history of a scene at one of them, as `Service.read_history`."""
        return self.any.read_history(scene, after=after, character=character)
