"""Counters: what quotas are counted in, one for each caller and window, without a thread or a lock."""

import time

from limits.storage import Storage

COUNTERS_MAX = 20_000
"""About how many counters are kept; beyond, those whose window has ended are looked for and forgotten."""


class Counters(Storage):
    """Counts in windows that begin with their first hit, for the fixed windows of `limits`.

    Bound:     `COUNTERS_MAX` counters, plus those whose window has not ended.
    Senders:   one event loop.  Thread-safe: no. (The storage that comes with the library keeps a timer thread running.)
    """

    def __init__(self) -> None:
        super().__init__()
        self._counted: dict[str, tuple[int, float]] = {}
        self._sweeps_at = COUNTERS_MAX

    @property
    def base_exceptions(self) -> type[Exception]:
        """Give what a storage may raise; this one raises nothing."""
        return ValueError

    def incr(self, key: str, expiry: float, amount: int = 1) -> int:
        """Count more under a key whose window lasts `expiry` seconds; give what was counted in it."""
        now = time.time()
        counted, until = self._counted.get(key, (0, 0.0))
        if until <= now:
            counted, until = 0, now + expiry
            self._sweep(now)
        self._counted[key] = counted + amount, until
        return counted + amount

    def get(self, key: str) -> int:
        """Give what was counted under a key in its present window."""
        counted, until = self._counted.get(key, (0, 0.0))
        return counted if until > time.time() else 0

    def get_expiry(self, key: str) -> float:
        """Give when the window of a key ends, seconds since 1970; now for one that has none."""
        return self._counted.get(key, (0, time.time()))[1]

    def check(self) -> bool:
        """Say that there is always room."""
        return True

    def reset(self) -> int:
        """Forget everything; give how many counters there were."""
        count = len(self._counted)
        self._counted.clear()
        return count

    def clear(self, key: str) -> None:
        """Forget a counter."""
        self._counted.pop(key, None)

    def _sweep(self, now: float) -> None:
        if len(self._counted) < self._sweeps_at:
            return
        self._counted = {key: held for key, held in self._counted.items() if held[1] > now}
        self._sweeps_at = max(COUNTERS_MAX, 2 * len(self._counted))
