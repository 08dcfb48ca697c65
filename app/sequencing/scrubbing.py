"""The scrubber: reads what nobody asks for, slowly, and the list of scenes that were found damaged."""

import asyncio

from app.journal.port import START, Journal, JournalDamaged, JournalUnavailable
from app.settings import Settings
from app.telemetry.log import log

ENTRIES_READ_MAX = 32
NAMES_READ_MAX = 100

FIRST_ROUND_S_MAX = 60
"""When the first round begins at the latest: a service that has just started has its scenes to open."""


class Damages:
    """The scenes that were found damaged since the service started. Only a repair, offline, makes one whole again.

    Bound: as many as the journal has scenes.
    """

    def __init__(self) -> None:
        self._found: dict[str, JournalDamaged] = {}

    @property
    def scenes(self) -> list[str]:
        """Give their names, in the order in which they were found."""
        return list(self._found)

    def note(self, scene: str, error: JournalDamaged) -> None:
        """Remember that a scene is damaged, and log it the first time."""
        if scene not in self._found:
            self._found[scene] = error
            log.error("scene-damaged", scene=scene, sequence=error.sequence, error=str(error))

    def require_whole(self, scene: str) -> None:
        """See that a scene was not found damaged.

        Raises:
            JournalDamaged: It was.
        """
        found = self._found.get(scene)
        if found is not None:
            raise JournalDamaged(str(found), sequence=found.sequence)


class Scrubber:
    """Reads every scene's checkpoint and entries in rounds, one read at a time with a pause before each.

    It reads through the port, so whatever a journal checks of what it gives is checked; it decodes nothing.
    """

    def __init__(self, journal: Journal, settings: Settings, damages: Damages) -> None:
        self._journal = journal
        self._pause_s = settings.scrub_pause_ms / 1000
        self._interval_s = settings.scrub_interval_s
        self._damages = damages

    async def run(self) -> None:
        """Go round after round, until cancelled."""
        await asyncio.sleep(min(self._interval_s, FIRST_ROUND_S_MAX))
        while True:
            try:
                await self.round()
            except JournalUnavailable as error:
                log.warning("scrub-failed", error=str(error))
            await asyncio.sleep(self._interval_s)

    async def round(self) -> None:
        """Read every scene once; what is damaged is noted, and the next scene is read.

        Raises:
            JournalUnavailable: The journal cannot be read now. The rest of the round is left out.
        """
        after = ""
        while names := await self._names(after):
            for name in names:
                try:
                    await self._scene(name)
                except JournalDamaged as error:
                    self._damages.note(name, error)
            after = names[-1]

    async def _names(self, after: str) -> list[str]:
        """Give the next scenes' names; where not even those can be read, every scene finds out by itself."""
        try:
            return await self._journal.scenes(after=after, limit=NAMES_READ_MAX)
        except JournalDamaged as error:
            log.error("scrub-failed", error=str(error))
            return []

    async def _scene(self, name: str) -> None:
        await asyncio.sleep(self._pause_s)
        await self._journal.load(name)
        position = START
        while True:
            await asyncio.sleep(self._pause_s)
            entries = await self._journal.read(name, after=position, limit=ENTRIES_READ_MAX)
            if not entries:
                return
            position = entries[-1].position
