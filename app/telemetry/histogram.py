"""The histogram: how often a measured number fell below each of a few bounds, kept as plain numbers."""

from bisect import bisect_left

REQUEST_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds for what a caller waits for: requests, and how long the oldest submission of a turn waited."""

DISK_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Bounds for what the disk decides: appends, commits, and turns, which are mostly made of one append."""

COUNTS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0)
"""Bounds for how many things came together: decisions of a turn, entries of a commit."""


class Histogram:
    """Counts measured numbers below each bound (inclusive), and their sum.

    Senders:   one thread. Another may read meanwhile; it then sees the last number in a part of the figures at worst.
    """

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, number: float) -> None:
        """Count one measured number."""
        self._counts[bisect_left(self._bounds, number)] += 1
        self.total += number

    def buckets(self) -> list[tuple[str, float]]:
        """Give each bound, as Prometheus writes it, with how many numbers were not above it; `+Inf` last."""
        reached, buckets = 0, []
        for bound, count in zip((*self._bounds, None), self._counts, strict=True):
            reached += count
            buckets.append(("+Inf" if bound is None else f"{bound:g}", float(reached)))
        return buckets
