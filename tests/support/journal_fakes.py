"""A journal that delays, fails, loses its answer and is cut off: on request for one call, or by seeded chance."""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from enum import StrEnum

from app.journal.memory import MemoryJournal
from app.journal.port import (
    Checkpoint,
    CommitUnknown,
    Journal,
    JournalUnavailable,
    Moved,
    NotTheWriter,
    StoredEntry,
    alone,
)


class Fault(StrEnum):
    """What may become of an append."""

    NONE = "none"
    UNAVAILABLE = "unavailable"
    UNKNOWN_WRITTEN = "unknown, and written"
    UNKNOWN_LOST = "unknown, and lost"
    NOT_THE_WRITER = "somebody else's turn"


class OneHand(MemoryJournal):
    """A journal that no other hand writes, as a file that is served."""

    def follow(self, scene: str, moved: Moved) -> Callable[[], None]:
        """Never call `moved`."""
        return alone


class FaultyJournal:
    """Another journal's whole port, with faults in between. Closing it leaves the inner journal open, as a crash does.

    `chance` is how likely each call is to fail, by the seed; `next` says what the next appends do, `failing` which
    calls fail until told otherwise, `hold` lets appends wait.
    """

    def __init__(self, inner: Journal, *, seed: int = 0, chance: float = 0.0) -> None:
        self.inner = inner
        self.chance = chance
        self.failing: set[str] = set()
        self.written: list[bytes] = []
        self.bytes_max: int | None = None
        self.is_closed = False
        self._chances = random.Random(seed)
        self._next: deque[Fault] = deque()
        self._open = asyncio.Event()
        self._open.set()
        self.is_held = asyncio.Event()

    @property
    def appended(self) -> int:
        """How many entries were written, whatever their writers were told."""
        return len(self.written)

    def clear(self) -> None:
        """Let no more faults happen: none of those that were asked for and did not come."""
        self._next.clear()
        self.failing.clear()
        self.chance = 0.0

    @property
    def secret(self) -> bytes:
        """The inner journal's."""
        return self.inner.secret

    @property
    def is_reachable(self) -> bool:
        """The inner journal's."""
        return self.inner.is_reachable

    @property
    def entry_bytes_max(self) -> int:
        """The inner journal's, unless told otherwise."""
        return self.inner.entry_bytes_max if self.bytes_max is None else self.bytes_max

    def follow(self, scene: str, moved: Moved) -> Callable[[], None]:
        """Follow in the inner journal."""
        return self.inner.follow(scene, moved)

    def next(self, *faults: Fault) -> None:
        """Say what becomes of the next appends, one each."""
        self._next.extend(faults)

    def hold(self) -> None:
        """Let every append wait, before anything is written, until `release`; `is_held` tells when one does."""
        self._open.clear()
        self.is_held.clear()

    def release(self) -> None:
        """Let appends go on."""
        self._open.set()

    async def append(self, scene: str, *, after: int, first: int, last: int, blob: bytes) -> int:
        """Append, or fail as was asked for."""
        await self._delayed("append")
        self.is_held.set()
        await self._open.wait()
        fault = self._fault()
        if fault is Fault.UNAVAILABLE:
            raise JournalUnavailable("the disk is full")
        if fault is Fault.NOT_THE_WRITER:
            raise NotTheWriter("somebody else wrote")
        if fault is Fault.UNKNOWN_LOST:
            raise CommitUnknown("the connection broke before the write")
        position = await self.inner.append(scene, after=after, first=first, last=last, blob=blob)
        self.written.append(blob)
        if fault is Fault.UNKNOWN_WRITTEN:
            raise CommitUnknown("the connection broke after the write")
        return position

    def _fault(self) -> Fault:
        if self._next:
            return self._next.popleft()
        if self._chances.random() < self.chance:
            return self._chances.choice((Fault.UNAVAILABLE, Fault.UNKNOWN_WRITTEN, Fault.UNKNOWN_LOST))
        return Fault.NONE

    async def _delayed(self, call: str) -> None:
        """Let others run for a while, then fail when this call is to fail."""
        for _ in range(self._chances.randrange(3) if self.chance else 0):
            await asyncio.sleep(0)
        by_chance = call != "append" and self._chances.random() < self.chance
        if self.is_closed or call in self.failing or by_chance:
            raise JournalUnavailable(f"{call}: cut off")

    async def read(self, scene: str, *, after: int, limit: int) -> list[StoredEntry]:
        """Read, unless it fails. With `tail` failing, a first read gives one entry and the next one fails."""
        await self._delayed("read")
        if "tail" in self.failing:
            self.failing.add("read")
            return await self.inner.read(scene, after=after, limit=1)
        return await self.inner.read(scene, after=after, limit=limit)

    async def seek(self, scene: str, *, sequence: int) -> int:
        """Seek, unless it fails."""
        await self._delayed("seek")
        return await self.inner.seek(scene, sequence=sequence)

    async def checkpoint(
        self, scene: str, *, position: int, header: bytes, changed: dict[str, bytes | None], listed: bool
    ) -> None:
        """Checkpoint, unless it fails."""
        await self._delayed("checkpoint")
        await self.inner.checkpoint(scene, position=position, header=header, changed=changed, listed=listed)

    async def load(self, scene: str) -> Checkpoint | None:
        """Load, unless it fails."""
        await self._delayed("load")
        return await self.inner.load(scene)

    async def scenes(self, *, after: str, limit: int) -> list[str]:
        """List, unless it fails."""
        await self._delayed("scenes")
        return await self.inner.scenes(after=after, limit=limit)

    async def trim(self, scene: str, *, before: int) -> None:
        """Trim, unless it fails."""
        await self._delayed("trim")
        await self.inner.trim(scene, before=before)

    async def close(self) -> None:
        """Fail every later call; the inner journal stays open for whoever comes next."""
        self.is_closed = True
