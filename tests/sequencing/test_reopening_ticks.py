"""A scene with bundles and ticks that is opened again, from any checkpoint, goes on and rolls back as before."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.gates.bundle import Bundle
from app.gates.decision import Command
from app.gates.identity import Token
from app.gates.lives import Despawn, Spawn
from app.gates.parameter import CommitParameters, ParameterValue
from app.gates.scene import Scene
from app.gates.tick import Tick
from app.gates.transition import Begin, Complete
from app.journal import open_journal
from app.journal.port import Journal
from app.sequencing.mailbox import Addressed
from app.sequencing.registry import Registry
from app.sequencing.verify import verify_scene
from app.settings import Settings
from tests.support.journal_fakes import Fault, FaultyJournal
from tests.support.played import assert_same_scene, member, request
from tests.support.sequenced import Clock, idle, replayed, seen, words

RUN, HIT = Begin(layer="base", target="Run"), Begin(layer="base", target="Hit")
GRAB = Bundle(commands=[member("hero", RUN), member("villain", HIT)], link=True)
LATER = Begin(layer="base", target="Late", deadline_ticks=2, min_ticks=1)


def speed(value: int) -> CommitParameters:
    return CommitParameters(values=[ParameterValue(value=value, name="Speed")])


STORY: list[tuple[str | None, Command]] = [
    ("hero", Spawn()),
    ("villain", Spawn()),
    ("hero", speed(1)),
    (None, Tick(requests=[request(1, RUN), request(3, LATER, number=2), request(9, HIT, "villain", number=3)])),
    (None, Tick(seal=1)),
    (None, GRAB),
    ("hero", speed(2)),
    (None, Tick(seal=2)),
    (None, Bundle(commands=[member("squire", Spawn()), member("hero", speed(3))])),
    ("villain", RUN),
    (None, Tick(seal=4, confirm=1)),
    (None, Bundle(commands=[member("squire", Despawn()), member("dragon", Spawn()), member("hero", HIT)])),
    (None, Bundle(commands=[member("dragon", Despawn()), member("villain", Despawn()), member("villain", Spawn())])),
    (None, Tick(seal=6)),
    ("hero", LATER),
    (None, Tick(rollback=3, requests=[request(4, HIT, number=7)])),
    (None, Tick(seal=5)),
    (None, GRAB),
    (None, Tick(rollback=2)),
    (None, Tick(rollback=1, requests=[request(2, RUN), request(2, GRAB, None, number=2)], seal=3)),
]


class Opened:
    """A journal and whoever serves it at the moment."""

    def __init__(self, journal: Journal) -> None:
        self.journal = FaultyJournal(journal)
        self.clock = Clock()
        self.settings = Settings(checkpoint_decisions=1_000)
        self.registry = Registry(self.journal, self.settings, clock=self.clock)

    async def ask(self, who: str | None, command: Command) -> Any:
        """Have one command decided; give what was answered."""
        self.clock.now += 1
        [result] = await self.registry.submit("room", [Addressed(who, command)])
        return result

    async def checkpoint(self) -> None:
        """Let the scene leave memory, so that it is opened from its newest checkpoint."""
        await idle(self.registry)

    async def crash(self) -> None:
        """Go away without a word, and open again."""
        self.journal.failing.add("checkpoint")
        await self.registry.close()
        self.journal.failing.clear()
        self.journal.is_closed = False
        self.registry = Registry(self.journal, self.settings, clock=self.clock)


@asynccontextmanager
async def opened(journal: Journal) -> AsyncIterator[Opened]:
    held = Opened(journal)
    yield held
    await held.registry.close()
    await journal.close()


@pytest.fixture(params=["memory", "sqlite"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Journal]:
    return lambda: open_journal("memory:" if request.param == "memory" else f"sqlite:{tmp_path / 'p.db'}")


async def told() -> tuple[Scene, list[Any]]:
    """Tell the story without any interruption; give the scene and what was answered, seals aside."""
    async with opened(open_journal("memory:")) as held:
        answers = [await held.ask(*each) for each in STORY]
        return await seen(held.registry), [words([answer]) for answer in answers]


def plain(scene: Scene) -> Any:
    """Give a scene's ticks and characters without the seals of its journal."""
    shown = (scene.state, scene.remains, scene.open_ticks(), [scene.roster.get(name) for name in scene.roster.names()])
    return re.sub(r"'\d-[0-9a-f]{32}'", "'seal'", repr(shown))


@pytest.mark.parametrize("place", range(1, len(STORY)))
async def test_a_scene_reopened_at_any_point_is_what_it_would_have_been(fresh: Callable[[], Journal], place: int):
    expected, answers = await told()

    async with opened(fresh()) as held:
        came = [await held.ask(*each) for each in STORY[:place]]
        await held.checkpoint()
        came += [await held.ask(*each) for each in STORY[place:]]
        scene = await seen(held.registry)

        assert [words([answer]) for answer in came] == answers
        assert plain(scene) == plain(expected)
        assert_same_scene(scene, await replayed(held.journal))
        await held.checkpoint()
        assert_same_scene(await seen(held.registry), scene)


@pytest.mark.parametrize("place", range(1, len(STORY), 3))
async def test_a_scene_that_crashed_behind_a_checkpoint_goes_on_from_its_tail(place: int):
    expected, _ = await told()

    async with opened(open_journal("memory:")) as held:
        for number, each in enumerate(STORY):
            await held.ask(*each)
            if number == place // 2:
                await held.checkpoint()
            if number == place:
                await held.crash()
        scene = await seen(held.registry)

        assert plain(scene) == plain(expected)
        assert (await verify_scene(held.journal, "room", held.settings)).differences == []


@pytest.mark.parametrize("fault", [Fault.UNKNOWN_WRITTEN, Fault.UNKNOWN_LOST, Fault.UNAVAILABLE])
@pytest.mark.parametrize("place", [5, 7, 10, 15, 19])
async def test_a_turn_that_is_cut_off_happened_whole_or_not_at_all(place: int, fault: Fault):
    """Bundle, seal, confirm and rollback: what the journal took is there after opening again, and nothing else is."""
    async with opened(open_journal("memory:")) as held:
        for each in STORY[:place]:
            await held.ask(*each)
        before = plain(await seen(held.registry))
        held.journal.next(fault)
        with pytest.raises(Exception, match=r"broke|full"):
            await held.ask(*STORY[place])
        await held.crash()
        cut_off = await seen(held.registry)

        assert (plain(cut_off) == before) == (fault is not Fault.UNKNOWN_WRITTEN)
        assert_same_scene(cut_off, await replayed(held.journal))


async def test_held_requests_survive_and_a_repetition_is_still_a_duplicate(fresh: Callable[[], Journal]):
    async with opened(fresh()) as held:
        for each in STORY[:4]:
            await held.ask(*each)
        await held.checkpoint()

        again = await held.ask(None, Tick(requests=[request(2, RUN), request(2, RUN, number=99)]))
        sealed = await held.ask(None, Tick(seal=9))

        assert [each and each.outcome for each in again.record.answer.requests] == ["duplicate", None]
        applied = [(tick.tick, [one.number for one in tick.applied]) for tick in sealed.record.answer.seal.ticks]
        assert applied == [(1, [1]), (2, [99]), (3, [2]), (5, []), (9, [3])]


async def test_a_verified_journal_of_bundles_and_ticks_has_no_differences(fresh: Callable[[], Journal]):
    async with opened(fresh()) as held:
        for each in STORY:
            await held.ask(*each)

        report = await verify_scene(held.journal, "room", held.settings)

        assert (report.differences, report.decided_again) == ([], len(STORY))


async def test_a_batch_refers_to_what_it_was_answered_before(fresh: Callable[[], Journal]):
    nothing = Token("", "", 0, 0, "", "")
    asked = [
        Addressed("hero", Spawn()),
        Addressed("hero", RUN),
        Addressed("hero", Complete(token=nothing), None, {"token": 1}),
        Addressed("hero", Complete(token=nothing), None, {"token": 0}),
        Addressed("hero", Complete(token=nothing), "key-0001", {"token": 1}),
        Addressed("hero", Complete(token=nothing), "key-0001", {"token": 0}),
    ]

    async with opened(fresh()) as held:
        results = await held.registry.submit("room", asked)

    assert words(list(results)) == ["spawned", "granted", "committed", "invalid", "already_completed", "key-reused"]
