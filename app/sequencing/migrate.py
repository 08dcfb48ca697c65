"""Migration: everything that one journal holds goes into another, is read again on both sides, and compared."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from msgspec import Struct

from app.journal.moving import MARK, is_unfinished, mark_finished, mark_unfinished
from app.journal.port import (
    START,
    CommitUnknown,
    Journal,
    JournalDamaged,
    JournalUnavailable,
    Moving,
    NotTheWriter,
    StoredEntry,
)
from app.sequencing.naming import listed
from app.sequencing.store import SceneStore
from app.settings import Settings

SCENES_AT_ONCE = 16
"""How many scenes are under way together: the target commits what waits together, or answers while others ask."""

ENTRIES_READ_MAX = 64
DIFFERENCES_MAX = 10
"""How many differences are told; the rest is only counted."""

PAUSES_S = (1.0, 2.0, 4.0, 8.0)
"""How long a scene waits, seconds, each time a journal cannot do it: long enough for a new leader to be elected."""

PASSING = (JournalUnavailable, CommitUnknown, NotTheWriter)
"""What may go well the next time. An entry that landed after it was looked for makes the next one NotTheWriter."""

READING, MOVING, COMPARING = "read", "moved", "compared"


class CannotMove(Exception):
    """The move cannot be begun as it was asked for. Nothing was written."""


class MoveFailed(Exception):
    """The move was begun and is not finished. Nobody may serve the target; the source is as it was."""


class Progress(NamedTuple):
    """How far a move is: what is being done with the scenes, to how many of how many it was, with how many entries."""

    doing: str
    scenes: int
    of_scenes: int
    entries: int


class Moved(Struct):
    """What a journal holds, counted; `listed` are the scenes that were not deleted, `bytes` those of the entries."""

    scenes: int = 0
    listed: int = 0
    entries: int = 0
    decisions: int = 0
    characters: int = 0
    bytes: int = 0


Told = Callable[[Progress], None]


def unheard(progress: Progress) -> None:
    """Be told of progress, and do nothing."""


async def move(
    source: Moving, target: Moving, settings: Settings, *, told: Told = unheard, pauses_s: Sequence[float] = PAUSES_S
) -> Moved:
    """Bring everything that `source` holds into `target`, which must be empty or the target of this move before.

    Until both sides were read again and compared, and every scene was opened in the target, that is marked so that
    nobody serves it. The source is only read, and nobody may write it meanwhile. What fails for now is tried again
    after each of `pauses_s`.

    Raises:
        CannotMove: Nothing was written.
        MoveFailed: The target is marked as unfinished. The same move can be made again, unless it says otherwise.
        JournalUnavailable, CommitUnknown, JournalDamaged: As MoveFailed, or nothing was written yet.
    """
    return await _Move(source, target, settings, told, pauses_s).made()


class _Move:
    """One move. Every step is done for each scene, and can be done again."""

    def __init__(
        self, source: Moving, target: Moving, settings: Settings, told: Told, pauses_s: Sequence[float]
    ) -> None:
        self._source = source
        self._target = target
        self._settings = settings
        self._told = told
        self._pauses_s = pauses_s
        self._listed: set[str] = set()
        self._moved = Moved()
        self._progress = Progress(READING, 0, 0, 0)
        self._differences: dict[str, None] = {}

    async def made(self) -> Moved:
        """Make the move, and give what was moved."""
        with _unbegun("from", "`posegate repair` it first"):
            names = await self._looked_at()
        with _unbegun("into", ANEW):
            is_resumed = await self._fits(names)
        with _unbegun("from", "`posegate repair` it first"):
            await self._each(READING, names, self._read)
        self._moved.scenes, self._moved.listed = len(names), len(self._listed)
        try:
            if not is_resumed:
                await self._kept_trying(self._begin)
            await self._each(MOVING, names, self._copy)
            await self._kept_trying(partial(self._compare_whole, names))
            await self._each(COMPARING, names, self._compare)
        except JournalDamaged as error:
            # The source was read to its end already, and is locked, or nobody uses it.
            raise MoveFailed(f"the journal to move into is damaged: {error}. {ANEW}") from error
        self._require_equal()
        await self._kept_trying(partial(mark_finished, self._target))
        return self._moved

    async def _looked_at(self) -> list[str]:
        """See that the source is whole as far as its mark tells; give the names of its scenes."""
        if await is_unfinished(self._source):
            raise CannotMove("into the journal to move from, another is being moved, and not all of it is there")
        self._listed = await listed(self._source)
        return await _names(self._source)

    async def _fits(self, names: list[str]) -> bool:
        """See that the target can be moved into: it is empty, or was begun to be filled with just this source.

        Gives whether it was begun already.

        Raises:
            CannotMove: It cannot.
        """
        is_resumed, held = await is_unfinished(self._target), await _names(self._target)
        if not is_resumed and held:
            scenes = f"{len(held):,} scene{'' if len(held) == 1 else 's'}"
            raise CannotMove(f"the journal to move into is not empty: it holds {scenes}. {ANEW}")
        if is_resumed and self._target.secret != self._source.secret:
            raise CannotMove(f"into the journal to move into, another one was being moved. {ANEW}")
        if is_resumed and (others := {*held} - {*names}):
            stray = min(others)
            raise CannotMove(f"the journal to move into holds {stray!r}, which the one to move from does not. {ANEW}")
        return is_resumed

    async def _begin(self) -> None:
        """Give the target the source's secret, and mark it."""
        if self._target.secret != self._source.secret:
            try:
                await self._target.adopt_secret(self._source.secret)
            except ValueError as error:
                raise CannotMove(f"the journal to move into is not empty: {error}. {ANEW}") from error
        await mark_unfinished(self._target)

    async def _each(self, doing: str, names: list[str], work: Callable[[str], Awaitable[None]]) -> None:
        """Do a piece of work for every scene, several at once; the first failure lets no other scene begin."""
        waiting = deque(names)
        self._progress = Progress(doing, 0, len(names), 0)

        async def worked() -> None:
            while waiting:
                name = waiting.popleft()
                is_done = False
                try:
                    await self._kept_trying(partial(work, name))
                    is_done = True
                finally:
                    if not is_done:
                        waiting.clear()
                self._tell(scenes=1)

        workers = [worked() for _ in range(min(SCENES_AT_ONCE, len(names)))]
        for failure in await asyncio.gather(*workers, return_exceptions=True):
            if isinstance(failure, BaseException):
                raise failure

    async def _kept_trying(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do what can be done twice, again after each pause as long as a journal cannot do it."""
        for pause_s in self._pauses_s:
            try:
                await work()
            except PASSING:
                await asyncio.sleep(pause_s)
            else:
                return
        try:
            await work()
        except NotTheWriter as error:
            raise MoveFailed(f"somebody writes the journal to move into: {error}") from error

    def _tell(self, *, scenes: int = 0, entries: int = 0) -> None:
        doing, done, of_scenes, seen = self._progress
        self._progress = Progress(doing, done + scenes, of_scenes, seen + entries)
        self._told(self._progress)

    async def _read(self, name: str) -> None:
        """See that a scene can be read and that each of its entries fits into the target, and count what it is."""
        counted = Moved()
        async for entry in _entries(self._source, name):
            size = len(entry.blob)
            if size > self._target.entry_bytes_max:
                raise CannotMove(
                    f"scene {name!r} has at sequence {entry.first} an entry of {size:,} bytes, and the journal to move"
                    f" into takes {self._target.entry_bytes_max:,} at most: raise `max_payload` of its servers"
                )
            counted.entries += 1
            counted.decisions += entry.last - entry.first + 1
            counted.bytes += size
            self._tell(entries=1)
        checkpoint = await self._source.load(name)
        moved = self._moved
        moved.entries += counted.entries
        moved.decisions += counted.decisions
        moved.bytes += counted.bytes
        moved.characters += 0 if checkpoint is None else len(checkpoint.characters)

    async def _copy(self, name: str) -> None:
        """Append what the target does not have of a scene's entries, then put the checkpoint where it was.

        Raises:
            MoveFailed: It has other entries.
        """
        checkpoint = await self._source.load(name)
        covers = START if checkpoint is None else checkpoint.position
        held = _entries(self._target, name)
        is_held, position, covered = True, START, START
        async for entry in _entries(self._source, name):
            there = await anext(held, None) if is_held else None
            is_held = there is not None
            if there is None:
                position = await self._target.append(
                    name, after=position, first=entry.first, last=entry.last, blob=entry.blob
                )
            elif there[1:] == entry[1:]:
                position = there.position
            else:
                raise MoveFailed(_other(name, entry.first))
            if entry.position <= covers:
                covered = position
            self._tell(entries=1)
        if is_held and (more := await anext(held, None)) is not None:
            raise MoveFailed(_other(name, more.first))
        if checkpoint is not None:
            await self._target.place(name, checkpoint._replace(position=covered), listed=name in self._listed)

    async def _compare_whole(self, names: list[str]) -> None:
        """Compare which scenes there are, which of them are listed, and the secret, as all is now."""
        source, target = self._source, self._target
        for kind, here, there in (
            ("scene", await _names(source), await _names(target)),
            ("listed scene", sorted(await listed(source)), sorted(await listed(target))),
            ("scene since the move began", names, await _names(source)),
        ):
            for name in sorted({*here} ^ {*there}):
                self._differ(f"{kind} {name!r} is on one side only")
        if source.secret != target.secret:
            self._differ("the secrets are not the same")

    async def _compare(self, name: str) -> None:
        """Read a scene on both sides and compare it, then open it in the target as a server would."""
        checkpoint, copy = await self._source.load(name), await self._target.load(name)
        covers, covered = START if checkpoint is None else checkpoint.position, START
        here, there = _entries(self._source, name), _entries(self._target, name)
        while True:
            entry, twin = await anext(here, None), await anext(there, None)
            firsts = [each.first for each in (entry, twin) if each is not None]
            if entry is None or twin is None or entry[1:] != twin[1:]:
                if not firsts:
                    break
                self._differ(f"scene {name!r}: its entries are not the same at sequence {firsts[0]}")
                return
            if entry.position <= covers:
                covered = twin.position
            self._tell(entries=1)
        if checkpoint is None or copy is None:
            if checkpoint is not copy:
                self._differ(f"scene {name!r} has a checkpoint on one side only")
        elif copy != checkpoint._replace(position=covered):
            self._differ(f"scene {name!r}: its checkpoints are not the same")
            return
        try:
            await SceneStore(name, self._target, self._settings).open()
        except JournalDamaged as error:
            self._differ(f"scene {name!r} cannot be opened in the journal that was moved into: {error}")

    def _differ(self, what: str) -> None:
        # A scene that is looked at again after a failure says the same again.
        self._differences[what] = None

    def _require_equal(self) -> None:
        """See that nothing was found to differ.

        Raises:
            MoveFailed: Something was.
        """
        if self._differences:
            told = list(self._differences)[:DIFFERENCES_MAX]
            if (more := len(self._differences) - DIFFERENCES_MAX) > 0:
                told.append(f"and {more:,} more")
            raise MoveFailed(
                f"the two journals are not the same: {'; '.join(told)}. See that nobody uses either, then make the move"
                " again"
            )


ANEW = "Give one that is new: for a file, a path where none is; for JetStream, another name behind the last `/`"


@contextmanager
def _unbegun(which: str, remedy: str) -> Iterator[None]:
    """Tell what is wrong with one of the journals before anything is written.

    Raises:
        CannotMove: It is damaged, or cannot be read.
    """
    try:
        yield
    except JournalDamaged as error:
        raise CannotMove(f"the journal to move {which} is damaged: {error}. {remedy}") from error
    except JournalUnavailable as error:
        raise CannotMove(f"the journal to move {which} cannot be read: {error}") from error


def _other(scene: str, sequence: int) -> str:
    return (
        f"the journal to move into has something else of scene {scene!r} at sequence {sequence}, so the one to move"
        f" from was used since. {ANEW}"
    )


async def _entries(journal: Journal, scene: str) -> AsyncIterator[StoredEntry]:
    """Read all that is kept of a scene's history, oldest first."""
    position = START
    while entries := await journal.read(scene, after=position, limit=ENTRIES_READ_MAX):
        for entry in entries:
            yield entry
        position = entries[-1].position


async def _names(journal: Moving) -> list[str]:
    return [name for name in await journal.everything() if name != MARK]
