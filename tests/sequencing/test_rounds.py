"""Rounds: what is looked at by the clock, and what is left alone."""

import asyncio
from collections.abc import Callable

from app.journal.memory import MemoryJournal
from app.sequencing.registry import Registry
from app.settings import Settings
from tests.support.journal_fakes import FaultyJournal, OneHand
from tests.support.sequenced import RUN, SPAWN, ask, idle, seen, served


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not happened():  # noqa: ASYNC110  # nothing tells a test
            await asyncio.sleep(0.001)


async def test_a_watched_scene_that_had_to_leave_is_opened_again_when_others_wrote_it():
    shared = MemoryJournal()
    one, other = FaultyJournal(shared), FaultyJournal(shared)
    async with served(one, follow_look_ms=10) as first, served(other, follow_look_ms=10) as second:
        await ask(first, SPAWN)
        await ask(first, SPAWN, scene="hall")
        watcher = await second.watch("room", after=None, wake=lambda: None)
        assert watcher is not None
        await seen(second, "hall")
        await idle(second)
        assert "room" not in second._held

        await ask(first, RUN)
        await until(lambda: watcher.last == 2)

        assert "room" in second._held
        watcher.close()


async def test_a_journal_of_one_hand_is_never_looked_at():
    journal = FaultyJournal(OneHand())
    async with served(journal, follow_look_ms=1) as registry:
        await ask(registry, SPAWN)
        watcher = await registry.watch("room", after=None, wake=lambda: None)
        assert watcher is not None
        journal.failing.update({"read", "seek", "load"})

        await asyncio.sleep(0.02)

        following = registry._held["room"].following
        assert (following.is_shared, following.is_due, following.is_owed) == (False, False, False)
        watcher.close()


async def test_looking_stops_with_the_registry():
    before = asyncio.all_tasks()
    registry = Registry(MemoryJournal(), Settings(follow_look_ms=1))
    await ask(registry, SPAWN)
    names = {task.get_name() for task in asyncio.all_tasks() - before}

    await registry.close()

    assert {"idle scenes", "watched scenes", "scrubber"} <= names
    assert asyncio.all_tasks() == before
