"""One client and one channel, shared: by many tasks on one loop, some of which are cancelled, and by many threads."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import assert_type

import pytest

from posegate_client import AsyncPosegate, Limits, Posegate, Problem, Unanswered, commands
from posegate_client.answers import Answer, Bundled, BundleRefused, Granted, Kept, Refused, Spawned
from posegate_client.views import CharacterView
from tests.client.relay import relayed


def begins(count):
    return [commands.begin(f"npc-{number}", "base", "Run") for number in range(count)]


def spawns(count):
    return [commands.spawn(f"npc-{number}") for number in range(count)]


async def test_many_tasks_share_a_channel_and_each_hears_its_own(url):
    async with AsyncPosegate(url) as posegate, posegate.scene("shared-tasks").channel() as channel:
        await channel.ask_all(spawns(300))

        answers = await asyncio.gather(*map(channel.ask, begins(300)))

    assert [each.token.character for each in answers if isinstance(each, Granted)] == [f"npc-{n}" for n in range(300)]


async def test_who_is_cancelled_takes_nobodys_answer_along(url):
    async with AsyncPosegate(url) as posegate, posegate.scene("shared-cancelled").channel() as channel:
        await channel.ask_all(spawns(100))
        tasks = [asyncio.ensure_future(channel.ask(command)) for command in begins(100)]
        await asyncio.sleep(0)
        for task in tasks[::3]:
            task.cancel()

        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        after = await channel.ask(commands.begin("npc-0", "base", "Hit"))

    heard = [each.token.character for each in outcomes if isinstance(each, Granted)]
    assert heard == [f"npc-{number}" for number in range(100) if number % 3]
    assert after.accepted


async def test_a_feed_and_commands_share_a_channel_over_cuts(url):
    async def fed(channel, last):
        seen: list[int] = []
        async for item in channel:
            seen += [each.sequence for each in item.decisions]
            if item.last >= last:
                return seen
        return seen

    with relayed(int(url.rpartition(":")[2])) as relay:
        limits = Limits(pause_s_first=0.001, pause_s_max=0.02)
        async with (
            AsyncPosegate(relay.url, limits=limits) as posegate,
            posegate.scene("shared-cuts").channel() as channel,
        ):
            await channel.ask_all(spawns(10))
            await channel.watch(after=0)
            feed = asyncio.ensure_future(fed(channel, 110))
            for _ in range(10):
                asked = [asyncio.ensure_future(channel.ask(command)) for command in begins(10)]
                await asyncio.sleep(0)
                relay.cut()
                assert all(answer.accepted for answer in await asyncio.gather(*asked))
            seen = await feed

    assert seen == list(range(1, 111))


async def test_closing_wakes_whoever_waits(url):
    async with AsyncPosegate(url) as posegate:
        channel = posegate.scene("shared-closed").channel()
        await channel.ask(commands.spawn("hero"))
        await channel.watch()
        feed = asyncio.ensure_future(anext(channel, None))
        await asyncio.sleep(0.05)

        await channel.close()

        assert await feed is None
        with pytest.raises(Unanswered):
            await channel.ask(commands.begin("hero", "base", "Run"))


async def test_a_clients_calls_go_on_side_by_side_beyond_its_connections(url):
    async with AsyncPosegate(url, limits=Limits(connections_max=2)) as posegate:
        scene = posegate.scene("shared-calls")
        await scene.batch(spawns(50))

        answers = await asyncio.gather(*map(scene.ask, begins(50)))

    assert sum(isinstance(each, Granted) for each in answers) == 50


def test_many_threads_share_a_channel_and_each_hears_its_own(url):
    with (
        Posegate(url) as posegate,
        posegate.scene("shared-threads").channel() as channel,
        ThreadPoolExecutor(16) as threads,
    ):
        channel.ask_all(spawns(200))

        answers = list(threads.map(channel.ask, begins(200)))

    assert [each.token.character for each in answers if isinstance(each, Granted)] == [f"npc-{n}" for n in range(200)]


def test_a_channel_that_is_closed_wakes_the_thread_that_reads(url):
    with Posegate(url) as posegate:
        channel = posegate.scene("shared-thread-closed").channel()
        channel.ask(commands.spawn("hero"))
        channel.watch()
        rest = list[object]()
        reading = threading.Thread(target=lambda: rest.extend(channel))
        reading.start()

        channel.close()
        reading.join(10)

    assert not reading.is_alive()
    assert rest == []


def test_many_threads_share_a_client(url):
    with Posegate(url, limits=Limits(connections_max=4)) as posegate, ThreadPoolExecutor(16) as threads:
        scene = posegate.scene("shared-client")
        scene.batch(spawns(100))

        answers = list(threads.map(scene.ask, begins(100)))

    assert sum(isinstance(each, Granted) for each in answers) == 100


async def test_the_types_of_answers_are_those_of_what_was_asked(url):
    """What `assert_type` says is held by mypy; a narrowing that went wrong would not pass `make lint`."""
    async with AsyncPosegate(url) as posegate:
        scene = posegate.scene("shared-types")
        hero = scene.character("hero")
        assert_type(await hero.spawn(), Spawned | Refused)
        answer = await hero.begin("base", "Run")
        assert_type(answer, Granted | Kept | Refused)
        if answer.accepted:
            assert_type(answer, Granted | Kept)
        assert_type(await scene.batch([]), tuple[Answer | Problem, ...])
        assert_type(await scene.bundle([]), Bundled | BundleRefused | Refused)
        assert_type(await hero.inspect(), CharacterView)
        async with scene.channel() as channel:
            assert_type(await channel.ask(commands.begin("hero", "base", "Run")), Granted | Kept | Refused)
    with Posegate(url) as sync:
        assert_type(sync.scene("shared-types").character("hero").begin("base", "Hit"), Granted | Kept | Refused)
