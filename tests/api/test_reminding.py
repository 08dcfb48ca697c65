"""Reminding: who queued a request on a channel hears its answer when its tick is sealed, by whoever that is."""

import asyncio
from typing import Any

import pytest

from tests.support.channelled import Caller, channel
from tests.support.watching import Service, service
from tests.support.wire import until


def play(tick: int, number: int, source: str = "ai", **more: Any) -> dict[str, Any]:
    request = {"tick": tick, "source": source, "number": number, "command": "play", "character": "hero"}
    return {**request, "clip": "Walk", **more}


async def tick(served: Service, **parts: Any) -> dict[str, Any]:
    """Give a tick at another door."""
    answer = await served.client.post("/v1/scenes/room/tick", json=parts)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def queued(caller: Caller, number: int, *requests: dict[str, Any], **more: Any) -> None:
    """Queue requests with one message."""
    told = await caller.ask(id=number, command="tick", requests=list(requests), **more)
    assert [each["outcome"] for each in told["answer"]["requests"]] == ["queued"] * len(requests), told


def instances(told: dict[str, Any]) -> list[tuple[int, int, int]]:
    """Give what an `applied` message says: tick, number, clip instance."""
    return [(each["tick"], each["number"], each["answer"]["clip_instance"]) for each in told["applied"]]


async def test_the_answer_comes_when_somebody_else_seals_the_tick_as_the_seal_itself_says():
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero")
        await queued(caller, 7, play(1, 1), play(1, 2))
        sealed = await tick(served, seal=1)

        assert await caller.hear() == {"id": 7, "applied": sealed["seal"]["answers"]}


async def test_a_token_that_was_granted_comes_with_its_seal():
    begin = {"tick": 1, "source": "ai", "number": 1, "command": "begin", "character": "hero"}
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero")
        await queued(caller, 7, {**begin, "layer": "base", "target": "Run"})
        await tick(served, seal=1)

        token = (await caller.hear())["applied"][0]["answer"]["token"]

        completed = await caller.ask(id=8, command="complete", character="hero", token=token)
        assert completed["answer"]["outcome"] == "committed"


async def test_each_message_hears_of_its_own_requests_and_a_channel_of_no_others():
    async with service() as served, channel(served.port) as one, channel(served.port) as other:
        await served.spawn("hero")
        await queued(one, 1, play(1, 1), play(2, 2))
        await queued(one, 2, play(1, 3))
        await queued(other, 9, play(1, 4))
        await tick(served, requests=[play(1, 5)])
        await tick(served, seal=1)

        told = await one.hear_all(2)

        assert [(message["id"], [each["number"] for each in message["applied"]]) for message in told] == [
            (1, [1]),
            (2, [3]),
        ]
        assert instances(await other.hear()) == [(1, 4, 3)]
        await tick(served, seal=2)
        assert instances(await one.hear()) == [(2, 2, 5)]


async def test_it_comes_again_when_a_rollback_lets_the_tick_be_sealed_anew_until_it_is_confirmed():
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero")
        await queued(caller, 7, play(1, 1))
        await tick(served, seal=1)
        first = await caller.hear()
        await tick(served, rollback=0, requests=[play(1, 1)], seal=1)
        again = await caller.hear()
        await tick(served, confirm=1)
        await until(lambda: served.registry.feeds.watchers == 0)

        assert (first["id"], again["id"]) == (7, 7)
        assert (instances(first), instances(again)) == ([(1, 1, 1)], [(1, 1, 2)])
        assert again["applied"][0]["answer"]["sequence"] > first["applied"][0]["answer"]["sequence"]


async def test_a_request_that_is_queued_and_sealed_at_once_is_told_as_any_other():
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero")
        answer = await caller.ask(id=7, command="tick", requests=[play(1, 1)], seal=1)

        told = await caller.hear()

        assert told == {"id": 7, "applied": answer["answer"]["seal"]["answers"]}


async def test_a_request_that_was_refused_is_not_waited_for():
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero")
        await tick(served, seal=5)
        refused = await caller.ask(id=7, command="tick", requests=[play(3, 1)])

        assert refused["answer"]["requests"][0]["outcome"] == "late_tick"
        assert served.registry.feeds.watchers == 0


async def test_asked_again_with_its_key_on_another_channel_what_was_sealed_meanwhile_is_told_there():
    async with service(feed_decisions_max=2) as served:
        await served.spawn("hero")
        async with channel(served.port) as caller:
            await queued(caller, 7, play(1, 1), key="the-key-of-it")
        await tick(served, seal=1)
        for number in range(20):
            await tick(served, requests=[play(2, number, "other")])
        async with channel(served.port) as caller:
            await queued(caller, 8, play(1, 1), key="the-key-of-it")

            told = await caller.hear()

            assert (told["id"], instances(told)) == (8, [(1, 1, 1)])


async def test_what_was_asked_again_while_the_journal_is_read_is_told_too(monkeypatch: pytest.MonkeyPatch):
    reading, go_on = asyncio.Event(), asyncio.Event()
    async with service(feed_decisions_max=1) as served, channel(served.port) as caller:
        await served.spawn("hero")
        for number in (1, 2):
            await queued(caller, number, play(number, number), key=f"a-key-of-{number}")
            await tick(served, seal=number)
            assert (await caller.hear())["id"] == number
        await queued(caller, 3, play(9, 3))
        turn_after = served.registry.turn_after

        async def slowly(scene: str, place: int) -> Any:
            turn = await turn_after(scene, place)
            reading.set()
            await go_on.wait()
            return turn

        monkeypatch.setattr(served.registry, "turn_after", slowly)
        await queued(caller, 12, play(2, 2), key="a-key-of-2")
        await reading.wait()
        await queued(caller, 11, play(1, 1), key="a-key-of-1")
        go_on.set()

        assert [(await caller.hear())["id"] for _ in range(2)] == [11, 12]


async def test_more_than_may_be_waited_for_is_forgotten_the_earliest_tick_first():
    async with service(channel_requests_max=3) as served, channel(served.port) as caller:
        await served.spawn("hero")
        await queued(caller, 1, play(1, 1), play(1, 2))
        await queued(caller, 2, play(2, 3), play(3, 4))
        await tick(served, seal=1)
        await tick(served, seal=2)

        assert instances(await caller.hear()) == [(2, 3, 3)]


async def test_what_can_be_rolled_back_no_more_is_waited_for_no_more():
    async with service(rollback_ticks=2) as served, channel(served.port) as caller:
        await served.spawn("hero")
        await queued(caller, 7, play(1, 1))
        await tick(served, seal=1)
        await caller.hear()
        assert served.registry.feeds.watchers == 1

        await tick(served, seal=3)

        await until(lambda: served.registry.feeds.watchers == 0)


async def test_who_cannot_be_told_is_told_that():
    async with service(watchers_max=1) as served, channel(served.port) as one, channel(served.port) as other:
        await served.spawn("hero")
        await one.ask(id=1, watch={})
        await queued(other, 7, play(1, 1))

        told = await other.hear()

        assert (told["id"], told["problem"]["type"]) == (7, "/problems/too-many-watchers")


async def test_a_closed_scene_is_waited_for_no_more():
    async with service() as served, channel(served.port) as caller:
        await served.spawn("hero")
        await queued(caller, 7, play(1, 1))
        await served.client.delete("/v1/scenes/room")

        await until(lambda: served.registry.feeds.watchers == 0)


async def test_a_channel_that_goes_waits_for_nothing():
    async with service() as served:
        await served.spawn("hero")
        async with channel(served.port) as caller:
            await queued(caller, 7, play(1, 1))
            await until(lambda: served.registry.feeds.watchers == 1)
            caller.wire.reset()

        await until(lambda: served.registry.feeds.watchers == 0)
