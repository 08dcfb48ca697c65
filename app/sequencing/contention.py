"""Contention: how nodes that write the same scene make room for each other."""

import asyncio
from collections.abc import Callable

CONFLICTS_MAX = 8
"""How often a turn is decided again because the history was longer, before the caller is told to come back."""

PAUSE_S = 0.016
"""The longest pause after the second conflict of a turn, seconds; it doubles with each, to about 1 s in all."""

CONTENDED_S = 1.0
"""For how long after another node's entry a scene counts as written by several, seconds."""

GIVEN_WAY_S_MAX = 0.05
"""The longest that a node which just wrote lets others go first, seconds."""


class Contention:
    """One scene's pauses. Without another node there are none.

    A turn that was refused is decided again at once, for usually it was behind by one entry; from then on it waits
    longer and longer, by chance, so that two nodes do not refuse each other in step. That alone would not be fair: the
    node that wrote last needs one way to the journal for its next entry, the other two. So while a scene is written by
    several, a node that wrote gives way, for up to twice as long as an append takes.

    Bound: of the pauses of one turn: `GIVEN_WAY_S_MAX` before it, and about 1 s for its `CONFLICTS_MAX` attempts.
    """

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._contended_until = 0.0
        self._appending_since = self._append_s = 0.0
        self.has_lead = False

    def note_other(self) -> None:
        """Take note of another node's entry."""
        self._contended_until = asyncio.get_running_loop().time() + CONTENDED_S
        self.has_lead = False

    def appending(self) -> None:
        """Take note that an append begins."""
        if self._contended_until:
            self._appending_since = asyncio.get_running_loop().time()

    def appended(self) -> None:
        """Take note that it succeeded: this node wrote last."""
        if self._contended_until:
            self._append_s = asyncio.get_running_loop().time() - self._appending_since
            self.has_lead = True

    async def give_way(self) -> None:
        """Let others write first, when this node wrote last and others were there lately."""
        self.has_lead = False
        if asyncio.get_running_loop().time() >= self._contended_until:
            self._contended_until = 0.0
            return
        await asyncio.sleep(self._chance() * min(2 * self._append_s, GIVEN_WAY_S_MAX))

    async def pause(self, conflicts: int) -> None:
        """Wait before a turn is decided again that was refused so many times."""
        if conflicts > 1:
            await asyncio.sleep((0.5 + 0.5 * self._chance()) * PAUSE_S * 2 ** (conflicts - 2))
