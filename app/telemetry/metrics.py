"""Metrics: what was asked, decided and written, by route, gate and outcome; never a name of a scene or character."""

import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from app import __version__
from app.telemetry.histogram import COUNTS, DISK_SECONDS, REQUEST_SECONDS, Histogram

STALE = ("stale_epoch", "stale_generation")
"""The outcomes of a report that came too late, whose rate is the diagnostic of priority jitter and callback delay."""

CLOSE_CODES = (0, 1000, 1001, 1002, 1003, 1005, 1006, 1007, 1009, 1011, 1013, 4401, 4403, 4408, 4413)
"""The close codes that are counted each by itself, and 0 for any other that a client may give."""


def _none() -> int:
    return 0


class Metrics(Collector):
    """One service's metrics. Counting is adding to plain numbers; they become families when they are asked for.

    `problems` are shown from the start, at zero: a rate cannot see the first of what was not there before.
    Channels count themselves in `open_channels`, and their messages in `channel_messages`.
    `limits_digest` is the same at all nodes whose scenes come out the same; whoever wires the service sets it.
    Whoever holds the scenes sets `open_scenes`; `damaged_scenes`, `commands_waiting` and `is_ready` are asked when the
    metrics are.

    Bound:     one number a label set: routes, methods, statuses, gates, commands, outcomes are closed lists.
    Senders:   one event loop; `commit` one writer thread.  Thread-safe: no.
    """

    def __init__(self, problems: Iterable[str] = ()) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        self._decisions: Counter[tuple[str, str, str]] = Counter()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._request_seconds: dict[tuple[str, str], Histogram] = {}
        self._problems = Counter(dict.fromkeys(problems, 0))
        self._turn_commands = Histogram(COUNTS)
        self._turn_seconds = Histogram(DISK_SECONDS)
        self._mailbox_age_seconds = Histogram(REQUEST_SECONDS)
        self._append_seconds = Histogram(DISK_SECONDS)
        self._commit_seconds = Histogram(DISK_SECONDS)
        self._commit_entries = Histogram(COUNTS)
        self.open_channels = 0
        self.channel_messages = 0
        self._channel_closes = Counter(dict.fromkeys(CLOSE_CODES, 0))
        self.limits_digest = ""
        self.open_scenes = 0
        self.damaged_scenes: Callable[[], int] = _none
        self.watchers: Callable[[], int] = _none
        self.commands_waiting: Callable[[], int] = _none
        self.is_ready: Callable[[], bool] = bool

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one answered request: `route` is a template, never a path."""
        self._requests[route, method, status] += 1
        held = self._request_seconds.get((route, method))
        if held is None:
            held = self._request_seconds[route, method] = Histogram(REQUEST_SECONDS)
        held.observe(seconds)

    def problem(self, name: str) -> None:
        """Count one request that was answered with a problem, by the problem's name."""
        self._problems[name] += 1

    def channel_closed(self, code: int) -> None:
        """Count the end of a channel by its close code."""
        self._channel_closes[code if code in CLOSE_CODES else 0] += 1

    def turn(self, decided: Mapping[tuple[str, str, str], int], seconds: float) -> None:
        """Count one turn: how many decisions of each (gate, command, outcome), and how long until they were durable."""
        self._turn_commands.observe(sum(decided.values()))
        self._turn_seconds.observe(seconds)
        for labels, count in decided.items():
            self._decisions[labels] += count

    def waited(self, seconds: float) -> None:
        """Count how long the oldest submission of a turn waited for it."""
        self._mailbox_age_seconds.observe(seconds)

    def append(self, seconds: float) -> None:
        """Count one append, made or failed: from handing the entry to the journal until the journal said so."""
        self._append_seconds.observe(seconds)

    def commit(self, entries: int, seconds: float) -> None:
        """Count one commit of the journal, with its sync: the entries of all scenes that it made durable."""
        self._commit_entries.observe(entries)
        self._commit_seconds.observe(seconds)

    def collect(self) -> Iterable[Metric]:
        """Give all families as they are now."""
        return [
            *self._of_requests(),
            *self._of_channels(),
            *self._of_turns(),
            *self._of_the_journal(),
            *self._of_the_process(),
        ]

    def _of_requests(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "posegate_requests", "Requests by route template, method and status.", labels=["route", "method", "status"]
        )
        for (route, method, status), count in sorted(self._requests.items()):
            requests.add_metric([route, method, str(status)], count)
        seconds = HistogramMetricFamily(
            "posegate_request_seconds",
            "Time from a request's head to the end of its answer.",
            labels=["route", "method"],
        )
        for labels, held in sorted(self._request_seconds.items()):
            seconds.add_metric(labels, held.buckets(), held.total)
        problems = CounterMetricFamily(
            "posegate_problems", "Requests that no gate decided, by problem.", labels=["outcome"]
        )
        for name, count in sorted(self._problems.items()):
            problems.add_metric([name], count)
        return requests, seconds, problems

    def _of_channels(self) -> Iterable[Metric]:
        closes = CounterMetricFamily(
            "posegate_channel_closes", "Channels that ended, by close code; 0 is any other.", labels=["code"]
        )
        for code, count in sorted(self._channel_closes.items()):
            closes.add_metric([str(code)], count)
        messages = CounterMetricFamily("posegate_channel_messages", "Messages of channels' clients.")
        messages.add_metric([], self.channel_messages)
        return GaugeMetricFamily("posegate_channels", "Open channels.", self.open_channels), messages, closes

    def _of_turns(self) -> Iterable[Metric]:
        decisions = CounterMetricFamily(
            "posegate_decisions", "Decisions by gate, command and outcome.", labels=["gate", "command", "outcome"]
        )
        stale = dict.fromkeys(STALE, 0)
        for labels, count in sorted(self._decisions.items()):
            decisions.add_metric(labels, count)
            if labels[2] in stale:
                stale[labels[2]] += count
        late = CounterMetricFamily("posegate_stale", "Reports that came too late to count.", labels=["outcome"])
        for outcome, count in stale.items():
            late.add_metric([outcome], count)
        return (
            decisions,
            late,
            _family("posegate_turn_commands", "Decisions of one turn.", self._turn_commands),
            _family("posegate_turn_seconds", "Time of a turn until its decisions are durable.", self._turn_seconds),
            _family(
                "posegate_mailbox_age_seconds",
                "How long the oldest submission of a turn waited for it.",
                self._mailbox_age_seconds,
            ),
            GaugeMetricFamily(
                "posegate_commands_waiting", "Commands that wait in the mailboxes.", self.commands_waiting()
            ),
            GaugeMetricFamily("posegate_watchers", "Who watches a scene, over SSE or a channel.", self.watchers()),
        )

    def _of_the_journal(self) -> Iterable[Metric]:
        return (
            _family("posegate_append_seconds", "Time of an append, as its scene saw it.", self._append_seconds),
            _family("posegate_commit_seconds", "Time of the journal's COMMIT with its sync.", self._commit_seconds),
            _family("posegate_commit_entries", "Entries that one commit made durable.", self._commit_entries),
            GaugeMetricFamily("posegate_open_scenes", "Scenes held in memory.", self.open_scenes),
            GaugeMetricFamily(
                "posegate_damaged_scenes",
                "Scenes refused as `journal-damaged`, as far as known.",
                self.damaged_scenes(),
            ),
        )

    def _of_the_process(self) -> Iterable[Metric]:
        build = {"version": __version__, "python": platform.python_version()}
        return (
            GaugeMetricFamily("posegate_ready", "1 while commands are taken, as /readyz says.", int(self.is_ready())),
            InfoMetricFamily("posegate_build", "Which posegate this is.", build),
            InfoMetricFamily(
                "posegate_limits",
                "The limits on which the state of a scene depends, as a digest: the same at all nodes of a journal.",
                {"digest": self.limits_digest},
            ),
        )

    def render(self) -> bytes:
        """Give all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


def _family(name: str, documentation: str, held: Histogram) -> HistogramMetricFamily:
    """Give a histogram without labels as a family."""
    family = HistogramMetricFamily(name, documentation)
    family.add_metric([], held.buckets(), held.total)
    return family
