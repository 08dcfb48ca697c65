"""The reader thread: what is on disk, asked for on a connection of its own, so that reads never wait for the writer."""

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from heapq import merge
from itertools import islice
from typing import TypeVar

import apsw

from app.journal.port import START, Checkpoint, StoredEntry
from app.journal.sqlite_chain import Digests
from app.journal.sqlite_checks import Checks
from app.journal.sqlite_file import DAMAGE, DatabaseFile, failures_named, recognise, translated
from app.journal.sqlite_marks import Marks

T = TypeVar("T")


class Reader:
    """One thread and one read-only connection through which everything is read, in order of arrival.

    Bound: none of its own; each caller has one read under way, and opening a scene is bounded by the registry.
    Each method of the thread sees one moment: what was durable when it began. What it gives was checked: entries by
    their chain, a checkpoint by its digests, and the end of a scene by its mark, which is read first, since it is
    written last.
    """

    def __init__(self, file: DatabaseFile, *, needs_marks: bool = True) -> None:
        """Open the connection, read the secret, and compare the names in the database with those that are marked.

        Raises:
            JournalUnavailable: The file cannot be opened. Nothing was changed.
            JournalDamaged: It is no journal of a known format. Nothing was changed.
        """
        self._path = file.path
        with failures_named(file.path), ExitStack() as undo:
            self._connection = file.connect(writing=False)
            undo.callback(self._connection.close)
            # This also opens the log. While it stays open here, a writer that reopens does not recover the log from
            # what a failed sync left in it.
            self.secret = recognise(self._connection, file.path)
            self.digests = Digests(self.secret)
            self.marks = Marks(file.path, self.digests, read_only=file.is_read_only)
            undo.callback(self.marks.close)
            self.strays = _strays(self._connection, self.marks)
            self._checks = Checks(self._connection, self.digests, self.marks, needs_marks=needs_marks)
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

    async def look(self, query: Callable[[apsw.Connection], T]) -> T:
        """Run a query of the caller's own in the reader thread, at one moment.

        Raises:
            JournalUnavailable, JournalDamaged: It could not be answered. Nothing was changed.
        """

        def looked() -> T:
            with self._moment():
                return query(self._connection)

        return await self.run(looked)

    def stop(self) -> concurrent.futures.Future[None]:
        """Close behind what was asked already; the future is done when the connection is closed."""
        if self._closed is None:
            self._closed = self._thread.submit(self._connection.close)
            self._thread.shutdown(wait=False)
        return self._closed

    def entries(self, scene: str, after: int, limit: int) -> list[StoredEntry]:
        """Give at most `limit` entries above `after`, ascending, by one walk along the index.

        Raises:
            JournalDamaged: The very next entry, or the end, is not what was written. What lies before was given.
        """
        found = self._checks.found(scene)
        if found is None:
            return []
        with self._moment():
            row = self._checks.row(found)
            before = self._checks.entry_at_or_before(row, after)
            entries = self._checks.entries(row, before._replace(position=after), limit)
            if not entries and limit > 0:
                self._checks.end(found, row, before)
        return entries

    def position_below(self, scene: str, sequence: int) -> int:
        """Give the position of the last kept entry that ends below `sequence`, or START: two looks into the indexes.

        Raises:
            JournalDamaged: The indexes do not agree, or the scene's row is damaged.
        """
        found = self._checks.found(scene)
        if found is None:
            return START
        with self._moment():
            return self._checks.position_below(self._checks.row(found), sequence)

    def checkpoint(self, scene: str) -> Checkpoint | None:
        """Give the scene's checkpoint, header and characters of the same moment.

        Raises:
            JournalDamaged: It is not what was written.
        """
        found = self._checks.found(scene)
        if found is None:
            return None
        with self._moment():
            return self._checks.checkpoint(self._checks.row(found))

    @contextmanager
    def _moment(self) -> Iterator[None]:
        """Let the statements of the block see one moment: between two of them the writer may replace a checkpoint."""
        with self._connection:
            yield

    def names(self, after: str, limit: int) -> list[str]:
        """Give at most `limit` names of listed scenes above `after`, ascending by bytes.

        Scenes whose names are not in order are among them, whether they were listed or not: asking for them says why.
        """
        rows = self._connection.execute(
            "SELECT name FROM scenes INDEXED BY scenes_listed WHERE listed = 1 AND name > ? ORDER BY name LIMIT ?",
            (after, limit),
        )
        listed = [name for (name,) in rows]
        if self.strays:
            strays = {name for name in self.strays if name > after} - set(listed)
            listed = list(islice(merge(listed, sorted(strays)), limit))
        return listed


def _strays(connection: apsw.Connection, marks: Marks) -> set[str]:
    """Give the scenes that not every one of the two indexes and the marks name: as a rule there are none.

    An index that cannot be walked is no reason to refuse the others: whoever asks for a scene finds out.
    """
    with suppress(*DAMAGE):
        marked = {name for _, name, _ in marks.all()}
        # One moment for both, and after the marks: a server may be making scenes meanwhile.
        with connection:
            named = set(_names(connection, "sqlite_autoindex_scenes_1"))
            listed = set(_names(connection, "scenes_listed"))
        return (marked - named) | (named ^ listed)
    return set()


def _names(connection: apsw.Connection, index: str) -> Iterator[str]:
    """Give all names of scenes as one index has them."""
    for (name,) in connection.execute(f"SELECT name FROM scenes INDEXED BY {index}"):  # noqa: S608 - constant text
        yield name
