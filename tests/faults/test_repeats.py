"""Every request comes once, twice or three times, in any order, over 8 connections: each is decided exactly once."""

import asyncio
import os
import random
from contextlib import nullcontext
from pathlib import Path

import httpx
import pytest

from tests.faults.drawn import Asked, Draw, check_twin, outcomes_of
from tests.faults.ledger import check_verified
from tests.faults.twin import client_of, secret_of, twin
from tests.support.process import Process, process

ROUNDS = max(2, int(os.environ.get("POSEGATE_FAULT_ROUNDS", "0")) // 10)
SEED = int(os.environ.get("POSEGATE_FAULT_SEED", "20261130"))
WAVES, WAVE_REQUESTS = 3, 50
TIMES_MAX = 3
WINDOW_REQUESTS = 40
"""How far a copy of a request may stray from its place."""

CONNECTIONS = 8
SHOWN = ROUNDS > 2
"""Whether rounds are told as they come; a failure names its seed anyway."""


def shuffled(wave: list[Asked], chance: random.Random) -> list[Asked]:
    """Give every request 1 to 3 times, each time somewhere within the window around its place."""
    strewn = [
        (place + chance.uniform(0, WINDOW_REQUESTS), copy, asked)
        for place, asked in enumerate(wave)
        for copy in range(chance.randint(1, TIMES_MAX))
    ]
    return [asked for _, _, asked in sorted(strewn, key=lambda each: each[:2])]


async def sent_over(clients: list[httpx.AsyncClient], requests: list[Asked]) -> None:
    """Send requests in this order, each as soon as a connection is free."""
    waiting = iter(requests)

    async def work(client: httpx.AsyncClient) -> None:
        for asked in waiting:
            assert await asked.send(client)

    async with asyncio.TaskGroup() as group:
        for number, client in enumerate(clients):
            group.create_task(work(client), name=f"connection {number}")


async def repeated(served: Process, scene: str, chance: random.Random) -> Draw:
    """Send what is drawn, wave after wave; each wave builds on the answers of the one before."""
    draw = Draw(scene, chance)
    clients = [client_of(served.url) for _ in range(CONNECTIONS)]
    await draw.spawn(clients[0])
    for _ in range(WAVES):
        await sent_over(clients, shuffled(draw.wave(WAVE_REQUESTS), chance))
    await sent_over(clients, shuffled(draw.asked, chance))
    for client in clients:
        await client.aclose()
    return draw


async def test_requests_that_come_again_and_out_of_order_are_decided_once_and_answered_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    journal, outcomes = f"sqlite:{tmp_path / 'p.db'}", set[str]()
    with process(journal) as served:
        for number in range(ROUNDS):
            scene, chance = f"round-{number}", random.Random(SEED + number)
            with capsys.disabled() if SHOWN else nullcontext():
                print(f"repeats: round {number + 1} of {ROUNDS}, seed {SEED + number}", flush=True)
            try:
                draw = await repeated(served, scene, chance)
                async with client_of(served.url) as client, twin(await secret_of(journal)) as other:
                    await check_twin(client, other, draw.asked, scene)
            except BaseException as error:
                error.add_note(f"seed {SEED + number}")
                raise
            outcomes |= outcomes_of(draw.asked)
    assert {"granted", "committed", "stale_generation", "duplicate", "delivered", "bundled", "ticked"} <= outcomes
    await check_verified(journal, "round-0", {})
