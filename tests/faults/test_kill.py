"""A serving process is killed under load: what it acknowledged is there afterwards, once, and nothing else is."""

import asyncio
import random
from itertools import count
from pathlib import Path
from typing import Any

from tests.faults.connected import Asks, connected
from tests.faults.dying import Dying, dying
from tests.faults.load import CHARACTERS, Load, Sent

ROUNDS = 20
SEED = 20261130
ANSWERS_MIN, ANSWERS_MAX = 16, 120
LATER_S_MAX = 0.02
RETRIED_AGAIN = 16
TOKEN_PARTS = ("token", "superseded")


async def killed_under_load(served: Dying, scene: str, chance: random.Random) -> Load:
    """Kill the process with a random answer, or a moment after it; give what was sent and answered until then."""
    load = Load(served.url, scene, chance)
    last = chance.randint(ANSWERS_MIN, ANSWERS_MAX)
    later_s = chance.choice([0, chance.uniform(0, LATER_S_MAX)])

    def answered(answers: int) -> None:
        if answers == last and not later_s:
            served.kill()
        elif answers == last:
            asyncio.get_running_loop().call_later(later_s, served.kill)

    await load.run(answered)
    return load


async def history_of(client: Asks, scene: str) -> list[dict[str, Any]]:
    """Read every decision of a scene."""
    decisions: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        response = await client.get(f"/v1/scenes/{scene}/history?after={after}")
        assert response.status_code == 200, response.text
        page = response.json()
        decisions += page["decisions"]
        after = page["next"]
    assert [decision["sequence"] for decision in decisions] == list(range(1, len(decisions) + 1))
    return decisions


def without_seals(answer: dict[str, Any]) -> dict[str, Any]:
    """Give an answer as the history shows it."""
    return {
        name: {part: item for part, item in value.items() if part != "seal"} if name in TOKEN_PARTS and value else value
        for name, value in answer.items()
    }


def check_acknowledged(sent: list[Sent], decisions: list[dict[str, Any]]) -> None:
    """Every acknowledged answer stands at its sequence, for the character and command that asked."""
    for one in sent:
        if one.answer is not None:
            assert one.answer["sequence"] <= len(decisions), f"lost: {one}"
            decision = decisions[one.answer["sequence"] - 1]
            held = (decision["character"], decision["command"], decision["answer"])
            assert held == (one.character, one.command, without_seals(one.answer)), f"changed: {one}, {decision}"


async def check_state(client: Asks, scene: str, decisions: list[dict[str, Any]]) -> None:
    """What is inspected is what the accepted decisions alone make; so nothing refused changed anything."""
    for number in range(CHARACTERS):
        character = f"hero-{number}"
        response = await client.get(f"/v1/scenes/{scene}/characters/{character}")
        if response.status_code == 404:
            assert not any(decision["character"] == character for decision in decisions)
            continue
        came = response.json()
        made = Made()
        for decision in decisions:
            if decision["character"] == character and decision["answer"]["accepted"]:
                made.take(decision)
        layer, instances = came["layers"]["base"], came["clip_instances"]
        pending = layer["pending"] and layer["pending"]["to"]
        assert (layer["current"], layer["generation"], pending) == (made.current, made.generation, made.pending)
        assert came["parameters"] == {"version": made.version, "values": made.values}
        assert [instance["committed_loop"] for instance in instances] == ([made.loop] if instances else [])
        assert sum(instance["pending"] for instance in instances) == len(made.waiting)
        assert came["deliveries"]["last"] == made.deliveries
        assert came["revision"] == made.revision


class Made:
    """What accepted decisions make of one character: a model too simple to be wrong."""

    def __init__(self) -> None:
        self.current, self.generation, self.pending = "Idle", 0, None
        self.version, self.revision, self.deliveries = 0, 0, 0
        self.values: dict[str, Any] = {}
        self.loop: int | None = None
        self.waiting: set[tuple[Any, ...]] = set()
        self.delivered: set[tuple[Any, ...]] = set()

    def take(self, decision: dict[str, Any]) -> None:
        asked, answer = decision["asked"], decision["answer"]
        self.revision = answer["revision"]
        match decision["command"]:
            case "begin":
                assert answer["token"]["generation"] == self.generation + 1
                assert answer["token"]["from"] == self.current
                self.generation, self.pending = answer["token"]["generation"], asked["target"]
            case "complete":
                assert asked["token"]["generation"] == self.generation
                self.current, self.pending = answer["current"], None
            case "commit-parameters":
                assert answer["version"] == self.version + 1
                self.version = answer["version"]
                self.values |= {item["name"]: item["value"] for item in asked["values"]}
            case "enqueue":
                key = event_key(asked)
                assert key not in self.waiting | self.delivered
                self.waiting.add(key)
            case "commit-loop":
                self.loop = asked["loop"]
                events = {event_key(event) for event in answer["events"]}
                assert len(events) == len(answer["events"])
                assert events <= self.waiting, "an event was delivered twice, or never accepted"
                self.waiting -= events
                self.delivered |= events
                self.deliveries = answer["delivery"] or self.deliveries
            case other:
                assert other == "spawn"


def event_key(event: dict[str, Any]) -> tuple[Any, ...]:
    return event["clip_instance"], event["loop"], event["frame"], event["kind"]


async def settle(client: Asks, load: Load, decisions: list[dict[str, Any]]) -> None:
    """Retry what was lost: the first answer, or a fresh decision. Retry the last again, lost or not: no change."""
    fresh = count(len(decisions) + 1)
    load.lost = [one for one in load.sent if one.answer is None]
    for sent in load.lost:
        assert await sent.send(client), sent
        assert sent.answer is not None
        sequence = sent.answer["sequence"]
        if sequence <= len(decisions):
            assert decisions[sequence - 1]["answer"] == without_seals(sent.answer)
        else:
            assert sequence == next(fresh)
    for sent in load.sent[-RETRIED_AGAIN:]:
        assert await sent.send(client), sent


async def check(served: Dying, load: Load) -> None:
    """Hold a scene of a killed process against what its writers know."""
    async with connected(served.url) as client:
        decisions = await history_of(client, load.scene)
        check_acknowledged(load.sent, decisions)
        await check_state(client, load.scene, decisions)

        await settle(client, load, decisions)

        settled = await history_of(client, load.scene)
        assert settled[: len(decisions)] == decisions
        assert len(settled) == CHARACTERS + len(load.sent), "each request was decided exactly once"
        check_acknowledged(load.sent, settled)
        await check_state(client, load.scene, settled)


async def test_what_was_acknowledged_survives_20_kills_and_every_lost_answer_is_settled_by_its_key(tmp_path: Path):
    journal = f"sqlite:{tmp_path / 'p.db'}"
    loads: list[Load] = []

    for number in range(ROUNDS + 1):
        with dying(journal) as served:
            try:
                if loads:
                    await check(served, loads[-1])
                if number < ROUNDS:
                    chance = random.Random(SEED + number)
                    loads.append(await killed_under_load(served, f"round-{number}", chance))
                else:
                    for load in loads:
                        async with connected(served.url) as client:
                            check_acknowledged(load.sent, await history_of(client, load.scene))
            except BaseException as error:
                error.add_note(f"round {number}, seed {SEED + number - 1} of the load that was checked")
                raise

    assert all(load.answers >= ANSWERS_MIN for load in loads)
    assert any(load.lost for load in loads), "no request was under way when the process was killed"
