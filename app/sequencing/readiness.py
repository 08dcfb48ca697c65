"""Readiness: whether new commands can be decided here now, as far as the last ones tell."""

from collections.abc import Callable
from time import monotonic

DOUBTED_S = 5.0
"""How long a failure of the journal is held against the service. Asked no more, it could not show its end."""


class Readiness:
    """What stands against sending new commands here: kept by the registry, told to whoever spreads the load."""

    def __init__(
        self,
        is_memory_full: Callable[[], bool],
        is_journal_reachable: Callable[[], bool],
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._is_memory_full = is_memory_full
        self._is_journal_reachable = is_journal_reachable
        self._clock = clock
        self._doubted_until = 0.0
        self.is_draining = False

    def decided(self) -> None:
        """Take note that commands became durable."""
        self._doubted_until = 0.0

    def failed(self) -> None:
        """Take note that the journal did not take commands, or did not say so."""
        self._doubted_until = self._clock() + DOUBTED_S

    def reasons(self) -> list[str]:
        """Give why new commands had better go elsewhere; nothing when they are welcome."""
        reasons = []
        if self.is_draining:
            reasons.append("draining")
        if self._clock() < self._doubted_until or not self._is_journal_reachable():
            reasons.append("journal-unavailable")
        if self._is_memory_full():
            reasons.append("memory-full")
        return reasons
