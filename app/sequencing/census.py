"""The census: how many scenes a journal holds, so that there are not more than it may hold."""

from app.journal.port import Journal

PAGE_SCENES = 10_000
"""How many names one read asks for while the scenes are counted for the first time."""


class Census:
    """Counts scenes: by the journal's list once, when it is first asked, then by what begins and ends.

    Raises, from `has_room`: JournalUnavailable, JournalDamaged as the journal does; nothing is known then.
    """

    def __init__(self, journal: Journal, limit: int) -> None:
        self.limit = limit
        self._journal = journal
        self._scenes: int | None = None

    async def has_room(self) -> bool:
        """Say whether one more scene may begin."""
        if self._scenes is None:
            counted, after = 0, ""
            while names := await self._journal.scenes(after=after, limit=PAGE_SCENES):
                counted, after = counted + len(names), names[-1]
            self._scenes = counted
        return self._scenes < self.limit

    def note(self, *, before: bool, after: bool) -> None:
        """Take note of whether a scene exists after a turn that it may have begun or ended in."""
        if self._scenes is not None:
            self._scenes += after - before
