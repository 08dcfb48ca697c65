"""One key, many posts at the same time: one decision, and everybody is given its answer."""

import asyncio
import os
import random
from typing import Any

import httpx
import pytest

from tests.faults.twin import client_of
from tests.support.caller import RIG
from tests.support.process import Process, process

ROUNDS = max(1, int(os.environ.get("POSEGATE_FAULT_ROUNDS", "0")) // 10)
POSTS = 64
SEED = int(os.environ.get("POSEGATE_FAULT_SEED", "20261130"))

BEGIN: dict[str, Any] = {"command": "begin", "character": "hero", "layer": "base", "target": "Run"}
EVENT: dict[str, Any] = {"clip_instance": 41, "loop": 0, "frame": 12, "kind": "footstep"}
REQUESTS: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "begin": ("POST", "characters/hero/begin", {"layer": "base", "target": "Run"}, 1),
    "enqueue": ("POST", "characters/hero/enqueue", EVENT, 1),
    "commit-parameters": (
        "POST",
        "characters/hero/commit-parameters",
        {"values": [{"name": "Jump", "value": True}]},
        1,
    ),
    "refused": ("POST", "characters/hero/begin", {"layer": "base", "target": "Fly"}, 1),
    "bundle": ("POST", "bundle", {"commands": [BEGIN, {**BEGIN, "layer": "face", "target": "Smile"}], "link": True}, 1),
    "tick": ("POST", "tick", {"requests": [{"tick": 1, "source": "ai", "number": 1, **BEGIN}], "seal": 1}, 1),
    "batch": ("POST", "batch", {"commands": [{**BEGIN, "key": "one-of-two"}, {**BEGIN, "key": "two-of-two"}]}, 2),
    "spawn": ("PUT", "characters/other", {"rig": RIG}, 1),
}
"""A request of each kind, and how many decisions it is."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with process(f"sqlite:{tmp_path_factory.mktemp('many') / 'p.db'}") as served:
        yield served


async def sequence_of(client: httpx.AsyncClient, scene: str) -> int:
    response = await client.get(f"/v1/scenes/{scene}")
    sequence: int = response.json()["sequence"]
    return sequence


async def posted(clients: list[httpx.AsyncClient], requests: list[httpx.Request]) -> list[httpx.Response]:
    """Send all requests at once, a connection each."""
    return list(await asyncio.gather(*(c.send(r) for c, r in zip(clients, requests, strict=True))))


async def opened(served: Process) -> list[httpx.AsyncClient]:
    """Open the connections, so that the posts do not wait for them one by one."""
    clients = [client_of(served.url) for _ in range(POSTS)]
    for client in clients:
        assert (await client.get("/livez")).status_code == 200
    return clients


@pytest.mark.parametrize("kind", REQUESTS)
async def test_64_posts_with_one_key_are_one_decision_and_64_equal_answers(served: Process, kind: str):
    method, place, body, decisions = REQUESTS[kind]
    clients = await opened(served)
    for number in range(ROUNDS):
        scene = f"{kind}-{number}"
        assert (await clients[0].put(f"/v1/scenes/{scene}/characters/hero", json={"rig": RIG})).status_code == 201
        headers = {"Idempotency-Key": "the-only-key"}

        path = f"/v1/scenes/{scene}/{place}"
        answers = await posted(clients, [c.build_request(method, path, json=body, headers=headers) for c in clients])

        assert {answer.status_code for answer in answers} <= {200, 201}, answers[0].text
        assert len({(answer.status_code, answer.content) for answer in answers}) == 1
        assert await sequence_of(clients[0], scene) == 1 + decisions
    await asyncio.gather(*(client.aclose() for client in clients))


async def test_64_posts_of_different_commands_with_one_key_are_one_decision_and_the_others_are_told(served: Process):
    """Which comes first is nobody's to say; what came first has the key."""
    chance = random.Random(SEED)
    clients = await opened(served)
    for number in range(ROUNDS):
        scene = f"different-{number}"
        await clients[0].put(f"/v1/scenes/{scene}/characters/hero", json={"rig": RIG})
        targets = [chance.choice(["Run", "Hit"]) for _ in clients]
        headers = {"Idempotency-Key": "the-only-key"}

        answers = await posted(
            clients,
            [
                client.build_request(
                    "POST",
                    f"/v1/scenes/{scene}/characters/hero/begin",
                    json={"layer": "base", "target": target},
                    headers=headers,
                )
                for client, target in zip(clients, targets, strict=True)
            ],
        )

        decided = {target for target, answer in zip(targets, answers, strict=True) if answer.status_code == 200}
        assert len(decided) == 1, f"seed {SEED}"
        for target, answer in zip(targets, answers, strict=True):
            if target in decided:
                assert answer.json()["token"]["to"] == target
            else:
                assert (answer.status_code, answer.json()["type"]) == (422, "/problems/key-reused")
        assert await sequence_of(clients[0], scene) == 2
    await asyncio.gather(*(client.aclose() for client in clients))
