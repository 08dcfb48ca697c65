"""Rounds: contenders measured in turn, again and again, and what the medians say beside what is to be reached."""

import statistics
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple


class Plan(NamedTuple):
    """How much is measured: rounds, seconds a contender and round, and where files may lie meanwhile."""

    rounds: int
    seconds: float
    directory: str


class Line(NamedTuple):
    """One line of what is to be reached: what was measured, beside what, and the ratio or figure that is judged."""

    key: str
    what: str
    ours: str
    beside: str
    measured: float
    target: float
    shown: str
    is_at_most: bool = False

    @property
    def is_reached(self) -> bool:
        """Say whether the target is reached."""
        return self.measured <= self.target if self.is_at_most else self.measured >= self.target


class Findings(NamedTuple):
    """What a section found: lines that are judged, and everything that was measured, by name."""

    lines: list[Line]
    figures: dict[str, float]


def say(text: str) -> None:
    """Show progress, on standard error so that `--json` stays clean."""
    print(text, file=sys.stderr, flush=True)


TIMES = "\N{MULTIPLICATION SIGN}"
"""Behind a ratio, as the page shows it."""

NOTHING = "\N{EN DASH}"
"""Stands where there is nothing to compare with."""


def at_least(key: str, what: str, figures: Mapping[str, float], ours: str, beside: str, target: float) -> Line:
    """Give a line that compares two rates: ours shall be so many times the other's."""
    mine, its = figures[ours], figures[beside]
    return Line(key, what, f"{mine:,.0f}/s", f"{beside}: {its:,.0f}/s", mine / its, target, f"{target:g} {TIMES}")


def at_most(key: str, what: str, ours: str, beside: str, measured: float, target: float, shown: str) -> Line:
    """Give a line whose figure shall not be above its target."""
    return Line(key, what, ours, beside, measured, target, shown, is_at_most=True)


async def interleaved(
    plan: Plan, section: str, contenders: Mapping[str, Callable[[], Awaitable[float]]], unit: str = "/s"
) -> dict[str, float]:
    """Measure each contender once a round, each round beginning with another; give medians by name."""
    values: dict[str, list[float]] = {name: [] for name in contenders}
    order = list(contenders)
    for number in range(plan.rounds):
        first = number % len(order)
        for name in order[first:] + order[:first]:
            values[name].append(await contenders[name]())
        shown = ", ".join(f"{name} {values[name][-1]:,.{0 if unit == '/s' else 2}f}{unit}" for name in order)
        say(f"{section}, round {number + 1} of {plan.rounds}: {shown}")
    return {name: statistics.median(measured) for name, measured in values.items()}
