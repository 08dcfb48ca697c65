"""The writer thread: everything that waits becomes one transaction, and one call back to the event loop."""

import asyncio
import concurrent.futures
import queue
import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import apsw

from app.journal.covering import Misuse
from app.journal.port import Committed, CommitUnknown, JournalDamaged, JournalUnavailable, NotTheWriter, Superseded
from app.journal.sqlite_chain import Digests
from app.journal.sqlite_file import DatabaseFile
from app.journal.sqlite_marks import Marks
from app.journal.sqlite_tables import Tables, fence
from app.journal.sqlite_wal import LogKeeper

CLOSED = "the journal is closed"

DAMAGED = (apsw.CorruptError, apsw.ConstraintError, UnicodeError)
"""What a request meets when the place it writes to does not hold what was written there."""

OWN = (*DAMAGED, apsw.TooBigError, apsw.MismatchError, apsw.RangeError, apsw.SQLError, OverflowError)
"""What a request fails by alone: others of its transaction need not. All else (no room, no disk) fails them all."""


@dataclass(slots=True)
class Append:
    """One entry to be written behind `after`. Its answer is the entry's position."""

    reply: asyncio.Future[int]
    scene: str
    after: int
    first: int
    last: int
    blob: bytes

    def apply(self, tables: Tables) -> int | None:
        """Write it and give its answer."""
        return tables.append(self.scene, after=self.after, first=self.first, last=self.last, blob=self.blob)


@dataclass(slots=True)
class Save:
    """A checkpoint to be replaced. Its answer is the checkpoint's position."""

    reply: asyncio.Future[int]
    scene: str
    position: int
    header: bytes
    changed: dict[str, bytes | None]
    listed: bool

    def apply(self, tables: Tables) -> int | None:
        """Write it and give its answer."""
        tables.checkpoint(
            self.scene, position=self.position, header=self.header, changed=self.changed, listed=self.listed
        )
        return self.position


@dataclass(slots=True)
class Trim:
    """Entries to be forgotten, over as many transactions as their number takes. Its answer is `before`."""

    reply: asyncio.Future[int]
    scene: str
    before: int

    def apply(self, tables: Tables) -> int | None:
        """Forget some of them; give the answer, or None when some are left."""
        return self.before if tables.trim(self.scene, before=self.before) else None


class Request(Protocol):
    """What the writer is asked for."""

    reply: asyncio.Future[int]
    scene: str

    def apply(self, tables: Tables) -> int | None:
        """Write it, inside of a transaction, and give its answer; None when some of it is left for the next."""
        ...


Answer = tuple[asyncio.Future[int], int | Exception]


class Writer:
    """One thread and one connection through which everything is written.

    Bound:   none of its own: a scene has at most one append, or one checkpoint and trim, under way, and what waits is
             bounded where commands are taken in, in the scenes' mailboxes.
    Order:   arrival. What waits together is committed together, all scenes in one transaction and one sync.
    Senders: any thread. The answer comes on the event loop that made the request's future.
    """

    def __init__(self, file: DatabaseFile, digests: Digests, marks: Marks, committed: Committed) -> None:
        """Open the connection and start the thread, which tells `committed` of each commit.

        Raises:
            apsw.Error: The file cannot be opened. Nothing was changed and no thread is left.
        """
        self._file = file
        self._digests = digests
        self._marks = marks
        self._committed = committed
        with ExitStack() as undo:
            connection = file.connect(writing=True)
            undo.callback(connection.close)
            self._log = LogKeeper(file, synced=marks.sync)
            undo.pop_all()
        self._log.watch(connection)
        self._tables: Tables | None = Tables(connection, digests, marks)
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._unfinished: list[Request] = []
        self._in_hand: list[Request] = []
        # Guards the two flags together with the queue: nothing is put behind the end, where nobody would answer it.
        self._gate = threading.Lock()
        self._is_ending = False
        self._stopped: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._stopped.set_running_or_notify_cancel()
        # A daemon, so that a program which forgets to close still ends; what it was told is durable is on disk already.
        self._thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> None:
        """Let `request` wait for the next transaction.

        Raises:
            JournalUnavailable: The writer has been stopped. Nothing was written.
        """
        with self._gate:
            if self._is_ending:
                raise JournalUnavailable(CLOSED)
            self._queue.put(request)

    def stop(self) -> concurrent.futures.Future[None]:
        """Refuse further requests; the future is done when what was accepted is answered and all files are closed."""
        with self._gate:
            if not self._is_ending:
                self._is_ending = True
                self._queue.put(None)
        return self._stopped

    def join(self) -> None:
        """Wait for the thread's end, which has come, but for a few instructions, when the future of `stop` is done."""
        self._thread.join()

    def _run(self) -> None:
        """Commit what waits, until the end; however the thread ends, nobody is left without an answer."""
        try:
            while requests := self._take():
                self._in_hand = requests
                answers = self._transaction(requests)
                self._in_hand = []
                _answer(answers)
                if self._tables is not None:
                    self._log.keep(self._tables.connection)
        finally:
            self._end()

    def _take(self) -> list[Request]:
        """Give all that waits, after waiting for something. Empty means that the end has come."""
        taken = self._unfinished
        self._unfinished = []
        try:
            request = self._queue.get(block=not taken and not self._is_ending)
            while True:
                if request is not None:
                    taken.append(request)
                elif taken:
                    # The mark of the end goes behind what was accepted before it.
                    self._queue.put(None)
                    return taken
                else:
                    return []
                request = self._queue.get_nowait()
        except queue.Empty:
            return taken

    def _transaction(self, requests: list[Request]) -> list[Answer]:
        """Write all of `requests` in one transaction and give the answers of those that are finished.

        When one fails by itself, the transaction is taken back and written again in two halves, and so on, until that
        one is alone. Savepoints would do it in one transaction, but not after damage: SQLite then fails the COMMIT too.
        """
        unfinished = len(self._unfinished)
        try:
            return self._written(requests)
        except OWN as error:
            del self._unfinished[unfinished:]
            if self._tables is not None and not self._tables.rolled_back():
                self._tables.connection.close()
                self._tables = None
            if len(requests) == 1:
                return [(requests[0].reply, _own(error, requests[0].scene))]
        half = len(requests) // 2
        return self._transaction(requests[:half]) + self._transaction(requests[half:])

    def _written(self, requests: list[Request]) -> list[Answer]:
        """Write `requests` in one transaction and give the answers of those that are finished.

        Raises:
            OWN: One failed by itself. Nothing was written, and the transaction may still be open.
        """
        answers: list[Answer] = []
        tables: Tables | None = None
        unfinished = len(self._unfinished)
        is_committing, entries = False, 0
        try:
            tables = self._mended()
            tables.begin()
            for request in requests:
                try:
                    result = request.apply(tables)
                except (NotTheWriter, Superseded, Misuse, JournalDamaged, JournalUnavailable) as refusal:
                    # Raised before anything of this request was written, so the others can go on.
                    answers.append((request.reply, refusal))
                    continue
                if result is None:
                    self._unfinished.append(request)
                else:
                    answers.append((request.reply, result))
                    entries += type(request) is Append
            is_committing, started = True, perf_counter()
            tables.commit()
            self._committed(entries, perf_counter() - started)
        except apsw.Error as error:
            if isinstance(error, OWN) and not is_committing:
                raise
            del self._unfinished[unfinished:]
            return self._failed(requests, tables, error, is_committing=is_committing)
        return answers

    def _failed(
        self, requests: list[Request], tables: Tables | None, error: apsw.Error, *, is_committing: bool
    ) -> list[Answer]:
        """Take the transaction back and give everyone the same answer, the refused too: they were compared with it.

        A full disk is certain even at COMMIT: the frame that would make the transaction count is not there whole.
        """
        is_taken_back = tables is None or tables.rolled_back()
        if is_taken_back and (not is_committing or isinstance(error, apsw.FullError)):
            return [(request.reply, JournalUnavailable(f"nothing was written: {error}")) for request in requests]
        # A sync that failed says nothing about what it wrote, and the next one would succeed without having written it.
        # So the connection and all it remembers are dropped, and what it left behind is overwritten before anyone asks.
        if self._tables is not None:
            with suppress(apsw.Error):
                self._tables.connection.close()
            self._tables = None
        with suppress(apsw.Error):
            self._mended()
        return [(request.reply, CommitUnknown(f"the commit failed: {error}")) for request in requests]

    def _mended(self) -> Tables:
        """Give tables on a connection that can be trusted; after a failed COMMIT that is a new one.

        Raises:
            apsw.Error: There is none yet. Nothing was written that counts.
        """
        if self._tables is None:
            with ExitStack() as undo:
                connection = self._file.connect(writing=True)
                undo.callback(connection.close)
                fence(connection)
                self._log.watch(connection)
                undo.pop_all()
            self._tables = Tables(connection, self._digests, self._marks)
        return self._tables

    def _end(self) -> None:
        """Answer what is left (nothing, unless the thread ends by an error), then close and let go of everything."""
        with self._gate:
            self._is_ending = True
        try:
            _answer(self._left_over())
            connection = None if self._tables is None else self._tables.connection
            self._log.finish(connection)
            if connection is not None:
                connection.close()
        finally:
            self._marks.close()
            self._file.release()
            self._stopped.set_result(None)

    def _left_over(self) -> list[Answer]:
        """Give answers for what the thread was doing when an error ended it, and for what was waiting."""
        waiting = self._unfinished
        with suppress(queue.Empty):
            while True:
                request = self._queue.get_nowait()
                if request is not None:
                    waiting.append(request)
        stopped = "the journal's writer has stopped; restart the service"
        unknown: list[Answer] = [(request.reply, CommitUnknown(stopped)) for request in self._in_hand]
        return unknown + [(request.reply, JournalUnavailable(stopped)) for request in waiting]


def _own(error: Exception, scene: str) -> Exception:
    """Give what the caller of a request that failed by itself is told. Nothing of it was written."""
    if isinstance(error, DAMAGED):
        return JournalDamaged(f"scene {scene!r} is damaged where it would be written: {error}")
    return JournalUnavailable(f"nothing was written: {error}")


def _answer(answers: list[Answer]) -> None:
    """Bring the answers to their event loops, with one call for each loop; as a rule there is one loop."""
    loops: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
    for answer in answers:
        loops.setdefault(answer[0].get_loop(), []).append(answer)
    for loop, its_answers in loops.items():
        # A loop that is closed has nobody left who waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, its_answers)


def _resolve(answers: list[Answer]) -> None:
    """Resolve the futures, on their loop. One whose caller was cancelled is done already, though it was written."""
    for reply, result in answers:
        if reply.done():
            continue
        if isinstance(result, Exception):
            reply.set_exception(result)
        else:
            reply.set_result(result)
