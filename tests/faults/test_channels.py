"""Channels to a process that is killed, stopped or left: what was answered is there, once; keys settle the rest."""

import asyncio
import json
import os
import random
from pathlib import Path
from typing import Any

import httpx

from tests.faults.connected import connected
from tests.faults.test_kill import history_of, without_seals
from tests.support.channelled import MSGPACK, Caller, channel
from tests.support.process import Process, process
from tests.support.wire import until

KILLS = max(3, int(os.environ.get("POSEGATE_FAULT_ROUNDS", "0")) // 5)
SEED = int(os.environ.get("POSEGATE_FAULT_SEED", "20261130"))
MESSAGES = 300
CLIENTS = 200
SCENE = "room"


def asked(client: int, number: int) -> dict[str, Any]:
    """One command of one client: its id says which, and so does its key."""
    key = f"client-{client:03}-{number:06}"
    if number % 3 == 0:
        return {"id": number, "command": "play", "character": f"hero-{client}", "clip": "Walk", "key": key}
    if number % 3 == 1:
        values = [{"name": "Speed", "value": number}]
        return {
            "id": number,
            "command": "commit-parameters",
            "character": f"hero-{client}",
            "values": values,
            "key": key,
        }
    return {
        "id": number,
        "command": "begin",
        "character": f"hero-{client}",
        "layer": "base",
        "target": "Run",
        "key": key,
    }


async def spawned(served: Process, count: int) -> None:
    async with connected(served.url) as client:
        for number in range(count):
            response = await client.put(f"/v1/scenes/{SCENE}/characters/hero-{number}", json={})
            assert response.status_code in (200, 201), response.text


async def heard(caller: Caller, answers: dict[int, Any]) -> None:
    """Take answers until the connection ends."""
    try:
        while True:
            message = await caller.hear()
            assert message["id"] not in answers or answers[message["id"]] == message["answer"], message
            answers[message["id"]] = message["answer"]
    except ConnectionError:
        return


async def settle(caller: Caller, client: int, answers: dict[int, Any]) -> None:
    """Ask everything again, under the same keys."""
    caller.say(*[asked(client, number) for number in range(MESSAGES)])
    for _ in range(MESSAGES):
        message = await caller.hear()
        assert "answer" in message, message
        assert answers.setdefault(message["id"], message["answer"]) == message["answer"], message


async def test_killed_in_the_middle_nothing_answered_is_lost_and_the_same_keys_settle_the_rest(tmp_path: Path):
    chance = random.Random(SEED)
    journal = f"sqlite:{tmp_path / 'posegate.db'}"
    told: list[dict[int, Any]] = [{} for _ in range(4)]
    for _ in range(KILLS):
        with process(journal) as served:
            await spawned(served, len(told))
            await killed_while_writing(served, told, after=chance.randint(1, MESSAGES))
    with process(journal) as served:
        for number, answers in enumerate(told):
            async with channel(served.port, SCENE, sub_protocol=MSGPACK if number % 2 else None) as caller:
                await settle(caller, number, answers)
        async with connected(served.url) as client:
            history = await history_of(client, SCENE)

    by_sequence = {answer["sequence"]: answer for answers in told for answer in answers.values()}
    decided = [decision for decision in history if decision["command"] != "spawn"]
    assert len(by_sequence) == len(decided) == MESSAGES * len(told), f"seed {SEED}"
    assert all(without_seals(by_sequence[each["sequence"]]) == each["answer"] for each in decided), f"seed {SEED}"


async def killed_while_writing(served: Process, told: list[dict[int, Any]], *, after: int) -> None:
    """Have every client write all it has, and kill the process once one has so many answers."""

    async def write(client: int) -> None:
        async with channel(served.port, SCENE) as caller:
            caller.say(*[asked(client, number) for number in range(MESSAGES)])
            answers: dict[int, Any] = {}
            hearing = asyncio.ensure_future(heard(caller, answers))
            await until(lambda: len(answers) >= after or hearing.done())
            served.kill()
            await hearing
            for number, answer in answers.items():
                assert told[client].setdefault(number, answer) == answer, (client, number)

    await asyncio.gather(*[write(client) for client in range(len(told))])


async def test_told_to_stop_every_message_is_answered_before_the_channel_is_closed(tmp_path: Path):
    with process(f"sqlite:{tmp_path / 'posegate.db'}", drain_ms="200") as served:
        await spawned(served, 8)

        async def write(client: int) -> tuple[list[Any], tuple[int, str]]:
            async with channel(served.port, SCENE) as caller:
                caller.say(*[asked(client, number) for number in range(MESSAGES)])
                first = await caller.hear()
                served.terminate() if client == 0 else None
                messages = [first, *await caller.hear_all(MESSAGES - 1)]
                return messages, await caller.closed()

        outcomes = await asyncio.gather(*[write(client) for client in range(8)])
        ended = served.ended()

    problems = {m["problem"]["type"] for messages, _ in outcomes for m in messages if "problem" in m}
    assert ended == 0
    assert all(sorted(m["id"] for m in messages) == list(range(MESSAGES)) for messages, _ in outcomes)
    assert {closed[0] for _, closed in outcomes} == {1001}
    assert problems <= {"/problems/draining"}


async def test_two_hundred_clients_that_go_in_the_middle_leave_nothing_held():
    with process("memory:") as served:
        await spawned(served, 1)
        files_before = served.files_open

        async def go(client: int) -> None:
            chance = random.Random(SEED + client)
            async with channel(served.port, SCENE, receive_bytes=4_096) as caller:
                caller.say({"watch": {"snapshot": True}}, *[{**asked(0, number), "key": None} for number in range(50)])
                if chance.random() < 0.5:
                    await caller.hear()
                whole = caller.frame(asked(0, 0))
                caller.wire.send(whole[: chance.randrange(len(whole))])
                if chance.random() < 0.8:
                    caller.wire.reset()

        await asyncio.gather(*[go(client) for client in range(CLIENTS)])
        await until(lambda: served.files_open <= files_before)
        async with httpx.AsyncClient(base_url=served.url) as client:
            metrics = (await client.get("/metrics")).text
            there = await client.get(f"/v1/scenes/{SCENE}/characters/hero-0")

    lines = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))
    assert float(lines["posegate_channels"]) == float(lines["posegate_watchers"]) == 0
    assert float(lines["posegate_commands_waiting"]) == 0
    assert json.loads(there.text)["character"] == "hero-0"
