"""Following: a channel is told every decision behind a place, once and in order, and the scene where that is asked."""

import asyncio
import json
from typing import Any

import pytest

from app.api.following import Frames
from app.api.formats import JSON as JSON_FORMAT
from app.api.framing import TEXT
from tests.support.channelled import MSGPACK, Caller, channel
from tests.support.keyed import KEYS, MATCH, OPS
from tests.support.watching import service
from tests.support.wire import until

BEGIN = {"command": "begin", "character": "hero", "layer": "base", "target": "Run"}


async def decisions(caller: Caller, count: int) -> list[dict[str, Any]]:
    """Read decisions until there are so many; anything else is a fault."""
    told: list[dict[str, Any]] = []
    while len(told) < count:
        message = await caller.hear()
        assert set(message) == {"decisions", "last"}, message
        told += message["decisions"]
        assert message["last"] >= told[-1]["sequence"]
    return told


def sequences(told: list[dict[str, Any]]) -> list[int]:
    return [decision["sequence"] for decision in told]


@pytest.mark.parametrize("sub_protocol", [None, MSGPACK])
async def test_decisions_come_as_the_history_shows_them_a_message_a_turn_and_without_seals(sub_protocol: str | None):
    async with service() as served, channel(served.port, sub_protocol=sub_protocol) as caller:
        await served.spawn("hero")
        assert await caller.ask(id=2, watch={}) == {"id": 2, "watching": {"after": 1}}
        await served.begin(3)

        told = await caller.hear()

        history = (await served.client.get("/v1/scenes/room/history?after=1")).json()["decisions"]
        assert told == {"decisions": history, "last": 4}
        assert "seal" not in json.dumps(told)


async def test_what_was_decided_before_is_told_first_without_a_gap_or_a_repeat():
    async with service(feed_decisions_max=4) as served, channel(served.port) as caller:
        await served.spawn("hero")
        for _ in range(20):
            await served.begin(2)
        assert (await caller.ask(id=1, watch={"after": 7}))["watching"] == {"after": 7}
        await served.begin(2)

        assert sequences(await decisions(caller, 36)) == list(range(8, 44))


async def test_answers_and_decisions_share_the_channel():
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero")
        await caller.ask(id=0, watch={})
        caller.say(*[{"id": number, **BEGIN} for number in range(1, 101)])

        answered, told = list[int](), list[int]()
        while len(answered) < 100 or len(told) < 100:
            message = await caller.hear()
            if "answer" in message:
                answered.append(message["answer"]["sequence"])
            else:
                told += sequences(message["decisions"])

        assert answered == told == list(range(2, 102))


async def test_a_snapshot_comes_first_and_decisions_behind_it():
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero", "other")
        caller.say({"watch": {"snapshot": True}})

        began, shown = await caller.hear_all(2)
        await served.begin(1)
        then = await caller.hear()

        assert began == {"watching": {"after": 2}}
        assert shown["snapshot"]["sequence"] == 2
        assert shown["snapshot"]["scene"]["scene"] == "room"
        assert sorted(each["character"] for each in shown["snapshot"]["characters"]) == ["hero", "other"]
        assert shown["snapshot"]["more"] is False
        assert sequences(then["decisions"]) == [3]


async def test_a_place_that_there_is_not_is_reset():
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero")
        caller.say({"id": 1, "watch": {"after": 1_000}})

        began, reset = await caller.hear_all(2)
        await served.begin(1)

        assert began["watching"] == {"after": 1_000}
        assert (reset["reset"]["reason"], reset["reset"]["sequence"]) == ("ahead", 1)
        assert sequences((await caller.hear())["decisions"]) == [2]


async def test_only_what_is_wanted_is_told():
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero", "other")
        await caller.ask(id=1, watch={"character": "other", "gate": "transition", "accepted": True})
        await served.begin(2)
        await served.begin(1, character="other")
        await served.client.post("/v1/scenes/room/characters/other/play", json={"clip": "Walk"})
        await served.begin(1, character="other")

        assert sequences(await decisions(caller, 2)) == [5, 7]


async def test_another_watch_takes_the_place_of_the_first_and_none_ends_it():
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero", "other")
        await caller.ask(id=1, watch={"character": "hero"})
        assert (await caller.ask(id=2, watch={"character": "other"}))["id"] == 2
        await served.begin(1)
        await served.begin(1, character="other")
        assert sequences(await decisions(caller, 1)) == [4]

        assert await caller.ask(id=3, unwatch=True) == {"id": 3, "unwatched": True}
        await served.begin(1, character="other")
        answered = await caller.ask(id=4, **BEGIN)

        assert answered["id"] == 4
        await until(lambda: served.registry.feeds.watchers == 0)


async def test_a_watch_that_had_not_begun_when_another_came_is_told_that_it_is_none():
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero")
        caller.say({"id": 1, "watch": {}}, {"id": 2, "watch": {}}, {"id": 3, "unwatch": True})

        assert await caller.hear_all(3) == [{"id": number, "unwatched": True} for number in (1, 2, 3)]
        assert served.registry.feeds.watchers == 0


@pytest.mark.parametrize(
    ("asked", "at"),
    [
        ({"watch": None}, "watch"),
        ({"watch": [1]}, "watch"),
        ({"watch": {"layers": "base"}}, "watch.layers"),
        ({"watch": {"after": -1}}, "watch.after"),
        ({"watch": {"after": "1"}}, "watch.after"),
        ({"watch": {"after": True}}, "watch.after"),
        ({"watch": {"after": 2**53}}, "watch.after"),
        ({"watch": {"snapshot": 1}}, "watch.snapshot"),
        ({"watch": {"snapshot": True, "after": 1}}, "watch.snapshot"),
        ({"watch": {"gate": "none"}}, "watch.gate"),
        ({"watch": {"accepted": "yes"}}, "watch.accepted"),
        ({"watch": {"character": "-"}}, "watch.character"),
        ({"watch": {}, "command": "begin"}, "command"),
        ({"watch": {}, "unwatch": True}, "unwatch"),
        ({"unwatch": False}, "unwatch"),
    ],
)
async def test_what_cannot_be_watched_is_told_and_what_is_watched_goes_on(asked: dict[str, Any], at: str):
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero")
        await caller.ask(id=1, watch={})

        told = await caller.ask(id=2, **asked)
        await served.begin(1)

        assert (told["id"], told["problem"]["type"], told["problem"]["at"]) == (2, "/problems/invalid", at)
        assert sequences(await decisions(caller, 1)) == [2]


async def test_a_scene_that_there_is_none_of_is_not_watched():
    async with service() as served, channel(served.port) as caller:
        told = await caller.ask(id=1, watch={})

        assert told["problem"]["type"] == "/problems/unknown-scene"


async def test_a_closed_scene_is_the_end_of_its_watch_and_not_of_the_channel():
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero")
        await caller.ask(id=1, watch={})
        await served.client.delete("/v1/scenes/room")

        last, end = await caller.hear_all(2)

        assert last["decisions"][-1]["command"] == "close-scene"
        assert end == {"end": {"reason": "closed", "sequence": 2}}
        assert (await caller.ask(id=2, command="spawn", character="hero"))["answer"]["outcome"] == "spawned"
        assert (await caller.ask(id=3, watch={}))["watching"] == {"after": 3}


async def test_a_stopping_service_ends_the_watch_with_a_place_to_resume_from():
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero")
        await caller.ask(id=1, watch={})
        served.registry.drain()

        told = await caller.hear()

        assert (told["end"]["reason"], told["end"]["sequence"]) == ("draining", 1)


async def test_no_more_watch_than_may_and_a_place_that_is_left_is_free():
    async with service(watchers_max=1) as served, channel(served.port) as one, channel(served.port) as other:
        await served.spawn("hero")
        await one.ask(id=1, watch={})
        assert (await other.ask(id=1, watch={}))["problem"]["type"] == "/problems/too-many-watchers"
        await one.ask(id=2, unwatch=True)
        await until(lambda: served.registry.feeds.watchers == 0)

        assert "watching" in await other.ask(id=2, watch={})


async def test_a_client_that_does_not_read_is_not_fed_and_gets_everything_once_it_does():
    count = 30_000
    async with (
        service(write_buffer_bytes_max=4_096) as served,
        channel(served.port, receive_bytes=4_096) as slow,
        channel(served.port) as writer,
    ):
        await served.spawn("hero")
        await slow.ask(id=1, watch={})
        for first in range(0, count, 1_000):
            writer.say(*[{"id": first + number, **BEGIN} for number in range(1_000)])
            await writer.hear_all(1_000)
        held = served.capacity.unread_bytes

        told = sequences(await decisions(slow, count))

        assert told == list(range(2, count + 2))
        assert held < 3_000_000


async def test_operations_watch_and_give_no_command():
    async with service(keys=json.dumps(KEYS)) as served:
        headers = {"Authorization": f"Bearer {MATCH}"}
        await served.client.put("/v1/scenes/match-7/characters/hero", json={}, headers=headers)
        async with channel(served.port, "match-7", more=f"Authorization: Bearer {OPS}\r\n") as caller:
            assert (await caller.ask(id=1, **BEGIN))["problem"]["type"] == "/problems/forbidden"
            assert (await caller.ask(id=2, watch={"after": 0}))["watching"] == {"after": 0}
            assert sequences(await decisions(caller, 1)) == [1]


async def test_two_hundred_watchers_of_one_format_share_what_is_packed():
    async with service() as served:
        await served.spawn("hero")

        async def watch() -> list[int]:
            async with channel(served.port) as caller:
                await caller.ask(id=1, watch={"after": 1})
                return sequences(await decisions(caller, 50))

        watching = [asyncio.ensure_future(watch()) for _ in range(200)]
        await until(lambda: served.registry.feeds.watchers == 200)
        await served.begin(50)

        assert all(told == list(range(2, 52)) for told in await asyncio.gather(*watching))


def test_a_place_alone_and_a_piece_of_the_scene_are_messages_and_a_beat_is_none():
    packing = Frames(TEXT, JSON_FORMAT)

    assert packing.place(7)[2:] == b'{"last":7}'
    assert packing.portrait("reset", b'{"sequence":7}', last=7)[2:] == b'{"reset":{"sequence":7}}'
    assert packing.end(b'{"reason":"closed"}')[2:] == b'{"end":{"reason":"closed"}}'
    assert packing.beat() == b""
