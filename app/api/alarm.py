"""Alarms: one deadline each, on a timer that is set anew only when the deadline comes nearer than it rings."""

import asyncio
from collections.abc import Callable
from math import inf


class Alarm:
    """A deadline that is moved far more often than it is reached: moving it away costs no timer.

    `ring` is called once when the deadline has passed, and never after `stop`.
    """

    __slots__ = ("_due", "_loop", "_ring", "_rings_at", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._due = self._rings_at = inf
        self._timer: asyncio.TimerHandle | None = None

    def set(self, after_s: float) -> None:
        """Move the deadline to `after_s` seconds from now."""
        self._due = due = self._loop.time() + after_s
        if due < self._rings_at:
            self._ring_at(due)

    def clear(self) -> None:
        """Let there be no deadline."""
        self._due = inf

    def stop(self) -> None:
        """Let there be no deadline, nor a timer that holds on to its owner."""
        self._due = self._rings_at = inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring_at(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = due
        self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        self._timer, self._rings_at = None, inf
        if self._loop.time() >= self._due:
            self._due = inf
            self._ring()
        elif self._due < inf:
            self._ring_at(self._due)
