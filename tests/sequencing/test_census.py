"""The census: no more scenes begin than there may be, and one that ended makes room."""

import asyncio

import pytest

from app.gates.decision import Problem, Undecided
from app.gates.lives import CloseScene, DeclareRig, Despawn, Spawn
from app.gates.rig import default_rig
from app.journal.memory import MemoryJournal
from app.journal.port import JournalDamaged, JournalUnavailable
from app.sequencing import census as census_module
from app.sequencing.census import Census
from app.sequencing.mailbox import Addressed, Decided
from app.sequencing.registry import Registry
from app.settings import Settings
from tests.support.journal_fakes import FaultyJournal


async def spawned(registry: Registry, scene: str) -> bool:
    [result] = await registry.submit(scene, [Addressed("hero", Spawn())])
    if isinstance(result, Undecided):
        assert result.problem is Problem.TOO_LARGE
    return isinstance(result, Decided)


async def test_a_scene_too_many_does_not_begin_and_the_others_go_on():
    journal, settings = MemoryJournal(), Settings(journal="memory:", scenes_max=2)
    registry = Registry(journal, settings)

    assert [await spawned(registry, scene) for scene in ("a", "b", "c", "b", "c")] == [True, True, False, True, False]
    [rig] = await registry.submit("c", [Addressed(None, DeclareRig(name="r", rig=default_rig()))])
    assert isinstance(rig, Undecided)
    assert await journal.scenes(after="", limit=9) == ["a", "b"]

    await registry.submit("a", [Addressed(None, CloseScene())])
    assert await spawned(registry, "c")
    await registry.close()


async def test_the_scenes_of_before_a_restart_count(monkeypatch):
    monkeypatch.setattr(census_module, "PAGE_SCENES", 1)
    journal, settings = MemoryJournal(), Settings(journal="memory:", scenes_max=3)
    registry = Registry(journal, settings)
    for scene in ("a", "b", "c"):
        assert await spawned(registry, scene)
    await registry.close()
    journal._is_closed = False

    again = Registry(journal, settings)

    assert not await spawned(again, "d")
    assert await spawned(again, "a")
    await again.close()


async def test_a_despawn_ends_no_scene():
    registry = Registry(MemoryJournal(), Settings(journal="memory:", scenes_max=1))
    await spawned(registry, "a")
    await registry.submit("a", [Addressed("hero", Despawn())])

    assert not await spawned(registry, "b")
    await registry.close()


async def test_nothing_is_counted_before_it_is_asked_for():
    census = Census(MemoryJournal(), 1)

    census.note(before=False, after=True)

    assert await census.has_room()
    census.note(before=False, after=True)
    assert not await census.has_room()


async def test_many_who_ask_while_it_is_counted_share_one_count_and_its_failure():
    journal = FaultyJournal(MemoryJournal())
    calls, may_read = [], asyncio.Event()

    async def scenes(*, after: str, limit: int) -> list[str]:
        calls.append(after)
        await may_read.wait()
        if len(calls) == 1:
            raise JournalDamaged("scene 'broken' cannot be read")
        return []

    journal.scenes = scenes  # type: ignore[method-assign]
    census = Census(journal, 1)
    asked = [asyncio.ensure_future(census.has_room()) for _ in range(20)]
    await asyncio.sleep(0)
    may_read.set()

    failed = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(each) for each in failed} == {JournalUnavailable}
    assert calls == [""]
    assert await asyncio.gather(*(census.has_room() for _ in range(20))) == [True] * 20
    assert calls == ["", ""]


async def test_a_count_that_is_given_up_is_taken_over_by_who_waits():
    journal = FaultyJournal(MemoryJournal())
    read, may_read = journal.scenes, asyncio.Event()

    async def scenes(*, after: str, limit: int) -> list[str]:
        await may_read.wait()
        return await read(after=after, limit=limit)

    journal.scenes = scenes  # type: ignore[method-assign]
    census = Census(journal, 1)
    first, second = [asyncio.ensure_future(census.has_room()) for _ in range(2)]
    await asyncio.sleep(0)
    first.cancel()
    may_read.set()

    assert await second


@pytest.mark.parametrize("error", [JournalDamaged("scene 'broken' cannot be read"), JournalUnavailable("cut off")])
async def test_a_scene_that_begins_while_the_scenes_cannot_be_counted_is_told_so_and_begins_afterwards(
    error: Exception,
):
    journal = FaultyJournal(MemoryJournal())
    read = journal.scenes

    async def scenes(*, after: str, limit: int) -> list[str]:
        raise error

    journal.scenes = scenes  # type: ignore[method-assign]
    registry = Registry(journal, Settings(journal="memory:"))

    with pytest.raises(JournalUnavailable, match=str(error)):
        await spawned(registry, "a")
    assert not registry.damages.scenes

    journal.scenes = read  # type: ignore[method-assign]
    assert await spawned(registry, "a")
    await registry.close()
