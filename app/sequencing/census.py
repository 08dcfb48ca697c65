"""The census: how many scenes a journal holds, so that there are not more than it may hold."""

import asyncio

from app.journal.port import Journal

PAGE_SCENES = 10_000
"""How many names one read asks for while the scenes are counted for the first time."""


COUNTED_S = 30.0
"""How long a count is taken for granted that another node may have made wrong, seconds."""


class Census:
    """Counts scenes: by the journal's list once, when it is first asked, then by what begins and ends.

    What other nodes begin and end in scenes that are not held here is not seen: once others were seen at all, a count
    that leaves no room is made anew, at most every `COUNTED_S`; before that, there may be as many more as they began.

    Raises, from `has_room`: JournalUnavailable, JournalDamaged as the journal does; nothing is known then.
    """

    def __init__(self, journal: Journal, limit: int) -> None:
        self.limit = limit
        self._journal = journal
        self._scenes: int | None = None
        self._has_others = False
        self._counted_at = 0.0

    async def has_room(self) -> bool:
        """Say whether one more scene may begin."""
        now = asyncio.get_running_loop().time()
        is_full = self._scenes is not None and self._scenes >= self.limit
        if self._scenes is None or (is_full and self._has_others and now - self._counted_at >= COUNTED_S):
            counted, after = 0, ""
            while names := await self._journal.scenes(after=after, limit=PAGE_SCENES):
                counted, after = counted + len(names), names[-1]
            self._scenes, self._counted_at = counted, now
        return self._scenes < self.limit

    def note_other(self, *, before: bool, after: bool) -> None:
        """Take note of another node's turn, as of one of this node's."""
        self._has_others = True
        self.note(before=before, after=after)

    def note(self, *, before: bool, after: bool) -> None:
        """Take note of whether a scene exists after a turn that it may have begun or ended in."""
        if self._scenes is not None:
            self._scenes += after - before
