"""Changes to a value as a caller, or a damaged file, might make them: its shape stays JSON's or msgpack's."""

import random
from typing import Any

SCALARS: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 57, 2**31, 2**52, 2**53 - 1, 2**53, 2**63 - 1, -(2**63)),
    *(0.0, -0.0, 1.5, 4.0, 1e300, float("nan"), float("inf"), float("-inf")),
    *("", "NaN", "Infinity", "\0", "é", "x" * 129, [], {}, [[]], {"answer": 0}),
]
"""Values at the edges of what the service takes."""

CHANGES_MAX = 4
PACKED_MAX = 2**63 - 1
"""About the largest whole number that msgpack can hold on both sides of zero."""

Place = tuple[Any, Any]
"""A container and the key or index of one of its values."""


def mutated(value: Any, chance: random.Random, words: list[str]) -> Any:
    """Change a value in a few places; `words` are what its texts and names may become."""
    whole = [value]
    for _ in range(chance.randint(1, CHANGES_MAX)):
        places = _places(whole)
        # The first place holds the whole value, which is changed at once only when there is nothing inside.
        container, key = chance.choice(places[1:] or places)
        match chance.randrange(6):
            case 0:
                container[key] = _copied(chance.choice(SCALARS))
            case 1:
                container[key] = chance.choice(words)
            case 2:
                other, place = chance.choice(places)
                container[key] = _copied(other[place])
            case 3 if container is not whole:
                del container[key]
            case 4:
                _add(container[key], chance, words, places)
            case _:
                container[key] = _near(container[key], chance)
    return whole[0]


def _places(container: Any) -> list[Place]:
    """Give every place of a value, its own included."""
    found: list[Place] = []
    waiting = [container]
    while waiting:
        held = waiting.pop()
        for key, value in list(held.items() if isinstance(held, dict) else enumerate(held)):
            found.append((held, key))
            if isinstance(value, list | dict):
                waiting.append(value)
    return found


def _copied(value: Any) -> Any:
    """Copy a value, so that no container holds itself."""
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return {name: _copied(item) for name, item in value.items()} if isinstance(value, dict) else value


def _add(value: Any, chance: random.Random, words: list[str], places: list[Place]) -> None:
    """Put one more into a list or an object, a copy of something that is there already."""
    container, key = chance.choice(places)
    if isinstance(value, list):
        value.insert(chance.randint(0, len(value)), _copied(container[key]))
    elif isinstance(value, dict):
        value[chance.choice(words)] = _copied(container[key])


def _near(value: Any, chance: random.Random) -> Any:
    """Give a scalar close to another."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + chance.choice([-1, 1]) if abs(value) < PACKED_MAX else value // 2
    if isinstance(value, float):
        return value + chance.choice([-1, 1, 0.5])
    if isinstance(value, str) and value:
        at = chance.randrange(len(value))
        return value[:at] + chance.choice(["", "\0", "é", value[at] * 2]) + value[at + 1 :]
    return value
