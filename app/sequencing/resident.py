"""Resident memory: whether the process has as much as it may have."""

import os
import time
from collections.abc import Callable
from pathlib import Path

LOOKED_AT_S = 0.1
"""How long a look at the process's memory is trusted, seconds."""

_STATM = Path("/proc/self/statm")
_CGROUP = Path("/sys/fs/cgroup/memory.max")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Give how much memory the process has."""
    return int(_STATM.read_text().split()[1]) * _PAGE_BYTES


def three_quarters(cgroup: Path = _CGROUP) -> int:
    """Give three quarters of what the machine has, or of what the process's control group may have, bytes."""
    most = os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES
    limit = cgroup.read_text().strip() if cgroup.exists() else "max"
    return (min(most, int(limit)) if limit.isdigit() else most) * 3 // 4


class Resident:
    """Says whether the process has reached its memory limit.

    Bound: it is noticed within `LOOKED_AT_S` seconds, so the process may pass it by what is asked in that time.
    """

    def __init__(
        self,
        limit_bytes: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        measure: Callable[[], int] = resident_bytes,
    ) -> None:
        self.limit_bytes = limit_bytes or three_quarters()
        self._clock = clock
        self._measure = measure
        self._look_at = clock()
        self._is_full = False

    @property
    def is_full(self) -> bool:
        """Say whether the process has as much as it may have."""
        now = self._clock()
        if now >= self._look_at:
            self._look_at = now + LOOKED_AT_S
            self._is_full = self._measure() >= self.limit_bytes
        return self._is_full
