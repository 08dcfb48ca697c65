"""Scenes behind a journal for tests: a clock that stands, one sequencer driven by hand, and whole registries."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from app.gates.candidate import replay
from app.gates.decision import Command, Refused, Undecided
from app.gates.lives import CloseScene, Spawn
from app.gates.scene import Scene
from app.gates.transition import Begin
from app.journal.codec import decode_entry
from app.journal.port import START, Journal
from app.sequencing.census import Census
from app.sequencing.feed import Feeds
from app.sequencing.mailbox import Addressed, Decided, Earlier, Result, Submission, awaited
from app.sequencing.registry import Registry
from app.sequencing.sequencer import Sequencer
from app.sequencing.store import bounds_of
from app.settings import Settings
from app.telemetry.metrics import Metrics
from app.telemetry.tracing import Tracing

Reply = asyncio.Future[list[Result | Earlier]]

SPAWN = Spawn()
RUN = Begin(layer="base", target="Run")


class Clock:
    """Milliseconds since 1970 that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000

    def __call__(self) -> int:
        """Give the present time."""
        return self.now


class Node:
    """One sequencer of scene `room`, whose turns the test takes itself."""

    def __init__(self, journal: Journal, clock: Clock | None = None, **settings: Any) -> None:
        self.clock = clock or Clock()
        given = Settings(**settings)
        self.sequencer = Sequencer(
            "room", journal, given, self.clock, Metrics(), Tracing(), Census(journal, 1_000), Feeds(given)
        )

    @property
    def scene(self) -> Scene:
        """The adopted scene."""
        assert self.sequencer.scene is not None
        return self.sequencer.scene

    def put(self, *commands: Command, who: str | None = "hero", key: str | None = None, caller: str = "") -> Reply:
        """Let one submission wait; give its reply."""
        waited, reply = awaited()
        asked = [Addressed(who, command, key) for command in commands]
        assert self.sequencer.mailbox.put(Submission(asked, caller, reply))
        return waited

    async def ask(self, *commands: Command, **envelope: Any) -> list[str]:
        """Take one turn with one submission; give the words of its answers. Raises what the reply raises."""
        reply = self.put(*commands, **envelope)
        await self.sequencer.turn()
        return words(reply.result())


def words(results: list[Any]) -> list[str]:
    """Give the word of each result: an outcome, a problem's name, or `earlier`."""
    return [word(result) for result in results]


def word(result: Any) -> str:
    """Give the word of one result."""
    if isinstance(result, Undecided):
        return str(result.problem)
    if isinstance(result, Decided):
        answer = result.record.answer
        return str(answer.outcome) if isinstance(answer, Refused) else str(answer.__struct_config__.tag)
    return "earlier"


@asynccontextmanager
async def served(journal: Journal, clock: Clock | None = None, **settings: Any) -> AsyncIterator[Registry]:
    """Give a registry over a journal, closed at the end."""
    registry = Registry(journal, Settings(**settings), clock=clock or Clock())
    yield registry
    await registry.close()


async def idle(registry: Registry, scene: str = "room") -> None:
    """Ask a scene to leave memory, as its idle time would, and return when it has."""
    task = registry._tasks[scene]
    registry._ask_to_leave(scene)
    await task


async def replayed(journal: Journal, scene: str = "room", **settings: Any) -> Scene:
    """Replay every entry of a scene from the first into a fresh scene, whatever checkpoints there are."""
    fresh = Scene(scene, journal.secret, bounds_of(Settings(**settings)))
    for stored in await journal.read(scene, after=START, limit=1_000_000):
        entry = decode_entry(stored.blob)
        replay(fresh, entry.first, entry.at, entry.records)
    return fresh


async def ask(registry: Registry, command: Command, *, scene: str = "room", key: str | None = None) -> str:
    """Have one command decided for `hero`, or for the scene; give its word."""
    who = None if isinstance(command, CloseScene) else "hero"
    return words(await registry.submit(scene, [Addressed(who, command, key)]))[0]


async def seen(registry: Registry, scene: str = "room") -> Scene:
    """Give a scene that must exist, as a reader sees it."""
    opened = await registry.opened(scene)
    assert opened is not None
    return opened.scene


async def generation(registry: Registry, scene: str = "room") -> int:
    """Give the generation of `hero`, which must be alive."""
    held = (await seen(registry, scene)).roster.get("hero")
    assert held is not None
    return held.layers["base"].generation
