"""The census: how many scenes a journal holds, so that there are not more than it may hold."""

import asyncio

from app.journal.port import Journal, JournalDamaged, JournalUnavailable

PAGE_SCENES = 10_000
"""How many names one read asks for while the scenes are counted for the first time."""


COUNTED_S = 30.0
"""How long a count is taken for granted that another node may have made wrong, seconds."""


class Census:
    """Counts scenes: by the journal's list once, when it is first asked, then by what begins and ends.

    What other nodes begin and end in scenes that are not held here is not seen: once others were seen at all, a count
    that leaves no room is made anew, at most every `COUNTED_S`; before that, there may be as many more as they began.
    Whoever asks while it is counted waits for that one count.

    Raises, from `has_room`: JournalUnavailable when it cannot be counted, be it for the damage of some other scene: no
    more is known then, and the next who asks counts again.
    """

    def __init__(self, journal: Journal, limit: int) -> None:
        self.limit = limit
        self._journal = journal
        self._scenes: int | None = None
        self._has_others = False
        self._counted_at = 0.0
        self._counting: asyncio.Future[str] | None = None

    async def has_room(self) -> bool:
        """Say whether one more scene may begin."""
        while (counting := self._counting) is not None:
            # It ends without a result when the one who counts is cancelled: then somebody else does.
            await asyncio.wait([counting])
            if not counting.cancelled() and (failed := counting.result()):
                raise JournalUnavailable(failed)
        now = asyncio.get_running_loop().time()
        is_full = self._scenes is not None and self._scenes >= self.limit
        if self._scenes is None or (is_full and self._has_others and now - self._counted_at >= COUNTED_S):
            self._scenes, self._counted_at = await self._counted(), now
        return self._scenes < self.limit

    async def _counted(self) -> int:
        """Count by the journal's list, for all who ask meanwhile: they hear how it failed, if it does."""
        counting = self._counting = asyncio.get_running_loop().create_future()
        try:
            counted, after = 0, ""
            while names := await self._journal.scenes(after=after, limit=PAGE_SCENES):
                counted, after = counted + len(names), names[-1]
            counting.set_result("")
        except (JournalUnavailable, JournalDamaged) as error:
            failed = f"the scenes of the journal cannot be counted: {error}"
            counting.set_result(failed)
            raise JournalUnavailable(failed) from error
        finally:
            counting.cancel()
            self._counting = None
        return counted

    def note_other(self, *, before: bool, after: bool) -> None:
        """Take note of another node's turn, as of one of this node's."""
        self._has_others = True
        self.note(before=before, after=after)

    def note(self, *, before: bool, after: bool) -> None:
        """Take note of whether a scene exists after a turn that it may have begun or ended in."""
        if self._scenes is not None:
            self._scenes += after - before
