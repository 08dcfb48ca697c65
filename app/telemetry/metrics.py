"""Metrics: what was decided and how turns went, by gate and outcome; never a name of a scene or character."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

TURN_BOUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
"""The upper bounds of the histogram of turns, in decisions."""


class Metrics(Collector):
    """One service's metrics. Counting is adding to plain numbers; they become families when they are asked for.

    Senders:   one event loop.  Thread-safe: no.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._decisions: Counter[tuple[str, str, str]] = Counter()
        self._turns = [0] * (len(TURN_BOUNDS) + 1)
        self._turned = 0
        self.open_scenes = 0

    def turn(self, decided: Mapping[tuple[str, str, str], int]) -> None:
        """Count one turn: how many decisions of each (gate, command, outcome)."""
        number = sum(decided.values())
        self._turned += number
        self._turns[bisect_left(TURN_BOUNDS, number)] += 1
        for labels, count in decided.items():
            self._decisions[labels] += count

    def collect(self) -> Iterable[Metric]:
        """Give all families as they are now."""
        decisions = CounterMetricFamily(
            "posegate_decisions", "Decisions by gate, command and outcome.", labels=["gate", "command", "outcome"]
        )
        for labels, count in sorted(self._decisions.items()):
            decisions.add_metric(labels, count)
        turns = HistogramMetricFamily("posegate_turn_commands", "Decisions of one turn.")
        reached, buckets = 0, []
        for bound, count in zip((*map(str, TURN_BOUNDS), "+Inf"), self._turns, strict=True):
            reached += count
            buckets.append((bound, reached))
        turns.add_metric([], buckets, self._turned)
        return decisions, turns, GaugeMetricFamily("posegate_open_scenes", "Scenes held in memory.", self.open_scenes)

    def render(self) -> bytes:
        """Give all metrics in Prometheus' text format."""
        return generate_latest(self._registry)
