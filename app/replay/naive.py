"""The naive client: what would be on the screen if every callback were taken at its word."""

import math

from msgspec import Struct, field

from app.replay.trace import (
    AnyLine,
    CompleteLine,
    EventLine,
    GraphCandidateLine,
    ParametersLine,
    Value,
)

Place = tuple[str, str]
"""A character and one of its layers."""

_NON_FINITE_TEXTS = frozenset({"NaN", "Infinity", "-Infinity"})


class NaiveClient(Struct):
    """The state of a client without a gate.

    A completion writes `state = target`; each value of a batch is written as it comes; a mark fires its effect at
    once; the candidate that arrived last is shown, finished or not.
    """

    states: dict[Place, str] = field(default_factory=dict)
    parameters: dict[str, dict[str, Value]] = field(default_factory=dict)
    graphs: dict[str, str] = field(default_factory=dict)
    fired: int = 0

    def see(self, line: AnyLine) -> None:
        """Believe one line."""
        match line:
            case CompleteLine():
                self.states[line.character, line.layer] = line.target
            case ParametersLine():
                written = self.parameters.setdefault(line.character, {})
                for name, value in line.values:
                    written[name] = value
            case EventLine():
                self.fired += 1
            case GraphCandidateLine():
                self.graphs[line.character] = line.name
            case _:
                pass


def is_non_finite(value: Value) -> bool:
    """Say whether a recorded value is NaN or an infinity, in whatever spelling; null is JavaScript's NaN."""
    if isinstance(value, float):
        return not math.isfinite(value)
    return value is None or (isinstance(value, str) and value in _NON_FINITE_TEXTS)


def is_same(left: object, right: object) -> bool:
    """Compare two values as JSON does: 4 is 4.0, true is not 1."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right
