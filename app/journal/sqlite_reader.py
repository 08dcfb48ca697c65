"""The reader thread: what is on disk, asked for on a connection of its own, so that reads never wait for the writer."""

import asyncio
import concurrent.futures
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TypeVar

from app.journal.port import START, Checkpoint, StoredEntry
from app.journal.sqlite_file import DatabaseFile, recognise, translated

T = TypeVar("T")


class Reader:
    """One thread and one read-only connection through which everything is read, in order of arrival.

    Bound: none of its own; each caller has one read under way, and opening a scene is bounded by the registry.
    Each method of the thread sees one moment: what was durable when it began.
    """

    def __init__(self, file: DatabaseFile) -> None:
        """Open the connection and read the secret.

        Raises:
            JournalUnavailable: The file cannot be opened. Nothing was changed.
            JournalDamaged: It is no journal of a known format. Nothing was changed.
        """
        self._path = file.path
        with translated(f"cannot open {file.path}"), ExitStack() as undo:
            self._connection = file.connect(writing=False)
            undo.callback(self._connection.close)
            # This also opens the log. While it stays open here, a writer that reopens does not recover the log from
            # what a failed sync left in it.
            self.secret = recognise(self._connection, file.path)
            undo.pop_all()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal-reader")
        self._closed: concurrent.futures.Future[None] | None = None

    async def run(self, query: Callable[[], T]) -> T:
        """Run `query` in the reader thread.

        Raises:
            JournalUnavailable, JournalDamaged: It could not be answered. Nothing was changed.
        """

        def translate() -> T:
            with translated(f"cannot read {self._path}"):
                return query()

        return await asyncio.get_running_loop().run_in_executor(self._thread, translate)

    def stop(self) -> concurrent.futures.Future[None]:
        """Close behind what was asked already; the future is done when the connection is closed."""
        if self._closed is None:
            self._closed = self._thread.submit(self._connection.close)
            self._thread.shutdown(wait=False)
        return self._closed

    def entries(self, scene: str, after: int, limit: int) -> list[StoredEntry]:
        """Give at most `limit` entries above `after`, ascending, by one walk along the index."""
        rows = self._connection.execute(
            "SELECT position, first, last, blob FROM entries INDEXED BY entries_position"
            " WHERE scene_id = (SELECT id FROM scenes WHERE name = ?) AND position > ? ORDER BY position LIMIT ?",
            (scene, after, limit),
        )
        return [StoredEntry(*row) for row in rows]

    def position_below(self, scene: str, sequence: int) -> int:
        """Give the position of the last kept entry that ends below `sequence`, or START: one look into the index."""
        row = self._connection.execute(
            "SELECT position FROM entries INDEXED BY entries_last"
            " WHERE scene_id = (SELECT id FROM scenes WHERE name = ?) AND last < ? ORDER BY last DESC LIMIT 1",
            (scene, sequence),
        ).fetchone()
        return START if row is None else int(row[0])

    def checkpoint(self, scene: str) -> Checkpoint | None:
        """Give the scene's checkpoint, header and characters of the same moment."""
        # The two statements need one transaction: between them the writer may replace the checkpoint.
        with self._connection:
            row = self._connection.execute(
                "SELECT id, position, header FROM scenes WHERE name = ? AND position IS NOT NULL", (scene,)
            ).fetchone()
            if row is None:
                return None
            scene_id, position, header = row
            characters: dict[str, bytes] = dict(
                self._connection.execute("SELECT name, value FROM characters WHERE scene_id = ?", (scene_id,))
            )
        return Checkpoint(position, header, characters)

    def names(self, after: str, limit: int) -> list[str]:
        """Give at most `limit` names of listed scenes above `after`, ascending by bytes."""
        rows = self._connection.execute(
            "SELECT name FROM scenes INDEXED BY scenes_listed WHERE listed AND name > ? ORDER BY name LIMIT ?",
            (after, limit),
        )
        return [name for (name,) in rows]
