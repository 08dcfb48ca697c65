"""The channel: commands in their order, many under way, each answered, however the channel and the service end."""

import asyncio
import json
import signal
from typing import Any

import pytest

from app.api.channel import Channel
from app.journal.port import CommitUnknown, JournalUnavailable
from app.sequencing.mailbox import Addressed
from app.sequencing.registry import Registry
from tests.support.channelled import MSGPACK, Caller, channel
from tests.support.keyed import KEYS, MATCH
from tests.support.watching import Service, service
from tests.support.wire import until

BEGIN = {"command": "begin", "character": "hero", "layer": "base", "target": "Run"}


def commands(count: int, *, first: int = 1, **more: Any) -> list[dict[str, Any]]:
    return [{"id": number, **BEGIN, **more} for number in range(first, first + count)]


def only(served: Service) -> Channel:
    """The one channel there is."""
    [there] = [each for each in served.server.server_state.connections if isinstance(each, Channel)]
    return there


async def test_answers_name_their_message_and_commands_are_decided_in_their_order():
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero")
        caller.say(*commands(3_000))

        answers = await caller.hear_all(3_000)

        assert [answer["id"] for answer in answers] == list(range(1, 3_001))
        assert [answer["answer"]["sequence"] for answer in answers] == list(range(2, 3_002))


async def test_messages_that_come_together_are_one_turn():
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero")
        before = served.app.state.metrics._turn_commands.total
        caller.say(*commands(500))
        await caller.hear_all(500)

        turns = served.app.state.metrics._turn_commands
        assert turns.total - before == 500
        assert sum(count for _, count in turns.buckets()) > 0
        history = (await served.client.get("/v1/scenes/room/history?limit=1000")).json()["decisions"]
        assert len({decision["at"] for decision in history}) <= 4


async def test_a_message_that_asks_nothing_is_told_why_at_its_place_and_the_channel_stays():
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero")
        first, last = commands(1)[0], commands(1, first=9)[0]
        caller.wire.send(
            caller.frame(first)
            + caller.frame({**BEGIN})
            + caller.frame([1])
            + caller.frame({"id": 3, "command": "begun", "character": "hero"})
            + caller.frame({"id": 4, **BEGIN, "character": "nobody"})
            + caller.frame({"id": "5", **BEGIN})
            + caller.frame({"id": 6, **BEGIN, "key": "short"})
            + caller.frame({"id": 7, **BEGIN, "token": 1})
            + caller.frame(last)
        )

        told = await caller.hear_all(9)

        assert [message.get("id") for message in told] == [1, None, None, 3, 4, None, 6, 7, 9]
        problems = [message["problem"]["type"].rpartition("/")[2] for message in told if "problem" in message]
        assert problems == ["invalid", "invalid", "invalid", "unknown-character", "invalid", "invalid", "invalid"]
        counted = served.app.state.metrics._problems
        assert (counted["invalid"], counted["unknown-character"]) == (6, 1)


@pytest.mark.parametrize("number", [0, 1, 2**53 - 1, 4.0])
async def test_an_id_is_any_whole_number_that_clients_keep(number: float):
    async with service() as served, channel(served.port) as caller:
        assert (await caller.ask(id=number, command="spawn", character="hero"))["id"] == number


@pytest.mark.parametrize("number", [-1, 2**53, 1.5, "1", True, [1], None])
async def test_an_id_that_is_none_gets_a_problem_without_one(number: Any):
    async with service() as served, channel(served.port) as caller:
        told = await caller.ask(id=number, command="spawn", character="hero")

        assert set(told) == {"problem"}
        assert told["problem"]["at"] == "id"
        assert (await served.client.get("/v1/scenes/room")).status_code == 404


async def test_a_key_gets_the_same_answer_on_another_channel_and_at_another_door():
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero")
        keyed = {"id": 1, **BEGIN, "key": "a-key-of-mine"}
        first = await caller.ask(**keyed)
        async with channel(served.port, sub_protocol=MSGPACK) as other:
            again = await other.ask(**{**keyed, "id": 7})
            reused = await other.ask(**{**keyed, "id": 8, "target": "Hit"})
        path = "/v1/scenes/room/characters/hero/begin"
        body = {"layer": "base", "target": "Run"}
        single = await served.client.post(path, json=body, headers={"Idempotency-Key": "a-key-of-mine"})

        assert again == {"id": 7, "answer": first["answer"]}
        assert single.json() == first["answer"]
        assert reused["problem"]["type"] == "/problems/key-reused"


class Stopped:
    """Stands between a registry and whoever sends it commands: they wait until they are let through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, registry: Registry) -> None:
        self.held: list[Any] = []
        self.commands = 0
        self._send = registry.send
        monkeypatch.setattr(registry, "send", self._hold)

    def _hold(self, scene: str, given: list[Addressed], reply: Any, *, caller: str) -> None:
        self.commands += len(given)
        self.held.append((scene, given, reply, caller))

    def let_through(self) -> None:
        held, self.held = self.held, []
        for scene, given, reply, caller in held:
            self._send(scene, given, reply, caller=caller)


async def test_while_enough_is_under_way_nothing_more_is_read(monkeypatch: pytest.MonkeyPatch):
    async with service(channel_commands_max=100) as served, channel(served.port) as caller:
        await served.spawn("hero")
        stopped = Stopped(monkeypatch, served.registry)
        caller.say(*commands(250))
        await until(lambda: only(served).is_paused)
        under_way = stopped.commands
        caller.say(*commands(50, first=251))

        heard: list[int] = []
        while len(heard) < 300:
            stopped.let_through()
            heard += [message["id"] for message in await caller.hear_all(50)]
            await asyncio.sleep(0)

        assert under_way == 100
        assert heard == list(range(1, 301))
        assert not only(served).is_paused


async def test_commands_inside_of_others_count_among_those_under_way(monkeypatch: pytest.MonkeyPatch):
    bundle = {"command": "bundle", "commands": [BEGIN] * 60}
    async with service(channel_commands_max=100) as served, channel(served.port) as caller:
        await served.spawn("hero")
        stopped = Stopped(monkeypatch, served.registry)
        caller.say(*[{"id": number, **bundle} for number in range(5)])
        await until(lambda: only(served).is_paused)

        assert stopped.commands == 2
        stopped.let_through()
        assert [message["id"] for message in await caller.hear_all(2)] == [0, 1]
        await until(lambda: stopped.commands == 4)
        stopped.let_through()
        assert [message["id"] for message in await caller.hear_all(2)] == [2, 3]
        await until(lambda: stopped.commands == 5)
        stopped.let_through()
        assert (await caller.hear())["answer"]["outcome"] == "bundled"


async def test_messages_under_way_have_a_bound_in_bytes_too(monkeypatch: pytest.MonkeyPatch):
    async with service(body_bytes_max=4_096) as served, channel(served.port) as caller:
        await served.spawn("hero")
        stopped = Stopped(monkeypatch, served.registry)
        caller.say(*commands(12, data="x" * 900))
        await until(lambda: only(served).is_paused)

        assert stopped.commands == 5
        heard: list[int] = []
        while len(heard) < 12:
            stopped.let_through()
            heard.append((await caller.hear())["id"])
        assert heard == list(range(1, 13))


async def test_whoever_reads_slowly_gets_every_answer_in_order():
    async with service(write_buffer_bytes_max=4_096) as served, channel(served.port, receive_bytes=4_096) as caller:
        await served.spawn("hero")
        count = 20_000
        sending = asyncio.ensure_future(caller.wire.send_all(b"".join(map(caller.frame, commands(count)))))
        await until(lambda: only(served).is_unread)

        heard = [message["id"] for message in await caller.hear_all(count)]
        await sending

        assert heard == list(range(1, count + 1))


async def test_what_the_registry_turns_away_is_told_to_each_message():
    async with service(mailbox_commands_max=1) as served, channel(served.port) as caller:
        await served.spawn("hero")
        await caller.ask(id=0, **BEGIN)
        caller.say(*commands(50))
        other = asyncio.ensure_future(served.begin(2))

        told = [message.get("problem", {}).get("type", "decided") for message in await caller.hear_all(50)]
        await other

        assert set(told) <= {"decided", "/problems/mailbox-full"}


@pytest.mark.parametrize(
    ("failed", "problem"),
    [(JournalUnavailable("full"), "journal-unavailable"), (CommitUnknown("?"), "commit-unknown")],
)
async def test_a_journal_that_fails_is_told_to_each_message_with_what_is_known(
    monkeypatch: pytest.MonkeyPatch, failed: Exception, problem: str
):
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero")
        stopped = Stopped(monkeypatch, served.registry)
        caller.say(*commands(3), {"id": 4, "command": "nothing", "character": "hero"})
        await until(lambda: stopped.commands == 3)
        for _, _, reply, _ in stopped.held:
            reply(failed)

        told = await caller.hear_all(4)

        assert [message["id"] for message in told] == [1, 2, 3, 4]
        assert {message["problem"]["type"] for message in told[:3]} == {f"/problems/{problem}"}
        assert all(message["problem"]["retry_after"] for message in told[:3])


async def test_a_stopping_service_answers_what_is_under_way_then_says_that_it_goes(monkeypatch: pytest.MonkeyPatch):
    async with service(drain_ms=200) as served, channel(served.port) as caller, channel(served.port) as idle:
        await served.spawn("hero")
        stopped = Stopped(monkeypatch, served.registry)
        caller.say(*commands(10))
        await until(lambda: stopped.commands == 10)
        served.server.handle_exit(signal.SIGTERM, None)
        stop = asyncio.ensure_future(served.server.shutdown())
        await until(lambda: served.registry.is_draining)
        caller.say({"id": 11, **BEGIN})
        late = await caller.hear()
        stopped.let_through()

        answers = await caller.hear_all(10)

        assert late["problem"]["type"] == "/problems/draining"
        assert [answer["answer"]["outcome"] for answer in answers] == ["granted"] * 10
        assert await caller.closed() == (
            1001,
            "the service is stopping; go on at another node, or again when it is back",
        )
        assert (await idle.closed())[0] == 1001
        await stop


async def test_what_is_not_known_when_the_service_must_go_is_told_as_that(monkeypatch: pytest.MonkeyPatch):
    async with service(drain_ms=1, shutdown_ms_max=100) as served, channel(served.port) as caller:
        await served.spawn("hero")
        stopped = Stopped(monkeypatch, served.registry)
        caller.say(*commands(3))
        await until(lambda: stopped.commands == 3)
        served.server.handle_exit(signal.SIGTERM, None)
        stop = asyncio.ensure_future(served.server.shutdown())

        told = await caller.hear_all(3)

        assert {message["problem"]["type"] for message in told} == {"/problems/commit-unknown"}
        assert (await caller.closed())[0] == 1001
        stopped.let_through()
        await stop


def bearer(credential: str) -> str:
    return f"Authorization: Bearer {credential}\r\n"


async def minted(served: Service, **more: Any) -> str:
    """Mint a session of `hero` in `match-7`."""
    headers = {"Authorization": f"Bearer {MATCH}"}
    await served.client.put("/v1/scenes/match-7/characters/hero", json={}, headers=headers)
    await served.client.put("/v1/scenes/match-7/characters/other", json={}, headers=headers)
    body = {"sub": "player-7", "characters": {"hero": 1}, **more}
    answer = await served.client.post("/v1/scenes/match-7/sessions", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["token"])


async def test_a_session_gives_its_own_commands_and_neither_others_nor_a_look_at_the_scene():
    async with service(keys=json.dumps(KEYS)) as served:
        session = await minted(served)
        async with channel(served.port, "match-7", more=bearer(session)) as caller:
            play = {"command": "play", "clip": "Walk"}
            caller.say(
                {"id": 1, **play, "character": "hero"},
                {"id": 2, **play, "character": "other"},
                {"id": 3, **BEGIN},
                {"id": 4, "command": "spawn", "character": "hero"},
                {"id": 5, "command": "tick", "seal": 1},
                {"id": 6, "command": "bundle", "commands": [{**play, "character": "hero"}]},
                {"id": 7, "command": "bundle", "commands": [{**play, "character": "other"}]},
                {"id": 8, "watch": {}},
            )

            told = {message["id"]: message for message in await caller.hear_all(8)}

            assert {number for number in told if "answer" in told[number]} == {1, 6}
            assert {told[number]["problem"]["type"] for number in (2, 3, 4, 5, 7, 8)} == {"/problems/forbidden"}


async def test_a_channel_ends_when_its_session_does():
    async with service(keys=json.dumps(KEYS), channel_caller_ms=50) as served:
        session = await minted(served, ttl_s=1)
        async with channel(served.port, "match-7", more=bearer(session)) as caller:
            asked = await caller.ask(id=1, command="play", character="hero", clip="Walk")

            code, reason = await caller.closed()

            assert asked["answer"]["outcome"] == "opened"
            assert code == 4401
            assert "session token has ended" in reason


async def test_a_channel_ends_soon_after_its_key_was_revoked_or_may_no_longer(tmp_path: Any):
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(KEYS))
    async with service(keys_file=str(keys), channel_caller_ms=50) as served:
        async with channel(served.port, "match-7", more=bearer(MATCH)) as caller:
            narrowed = json.loads(json.dumps(KEYS))
            narrowed["keys"][0]["prefixes"] = ["elsewhere-"]
            keys.write_text(json.dumps(narrowed))

            assert (await caller.closed())[0] == 4403
        keys.write_text(json.dumps(KEYS))
        await until(lambda: _is_known(served, MATCH))
        async with channel(served.port, "match-7", more=bearer(MATCH)) as caller:
            keys.write_text(json.dumps({**KEYS, "revoked": ["match"]}))

            assert (await caller.closed())[0] == 4401


def _is_known(served: Service, credential: str) -> bool:
    found = served.app.state.security._keyring.find(credential)
    return found is not None and "match-" in found.prefixes


async def test_each_message_counts_against_the_rate_of_its_caller():
    async with service(keys=json.dumps(KEYS), session_commands_per_s_max=20) as served:
        session = await minted(served)
        async with channel(served.port, "match-7", more=bearer(session)) as caller:
            play = {"command": "play", "clip": "Walk", "character": "hero"}
            caller.say(*[{"id": number, **play} for number in range(60)])

            told = await caller.hear_all(60)

            decided = [message for message in told if "answer" in message]
            turned_away = {message["problem"]["type"] for message in told if "problem" in message}
            assert 1 <= len(decided) <= 40
            assert turned_away == {"/problems/too-many-requests"}
            assert sorted(message["id"] for message in told) == list(range(60))


async def test_refusals_that_are_recorded_count_too():
    async with service(keys=json.dumps(KEYS), session_refusals_per_minute_max=5) as served:
        session = await minted(served)
        async with channel(served.port, "match-7", more=bearer(session)) as caller:
            late = {"command": "retire", "character": "hero", "clip_instance": 9}
            caller.say(*[{"id": number, **late} for number in range(10)])
            first = await caller.hear_all(10)

            then = await caller.ask(id=11, **late)

            assert {message["answer"]["outcome"] for message in first} == {"unknown_instance"}
            assert then["problem"]["type"] == "/problems/too-many-requests"


async def test_a_scene_that_left_memory_comes_back_for_a_channel():
    async with service(scene_idle_ms=40) as served, channel(served.port) as caller:
        await served.spawn("hero")
        await until(lambda: served.registry.in_memory("room") is None)

        assert (await caller.ask(id=1, **BEGIN))["answer"]["outcome"] == "granted"


async def heard_in_order(caller: Caller, count: int) -> bool:
    return [message["id"] for message in await caller.hear_all(count)] == list(range(1, count + 1))


async def test_many_channels_of_one_scene_are_each_answered_in_their_order():
    async with service() as served:
        await served.spawn("hero")

        async def one() -> bool:
            async with channel(served.port) as caller:
                caller.say(*commands(200))
                return await heard_in_order(caller, 200)

        assert all(await asyncio.gather(*[one() for _ in range(20)]))
