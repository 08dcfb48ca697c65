"""The same commands, good and bad, get the same answers on a channel, in either format, as from the other doors."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.api.contract import STRUCTS
from app.gates.decision import name_of
from tests.support.caller import RIG
from tests.support.channelled import JSON, MSGPACK, channel
from tests.support.watching import Service, service

SINGLE = frozenset(map(name_of, STRUCTS))
ENVELOPE = ("command", "character", "key")

TOKEN = "the newest token"
"""Stands for what only the scene itself can give."""

GOOD: list[dict[str, Any]] = [
    {"command": "begin", "layer": "base", "target": "Run"},
    {"command": "begin", "layer": "base", "target": "Idle", "if_same": "keep", "data": {"a": [1, "ü", None]}},
    {"command": "complete", "token": TOKEN},
    {"command": "cancel", "token": TOKEN},
    {"command": "fail", "token": TOKEN, "why": "slot missing"},
    {"command": "commit-parameters", "values": [{"name": "Speed", "value": 4.25}, {"name": "On", "value": True}]},
    {"command": "commit-parameters", "values": [{"name": "Speed", "value": float("inf")}]},
    {"command": "commit-parameters", "values": [{"name": "Speed", "value": 2**60}]},
    {"command": "play", "clip": "Walk", "layer": "base"},
    {"command": "enqueue", "clip_instance": 1, "loop": 0, "frame": 12, "kind": "footstep", "payload": {"x": 1.5}},
    {"command": "commit-loop", "clip_instance": 1, "loop": 0},
    {"command": "retire", "clip_instance": 1},
    {"command": "ack", "through": 0},
    {"command": "request-graph", "name": "CombatV8"},
    {
        "command": "submit-candidate",
        "request": 1,
        "name": "CombatV8",
        "outputs": ["Animator", "GameplayEvents"],
        "evaluation": {"succeeded": True, "pose": "combat@0"},
    },
    {"command": "withdraw-graph", "request": 1},
    {"command": "spawn", "rig": RIG},
    {"command": "spawn"},
    {"command": "bundle", "commands": [{"command": "play", "character": "hero", "clip": "Walk"}]},
    {
        "command": "bundle",
        "commands": [
            {"command": "begin", "character": "hero", "layer": "base", "target": "Run"},
            {"command": "complete", "character": "hero", "token": {"answer": 0}},
        ],
    },
    {
        "command": "tick",
        "requests": [
            {"tick": 1, "source": "ai", "number": 1, "command": "play", "character": "hero", "clip": "Walk"},
        ],
    },
    {"command": "tick", "seal": 1, "confirm": 0},
    {"command": "tick", "rollback": 0},
    {"command": "despawn", "life": 1},
]
ODD: list[Any] = [None, True, -1, 0, 1.5, 4.0, 2**53, "", "x", "Run", [], {}, [[]], "\u0000", "a" * 200, {"answer": 0}]
FIELDS = [
    *ENVELOPE,
    "layer",
    "target",
    "token",
    "values",
    "clip_instance",
    "loop",
    "life",
    "name",
    "request",
    "more",
    "seal",
]

_scenes = count(1)


def addressed(command: dict[str, Any]) -> dict[str, Any]:
    return command if command["command"] in ("bundle", "tick") else {"character": "hero", **command}


ALTERED = st.one_of(
    st.just({}),
    st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(ODD), min_size=1, max_size=2),
)
COMMANDS = st.tuples(st.sampled_from(GOOD), ALTERED, st.sampled_from([None, None, "key-number-1", "key-number-2"])).map(
    lambda drawn: {**addressed(drawn[0]), **({} if drawn[2] is None else {"key": drawn[2]}), **drawn[1]}
)


class Doors:
    """One service, and a way into it by each door."""

    def __init__(self, served: Service, stack: AsyncExitStack) -> None:
        self._served = served
        self._stack = stack

    async def answers(self, commands: list[dict[str, Any]]) -> list[list[Any]]:
        """Give commands to a fresh scene of each door, and what each was answered."""
        number = next(_scenes)
        said = []
        for door in (self._channel_json, self._channel_msgpack, self._batch):
            scene = f"{door.__name__.strip('_')}-{number}"
            path = f"/v1/scenes/{scene}/characters/hero"
            assert (await self._served.client.put(path, json={"rig": RIG})).status_code == 201
            said.append(await door(scene, commands))
        return said

    async def single(self, commands: list[dict[str, Any]]) -> list[Any]:
        """Give commands to a fresh scene one request at a time, each by its own path where it has one."""
        scene = f"single-{next(_scenes)}"
        client, answers, token = self._served.client, list[Any](), None
        await client.put(f"/v1/scenes/{scene}/characters/hero", json={"rig": RIG})
        for command in commands:
            given = filled(command, token)
            name, of_scene = given.get("command"), given.get("command") in ("bundle", "tick")
            place = f"/v1/scenes/{scene}" if of_scene else f"/v1/scenes/{scene}/characters/hero"
            if is_single(given):
                fields = {field: value for field, value in given.items() if field not in ENVELOPE}
                headers = {"Idempotency-Key": given["key"]} if "key" in given else {}
                headers["Content-Type"] = "application/json"
                got = await client.post(f"{place}/{name}", content=json.dumps(fields).encode(), headers=headers)
                answer = {"problem": got.json()} if got.status_code != 200 else got.json()
            else:
                body = json.dumps({"commands": [given]}).encode()
                got = await client.post(
                    f"/v1/scenes/{scene}/batch", content=body, headers={"Content-Type": "application/json"}
                )
                [answer] = got.json()["answers"]
            answers.append(answer)
            token = newest(answer, token)
        return [plain(answer) for answer in answers]

    async def _batch(self, scene: str, commands: list[dict[str, Any]]) -> list[Any]:
        answers, token = list[Any](), None
        for command in commands:
            body = json.dumps({"commands": [filled(command, token)]}).encode()
            got = await self._served.client.post(
                f"/v1/scenes/{scene}/batch", content=body, headers={"Content-Type": "application/json"}
            )
            answers += got.json()["answers"]
            token = newest(answers[-1], token)
        return [plain(answer) for answer in answers]

    async def _channel_json(self, scene: str, commands: list[dict[str, Any]]) -> list[Any]:
        return await self._channel(scene, commands, JSON)

    async def _channel_msgpack(self, scene: str, commands: list[dict[str, Any]]) -> list[Any]:
        return await self._channel(scene, commands, MSGPACK)

    async def _channel(self, scene: str, commands: list[dict[str, Any]], sub_protocol: str) -> list[Any]:
        answers, token = list[Any](), None
        async with channel(self._served.port, scene, sub_protocol=sub_protocol) as caller:
            for number, command in enumerate(commands):
                told = await caller.ask(**{"id": number, **filled(command, token)})
                while "applied" in told:
                    told = await caller.hear()
                assert told.pop("id") == number
                answer = told if "problem" in told else told["answer"]
                answers.append(answer)
                token = newest(answer, token)
        return [plain(answer) for answer in answers]


def is_single(command: dict[str, Any]) -> bool:
    """Say whether a command has a path of its own that stands for its whole envelope."""
    if any(type(value) is dict and value.keys() == {"answer"} for value in command.values()):
        return False  # It refers to what came before it, and alone it comes after nothing.
    name, key = command.get("command"), command.get("key", "a-sound-key")
    is_sound = type(key) is str and 8 <= len(key) <= 100 and type(name) is str
    if name in ("bundle", "tick"):
        return is_sound and "character" not in command
    return is_sound and name in SINGLE and command.get("character") == "hero"


def filled(command: dict[str, Any], token: Any) -> dict[str, Any]:
    """Put the newest token where it is stood for."""
    stand_in = token or {"character": "hero", "layer": "base", "epoch": 1, "generation": 9, "from": "Idle", "to": "Run"}
    return {field: stand_in if value == TOKEN else value for field, value in command.items()}


def newest(answer: Any, token: Any) -> Any:
    return answer.get("token") or token


def plain(answer: Any) -> Any:
    """Leave out what differs from scene to scene."""
    if isinstance(answer, dict):
        return {name: plain(value) for name, value in answer.items() if name not in ("seal", "digest", "instance")} | (
            {"seal": plain(answer["seal"])} if isinstance(answer.get("seal"), dict) else {}
        )
    return [plain(value) for value in answer] if isinstance(answer, list) else answer


@pytest.fixture(scope="module")
def doors() -> Iterator[tuple[asyncio.Runner, Doors]]:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        served = runner.run(stack.enter_async_context(service()))
        yield runner, Doors(served, stack)
        runner.run(stack.aclose())


@given(commands=st.lists(COMMANDS, min_size=1, max_size=12))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_door_answers_the_same(doors: tuple[asyncio.Runner, Doors], commands: list[dict[str, Any]]):
    runner, ways = doors

    by_channel, by_msgpack, by_batch = runner.run(ways.answers(commands))
    one_by_one = runner.run(ways.single(commands))

    assert by_channel == by_batch
    assert by_msgpack == by_batch
    assert one_by_one == by_batch


def test_the_good_ones_among_them_are_decided(doors: tuple[asyncio.Runner, Doors]):
    runner, ways = doors

    answers = runner.run(ways.answers([addressed(command) for command in GOOD]))

    outcomes = [answer.get("outcome") for answer in answers[0]]
    assert answers[0] == answers[1] == answers[2]
    assert {"granted", "committed", "opened", "accepted", "delivered", "bundled", "ticked"} <= set(outcomes)
