"""The write-ahead log's length: who moves it into the database, and when the writer has to stop for it."""

import threading
from collections.abc import Callable
from contextlib import suppress

import apsw

from app.journal.sqlite_file import BUSY_TIMEOUT_MS, DatabaseFile

WAL_PASSIVE_BYTES = 8 * 1024 * 1024
"""Each time the log has grown by this much, it is copied into the database beside the writer."""

WAL_LIMIT_BYTES = 64 * 1024 * 1024
"""From here the writer itself stops between two transactions until the log can be begun anew."""

READERS_WAIT_MS = 50
"""How long the writer waits for readers of the log's old frames before it writes on and tries again later."""


class LogKeeper:
    """Keeps the write-ahead log short without making a commit wait for it, as long as the disk keeps pace.

    A passive checkpoint never blocks the writer, but under steady load it never reaches the log's end either, so the
    log is not begun anew. Hence the limit, at which the writer copies the little that is left and starts over.

    Each time, what is kept beside the database is `synced` as well, from the thread that copies.

    Bound: `limit_bytes`, plus one transaction, plus what is written while a reader holds old frames.
    """

    def __init__(
        self,
        file: DatabaseFile,
        *,
        synced: Callable[[], None],
        passive_bytes: int = WAL_PASSIVE_BYTES,
        limit_bytes: int = WAL_LIMIT_BYTES,
    ) -> None:
        self._synced = synced
        self._limit_bytes = limit_bytes
        self._connection = file.connect(writing=True)
        page_bytes = int(self._connection.pragma("page_size"))
        self._passive_step = max(1, passive_bytes // page_bytes)
        self._limit_step = max(1, limit_bytes // page_bytes)
        self._pages = 0
        self._passive_at = self._passive_step
        self._limit_at = self._limit_step
        # Two checkpoints cannot run at once. Without this lock the writer's would fail whenever a passive one runs.
        self._checkpointing = threading.Lock()
        self._is_wanted = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="journal-wal", daemon=True)
        self._thread.start()

    def watch(self, connection: apsw.Connection) -> None:
        """Learn the log's length from each commit on the writer's connection."""
        # A log that a slow reader let grow is cut to this length when it is begun anew.
        connection.pragma("journal_size_limit", self._limit_bytes)
        connection.set_wal_hook(self._noticed)

    def keep(self, connection: apsw.Connection) -> None:
        """Do what the log's length asks for. The writer calls this between transactions, with its own connection."""
        if self._pages >= self._limit_at:
            self._begin_anew(connection)
        elif self._pages >= self._passive_at:
            self._passive_at = self._pages + self._passive_step
            self._is_wanted.set()

    def finish(self, connection: apsw.Connection | None) -> None:
        """Stop the thread, then move the whole log into the database; what cannot be moved stays safe in the log."""
        self._is_stopping = True
        self._is_wanted.set()
        self._thread.join()
        self._connection.close()
        self._synced()
        if connection is not None:
            with suppress(apsw.Error):
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _noticed(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        """Take note of the log's length in pages; a shorter log than before was begun anew."""
        if pages < self._pages:
            self._passive_at = self._passive_step
            self._limit_at = self._limit_step
        self._pages = pages
        return apsw.SQLITE_OK

    def _begin_anew(self, connection: apsw.Connection) -> None:
        """Copy the rest of the log and let the next transaction start at its beginning."""
        # RESTART and not TRUNCATE: syncing a file whose blocks are there already is the faster write.
        with self._checkpointing:
            self._synced()
            connection.set_busy_timeout(READERS_WAIT_MS)
            try:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
            except apsw.Error:
                # A reader is on old frames, or the disk is full. The commits are safe where they are; try further on.
                self._limit_at = self._pages + self._passive_step
            finally:
                connection.set_busy_timeout(BUSY_TIMEOUT_MS)

    def _run(self) -> None:
        """Copy the log whenever the writer has asked for it, until the end."""
        while True:
            self._is_wanted.wait()
            self._is_wanted.clear()
            if self._is_stopping:
                return
            # What fails here is tried again as the log grows, and by the writer at the limit; no commit depends on it.
            with self._checkpointing, suppress(apsw.Error):
                self._synced()
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
