"""Pace: long work on the event loop lets others run in between."""

import asyncio
import math
from collections.abc import Generator
from typing import TypeVar

ResultT = TypeVar("ResultT")

WORK_S_MAX = 0.01
"""How long work goes on before it lets others run, seconds."""


class Pace:
    """How long one piece of work has kept the event loop. Whoever works looks at `is_due` between two steps.

    Bound: the loop is kept for `WORK_S_MAX`, or `work_s` where that is less, plus one step.
    """

    def __init__(self, work_s: float = math.inf) -> None:
        self._time = asyncio.get_running_loop().time
        self._since = self._time()
        self._work_s = work_s

    @property
    def is_due(self) -> bool:
        """Say whether others should run now."""
        return self._time() - self._since >= min(self._work_s, WORK_S_MAX)

    async def pause(self) -> None:
        """Let everybody run who is ready."""
        await asyncio.sleep(0)
        self._since = self._time()

    async def through(self, steps: Generator[None, None, ResultT]) -> ResultT:
        """Take every step, others run in between when it is due; give what the steps return, raise what they raise."""
        while True:
            try:
                next(steps)
            except StopIteration as done:
                result: ResultT = done.value
                return result
            if self.is_due:
                await self.pause()
