"""Talk: a message is read as strictly as a body, and answered by its number."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.api.callers import ANYBODY, Caller, Role
from app.api.formats import JSON
from app.api.problems import ProblemError
from app.api.talk import Said, Service, Talk, Wish, failure
from app.gates.decision import Problem, Undecided
from app.gates.event_commands import Play
from app.journal.port import CommitUnknown
from app.main import build
from app.sequencing.mailbox import Addressed
from app.settings import Settings

PLAY = {"id": 7, "command": "play", "character": "hero", "clip": "Walk"}


@asynccontextmanager
async def talking(caller: Caller = ANYBODY, **settings: Any) -> AsyncIterator[Talk]:
    """Talk to a service with a memory journal."""
    given = Settings(journal="memory:", **settings)
    app = build(given)
    async with app.router.lifespan_context(app):
        state = app.state
        service = Service(state.registry, state.security, given, state.metrics, state.contained)
        yield Talk(service, scene="room", caller=caller, authorization=[], form=JSON)


def heard(talk: Talk, message: Any) -> Said:
    return talk.heard(message if isinstance(message, bytes) else json.dumps(message).encode())


def problem(said: Said) -> tuple[str, str | None]:
    assert isinstance(said.what, ProblemError)
    return said.what.name, said.what.at


async def test_a_command_is_read_with_its_envelope():
    async with talking() as talk:
        said = heard(talk, {**PLAY, "key": "a-key-of-mine"})

        assert said == Said(7, Addressed("hero", Play(clip="Walk"), "a-key-of-mine"))


async def test_what_is_asked_of_the_channel_is_a_wish_with_or_without_a_number():
    async with talking() as talk:
        assert heard(talk, {"watch": {"after": 1}}) == Said(None, Wish("watch", {"after": 1}))
        assert heard(talk, {"id": 2, "unwatch": True}) == Said(2, Wish("unwatch", True))


@pytest.mark.parametrize(
    ("message", "named", "number"),
    [
        (b"", ("malformed-json", None), None),
        (b'{"id":1,"id":2}', ("duplicate-json-key", None), None),
        (b"[" * 100_000, ("too-large", None), None),
        (b'{"id":1,"data":[' + b"0," * 32_768 + b"0]}", ("too-large", None), None),
        ([], ("invalid", None), None),
        ({**PLAY, "id": -1}, ("invalid", "id"), None),
        ({"command": "play"}, ("invalid", "id"), None),
        ({"id": 1}, ("invalid", "command"), 1),
        ({**PLAY, "more": 1}, ("invalid", "more"), 7),
        ({**PLAY, "character": "-"}, ("invalid", "character"), 7),
        ({"id": 1, "command": "tick", "character": "hero"}, ("invalid", "character"), 1),
        ({"id": 1, "watch": {}, "key": "k"}, ("invalid", "key"), 1),
        ({"id": 1, "command": "complete", "character": "hero", "token": {"answer": 0}}, ("invalid", "token.answer"), 1),
    ],
)
async def test_what_asks_nothing_says_why_under_its_number(message: Any, named: tuple[str, str], number: int | None):
    async with talking() as talk:
        said = heard(talk, message)

        assert (problem(said), said.number) == (named, number)


async def test_a_command_counts_with_those_inside_of_it():
    member = {"command": "play", "character": "hero", "clip": "Walk"}
    async with talking() as talk:
        assert heard(talk, PLAY).commands == 1
        assert heard(talk, {"id": 1, "command": "bundle", "commands": [member] * 3}).commands == 4
        assert heard(talk, {"id": 1, "command": "tick", "seal": 1}).commands == 1


async def test_messages_count_against_the_rate_whatever_they_are_and_those_counted_ahead_only_once():
    async with talking(caller_commands_per_s_max=4) as talk:
        talk.expect(3)
        talk.expect(3)

        named = [problem(heard(talk, b"no"))[0] for _ in range(6)]

        assert named[:3] == ["malformed-json"] * 3
        assert named[-1] == "too-many-requests"


async def test_more_at_once_than_a_rate_takes_is_counted_one_by_one():
    async with talking(caller_commands_per_s_max=2) as talk:
        talk.expect(100)

        assert problem(heard(talk, b"no"))[0] == "malformed-json"


async def test_who_only_reads_gives_no_command_and_who_gives_commands_may_not_read():
    session = Caller("session/match/player", Role.SESSION, scene="room", characters={"hero": 1})
    async with talking(Caller("key/ops", Role.OPS)) as talk:
        assert problem(heard(talk, PLAY))[0] == "forbidden"
        talk.require_reader()
    async with talking(session) as talk:
        with pytest.raises(ProblemError, match="nothing else"):
            talk.require_reader()


async def test_while_the_service_drains_commands_are_told_so_and_nothing_is_sent():
    async with talking() as talk:
        talk.service.registry.drain()

        assert problem(heard(talk, PLAY))[0] == "draining"


async def test_answers_stand_for_the_messages_that_asked_in_their_order():
    async with talking() as talk:
        said = [heard(talk, {**PLAY, "id": 1}), heard(talk, b"no"), heard(talk, {"id": 3, "unwatch": True})]
        said.append(heard(talk, {**PLAY, "id": 4}))
        absent = Undecided(Problem.UNKNOWN_CHARACTER, "nobody")

        answers = [json.loads(answer) for answer in talk.answers(said, [absent, absent])]
        unknown = [json.loads(answer) for answer in talk.answers(said, CommitUnknown("?"))]

        assert [answer.get("id") for answer in answers] == [1, None, 4]
        assert [answer["problem"]["type"].rpartition("/")[2] for answer in unknown] == [
            "commit-unknown",
            "malformed-json",
            "commit-unknown",
        ]


def test_every_failure_has_its_problem_and_what_nobody_foresaw_tells_nothing():
    assert failure(CommitUnknown("?")).name == "commit-unknown"
    assert failure(ProblemError("invalid", "x")).name == "invalid"
    assert failure(RuntimeError("a secret")).detail == "the service made a mistake; its log says more"
