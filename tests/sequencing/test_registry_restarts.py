"""The registry when the journal fails, an invariant breaks, or the service stops and comes back."""

import asyncio

import pytest

from app.gates.candidate import Candidate
from app.gates.decision import Command, Problem
from app.gates.lives import CloseScene, Despawn
from app.gates.scene import Scene
from app.gates.transition import Begin, Complete, TransitionGranted
from app.journal.port import START, CommitUnknown, JournalDamaged, JournalUnavailable
from app.sequencing.mailbox import Addressed, Decided
from app.sequencing.registry import Draining, Registry
from app.settings import Settings
from tests.support.journal_fakes import Fault, FaultyJournal
from tests.support.played import assert_same_scene
from tests.support.sequenced import RUN, SPAWN, Clock, ask, generation, idle, replayed, seen, served, word, words

HIT = Begin(layer="base", target="Hit")


async def test_a_journal_that_is_away_is_told_and_the_scene_stays_usable(journal: FaultyJournal):
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        journal.next(Fault.UNAVAILABLE)

        with pytest.raises(JournalUnavailable):
            await ask(registry, RUN)

        assert await generation(registry) == 0
        assert await ask(registry, RUN) == "granted"


@pytest.mark.parametrize("fault", [Fault.UNKNOWN_LOST, Fault.UNKNOWN_WRITTEN])
async def test_an_uncertain_turn_is_settled_by_its_key_with_the_first_answer(journal: FaultyJournal, fault: Fault):
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        journal.next(fault)
        keyed = [Addressed("hero", RUN, "key-one")]

        with pytest.raises(CommitUnknown):
            await registry.submit("room", keyed)
        first, second = await registry.submit("room", keyed), await registry.submit("room", keyed)

        assert first == second
        assert word(first[0]) == "granted"
        assert await generation(registry) == 1


async def test_a_scene_that_cannot_be_opened_refuses_and_is_opened_when_it_can(journal: FaultyJournal):
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        await idle(registry)
        journal.failing.add("load")

        with pytest.raises(JournalUnavailable):
            await ask(registry, RUN)
        with pytest.raises(JournalUnavailable):
            await registry.opened("room")
        journal.failing.clear()

        assert await ask(registry, RUN) == "granted"


async def test_a_damaged_scene_is_refused_and_the_others_serve(journal: FaultyJournal):
    await journal.append("room", after=START, first=1, last=1, blob=b"garbage")
    async with served(journal) as registry:
        with pytest.raises(JournalDamaged):
            await ask(registry, SPAWN)

        assert await ask(registry, SPAWN, scene="hall") == "spawned"


async def test_a_broken_invariant_fails_only_who_waits_and_the_scene_opens_again(
    journal: FaultyJournal, monkeypatch: pytest.MonkeyPatch
):
    async with served(journal) as registry:
        for scene in ("room", "hall"):
            await ask(registry, SPAWN, scene=scene)
        decide = Candidate.decide

        def broken(self: Candidate, name: str | None, command: Command, mark: object = None) -> object:
            assert command is not HIT, "two pending tokens"
            return decide(self, name, command, mark)  # type: ignore[arg-type]  # whatever it is

        monkeypatch.setattr(Candidate, "decide", broken)
        other = asyncio.ensure_future(ask(registry, RUN, scene="hall"))
        failing = [asyncio.ensure_future(ask(registry, command)) for command in (RUN, HIT, RUN)]

        results = await asyncio.gather(*failing, return_exceptions=True)

        assert [type(result) for result in results] == [JournalUnavailable] * 3
        assert await other == "granted"
        assert (await generation(registry), await ask(registry, RUN)) == (0, "granted")


async def test_a_broken_invariant_after_the_append_is_commit_unknown_and_its_key_settles_it(
    journal: FaultyJournal, monkeypatch: pytest.MonkeyPatch
):
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        with monkeypatch.context() as patched:
            patched.setattr(Scene, "adopt", unadoptable)

            with pytest.raises(CommitUnknown):
                await ask(registry, RUN, key="key-one")

        assert await ask(registry, RUN, key="key-one") == "granted"
        assert await generation(registry) == 1


def unadoptable(*_: object) -> None:
    raise AssertionError("two pending tokens")


# Stopping and coming back


async def test_a_draining_registry_answers_what_waits_takes_nothing_new_and_checkpoints(journal: FaultyJournal):
    registry = Registry(journal, settings_of(), clock=Clock())
    await ask(registry, SPAWN)
    journal.hold()
    turn = asyncio.ensure_future(ask(registry, RUN))
    await journal.is_held.wait()
    waiting = asyncio.ensure_future(ask(registry, HIT))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(registry.close())
    await asyncio.sleep(0)

    with pytest.raises(Draining):
        await ask(registry, RUN)
    with pytest.raises(Draining):
        await registry.opened("hall")
    is_open_meanwhile = not journal.is_closed
    journal.release()
    answers = await asyncio.gather(turn, waiting)
    await closing

    checkpoint = await journal.inner.load("room")
    assert (list(answers), is_open_meanwhile, journal.is_closed) == (["granted", "granted"], True, True)
    assert checkpoint is not None
    assert (registry._held, registry._tasks) == ({}, {})
    assert registry.is_draining


def settings_of() -> Settings:
    return Settings()


async def test_closing_an_unused_registry_closes_the_journal(journal: FaultyJournal):
    await Registry(journal, settings_of()).close()

    assert journal.is_closed


async def test_a_token_and_a_key_survive_a_restart(journal: FaultyJournal):
    keyed = [Addressed("hero", RUN, "key-one")]
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        [before] = await registry.submit("room", keyed)

    async with served(FaultyJournal(journal.inner)) as registry:
        [after] = await registry.submit("room", keyed)

        assert after == before
        assert isinstance(after, Decided)
        assert isinstance(after.record.answer, TransitionGranted)
        assert await ask(registry, Complete(token=after.record.answer.token)) == "committed"


async def test_a_key_gives_the_same_answer_in_a_new_life(journal: FaultyJournal):
    keyed = [Addressed("hero", RUN, "key-one")]
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        before = await registry.submit("room", keyed)
        await ask(registry, Despawn())
        await ask(registry, SPAWN)

        assert await registry.submit("room", keyed) == before
        assert await generation(registry) == 0


async def test_a_key_expires_by_the_scenes_own_time(journal: FaultyJournal):
    clock = Clock()
    async with served(journal, clock, receipts_ms=100) as registry:
        await ask(registry, SPAWN)
        await ask(registry, RUN, key="key-one")
        clock.now += 100
        await ask(registry, RUN, key="key-one")
        kept = await generation(registry)
        clock.now += 1

        await ask(registry, RUN, key="key-one")

        assert (kept, await generation(registry)) == (1, 2)


async def test_retried_keys_and_new_commands_are_answered_in_their_order(journal: FaultyJournal):
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        firsts = [await registry.submit("room", [Addressed("hero", RUN, f"key-{number}")]) for number in range(3)]

        results = await registry.submit(
            "room",
            [
                Addressed("hero", RUN, "key-2"),
                Addressed("hero", HIT),
                Addressed("hero", RUN, "key-0"),
                Addressed("ghost", RUN),
                Addressed("hero", HIT, "key-1"),
            ],
        )

        assert [results[0], results[2]] == [firsts[2][0], firsts[0][0]]
        assert words(results) == ["granted", "granted", "granted", "unknown-character", Problem.KEY_REUSED]


async def test_a_closed_scene_is_gone_at_once_and_its_name_comes_back_above(journal: FaultyJournal):
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        await ask(registry, RUN, key="key-one")
        await ask(registry, CloseScene())
        gone, listed = await registry.opened("room"), await registry.scenes(after="", limit=9)

        await ask(registry, SPAWN)
        scene = await seen(registry)

        held = scene.roster.get("hero")
        assert (gone, listed) == (None, [])
        assert held is not None
        assert (held.life, held.layers["base"].epoch, scene.sequence) == (2, 2, 4)
        assert await ask(registry, RUN, key="key-one") == "granted"


async def test_the_history_gives_every_decision_with_its_time_and_passes_over_other_characters(journal: FaultyJournal):
    async with served(journal) as registry:
        await registry.submit("room", [Addressed("hero", SPAWN), Addressed("villain", SPAWN)])
        await registry.submit("room", [Addressed("villain", RUN)])
        await ask(registry, RUN)

        everything = [item async for item in registry.history("room", after=0, character=None)]
        of_hero = [item async for item in registry.history("room", after=1, character="hero")]

        assert [(sequence, at) for sequence, at, _ in everything] == [(number, 1_000) for number in (1, 2, 3, 4)]
        assert [(sequence, None if record is None else record.character) for sequence, _, record in of_hero] == [
            (2, "villain"),
            (3, None),
            (4, "hero"),
        ]


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_the_journal_does_each_key_is_decided_once_and_the_journal_is_the_scene(
    journal: FaultyJournal, seed: int
):
    """A seeded simulation: 30 callers retry until they are answered, over a journal that fails every third time."""
    faulty = FaultyJournal(journal.inner, seed=seed, chance=0.3)
    async with served(faulty, checkpoint_decisions=7, turn_commands_max=4, scenes_open_max=1) as registry:
        await until_answered(registry, Addressed("hero", SPAWN, "key-spawn"))
        answers = await asyncio.gather(
            *(until_answered(registry, Addressed("hero", RUN, f"key-{number}")) for number in range(30))
        )
        faulty.chance = 0.0
        scene = await seen(registry)

        generations = sorted(answer.record.answer.token.generation for answer in answers)  # type: ignore[union-attr]
        assert generations == list(range(1, 31))
        assert_same_scene(scene, await replayed(journal.inner))


async def until_answered(registry: Registry, command: Addressed) -> Decided:
    while True:
        try:
            [result] = await registry.submit("room", [command])
        except (JournalUnavailable, CommitUnknown):
            if "room" in registry._held:
                registry._ask_to_leave("room")
            await asyncio.sleep(0)
            continue
        assert isinstance(result, Decided)
        return result
