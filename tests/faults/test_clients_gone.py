"""Clients go away in the middle: what they asked happened whole or not at all, and their key settles which."""

import asyncio
import os
import random
from contextlib import nullcontext
from pathlib import Path

import httpx
import pytest

from tests.faults.drawn import Asked, Draw, check_twin
from tests.faults.leaving import WAYS, go_away, raw
from tests.faults.ledger import check_verified
from tests.faults.twin import client_of, secret_of, twin
from tests.support.process import Process, process

ROUNDS = max(2, int(os.environ.get("POSEGATE_FAULT_ROUNDS", "0")) // 10)
SEED = int(os.environ.get("POSEGATE_FAULT_SEED", "20261130"))
WAVES, WAVE_REQUESTS = 3, 32
CLIENTS = 8
LARGE_COMMANDS = 1_500
SHOWN = ROUNDS > 2
"""Whether rounds are told as they come; a failure names its seed anyway."""


async def gone(served: Process, client: httpx.AsyncClient, wave: list[Asked], chance: random.Random) -> tuple[int, int]:
    """Send each request as one who goes away, twice perhaps; settle it by its key, at once or behind the others.

    Of those behind the others, say how many had been decided for the one who went away, and how many there were.
    """
    later: list[Asked] = []
    for asked in wave:
        for _ in range(chance.randint(1, 2)):
            await go_away(served, raw(asked), chance.choice(WAYS), chance)
        if chance.random() < 0.5:
            assert await asked.send(client)
        else:
            later.append(asked)
    seen = (await client.get(wave[0].scene)).json()["sequence"]
    for asked in later:
        assert await asked.send(client)
    return sum(asked.decisions[0]["sequence"] <= seen for asked in later), len(later)


async def crowd_of_gone(served: Process, scene: str, seed: int) -> tuple[Draw, int, int]:
    """Let several clients go away at the same time; whoever only ever sent half of a request asked for nothing.

    Give what was asked, and what `gone` counts.
    """
    chance = random.Random(seed)
    counted: list[asyncio.Task[tuple[int, int]]] = []
    draw, abandoned = Draw(scene, chance), Draw(scene, random.Random(-seed))
    async with client_of(served.url) as client:
        await draw.spawn(client)
        for _ in range(WAVES):
            wave = [*draw.wave(WAVE_REQUESTS), draw.large(LARGE_COMMANDS)]
            chance.shuffle(wave)
            async with asyncio.TaskGroup() as group:
                for number in range(CLIENTS):
                    own = random.Random(f"{seed} {number} {len(draw.asked)}")
                    going = gone(served, client, wave[number::CLIENTS], own)
                    counted.append(group.create_task(going, name=f"client {number}"))
                for asked in abandoned.wave(CLIENTS):
                    half = go_away(served, raw(asked), "sends half", random.Random(asked.key))
                    group.create_task(half, name="client that never asked")
    decided, of = map(sum, zip(*(each.result() for each in counted), strict=True))
    return draw, decided, of


async def test_what_clients_that_went_away_asked_for_happened_whole_or_not_at_all_and_is_settled_by_its_key(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    journal = f"sqlite:{tmp_path / 'p.db'}"
    with process(journal) as served:
        for number in range(ROUNDS):
            scene, seed = f"round-{number}", SEED + number
            with capfd.disabled() if SHOWN else nullcontext():
                print(f"clients gone: round {number + 1} of {ROUNDS}, seed {seed}", flush=True)
            try:
                draw, decided, of = await crowd_of_gone(served, scene, seed)
                async with client_of(served.url) as client, twin(await secret_of(journal)) as other:
                    await check_twin(client, other, draw.asked, scene)
            except BaseException as error:
                error.add_note(f"seed {seed}")
                raise
            assert 0 < decided < of, "nobody went away before the answer, or everybody before the decision"
        served.terminate()
        assert await asyncio.to_thread(served.ended) == 0
    await check_verified(journal, "round-0", {})
    said = capfd.readouterr().err
    assert "Traceback" not in said, said
    assert '"fault"' not in said, said
