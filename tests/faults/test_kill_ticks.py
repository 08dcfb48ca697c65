"""A process is killed in the middle of bundles, seals, confirmations and rollbacks: all of it happened, or none."""

import asyncio
import random
from pathlib import Path
from typing import Any

import httpx

from app.main import build
from app.settings import Settings
from tests.support.process import Process, process

ROUNDS = 12
SEED = 20261130
CHARACTERS = [f"c{index}" for index in range(6)]
RIG = {"events": {"kinds": {"footstep": "presentation", "hit": {"class": "gameplay", "ends": "over"}}}}
STEPS = 60

Body = dict[str, Any]


def steps(chance: random.Random) -> list[tuple[str, Body]]:
    """Make the requests of one round: each is one decision over several characters."""
    made: list[tuple[str, Body]] = []
    sealed = confirmed = 0
    for number in range(STEPS):
        kind = chance.choice(["bundle", "seal", "seal", "seal", "rollback", "confirm"])
        if kind == "bundle":
            first, second = chance.sample(CHARACTERS, 2)
            commands = [
                {"command": "begin", "character": first, "layer": "base", "target": f"Grab{number}"},
                {"command": "begin", "character": second, "layer": "base", "target": f"Held{number}"},
                {"command": "complete", "character": first, "token": {"answer": 0}},
            ]
            made.append(("bundle", {"link": True, "commands": commands}))
        elif kind == "seal":
            sealed += 1
            made.append(("tick", {"requests": requests(chance, sealed, number), "seal": sealed}))
        elif kind == "rollback" and sealed > confirmed:
            back = chance.randint(confirmed, sealed - 1)
            again = [each for tick in range(back + 1, sealed + 1) for each in requests(chance, tick, number)]
            made.append(("tick", {"rollback": back, "requests": again, "seal": sealed}))
        elif kind == "confirm" and sealed > confirmed:
            confirmed = chance.randint(confirmed + 1, sealed)
            made.append(("tick", {"confirm": confirmed}))
    return made


def requests(chance: random.Random, tick: int, number: int) -> list[Body]:
    """Make the requests of one tick: transitions, parameters, events and their loop."""
    made: list[Body] = []
    for index, character in enumerate(CHARACTERS):
        event = {"clip_instance": 1, "loop": tick, "frame": chance.randint(0, 3)}
        command: Body = chance.choice(
            [
                {"command": "begin", "layer": "base", "target": f"Run{number}", "deadline_ticks": 3},
                {"command": "commit-parameters", "values": [{"name": "Speed", "value": number + index}]},
                {"command": "enqueue", **event, "kind": chance.choice(["footstep", "hit", "over"])},
                {"command": "commit-loop", "clip_instance": 1, "loop": tick},
            ]
        )
        made.append(
            {"tick": tick, "source": character, "number": number * 100 + tick, "character": character, **command}
        )
    return made


async def spawn(client: httpx.AsyncClient, scene: str) -> None:
    for character in CHARACTERS:
        response = await client.put(f"/v1/scenes/{scene}/characters/{character}", json={"rig": RIG})
        assert response.status_code == 201, response.text


async def send(client: httpx.AsyncClient, scene: str, number: int, step: tuple[str, Body]) -> Body:
    headers = {"Idempotency-Key": f"step-{number:06}"}
    response = await client.post(f"/v1/scenes/{scene}/{step[0]}", json=step[1], headers=headers)
    assert response.status_code == 200, response.text
    answer: Body = response.json()
    return answer


async def shown(client: httpx.AsyncClient, scene: str) -> Body:
    """Give all that can be seen of a scene, without times."""
    seen = {"scene": (await client.get(f"/v1/scenes/{scene}")).json()}
    for character in CHARACTERS:
        seen[character] = (await client.get(f"/v1/scenes/{scene}/characters/{character}")).json()
        kept = await client.get(f"/v1/scenes/{scene}/characters/{character}/deliveries")
        seen[f"{character} deliveries"] = kept.json()
    made: Body = timeless(seen)
    return made


def timeless(value: Any) -> Any:
    """Drop times, and seals, which belong to a journal."""
    if isinstance(value, list):
        return [timeless(each) for each in value]
    if not isinstance(value, dict):
        return value
    times = ("at", "committed_at", "begun_at", "opened_at")
    return {name: timeless(each) for name, each in value.items() if name not in times and not is_seal(name, each)}


def is_seal(name: str, value: Any) -> bool:
    return name == "seal" and isinstance(value, str)


async def killed(served: Process, scene: str, made: list[tuple[str, Body]], chance: random.Random) -> list[Body]:
    """Send requests one after another and kill the process during one of them; give the answers that came."""
    last, answers = chance.randint(2, len(made) - 1), list[Body]()
    async with httpx.AsyncClient(base_url=served.url, timeout=30) as client:
        await spawn(client, scene)
        for number, step in enumerate(made):
            if number == last:
                asyncio.get_running_loop().call_later(chance.uniform(0, 0.008), served.kill)
            try:
                answers.append(await send(client, scene, number, step))
            except httpx.TransportError:
                return answers
    raise AssertionError("the process was not killed")


async def check(served: Process, scene: str, made: list[tuple[str, Body]], answers: list[Body]) -> None:
    """Hold a scene of a killed process against one that decided as many of the same requests and was never killed."""
    async with httpx.AsyncClient(base_url=served.url, timeout=30) as client:
        count = (await client.get(f"/v1/scenes/{scene}")).json()["sequence"] - len(CHARACTERS)
        assert count >= len(answers), "an acknowledged decision is lost"
        twin = build(Settings(journal="memory:"))
        transport = httpx.ASGITransport(app=twin)
        async with (
            twin.router.lifespan_context(twin),
            httpx.AsyncClient(transport=transport, base_url="http://twin") as other,
        ):
            await spawn(other, scene)
            expected = [await send(other, scene, number, step) for number, step in enumerate(made[:count])]
            assert timeless(expected[: len(answers)]) == timeless(answers)
            assert await shown(client, scene) == await shown(other, scene), "a part of a decision is there"

            for number, step in enumerate(made[len(answers) :], start=len(answers)):
                lost, again = await send(client, scene, number, step), await send(other, scene, number, step)
                assert timeless(lost) == timeless(again), number
            assert await shown(client, scene) == await shown(other, scene)


async def test_a_bundle_a_seal_a_confirmation_and_a_rollback_survive_a_kill_whole_or_not_at_all(tmp_path: Path):
    journal = f"sqlite:{tmp_path / 'p.db'}"
    before: tuple[str, list[tuple[str, Body]], list[Body]] | None = None

    for number in range(ROUNDS + 1):
        chance = random.Random(SEED + number)
        with process(journal, checkpoint_decisions="5") as served:
            try:
                if before is not None:
                    await check(served, *before)
                if number < ROUNDS:
                    scene, made = f"round-{number}", steps(chance)
                    before = (scene, made, await killed(served, scene, made, chance))
            except BaseException as error:
                error.add_note(f"round {number}, seed {SEED + number - 1} of the round that was checked")
                raise
