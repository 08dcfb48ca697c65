"""Metrics: what was decided and how turns went, by gate and outcome; never a name of a scene or character."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class Metrics:
    """One service's metrics, in a registry of their own so that several services fit into one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._decisions = Counter(
            "posegate_decisions",
            "Decisions by gate, command and outcome.",
            ["gate", "command", "outcome"],
            registry=self._registry,
        )
        self._turns = Histogram(
            "posegate_turn_commands",
            "Decisions of one turn.",
            buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000),
            registry=self._registry,
        )
        self.open_scenes = Gauge("posegate_open_scenes", "Scenes held in memory.", registry=self._registry)

    def turn(self, decided: Mapping[tuple[str, str, str], int]) -> None:
        """Count one turn: how many decisions of each (gate, command, outcome)."""
        self._turns.observe(sum(decided.values()))
        for labels, number in decided.items():
            self._decisions.labels(*labels).inc(number)

    def render(self) -> bytes:
        """Give all metrics in Prometheus' text format."""
        return generate_latest(self._registry)
