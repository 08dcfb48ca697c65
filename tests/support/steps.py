"""Steps: what work that is done in steps gives, and how often others could have run in between."""

from collections.abc import Generator
from typing import TypeVar

ResultT = TypeVar("ResultT")


def taken(steps: Generator[None, None, ResultT]) -> tuple[ResultT, int]:
    """Take every step; give what they return, and how many they were."""
    number = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value, number
        number += 1
