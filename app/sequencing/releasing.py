"""Releasing: what the ticks of a scene let go of in one step, many characters at once, is freed bit by bit."""

from typing import Any

from app.gates.tick import Ticks
from app.sequencing.pace import Pace

PACED = 64
"""After how many values that are freed it is looked whether others should run."""


class Releasing:
    """Keeps what ticks hold until it is released: a confirmation or a rollback drops all of it in one step.

    Freeing takes about a microsecond a value, and nothing can interrupt it.
    """

    def __init__(self, ticks: Ticks) -> None:
        self._ticks: Ticks | None = ticks

    async def release(self, now: Ticks, pace: Pace) -> None:
        """Free what the ticks held and those of `now` do not; others run in between."""
        former, self._ticks = self._ticks, None
        leaving = [] if former is None or former is now else _leaving(former, now)
        # From here on nothing but the list holds them.
        del former
        while leaving:
            del leaving[-PACED:]
            if pace.is_due:
                await pace.pause()


def _leaving(former: Ticks, now: Ticks) -> list[Any]:
    """List the values that one has and the other has not, ticks as a whole."""
    leaving = list[Any]()
    for tick, sealed in former.past.items():
        if now.past.get(tick) is not sealed:
            leaving += (*sealed.before.values(), *sealed.newborn.values(), *sealed.delivered)
    for tick, answers in former.answered.items():
        if now.answered.get(tick) is not answers:
            leaving += answers.applied
    for tick, requests in former.held.items():
        if tick not in now.held:
            leaving += requests.values()
    return leaving
