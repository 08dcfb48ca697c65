"""A serving process is killed while it is watched: what watchers read, resumed each time, is exactly the history."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from tests.faults.connected import Asks, connected
from tests.faults.dying import Dying, dying
from tests.faults.test_kill import history_of
from tests.support.watching import Watch
from tests.support.wire import until, wire

SEED = 20261130
ROUNDS = 6
BATCHES_MIN, BATCHES_MAX = 3, 25
QUERIES = ("", "?character=hero-1", "?accepted=false", "?gate=parameter")
SCENE = "/v1/scenes/room"


class Reader:
    """One who watches over all kills, and resumes behind what it read last; `read` is all that it was ever told."""

    def __init__(self, query: str) -> None:
        self.query = query
        self.last_id = 0
        self.read: list[dict[str, Any]] = []

    async def follow(self, port: int) -> None:
        """Read until the connection breaks."""
        with suppress(ConnectionError):
            async with wire(port) as connection:
                watch = Watch(connection)
                await watch.begin(f"{SCENE}/watch{self.query}", f"Last-Event-ID: {self.last_id}\r\n")
                while (event := await watch.event()) is not None:
                    assert event.kind in ("decisions", None), event
                    self.read += event.data["decisions"] if event.kind else []
                    self.last_id = self.last_id if event.id is None else event.id

    def wants(self, decision: dict[str, Any]) -> bool:
        """Say whether a decision is one that it asked for, without a look at the code."""
        match self.query:
            case "?character=hero-1":
                return bool(decision["character"] == "hero-1")
            case "?accepted=false":
                return not decision["answer"]["accepted"]
            case "?gate=parameter":
                return bool(decision["command"] == "commit-parameters")
            case _:
                return True


async def killed_while_watched(served: Dying, readers: list[Reader], chance: random.Random) -> None:
    """Send batches, and kill the process with the answer to one of them, or in the midst of the next."""
    port = int(served.url.rpartition(":")[2])
    following = [asyncio.create_task(reader.follow(port), name=reader.query) for reader in readers]
    last = chance.randint(BATCHES_MIN, BATCHES_MAX)
    async with connected(served.url) as client:
        for number in range(last):
            await client.post(f"{SCENE}/batch", json={"commands": commands(chance)})
            if number == last - 1:
                if chance.random() < 0.5:
                    asyncio.get_running_loop().call_later(chance.uniform(0, 0.01), served.kill)
                    await broken(client, chance)
                served.kill()
    await asyncio.gather(*following)


async def broken(client: Asks, chance: random.Random) -> None:
    """Send one more batch, whose answer may or may not come."""
    try:
        await client.post(f"{SCENE}/batch", json={"commands": commands(chance)})
    except httpx.TransportError:
        return


def commands(chance: random.Random) -> list[dict[str, Any]]:
    """Draw some commands for a few characters, some of which are refused."""
    token = {"layer": "base", "epoch": 1, "generation": 1_000_000, "from": "Idle", "to": "Hit", "seal": "1-0"}
    drawn: list[dict[str, Any]] = []
    for _ in range(chance.randint(1, 9)):
        who = f"hero-{chance.randrange(3)}"
        drawn.append(
            chance.choice(
                [
                    {"command": "spawn", "character": who},
                    {"command": "begin", "character": who, "layer": "base", "target": "Run"},
                    {"command": "complete", "character": who, "token": {"character": who, **token}},
                    {"command": "commit-parameters", "character": who, "values": [{"name": "Speed", "value": 1}]},
                ]
            )
        )
    return drawn


async def test_what_watchers_read_over_all_kills_is_the_history_without_a_gap_or_a_repeat(tmp_path: Path):
    chance, readers = random.Random(SEED), [Reader(query) for query in QUERIES]
    journal = f"sqlite:{tmp_path / 'posegate.db'}"
    for _ in range(ROUNDS):
        with dying(journal) as served:
            async with connected(served.url) as client:
                await client.put(f"{SCENE}/characters/hero-0", json={})
            await killed_while_watched(served, readers, chance)

    with dying(journal) as served:
        async with connected(served.url) as client:
            decisions = await history_of(client, "room")
        port = int(served.url.rpartition(":")[2])
        following = [asyncio.create_task(reader.follow(port), name=reader.query) for reader in readers]
        wanted = [[decision for decision in decisions if reader.wants(decision)] for reader in readers]
        await until(lambda: all(len(reader.read) >= len(of) for reader, of in zip(readers, wanted, strict=True)))
        served.kill()
        await asyncio.gather(*following)

    print(f"{len(decisions)} decisions over {ROUNDS} kills, seed {SEED}")
    for reader, expected in zip(readers, wanted, strict=True):
        assert expected
        assert reader.read == expected, reader.query
