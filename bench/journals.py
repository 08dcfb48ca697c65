"""Journals of a million entries, made as the service makes them, but not over HTTP: that would take hours."""

import asyncio
import time

from app.api.bodies import RigBody
from app.gates.candidate import Candidate
from app.gates.decision import Command
from app.gates.lives import DeclareRig, Spawn
from app.gates.scene import Scene
from app.gates.transition import Begin
from app.journal import open_journal
from app.journal.codec import encode_entry
from app.journal.port import Journal
from app.sequencing.store import SceneStore
from app.settings import Settings
from bench.mix import RIG, SCENE
from bench.rounds import say

WRITTEN_TOGETHER = 5_000
"""How many entries are synced together: what waits together is one transaction, whoever asks."""

SPAWNED_TOGETHER = 1_000
TOUCHED = 1_000
"""How many of the characters the entries are about: those that a service holds awake, so that none is thawed for each.
"""

TAIL = 16_384
"""How many entries lie behind the checkpoint: half of what the service itself lets there be, as on any day."""


def rig_declared() -> DeclareRig:
    """Give the command that declares the rig of all characters that are counted in thousands."""
    return DeclareRig(name="bench", rig=RigBody.model_validate(RIG).to_rig())


class Building:
    """One scene's journal while it is made: turns are decided by the gates, and each is one entry."""

    def __init__(self, journal: Journal, store: SceneStore, scene: Scene, position: int) -> None:
        self._journal = journal
        self._store = store
        self._scene = scene
        self._position = position
        self._at = int(time.time() * 1000)
        self._waiting: list[asyncio.Task[int]] = []

    @classmethod
    async def begun(cls, journal: Journal, settings: Settings, scene: str) -> "Building":
        """Begin a scene, with the rig that all its characters have."""
        store = SceneStore(scene, journal, settings)
        building = cls(journal, store, *await store.open())
        building.turn([(None, rig_declared())])
        await building.written()
        return building

    def candidate(self) -> Candidate:
        """Give a turn to be decided."""
        return Candidate(self._scene, self._at)

    def turn(self, commands: list[tuple[str | None, Command]]) -> None:
        """Decide a turn and have it written."""
        candidate = self.candidate()
        for name, command in commands:
            candidate.decide(name, command)
        self.write(candidate)

    def write(self, candidate: Candidate) -> None:
        """Have a turn written that was decided."""
        first, last = candidate.first, candidate.sequence
        blob = encode_entry(at=self._at, first=first, records=candidate.records)
        appended = self._journal.append(self._scene.name, after=self._position, first=first, last=last, blob=blob)
        self._waiting.append(asyncio.ensure_future(appended))
        self._scene.adopt(candidate)
        self._position += 1
        self._store.adopted(self._scene, candidate, self._position, [])

    async def written(self) -> None:
        """Wait until all is written.

        Raises:
            NotTheWriter: The journal numbers entries otherwise than one by one.
        """
        positions = await asyncio.gather(*self._waiting)
        self._waiting.clear()
        if positions:
            # What a scene's first entry is numbered, the journal's other scenes decide.
            self._position = positions[-1]

    async def checkpoint(self) -> None:
        """Store the scene as it is."""
        await self.written()
        await self._store.checkpoint(self._scene)


async def built(path: str, *, characters: int, entries: int) -> None:
    """Make a journal of so many characters with 3 layers and 30 parameters, and then so many entries of one begin.

    Takes about a minute for a million.
    """
    settings = Settings(journal=f"sqlite:{path}")
    journal = open_journal(settings.journal)
    try:
        building = await Building.begun(journal, settings, SCENE)
        spawn, begin = Spawn(rig="bench"), Begin(layer="base", target="Run")
        for start in range(0, characters, SPAWNED_TOGETHER):
            building.turn([(f"c{index}", spawn) for index in range(start, min(start + SPAWNED_TOGETHER, characters))])
        await building.written()
        if not entries:
            await building.checkpoint()
        for number in range(entries):
            building.turn([(f"c{number % TOUCHED}", begin)])
            if number == entries - TAIL:
                await building.checkpoint()
            if (number + 1) % WRITTEN_TOGETHER == 0:
                await building.written()
            if (number + 1) % 100_000 == 0:
                say(f"{number + 1:,} of {entries:,} entries of the journal are written")
        await building.written()
    finally:
        await journal.close()
