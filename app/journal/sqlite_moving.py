"""The SQLite journal as one side of a move: all that it holds, and how it takes what another held."""

import asyncio
import os
from contextlib import ExitStack
from dataclasses import dataclass

import apsw

from app.journal.codec import decode_checkpoint
from app.journal.port import Checkpoint, JournalUnavailable
from app.journal.sqlite import SqliteJournal
from app.journal.sqlite_chain import Digests
from app.journal.sqlite_file import DatabaseFile, failures_named
from app.journal.sqlite_marks import SLOT_BYTES, path_of
from app.journal.sqlite_tables import Tables

TAKEN = "the journal holds scenes already, sealed with the secret that it has"


@dataclass(slots=True)
class _Place:
    """A whole checkpoint to be written. Its answer is the checkpoint's position."""

    reply: asyncio.Future[int]
    scene: str
    checkpoint: Checkpoint
    sequence: int
    listed: bool

    def apply(self, tables: Tables) -> int | None:
        """Write it and give its answer."""
        tables.place(self.scene, self.checkpoint, sequence=self.sequence, listed=self.listed)
        return self.checkpoint.position


class SqliteMoving(SqliteJournal):
    """A journal that nobody else has meanwhile: even one that is only read is locked, so that no server writes on."""

    def __init__(self, path: str, *, read_only: bool) -> None:
        """Open the journal and lock it. One to be written is made when it is missing.

        Raises:
            JournalUnavailable: It cannot be opened, or a process serves it. Nothing was changed.
            JournalDamaged: The file is no journal of a known format. Nothing was changed.
        """
        super().__init__(path, read_only=read_only, locked=True)

    async def everything(self) -> list[str]:
        """Give the names of all scenes that a row or a mark tells of, ascending.

        Raises:
            JournalUnavailable, JournalDamaged: The file could not be read. Nothing was changed.
        """
        self._require_open()
        rows = await self._reader.look(lambda connection: connection.execute("SELECT name FROM scenes").fetchall())
        return sorted({str(name) for (name,) in rows} | {name for _, name, _ in self._reader.marks.all()})

    async def adopt_secret(self, secret: bytes) -> None:
        """Make `secret` this journal's own, on disk when this returns.

        Raises:
            ValueError: The journal holds a scene already. Nothing was changed.
            JournalUnavailable, JournalDamaged: It is only read, or could not be opened anew. It is closed; its secret
                is the former one or this one.
        """
        if await self.everything():
            raise ValueError(TAKEN)
        if self._file.is_read_only:
            raise JournalUnavailable("the journal was opened for reading only")
        # Whatever is open knows the former secret: each digest and each mark begins with it.
        await self.close()
        path = self._file.path
        with failures_named(path), ExitStack() as undo:
            file = DatabaseFile(path, read_only=False)
            undo.callback(file.release)
            _adopted(file, secret)
            undo.pop_all()
        self._open(file)

    async def place(self, scene: str, checkpoint: Checkpoint, *, listed: bool) -> None:
        """Make a whole checkpoint the scene's, with its secrets, in one step.

        Raises:
            Superseded, Misuse: As `checkpoint`. Nothing was changed.
            JournalUnavailable, CommitUnknown: As `checkpoint`.
            JournalDamaged: Its header is none of ours, or the scene's place is damaged. Nothing was changed.
        """
        sequence = decode_checkpoint(checkpoint.header).state.sequence
        reply = self._reply()
        await self._written(reply, _Place(reply, scene, checkpoint, sequence, listed))


def _adopted(file: DatabaseFile, secret: bytes) -> None:
    """Write another secret into a file that holds no scene.

    Raises:
        ValueError: It holds one by now. Nothing was changed.
        apsw.Error, OSError: The secret is the former one or this one.
    """
    connection = file.connect(writing=True)
    try:
        if connection.execute("SELECT count(*) FROM scenes").get:
            raise ValueError(TAKEN)
        # Slots that were made for scenes which then were not are checked by the former secret.
        os.truncate(path_of(file.path), SLOT_BYTES)
        with connection:
            _say(connection, "secret", secret)
            _say(connection, "secret_digest", Digests(secret).content(secret))
    finally:
        connection.close()


def _say(connection: apsw.Connection, name: str, value: bytes | None) -> None:
    connection.execute("UPDATE meta SET value = ? WHERE name = ?", (value, name))
