"""Two nodes on one journal: each follows the other's turns, in order, and whoever is behind decides again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.gates.identity import Token
from app.gates.lives import CloseScene, Despawn
from app.gates.tally import LayerTally
from app.gates.transition import Begin, Complete
from app.journal.memory import MemoryJournal
from app.journal.port import START, CommitUnknown
from app.sequencing.feed import Watcher
from app.sequencing.following import SequenceAhead
from app.sequencing.mailbox import Addressed, Decided
from app.sequencing.registry import Registry
from app.sequencing.store import SceneStore
from app.settings import Settings
from tests.support.journal_fakes import Fault, FaultyJournal
from tests.support.played import assert_same_scene
from tests.support.sequenced import RUN, SPAWN, ask, generation, idle, replayed, seen, served, words

HIT = Begin(layer="base", target="Hit")


@asynccontextmanager
async def nodes(**settings: Any) -> AsyncIterator[tuple[Registry, Registry, FaultyJournal, FaultyJournal]]:
    """Give two registries, each behind faults of its own, on one journal."""
    shared = MemoryJournal()
    one, other = FaultyJournal(shared), FaultyJournal(shared)
    async with served(one, **settings) as first, served(other, **settings) as second:
        yield first, second, one, other
    assert shared._followers == {}, "who stops follows no longer"


async def until(happened: Callable[[], bool]) -> None:
    """Return when something has happened, without asking anybody for it."""
    async with asyncio.timeout(5):
        while not happened():  # noqa: ASYNC110  # nothing tells a test
            await asyncio.sleep(0.001)


async def settled(registry: Registry, sequence: int, scene: str = "room") -> None:
    """Return when a node shows a decision."""
    held = registry._held[scene]
    await until(lambda: held.scene is not None and held.scene.sequence >= sequence)


def deafen(registry: Registry, scene: str = "room") -> None:
    """Let every hint about a scene be lost from now on."""
    following = registry._held[scene].following
    assert following._stop is not None
    following._stop()
    following._stop = lambda: None


def counted(journal: FaultyJournal) -> dict[str, int]:
    """Count from now on how often each read of a journal is called."""
    calls = dict.fromkeys(("read", "load", "seek"), 0)

    def of(name: str) -> Any:
        call = getattr(journal, name)

        async def called(*given: Any, **named: Any) -> Any:
            calls[name] += 1
            return await call(*given, **named)

        return called

    for name in calls:
        setattr(journal, name, of(name))
    return calls


def taken(watcher: Watcher) -> list[tuple[int, int, bool]]:
    """Read what a watcher has not read; give each turn's first and last sequence, and whether it closes the scene."""
    turns = list(watcher.take())
    watcher.place = turns[-1].last if turns else watcher.place
    return [(turn.first, turn.last, turn.closes) for turn in turns]


# Catching up


async def test_nodes_that_take_turns_read_what_is_behind_and_never_a_checkpoint():
    async with nodes() as (first, second, one, other):
        await ask(first, SPAWN)
        await ask(second, RUN)
        calls = counted(one), counted(other)
        held = await seen(second)

        for _ in range(10):
            assert await ask(first, RUN) == "granted"
            assert await ask(second, HIT) == "granted"

        assert [call["load"] for call in calls] == [0, 0]
        assert await seen(second) is held, "the scene that readers hold goes on"
        assert_same_scene(await seen(second), await replayed(one.inner))


async def test_a_key_gets_one_answer_whichever_node_is_asked():
    async with nodes() as (first, second, *_):
        await ask(first, SPAWN)
        await ask(second, HIT)
        asked = [Addressed("hero", RUN, "key-one")]

        answers = [await registry.submit("room", asked) for registry in (first, second, first, second)]

        assert all(answer == answers[0] for answer in answers)
        assert await generation(first) == 2


async def test_a_token_of_one_node_is_completed_at_the_other():
    async with nodes() as (first, second, *_):
        await ask(first, SPAWN)
        await ask(second, HIT)
        [granted] = await first.submit("room", [Addressed("hero", RUN)])
        assert isinstance(granted, Decided)

        assert await ask(second, Complete(token=granted.record.answer.token)) == "committed"  # type: ignore[union-attr]


async def test_a_problem_is_told_of_what_the_journal_holds_and_not_of_what_a_node_knew():
    """No append finds out that the node was behind, for nothing is written."""
    async with nodes() as (first, second, *_):
        await ask(first, SPAWN)
        await ask(second, RUN)
        deafen(second)
        await first.submit("room", [Addressed("villain", SPAWN)])
        await first.submit("room", [Addressed("hero", Despawn())])

        [answer] = words(await second.submit("room", [Addressed("villain", RUN)]))

        assert answer == "granted"
        assert await ask(second, RUN) == "unknown-character"


async def test_a_scene_that_was_closed_trimmed_and_begun_again_elsewhere_comes_out_right_and_watchers_see_the_gap():
    async with nodes() as (first, second, one, _):
        await ask(first, SPAWN)
        await ask(second, RUN)
        watcher = await second.watch("room", after=None, wake=lambda: None)
        assert watcher is not None
        deafen(second)
        await ask(first, CloseScene())
        await ask(first, SPAWN)

        assert await ask(second, HIT) == "granted"

        assert_same_scene(await seen(second), (await SceneStore("room", one, Settings()).open())[0])
        assert (watcher.is_behind, watcher.last, watcher.is_at_the_end) == (True, 5, False)
        turn = await second.turn_after("room", watcher.place)
        assert turn is not None
        assert turn.first > watcher.place + 1, "what lies between is gone, and whoever reads sees that"


async def test_an_end_of_which_nothing_is_left_to_read_is_found_by_a_command_and_by_a_look():
    async with nodes(follow_look_ms=10) as (first, second, *_):
        for scene in ("room", "hall"):
            await ask(first, SPAWN, scene=scene)
            await ask(second, RUN, scene=scene)
        watcher = await second.watch("hall", after=None, wake=lambda: None)
        assert watcher is not None
        for scene in ("room", "hall"):
            deafen(second, scene)
            await ask(first, CloseScene(), scene=scene)

        assert await ask(second, HIT) == "unknown-scene"
        await until(lambda: watcher.feed.is_closed)


async def test_scenes_that_other_nodes_begin_and_end_are_counted_where_they_are_held():
    async with nodes(scenes_max=2, follow_look_ms=10) as (first, second, *_):
        await ask(first, SPAWN, scene="room")
        await ask(second, SPAWN, scene="hall")
        assert await first.opened("hall") is not None
        assert await ask(second, SPAWN, scene="third") == "too-large"

        await ask(first, CloseScene(), scene="hall")
        await until(lambda: "hall" not in second._held)

        assert await ask(second, SPAWN, scene="third") == "spawned"


# Following


async def test_a_hint_brings_other_nodes_turns_to_readers_and_watchers_in_order():
    async with nodes() as (first, second, one, other):
        one.failing.add("trim")
        other.failing.add("trim")
        await ask(first, SPAWN)
        watcher = await second.watch("room", after=0, wake=lambda: None)
        assert watcher is not None
        assert watcher.is_behind
        watcher.place = 1

        for _ in range(3):
            await ask(first, RUN)
        await first.submit("room", [Addressed("hero", RUN), Addressed("hero", HIT)])
        await settled(second, 6)
        turns = taken(watcher)
        await ask(first, CloseScene())
        await until(lambda: watcher.feed.is_closed)

        assert turns == [(2, 2, False), (3, 3, False), (4, 4, False), (5, 6, False)]
        assert taken(watcher) == [(7, 7, True)]
        assert watcher.is_at_the_end


async def test_a_nodes_own_turns_cost_no_read():
    async with nodes() as (first, _, one, _):
        await ask(first, SPAWN)
        calls = counted(one)

        for _ in range(20):
            await ask(first, RUN)
        for _ in range(20):
            await asyncio.sleep(0)

        assert calls == {"read": 0, "load": 0, "seek": 0}


async def test_many_hints_are_one_read_and_none_is_lost_while_one_is_read():
    async with nodes() as (first, second, _, other):
        await ask(first, SPAWN)
        await seen(second)
        entered, released = asyncio.Event(), asyncio.Event()
        read, reads = other.read, 0

        async def slow(scene: str, *, after: int, limit: int) -> Any:
            nonlocal reads
            reads += 1
            found = await read(scene, after=after, limit=limit)
            if reads == 1:
                entered.set()
                await released.wait()
            return found

        other.read = slow  # type: ignore[method-assign]  # it is slow
        await ask(first, RUN)
        await entered.wait()
        for _ in range(10):
            await ask(first, RUN)
        meanwhile = reads
        released.set()
        await settled(second, 12)

        assert meanwhile == 1
        assert reads <= 4


async def test_a_lost_hint_is_made_up_for_by_the_next_look_where_somebody_watches():
    async with nodes(follow_look_ms=10) as (first, second, *_):
        await ask(first, SPAWN)
        watcher = await second.watch("room", after=1, wake=lambda: None)
        assert watcher is not None
        deafen(second)

        await ask(first, RUN)
        await until(lambda: watcher.last == 2)

        assert taken(watcher) == [(2, 2, False)]


async def test_a_read_that_fails_is_tried_again_at_the_next_look_and_not_before():
    async with nodes(follow_look_ms=200) as (first, second, _, other):
        await ask(first, SPAWN)
        await seen(second)
        calls = counted(other)
        other.failing.add("read")
        await ask(first, RUN)
        for _ in range(200):
            await asyncio.sleep(0)
        failed = calls["read"]
        other.clear()

        await settled(second, 2)

        assert failed == 1


async def test_following_is_no_traffic_and_a_watched_scene_stays():
    async with nodes(scene_idle_ms=40) as (first, second, *_):
        for scene in ("room", "hall"):
            await ask(first, SPAWN, scene=scene)
            await seen(second, scene)
        watcher = await second.watch("hall", after=None, wake=lambda: None)
        assert watcher is not None

        async with asyncio.timeout(5):
            while "room" in second._held:
                await ask(first, RUN, scene="room")
                await asyncio.sleep(0.005)

        assert "hall" in second._held
        watcher.close()
        await until(lambda: "hall" not in second._held)


# An append of which nobody knows what became


async def test_an_entry_that_lands_late_is_found_and_nobody_is_answered_twice_or_wrongly():
    """The tail was read and held nothing, a turn was decided on that, and then the entry was there."""
    async with nodes() as (first, _, one, _):
        await ask(first, SPAWN)
        append, late = one.inner.append, dict[str, Any]()

        async def lost(scene: str, **given: Any) -> int:
            late.update(given)
            one.inner.append = landing  # type: ignore[method-assign]
            raise CommitUnknown("no answer came")

        async def landing(scene: str, **given: Any) -> int:
            one.inner.append = append  # type: ignore[method-assign]
            await append(scene, **late)
            return await append(scene, **given)

        one.inner.append = lost  # type: ignore[method-assign]
        with pytest.raises(CommitUnknown):
            await ask(first, RUN, key="key-one")

        other = await first.submit("room", [Addressed("hero", HIT, "key-two")])
        retried = await first.submit("room", [Addressed("hero", RUN, "key-one")])

        assert [result.sequence for result in (*other, *retried) if isinstance(result, Decided)] == [3, 2]
        assert await generation(first) == 2
        assert_same_scene(await seen(first), await replayed(one.inner))


async def test_what_became_of_an_uncertain_turn_is_told_to_watchers_although_nobody_asks():
    async with nodes() as (first, _, one, _):
        await ask(first, SPAWN)
        watcher = await first.watch("room", after=None, wake=lambda: None)
        assert watcher is not None
        one.next(Fault.UNKNOWN_WRITTEN)

        with pytest.raises(CommitUnknown):
            await ask(first, RUN)
        await settled(first, 2)

        assert taken(watcher) == [(2, 2, False)]


# Two nodes that want the same


async def test_nodes_that_write_the_same_scene_all_the_time_both_get_their_turns():
    async with nodes() as (first, second, one, _):
        await ask(first, SPAWN)

        async def caller(registry: Registry, number: int) -> list[str]:
            return [await ask(registry, RUN, key=f"key-{number}-{turn}") for turn in range(20)]

        answers = await asyncio.gather(*(caller(registry, n) for n in range(3) for registry in (first, second)))

        assert {word for answer in answers for word in answer} == {"granted"}
        assert await generation(first) == 60 or await generation(second) == 60
        assert_same_scene(await replayed(one.inner), (await SceneStore("room", one, Settings()).open())[0])


# Checkpoints of two nodes


async def test_checkpoints_of_two_nodes_in_turn_open_right_at_a_third_tallies_and_receipts_included():
    stale = Complete(token=Token("hero", "base", 1, 1, "Idle", "Run", "1-0"))
    async with nodes(checkpoint_decisions=3) as (first, second, one, _):
        await first.submit("room", [Addressed(who, SPAWN) for who in ("hero", "villain", "ghost")])
        for number in range(12):
            registry = (first, second)[number % 2]
            who = ("hero", "villain", "ghost")[number % 3]
            await registry.submit("room", [Addressed(who, RUN, f"key-{number}"), Addressed("hero", stale)])
            if number == 6:
                await registry.submit("room", [Addressed("ghost", Despawn())])
                await registry.submit("room", [Addressed("ghost", SPAWN)])

        async with served(one) as third:
            opened = await third.opened("room")
            assert opened is not None
            assert_same_scene(opened.scene, await replayed(one.inner))
            assert opened.tally("hero").layers == {"base": LayerTally(unknown=12)}
            assert words(await third.submit("room", [Addressed("villain", RUN, "key-1")])) == ["granted"]
            assert (await seen(third)).sequence == opened.scene.sequence


async def test_a_checkpoint_that_another_node_was_later_with_is_no_failure_and_loses_nothing():
    async with nodes() as (first, second, one, other):
        await ask(first, SPAWN)
        await ask(second, RUN)
        deafen(second)
        await first.submit("room", [Addressed("villain", SPAWN)])
        await idle(first)

        await idle(second)
        await ask(second, HIT)
        await idle(second)

        checkpoint = await one.load("room")
        assert checkpoint is not None
        assert sorted(checkpoint.characters) == ["hero", "villain"]
        assert checkpoint.position == (await one.read("room", after=START, limit=9))[-1].position
        assert_same_scene((await SceneStore("room", other, Settings()).open())[0], await replayed(one.inner))


# Reads that ask for a decision


async def test_a_node_that_is_behind_catches_up_before_it_is_read():
    async with nodes() as (first, second, *_):
        await ask(first, SPAWN)
        await seen(second)
        deafen(second)
        await ask(first, RUN)

        before = (await seen(second)).sequence
        opened = await second.opened("room", at_least=2)

        assert opened is not None
        assert (before, opened.scene.sequence) == (1, 2)


async def test_a_reader_waits_for_what_the_journal_does_not_show_yet():
    async with nodes() as (first, second, *_):
        await ask(first, SPAWN)
        await seen(second)
        waiting = asyncio.ensure_future(second.opened("room", at_least=2))
        for _ in range(20):
            await asyncio.sleep(0)
        was_done = waiting.done()

        await ask(first, RUN)
        opened = await waiting

        assert not was_done
        assert opened is not None
        assert opened.scene.sequence == 2


async def test_a_decision_that_is_nowhere_is_said_to_be_ahead_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.sequencing.following.REACHED_S_MAX", 0.02)
    async with nodes() as (first, second, *_):
        await ask(first, SPAWN)
        await seen(second)

        with pytest.raises(SequenceAhead):
            await second.opened("room", at_least=9)
        with pytest.raises(SequenceAhead):
            await second.opened("nowhere", at_least=1)

        assert second._held["room"].following.waiting == []
        await until(lambda: "nowhere" not in second._held)


async def test_a_scene_that_is_closed_and_trimmed_while_a_node_opens_it_is_read_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.sequencing.following.REACHED_S_MAX", 0.02)
    async with nodes() as (first, second, _, other):
        await ask(first, SPAWN)
        await idle(first)
        await ask(first, RUN)
        load = other.load

        async def overtaken(scene: str) -> Any:
            other.load = load  # type: ignore[method-assign]
            checkpoint = await load(scene)
            await ask(first, CloseScene())
            return checkpoint

        other.load = overtaken  # type: ignore[method-assign]

        assert await second.opened("room", at_least=2) is None


async def test_a_watcher_that_resumes_at_a_node_that_is_behind_is_not_sent_back():
    async with nodes() as (first, second, *_):
        await ask(first, SPAWN)
        await seen(second)
        deafen(second)
        await ask(first, RUN)

        watcher = await second.watch("room", after=2, wake=lambda: None)

        assert watcher is not None
        assert (watcher.place, watcher.last) == (2, 2)


# The end


async def test_stopping_leaves_no_task_and_no_follower_and_who_waits_is_told():
    shared = MemoryJournal()
    before = asyncio.all_tasks()
    registry = Registry(FaultyJournal(shared), Settings())
    await ask(registry, SPAWN)
    waiting = asyncio.ensure_future(registry.opened("room", at_least=9))
    for _ in range(20):
        await asyncio.sleep(0)

    await registry.close()

    with pytest.raises(Exception, match="opened again"):
        await waiting
    assert shared._followers == {}
    assert asyncio.all_tasks() == before


async def test_a_scene_that_leaves_memory_is_followed_no_longer():
    async with nodes() as (first, _, one, _):
        await ask(first, SPAWN)
        followed = dict(one.inner._followers)  # type: ignore[attr-defined]

        await idle(first)

        assert list(followed) == ["room"]
        assert one.inner._followers == {}  # type: ignore[attr-defined]
