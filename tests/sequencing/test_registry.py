"""The registry: which scenes are held, who runs them, and that leaving memory, failing and stopping lose nothing."""

import asyncio

import pytest

from app.gates.lives import Despawn
from app.gates.transition import Begin
from app.journal.port import CommitUnknown, JournalDamaged, JournalUnavailable
from app.sequencing.mailbox import Addressed
from app.sequencing.registry import MailboxFull, Registry
from app.settings import Settings
from app.telemetry.passage import Passage, entered, left, present
from tests.support.journal_fakes import Fault, FaultyJournal
from tests.support.played import assert_same_scene
from tests.support.sequenced import RUN, SPAWN, ask, generation, idle, replayed, seen, served, word

HIT = Begin(layer="base", target="Hit")


async def test_an_actor_answers_each_command_when_it_is_durable(journal: FaultyJournal):
    async with served(journal) as registry:
        actor = registry.actor("room", "hero")

        spawned, granted = await actor.submit(SPAWN), await actor.submit(RUN)

        assert (word(spawned), word(granted)) == ("spawned", "granted")
        assert journal.appended == 2


async def test_commands_that_come_while_an_append_is_under_way_share_the_next_entry(journal: FaultyJournal):
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        journal.hold()
        first = asyncio.ensure_future(ask(registry, RUN))
        await journal.is_held.wait()
        others = [asyncio.ensure_future(ask(registry, RUN)) for _ in range(20)]
        await asyncio.sleep(0)

        journal.release()
        answers = await asyncio.gather(first, *others)

        assert set(answers) == {"granted"}
        assert journal.appended == 3


async def test_scenes_do_not_wait_for_each_other(journal: FaultyJournal):
    async with served(journal) as registry:
        await ask(registry, SPAWN, scene="hall")
        await ask(registry, SPAWN)
        journal.hold()
        held = asyncio.ensure_future(ask(registry, RUN))
        await journal.is_held.wait()
        readable = await generation(registry, "hall")
        journal.release()

        assert (readable, await held) == (0, "granted")


async def test_a_reader_never_waits_for_a_turn_and_sees_nothing_of_it(journal: FaultyJournal):
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        journal.hold()
        turn = asyncio.ensure_future(ask(registry, RUN))
        await journal.is_held.wait()

        before = await generation(registry)
        journal.release()
        await turn

        assert (before, await generation(registry)) == (0, 1)


async def test_an_unknown_scene_is_none_and_leaves_nothing_in_memory(journal: FaultyJournal):
    async with served(journal) as registry:
        opened = await registry.opened("nowhere")
        answer = await ask(registry, RUN, scene="nowhere")
        await asyncio.gather(*registry._tasks.values())

        assert (opened, answer) == (None, "unknown-scene")
        assert (registry._held, registry._tasks, registry._touched, registry._leaving) == ({}, {}, {}, set())


async def test_a_cancelled_caller_takes_nothing_back(journal: FaultyJournal):
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        journal.hold()
        caller = asyncio.ensure_future(ask(registry, RUN, key="key-one"))
        await journal.is_held.wait()

        caller.cancel()
        journal.release()

        with pytest.raises(asyncio.CancelledError):
            await caller
        assert await ask(registry, RUN, key="key-one") == "granted"
        assert await generation(registry) == 1


async def test_a_full_mailbox_turns_the_newest_away_and_decides_the_rest(journal: FaultyJournal):
    async with served(journal, mailbox_commands_max=2) as registry:
        await ask(registry, SPAWN)
        journal.hold()
        turn = asyncio.ensure_future(ask(registry, RUN))
        await journal.is_held.wait()
        waiting = [asyncio.ensure_future(ask(registry, HIT)) for _ in range(2)]
        await asyncio.sleep(0)

        with pytest.raises(MailboxFull):
            await ask(registry, HIT)
        journal.release()

        assert await asyncio.gather(turn, *waiting) == ["granted"] * 3
        assert await generation(registry) == 3


# Leaving memory


async def test_an_idle_scene_leaves_memory_and_comes_back_byte_for_byte(journal: FaultyJournal):
    async with served(journal) as registry:
        for who in ("hero", "villain", "ghost"):
            await registry.submit("room", [Addressed(who, SPAWN), Addressed(who, RUN, f"key-{who}")])
        await registry.submit("room", [Addressed("ghost", Despawn())])
        before = await seen(registry)

        await idle(registry)
        after = await seen(registry)

        assert after is not before
        assert_same_scene(after, before)
        assert_same_scene(after, await replayed(journal))


async def test_idle_time_is_enough_to_leave(journal: FaultyJournal):
    async with served(journal, scene_idle_ms=1) as registry:
        await ask(registry, SPAWN)

        await registry._tasks["room"]

        assert registry._held == {}
        assert await generation(registry) == 0


async def test_traffic_takes_the_request_to_leave_back(journal: FaultyJournal):
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        held = registry._held["room"]
        registry._ask_to_leave("room")

        answer = await ask(registry, RUN)
        await asyncio.sleep(0)

        assert answer == "granted"
        assert registry._held["room"] is held


async def test_a_command_that_comes_while_a_scene_leaves_is_decided(journal: FaultyJournal):
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        for _ in range(50):
            registry._ask_to_leave("room")
            await asyncio.sleep(0)
            assert await ask(registry, RUN) == "granted"

        assert await generation(registry) == 50


async def test_beyond_the_bound_the_longest_idle_scenes_leave_even_after_a_burst(journal: FaultyJournal):
    async with served(journal, scenes_open_max=3) as registry:
        burst = [f"s{number}" for number in range(12)]
        await asyncio.gather(*(ask(registry, SPAWN, scene=scene) for scene in burst))
        for scene in burst:
            assert await ask(registry, RUN, scene=scene) == "granted"
        leaving = [registry._tasks[scene] for scene in registry._leaving]
        await asyncio.gather(*leaving)

        assert len(registry._held) <= 3
        assert "s11" in registry._held


async def test_a_reader_gets_a_scene_that_is_asked_to_leave_at_once(journal: FaultyJournal):
    scenes = [f"s{number}" for number in range(8)]
    async with served(journal) as registry:
        for scene in scenes:
            await ask(registry, SPAWN, scene=scene)

    async with served(FaultyJournal(journal.inner), scenes_open_max=1) as registry:
        opened = await asyncio.gather(*(registry.opened(scene) for scene in scenes))

        assert [None if one is None else one.scene.name for one in opened] == scenes


async def test_a_scene_runs_as_part_of_no_request_also_not_of_the_one_that_opened_it(journal: FaultyJournal):
    """Its later log lines would name a request that is long over."""
    seen_in_turns: list[Passage | None] = []

    def clock() -> int:
        seen_in_turns.append(present())
        return 1_000

    registry = Registry(journal, Settings(), clock=clock)
    token = entered(Passage(b"r-1", None))
    await ask(registry, SPAWN)
    left(token)
    await registry.close()

    assert seen_in_turns == [None]


async def test_the_metrics_tell_what_is_held_waits_and_is_damaged_and_whether_it_is_ready(journal: FaultyJournal):
    async with served(journal) as registry:
        metrics = registry.metrics
        await ask(registry, SPAWN)
        journal.hold()
        asked = [asyncio.create_task(ask(registry, RUN)) for _ in range(3)]
        await journal.is_held.wait()
        late = [asyncio.create_task(ask(registry, RUN)) for _ in range(2)]
        await asyncio.sleep(0)
        waiting, ready = metrics.commands_waiting(), metrics.is_ready()
        journal.release()
        await asyncio.gather(*asked, *late)
        registry.damages.note("other", JournalDamaged("a bit is wrong"))

        assert (waiting, metrics.commands_waiting()) == (2, 0)
        assert (metrics.open_scenes, metrics.damaged_scenes()) == (1, 1)
        registry.drain()
        assert (ready, metrics.is_ready()) == (True, False)


async def test_a_registry_that_drains_says_so_and_still_decides_what_the_doors_took(journal: FaultyJournal):
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        registry.drain()

        assert await ask(registry, RUN) == "granted"
        assert (registry.is_draining, registry.readiness.reasons()) == (True, ["draining"])


async def test_a_journal_that_fails_makes_a_registry_unready_until_it_has_taken_something(journal: FaultyJournal):
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        reasons = [registry.readiness.reasons()]
        for fault in (Fault.UNAVAILABLE, Fault.UNKNOWN_LOST):
            journal.next(fault)
            with pytest.raises((JournalUnavailable, CommitUnknown)):
                await ask(registry, RUN)
            reasons.append(registry.readiness.reasons())
            await ask(registry, RUN)
            reasons.append(registry.readiness.reasons())

        assert reasons == [[], ["journal-unavailable"], [], ["journal-unavailable"], []]
