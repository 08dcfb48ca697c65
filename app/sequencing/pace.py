"""Pace: long work on the event loop lets others run in between."""

import asyncio

WORK_S_MAX = 0.01
"""How long work goes on before it lets others run, seconds."""


class Pace:
    """How long one piece of work has kept the event loop. Whoever works looks at `is_due` between two steps.

    Bound: the loop is kept for `WORK_S_MAX`, plus one step.
    """

    def __init__(self) -> None:
        self._time = asyncio.get_running_loop().time
        self._since = self._time()

    @property
    def is_due(self) -> bool:
        """Say whether others should run now."""
        return self._time() - self._since >= WORK_S_MAX

    async def pause(self) -> None:
        """Let everybody run who is ready."""
        await asyncio.sleep(0)
        self._since = self._time()
