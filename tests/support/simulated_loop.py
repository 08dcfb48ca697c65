"""An event loop without a clock or a world outside: what is ready runs in an order drawn from a seed, time jumps."""

import asyncio
import heapq
import random
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

CLOSED_TIMES_MAX = 10

SLOW_STEP_S = 0.011
SLOW_STEPS = 0.02
"""How often a look at the time finds that the step took long."""

STEPS_MAX = 1_000_000
"""How many callbacks one simulation may run: beyond, it goes round in circles without time passing."""


class Stuck(AssertionError):
    """Nothing is ready and nothing will ever be, or what is ready never ends: somebody waits in vain."""


class Broken(Exception):
    """What a simulation breaks on purpose, as a fault of the service's own code would: a task may die of it."""


class Process:
    """Whatever runs in one process of the service: all of it stops in the middle of what it does when that dies."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.context = copy_context()
        self.context.run(_PROCESS.set, self)


_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class SimulatedLoop(asyncio.AbstractEventLoop):
    """Runs one coroutine, and all that it starts, to its end.

    Order:     of ready callbacks: drawn. asyncio promises the order of arrival; code that leans on it is found out.
    Time:      seconds since the start. It stands while anything is ready, then jumps to the earliest timer; but one
               look at it in some finds that something took `SLOW_STEP_S`, as work does that keeps a loop.
    `picked` is called with each choice between several, so that a trace can hold the schedule.
    """

    def __init__(self, chance: random.Random, picked: Callable[[int], None] = lambda index: None) -> None:
        self._error: BaseException | None = None
        self._chance = chance
        self._picked = picked
        self._now = 0.0
        self._ready: list[tuple[Context, asyncio.Handle]] = []
        self._timers: list[tuple[float, int, Context, asyncio.TimerHandle]] = []
        self._timers_made = 0
        self._tasks: dict[asyncio.Task[Any], Process | None] = {}

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end; give what it gives.

        Raises:
            Stuck: It will never end.
            BaseException: What `abort` was called with.
        """
        asyncio._set_running_loop(self)
        try:
            task = self.create_task(main)
            for _ in range(STEPS_MAX):
                if self._error is not None:
                    raise self._error
                if task.done():
                    result: T = task.result()
                    return result
                self._step()
            raise Stuck(f"{STEPS_MAX} callbacks have run")
        finally:
            for left in self._tasks:
                _end(left)
            self._tasks.clear()
            asyncio._set_running_loop(None)

    def abort(self, error: BaseException) -> None:
        """Let `run` raise an error at once, wherever it came from: nobody can catch it or be gone meanwhile."""
        if self._error is None:
            self._error = error

    def kill(self, process: Process) -> None:
        """Stop a process where it is: nothing of it runs any more, no `finally` and no answer."""
        process.is_dead = True
        self._ready = [(context, handle) for context, handle in self._ready if not _is_dead(context)]

    def _step(self) -> None:
        """Run one callback of those that are ready; when none is, let time pass until one is."""
        if not self._ready or (self._timers and self._timers[0][0] <= self._now):
            self._pass_time()
        ready = self._ready
        index = 0
        if len(ready) > 1:
            index = int(self._chance.random() * len(ready))
            self._picked(index)
            ready[index], ready[-1] = ready[-1], ready[index]
        _, handle = ready.pop()
        if not handle.cancelled():
            handle._run()

    def _pass_time(self) -> None:
        """Make what is due ready; when nothing is, jump to where something is."""
        timers = self._timers
        while not self._ready or (timers and timers[0][0] <= self._now):
            if not timers:
                raise Stuck(f"at {self._now:.6f} s nothing is ready and nothing will be")
            when = max(timers[0][0], self._now)
            while timers and timers[0][0] <= when:
                _, _, context, handle = heapq.heappop(timers)
                if not handle.cancelled() and not _is_dead(context):
                    self._now = when
                    self._ready.append((context, handle))

    @property
    def now(self) -> float:
        """Give the seconds since the start, without that any pass."""
        return self._now

    # What asyncio asks of a loop

    def time(self) -> float:
        """Give the seconds since the start."""
        if self._chance.random() < SLOW_STEPS:
            self._now += SLOW_STEP_S
        return self._now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Make a callback ready, unless it belongs to a process that is dead."""
        context = copy_context() if context is None else context
        handle = asyncio.Handle(callback, args, self, context)
        if not _is_dead(context):
            self._ready.append((context, handle))
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Make a callback ready after a time."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Make a callback ready at a time."""
        context = copy_context() if context is None else context
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers_made += 1
        heapq.heappush(self._timers, (when, self._timers_made, context, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Leave a cancelled timer where it is; it is passed over when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None, **_: Any
    ) -> asyncio.Task[Any]:
        """Start a coroutine, in the process of the given context or else of whoever starts it."""
        context = copy_context() if context is None else context
        if _PROCESS not in context:
            context.run(_PROCESS.set, _PROCESS.get())
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks[task] = context.get(_PROCESS)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """Stop at a task that broke and that nobody awaits before its service is closed."""
        process = self._tasks.pop(task)
        if process is not None and not task.cancelled() and task.get_name().startswith(("scene ", "idle ")):
            error = task.exception()
            if error is not None and not isinstance(error, Broken):
                self.abort(error)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Stop at a callback that raised. What the collector finds later is of dead processes, or awaited elsewhere."""
        if "handle" in context:
            self.abort(context.get("exception") or AssertionError(context["message"]))

    def get_debug(self) -> bool:
        """Say that nothing is traced."""
        return False

    def is_running(self) -> bool:
        """Say that it runs: nobody else can ask."""
        return True

    def is_closed(self) -> bool:
        """Say that it is never closed."""
        return False


def _end(task: asyncio.Task[Any]) -> None:
    """End a coroutine that will not run again, before the collector does at a moment of its own choice.

    What it does as it ends reaches nobody, and what it raises is nobody's concern.
    """
    coroutine = task.get_coro()
    for _ in range(CLOSED_TIMES_MAX):
        try:
            if coroutine is not None:
                coroutine.close()
            return
        except BaseException as error:  # noqa: BLE001  # whatever it raises, a coroutine that waits again is closed again
            if str(error) != "coroutine ignored GeneratorExit":
                return


def _is_dead(context: Context) -> bool:
    process = context.get(_PROCESS)
    return process is not None and process.is_dead
