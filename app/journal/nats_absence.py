"""How long a server is missing: what is asked just after a connection was lost waits a moment for the next one."""

import asyncio
from math import inf

WAIT_S_MAX = 0.25
"""For how long after a loss a question waits for the next connection, seconds; an orderly hand-over takes less."""


class Absence:
    """Whether there is a connection, since when there is none, and who waits for the next.

    Bound: none of its own; its owner looks at `waiting` first.
    """

    def __init__(self) -> None:
        self.waiting = 0
        self._since = -inf
        self._over = asyncio.Event()

    def begin(self) -> None:
        """Note that the connection was lost, or is left. A second time before `end` changes nothing."""
        if self._over.is_set():
            self._over.clear()
            self._since = asyncio.get_running_loop().time()

    def end(self) -> None:
        """Have all who wait go on: there is a connection again, or there will be none."""
        self._over.set()

    async def wait(self) -> None:
        """Wait for the end until WAIT_S_MAX after the beginning; not at all later, and before the first connection."""
        until = self._since + WAIT_S_MAX
        if asyncio.get_running_loop().time() >= until:
            return
        self.waiting += 1
        try:
            async with asyncio.timeout_at(until):
                await self._over.wait()
        except TimeoutError:
            return
        finally:
            self.waiting -= 1
