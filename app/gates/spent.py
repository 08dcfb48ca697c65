"""Spent numbers: a floor, and above it runs of numbers that are never to be used again, joined where they touch.

Source: contract, section 6: a retired number stays retired; the gate remembers the last 1,024 and a floor.
"""

from bisect import bisect_right

from app.gates.identity import NUMBER_MAX

RUNS_KEPT = 1024
"""How many runs above the floor are remembered one by one; so at the least that many numbers are."""

Runs = tuple[tuple[int, int], ...]
"""(first, last) of each run, ascending, with a gap between any two and above the floor."""


def is_spent(floor: int, runs: Runs, number: int) -> bool:
    """Say whether a number is at or below the floor, or in a run."""
    if number <= floor:
        return True
    place = bisect_right(runs, (number, NUMBER_MAX + 1))
    return place > 0 and number <= runs[place - 1][1]


def spent(floor: int, runs: Runs, number: int) -> tuple[int, Runs]:
    """Add one number, joining neighbours; of too many runs the lowest folds into the floor, which never falls."""
    if number <= floor:
        return floor, runs
    place = bisect_right(runs, (number, number))
    first, last = number, number
    before, after = list(runs[:place]), list(runs[place:])
    if before and before[-1][1] == number - 1:
        first = before.pop()[0]
    if after and after[0][0] == number + 1:
        last = after.pop(0)[1]
    joined = [*before, (first, last), *after]
    if len(joined) > RUNS_KEPT:
        floor = joined.pop(0)[1]
    while joined and joined[0][0] == floor + 1:
        floor = joined.pop(0)[1]
    return floor, tuple(joined)
