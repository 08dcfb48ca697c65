"""A batch decides each command on its own, in order, and answers in the same place."""

import json
from typing import Any

import pytest

from app.api.batch import decoded
from app.api.callers import ANYBODY
from app.api.problems import ProblemError
from app.sequencing.mailbox import Addressed
from app.settings import Settings
from tests.support.caller import Caller, problem_of

RUN = {"command": "begin", "character": "hero", "layer": "base", "target": "Run"}


def test_what_cannot_be_decoded_stands_in_its_place_and_the_rest_is_decided(call: Caller):
    commands = [RUN, {"command": "nothing", "character": "hero"}, 4, {**RUN, "target": "Fly"}, {**RUN, "target": "Hit"}]

    answers = call.ask("POST", "batch", {"commands": commands}).body["answers"]

    assert [answer.get("outcome") for answer in answers] == ["granted", None, None, "unknown_state", "granted"]
    assert [problem_of(answers[place]["problem"])[0] for place in (1, 2)] == ["invalid", "invalid"]
    assert answers[4]["superseded"]["to"] == "Run"
    assert [answers[place]["sequence"] for place in (0, 3, 4)] == [2, 3, 4]


def test_a_batch_of_nothing_answers_nothing(call: Caller):
    before = call.inspect()

    reply = call.ask("POST", "batch", {"commands": []})

    assert (reply.status, reply.body) == (200, {"answers": []})
    assert call.inspect() == before


def test_a_key_twice_in_one_batch_is_decided_once(call: Caller):
    keyed = {**RUN, "key": "12345678"}

    first, second, other = call.ask("POST", "batch", {"commands": [keyed, keyed, {**keyed, "target": "Hit"}]}).body[
        "answers"
    ]

    assert first == second
    assert problem_of(other["problem"])[:2] == ("key-reused", 422)
    assert call.inspect()["layers"]["base"]["generation"] == 1


def test_spawn_and_despawn_are_commands_of_a_batch(call: Caller):
    commands = [
        {"command": "spawn", "character": "other"},
        {"command": "spawn", "character": "other"},
        {"command": "begin", "character": "other", "layer": "base", "target": "Run"},
        {"command": "despawn", "character": "other", "life": 1},
        {"command": "begin", "character": "other", "layer": "base", "target": "Run"},
    ]

    spawned, again, begun, ended, late = call.ask("POST", "batch", {"commands": commands}).body["answers"]

    assert (spawned["outcome"], spawned["created"], again["created"]) == ("spawned", True, False)
    assert (begun["outcome"], ended["outcome"]) == ("granted", "despawned")
    assert problem_of(late["problem"])[0] == "unknown-character"


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ({}, "commands"),
        ({"commands": None}, "commands"),
        ({"commands": {"0": RUN}}, "commands"),
        ({"commands": [], "link": True}, "link"),
        ({"commands": [], "unknown": 1}, "unknown"),
    ],
)
def test_an_envelope_that_is_none_is_invalid(call: Caller, body: Any, at: str):
    assert call.ask("POST", "batch", body).problem == ("invalid", 422, at)


@pytest.mark.parametrize(
    ("command", "at"),
    [
        ({"character": "hero"}, "command"),
        ({"command": None, "character": "hero"}, "command"),
        ({"command": "begin"}, "character"),
        ({"command": "begin", "character": 4}, "character"),
        ({**RUN, "key": 4}, "key"),
        ({**RUN, "key": "short"}, "key"),
        ({**RUN, "scene": "match-7"}, None),
        (None, None),
        ([RUN], None),
    ],
)
def test_a_place_that_holds_no_command_says_what_it_lacks(call: Caller, command: Any, at: str | None):
    [answer] = call.ask("POST", "batch", {"commands": [command]}).body["answers"]

    name, status, place = problem_of(answer["problem"])
    assert (name, status) == ("invalid", 422)
    assert at is None or place == at


async def test_a_batch_of_one_command_too_many_is_too_large_as_a_whole():
    settings = Settings(journal="memory:", batch_commands_max=2)

    assert all(
        isinstance(place, Addressed) for place in await decoded({"commands": [dict(RUN), dict(RUN)]}, settings, ANYBODY)
    )
    with pytest.raises(ProblemError) as raised:
        await decoded({"commands": [dict(RUN)] * 3}, settings, ANYBODY)

    assert (raised.value.name, raised.value.at, raised.value.limit) == ("too-large", "commands", 2)


def test_a_whole_batch_is_one_entry_of_the_journal_and_each_command_one_sequence(call: Caller):
    commands = [RUN for _ in range(1000)]

    answers = call.ask("POST", "batch", json.dumps({"commands": commands}).encode()).body["answers"]

    assert [answer["sequence"] for answer in answers] == list(range(2, 1002))
    assert [answer["token"]["generation"] for answer in answers] == list(range(1, 1001))
