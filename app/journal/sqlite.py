"""The journal in one SQLite file: the embedded default, with nothing to install and nothing to run beside it."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from app.journal.port import (
    UNBOUNDED_BYTES,
    Checkpoint,
    Committed,
    JournalUnavailable,
    Moved,
    StoredEntry,
    alone,
    unwatched,
)
from app.journal.sqlite_file import DatabaseFile, translated
from app.journal.sqlite_reader import Reader
from app.journal.sqlite_writer import CLOSED, Append, Request, Save, Trim, Writer


class SqliteJournal:
    """A journal whose entries are on disk, synced, before `append` returns. One process at a time may write it.

    Every method is for the event loop; files are touched only in the journal's own threads, after it is opened.
    A caller that is cancelled while it waits leaves what it asked for to be done: it may or may not happen.
    """

    def __init__(
        self,
        path: str,
        *,
        read_only: bool = False,
        vfs: str | None = None,
        committed: Committed = unwatched,
        needs_marks: bool = True,
        locked: bool = False,
    ) -> None:
        """Open the journal at `path`, which is made (mode 0600, with its directory) when missing and to be written.

        `committed` is told of each commit, on the writer's thread. Without `needs_marks` a scene whose mark is missing
        or damaged is read all the same. `locked` keeps writers out of one that is only read, too.

        Raises:
            JournalUnavailable: It cannot be opened, or another process serves it. Nothing was changed.
            JournalDamaged: The file is no journal of a known format. Nothing was changed.
        """
        self._committed, self._needs_marks = committed, needs_marks
        self._open(DatabaseFile(path, read_only=read_only, vfs=vfs, locked=locked))

    def _open(self, file: DatabaseFile) -> None:
        """Start reading `file` and, unless it is to be only read, writing it; what goes wrong lets go of it."""
        with ExitStack() as undo:
            undo.callback(file.release)
            self._reader = Reader(file, needs_marks=self._needs_marks)
            undo.callback(self._reader.stop)
            with translated(f"cannot open {file.path}"):
                digests, marks = self._reader.digests, self._reader.marks
                self._writer = None if file.is_read_only else Writer(file, digests, marks, self._committed)
            undo.pop_all()
        self._file = file
        self._is_closed = False

    @property
    def secret(self) -> bytes:
        """32 random bytes, made with the file and kept in it; they stay readable after `close`."""
        return self._reader.secret

    @property
    def is_reachable(self) -> bool:
        """There is nothing to be reached."""
        return True

    @property
    def entry_bytes_max(self) -> int:
        """No bound of its own."""
        return UNBOUNDED_BYTES

    async def append(self, scene: str, *, after: int, first: int, last: int, blob: bytes) -> int:
        """Write one entry behind `after` and give its position once it is synced to disk. Sequences must rise.

        Raises:
            NotTheWriter: `after` is not the scene's last position. Nothing was written.
            JournalUnavailable: Nothing was written: the disk is full, or the journal is closed or only read.
            JournalDamaged: Nothing was written: the place for it in the file is damaged.
            CommitUnknown: The sync failed; the entry may or may not be there. Read before deciding again.
        """
        reply = self._reply()
        return await self._written(reply, Append(reply, scene, after, first, last, blob))

    async def read(self, scene: str, *, after: int, limit: int) -> list[StoredEntry]:
        """Give at most `limit` entries of positions above `after`, ascending.

        Raises:
            JournalUnavailable, JournalDamaged: The file could not be read. Nothing was changed.
        """
        self._require_open()
        return await self._reader.run(partial(self._reader.entries, scene, after, limit))

    async def seek(self, scene: str, *, sequence: int) -> int:
        """Give the position of the last kept entry that ends below `sequence`; START when there is none.

        Raises:
            JournalUnavailable, JournalDamaged: The file could not be read. Nothing was changed.
        """
        self._require_open()
        return await self._reader.run(partial(self._reader.position_below, scene, sequence))

    async def checkpoint(
        self, scene: str, *, position: int, header: bytes, changed: dict[str, bytes | None], listed: bool
    ) -> None:
        """Replace the scene's checkpoint. Entries behind `position` keep the scene listed whatever `listed` says.

        The writer writes nothing else meanwhile, which for 100,000 changed characters is about a second.

        Raises:
            Misuse: `position` is below the earlier checkpoint's or above the scene's last. Nothing was changed.
            JournalUnavailable: Nothing was changed.
            CommitUnknown: The checkpoint is either the earlier one or this one, whole.
        """
        reply = self._reply()
        await self._written(reply, Save(reply, scene, position, header, changed, listed))

    async def load(self, scene: str) -> Checkpoint | None:
        """Give the newest checkpoint, or None for a scene that has none.

        Raises:
            JournalUnavailable, JournalDamaged: The file could not be read. Nothing was changed.
        """
        self._require_open()
        return await self._reader.run(partial(self._reader.checkpoint, scene))

    async def scenes(self, *, after: str, limit: int) -> list[str]:
        """Give at most `limit` listed names above `after`, ascending by bytes.

        Raises:
            JournalUnavailable, JournalDamaged: The file could not be read. Nothing was changed.
        """
        self._require_open()
        return await self._reader.run(partial(self._reader.names, after, limit))

    async def trim(self, scene: str, *, before: int) -> None:
        """Forget the entries up to and including `before`, oldest first, in steps between which others are written.

        The file does not shrink; the room is used for what is written next.

        Raises:
            Misuse: No checkpoint covers `before`. Nothing was forgotten.
            JournalUnavailable, CommitUnknown: Some of the entries, the oldest, may be forgotten. Trim again.
        """
        reply = self._reply()
        await self._written(reply, Trim(reply, scene, before))

    def follow(self, scene: str, moved: Moved) -> Callable[[], None]:
        """Never call `moved`: no other hand writes a file that is served."""
        return alone

    async def close(self) -> None:
        """Answer what was accepted, move the log into the database, close the files and end the threads.

        A second call waits for the same end. A cancelled call can be made again.
        """
        self._is_closed = True
        # The reader goes first: as long as it is on old frames of the log, the writer cannot move them all.
        await asyncio.shield(asyncio.wrap_future(self._reader.stop()))
        if self._writer is not None:
            await asyncio.shield(asyncio.wrap_future(self._writer.stop()))
            self._writer.join()
        self._reader.marks.close()
        self._file.release()

    def _reply(self) -> asyncio.Future[int]:
        """Give a future for a request's answer, as long as there is a writer to answer it."""
        self._require_open()
        return asyncio.get_running_loop().create_future()

    async def _written(self, reply: asyncio.Future[int], request: Request) -> int:
        """Have `request` written and give its answer."""
        if self._writer is None:
            raise JournalUnavailable("the journal was opened for reading only")
        self._writer.submit(request)
        return await reply

    def _require_open(self) -> None:
        """Raise JournalUnavailable once `close` was called."""
        if self._is_closed:
            raise JournalUnavailable(CLOSED)
