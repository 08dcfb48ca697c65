"""What a command costs the server: its processor time, by batches and by single commands, over many places in turn."""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import cycle
from typing import NamedTuple

from bench import load
from bench.mix import BATCH_CONNECTIONS, batch_of
from bench.rounds import TIMES, Line, Plan, at_most, interleaved
from bench.servers import Address, cpu_seconds
from bench.singles import CONNECTIONS

FLAT = 1.3
"""By how much a command may cost more where there is more of everything."""

SINGLES = 20_000
STEP = 7919
"""A prime: characters and scenes are taken in an order in which neighbours are far apart."""

Places = Callable[[int], tuple[str, str]]
"""Gives the scene and the character of a number."""


def batches(places: Places, how_many: int, *, visited: int, commands: int) -> Iterator[bytes]:
    """Give requests without end that go through `how_many` characters: each sends begins to `visited` neighbours."""
    requests, groups = list[bytes](), how_many // visited
    for number in range(groups):
        start = number * STEP % groups * visited
        asked = [
            {"command": "begin", "character": places(start + index % visited)[1], "layer": "base", "target": "Run"}
            for index in range(commands)
        ]
        requests.append(batch_of(asked, places(start)[0]))
    return cycle(requests)


def singles(places: Places, how_many: int) -> Iterator[bytes]:
    """Give requests without end that go through `how_many` characters, or 20,000 of them, with one begin for each."""
    chosen = (places(number * STEP % how_many) for number in range(min(how_many, SINGLES)))
    return cycle(
        [
            load.request(f"/v1/scenes/{scene}/characters/{character}/begin", b'{"layer":"base","target":"Run"}')
            for scene, character in chosen
        ]
    )


async def microseconds(address: Address, requests: Iterator[bytes], commands: int, seconds: float) -> float:
    """Send requests for some seconds; give the server's processor time for each command, microseconds."""
    connections = BATCH_CONNECTIONS if commands > 1 else CONNECTIONS
    used, following = cpu_seconds(address.process), load.timed(requests, seconds)
    measured = await load.run(address.host, address.port, connections=connections, following=following)
    answered = len(measured.latencies) * commands
    return (cpu_seconds(address.process) - used) / answered * 1e6


def flat(key: str, what: str, figures: dict[str, float], few: str, many: str) -> Line:
    """Give the line that says whether a command costs the same."""
    low, high = figures[few], figures[many]
    return at_most(
        key, f"cost per command, {what}", f"{high:.1f} µs", f"{low:.1f} µs", high / low, FLAT, f"≤ {FLAT:g} {TIMES}"
    )


def named(door: str, who: str) -> str:
    """Give the name of a figure."""
    return f"{door}, {who}, µs a command"


class Side(NamedTuple):
    """One side of a comparison: a server, its characters, and how many of them a batch of how many commands visits."""

    address: Address
    places: Places
    how_many: int
    visited: int
    commands: int


async def compared(plan: Plan, section: str, sides: dict[str, Side]) -> dict[str, float]:
    """Measure what a command costs on each side, by batches and by single commands."""
    contenders: dict[str, Callable[[], Awaitable[float]]] = {}
    for who, (address, places, how_many, visited, commands) in sides.items():
        asked = batches(places, how_many, visited=visited, commands=commands)
        contenders[named("batches", who)] = partial(microseconds, address, asked, commands, plan.seconds)
        asked = singles(places, how_many)
        contenders[named("singles", who)] = partial(microseconds, address, asked, 1, plan.seconds)
    return await interleaved(plan, section, contenders, " µs")


def lines_of(key: str, figures: dict[str, float], few: str, many: str) -> list[Line]:
    """Give the lines that compare two sides, at either door."""
    return [
        flat(f"{key}-{door}", f"{door}, {many} beside {few}", figures, named(door, few), named(door, many))
        for door in ("batches", "singles")
    ]
