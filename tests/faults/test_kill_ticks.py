"""A process is killed in the middle of bundles, seals, confirmations and rollbacks: all of it happened, or none."""

import random
from pathlib import Path

import httpx

from tests.faults.connected import Asks, connected
from tests.faults.dying import Dying, dying
from tests.faults.points import POINTS
from tests.faults.twin import Body, secret_of, shown, timeless, twin

ROUNDS = 12
SEED = 20261130
CHARACTERS = [f"c{index}" for index in range(6)]
RIG = {"events": {"kinds": {"footstep": "presentation", "hit": {"class": "gameplay", "ends": "over"}}}}
STEPS = 60


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


async def spawn(client: Asks, scene: str) -> None:
    for character in CHARACTERS:
        response = await client.put(f"/v1/scenes/{scene}/characters/{character}", json={"rig": RIG})
        assert response.status_code == 201, response.text


async def send(client: Asks, scene: str, number: int, step: tuple[str, Body]) -> Body:
    headers = {"Idempotency-Key": f"step-{number:06}"}
    response = await client.post(f"/v1/scenes/{scene}/{step[0]}", json=step[1], headers=headers)
    assert response.status_code == 200, response.text
    answer: Body = response.json()
    return answer


async def killed(served: Dying, scene: str, made: list[tuple[str, Body]], at: tuple[str, int]) -> list[Body]:
    """Send requests one after another to a process that dies at a point; give the answers that came."""
    answers: list[Body] = []
    async with connected(served.url) as client:
        await spawn(client, scene)
        served.doom.tell(*at)
        for number, step in enumerate(made):
            try:
                answers.append(await send(client, scene, number, step))
            except httpx.TransportError:
                break
    served.died()
    return answers


async def check(served: Dying, journal: str, scene: str, made: list[tuple[str, Body]], answers: list[Body]) -> None:
    """Hold a scene of a killed process against one that decided as many of the same requests and was never killed."""
    async with connected(served.url) as client, twin(await secret_of(journal)) as other:
        count = (await client.get(f"/v1/scenes/{scene}")).json()["sequence"] - len(CHARACTERS)
        assert count >= len(answers), "an acknowledged decision is lost"
        await spawn(other, scene)
        expected = [await send(other, scene, number, step) for number, step in enumerate(made[:count])]
        assert timeless(expected[: len(answers)]) == timeless(answers)
        same = await shown(client, scene, CHARACTERS) == await shown(other, scene, CHARACTERS)
        assert same, "a part of a decision is there"

        for number, step in enumerate(made[len(answers) :], start=len(answers)):
            lost, again = await send(client, scene, number, step), await send(other, scene, number, step)
            assert timeless(lost) == timeless(again), number
        assert await shown(client, scene, CHARACTERS) == await shown(other, scene, CHARACTERS)


async def test_a_bundle_a_seal_a_confirmation_and_a_rollback_survive_a_kill_whole_or_not_at_all(tmp_path: Path):
    journal = f"sqlite:{tmp_path / 'p.db'}"
    points = [name for name, point in POINTS.items() if not point.in_trims]
    before: tuple[str, list[tuple[str, Body]], list[Body]] | None = None

    for number in range(ROUNDS + 1):
        chance = random.Random(SEED + number)
        point = chance.choice(points)
        at = (point, chance.randint(1, POINTS[point].passages_max))
        with dying(journal, {"checkpoint_decisions": "5"}) as served:
            try:
                if before is not None:
                    await check(served, journal, *before)
                if number < ROUNDS:
                    scene, made = f"round-{number}", steps(chance)
                    before = (scene, made, await killed(served, scene, made, at))
            except BaseException as error:
                error.add_note(
                    f"round {number}, seed {SEED + number - 1} of the round that was checked; to die at {at}"
                )
                raise
