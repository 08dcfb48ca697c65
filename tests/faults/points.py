"""The named points at which a process can be told to die, and where in the service each of them lies.

Everything is wrapped from outside, in the process that is to die: the service has no hook for it.
"""

import asyncio
import inspect
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from app.api.connection import Connection
from app.api.lane import LaneRequest
from app.journal import sqlite_tables
from app.journal.sqlite import SqliteJournal
from app.journal.sqlite_marks import Marks
from app.journal.sqlite_tables import Tables
from app.journal.sqlite_wal import LogKeeper
from app.sequencing.mailbox import Submission
from tests.support.disk import Disk

LOG_PASSIVE_BYTES = 128 * 1024
LOG_LIMIT_BYTES = 512 * 1024
"""A log this short is moved into the database every few turns, and begun anew every few more."""

TRIM_ENTRIES = 2
"""Trims of a few entries take several transactions with this."""


class Point(Struct, frozen=True):
    """One point. `passages_max` passages come about within a second of load.

    `keeps` and `answers`: whether a lone request, during which the process dies there, is decided afterwards, and
    whether its answer arrives. None for points that are not passed by each request.
    """

    passages_max: int
    keeps: bool | None = None
    answers: bool = False
    in_trims: bool = False


POINTS = {
    "before append": Point(20, keeps=False),
    "after append": Point(20, keeps=True),
    "before commit": Point(20, keeps=False),
    "frame of the log written": Point(100, keeps=False),
    "before the log's sync": Point(20, keeps=True),
    "what is not synced lost": Point(20, keeps=False),
    "after the log's sync": Point(20, keeps=True),
    "before the mark": Point(20, keeps=True),
    "after commit": Point(20, keeps=True),
    "before answer": Point(40, keeps=True),
    # The fast lane writes its answer at once, and the loop tries at once to hand it over.
    "after answer": Point(40, keeps=True, answers=True),
    "before the bytes leave": Point(40, keeps=True),
    "between head and body": Point(40, keeps=True),
    "after the bytes left": Point(40, keeps=True, answers=True),
    "before checkpoint": Point(3),
    "checkpoint not committed": Point(3),
    "after checkpoint": Point(3),
    "page of the log moved": Point(40),
    "before the database's sync": Point(6),
    "after the database's sync": Point(6),
    "log begun anew": Point(2),
    "step of a trim not committed": Point(4, in_trims=True),
    "between two steps of a trim": Point(3, in_trims=True),
    "after a trim": Point(2, in_trims=True),
}
"""By name. "What is not synced lost" is a power cut: the log is left as its last sync left it."""

NAMES = list(POINTS)
CELLS = 3
_POINT, _LEFT, _STRUCK = range(CELLS)


class Doom:
    """Where a process is to die, in memory that it shares with the test; told before it starts or while it runs.

    `cells` are CELLS numbers, all 0 as long as it is to live.
    """

    def __init__(self, cells: Any) -> None:
        self._cells = cells
        self._counting = threading.Lock()

    def tell(self, point: str, passages: int) -> None:
        """Let the process die at its `passages`-th passage of `point` from now on."""
        self._cells[_LEFT] = passages
        self._cells[_POINT] = NAMES.index(point) + 1

    @property
    def has_struck(self) -> bool:
        """Say whether the process died of it, and not of anything else."""
        return bool(self._cells[_STRUCK])

    def awaits(self, point: str) -> bool:
        """Say whether the process is to die at `point`."""
        return bool(self._cells[_POINT] == NAMES.index(point) + 1)

    def passed(self, point: str, at_last: Callable[[], None] = lambda: None) -> None:
        """Count one passage. The last does `at_last` and does not return. Any thread may pass."""
        if self.awaits(point):
            with self._counting:
                self._cells[_LEFT] -= 1
                if self._cells[_LEFT] == 0:
                    at_last()
                    self._cells[_STRUCK] = 1
                    os.kill(os.getpid(), signal.SIGKILL)


def lay(doom: Doom) -> Disk:
    """Lay every point into the service of this process; the disk that is given must be kept.

    The log and the steps of a trim are made so short that a second of load meets them too.
    """
    _lay_in_journal(doom)
    _lay_in_trims(doom)
    _lay_in_answers(doom)
    return _disk(doom)


def _lay_in_journal(doom: Doom) -> None:
    _around(SqliteJournal, "append", doom, before="before append", after="after append")
    _around(SqliteJournal, "checkpoint", doom, before="before checkpoint", after="after checkpoint")
    _around(SqliteJournal, "trim", doom, after="after a trim")
    _around(Tables, "commit", doom, before="before commit", after="after commit")
    _around(Marks, "write", doom, before="before the mark")
    _around(Tables, "checkpoint", doom, after="checkpoint not committed")
    _around(Submission, "answer", doom, before="before answer", after="after answer")


def _around(owner: type, name: str, doom: Doom, *, before: str | None = None, after: str | None = None) -> None:
    """Put a point before and one after a method, once it has returned."""
    method: Callable[..., Any] = getattr(owner, name)

    def passed(point: str | None) -> None:
        if point is not None:
            doom.passed(point)

    async def awaited(*given: Any, **named: Any) -> Any:
        passed(before)
        result = await method(*given, **named)
        passed(after)
        return result

    def called(*given: Any, **named: Any) -> Any:
        passed(before)
        result = method(*given, **named)
        passed(after)
        return result

    setattr(owner, name, awaited if inspect.iscoroutinefunction(method) else called)


def _lay_in_trims(doom: Doom) -> None:
    """A step that leaves entries over is committed when the next one begins."""
    sqlite_tables.TRIM_ENTRIES_MAX = TRIM_ENTRIES
    step, is_half_done = Tables.trim, False

    def trim(tables: Tables, scene: str, *, before: int) -> bool:
        nonlocal is_half_done
        if is_half_done:
            doom.passed("between two steps of a trim")
        is_done = step(tables, scene, before=before)
        is_half_done = not is_done
        doom.passed("step of a trim not committed")
        return is_done

    setattr(Tables, "trim", trim)  # noqa: B010 - a method is not assigned to in any other way that is typed


def _lay_in_answers(doom: Doom) -> None:
    """Answers to reading do not count: only what was decided can be lost or doubled."""
    send = RequestResponseCycle.send

    async def sent(cycle: RequestResponseCycle, message: Any) -> None:
        is_head, is_counted = message["type"] == "http.response.start", cycle.scope["method"] != "GET"
        if is_counted:
            doom.passed("before the bytes leave" if is_head else "between head and body")
        await send(cycle, message)
        if is_counted and is_head and doom.awaits("between head and body"):
            await _left(cycle)
        if is_counted and not is_head and doom.awaits("after the bytes left"):
            await _left(cycle)
            doom.passed("after the bytes left")

    setattr(RequestResponseCycle, "send", sent)  # noqa: B010 - as above
    _lay_in_lane(doom)


def _lay_in_lane(doom: Doom) -> None:
    """The fast lane writes head and body together: here they are written apart, as the network may part them."""
    answer = Connection.answer
    following = set[asyncio.Task[None]]()

    async def parted(connection: Connection, request: LaneRequest, said: bytes) -> None:
        head, end, body = said.partition(b"\r\n\r\n")
        connection.transport.write(head + end)
        await _left(connection)
        doom.passed("between head and body")
        answer(connection, request, body)

    async def left(connection: Connection) -> None:
        await _left(connection)
        doom.passed("after the bytes left")

    def answered(connection: Connection, request: LaneRequest, said: bytes) -> None:
        doom.passed("before the bytes leave")
        if doom.awaits("between head and body"):
            following.add(asyncio.ensure_future(parted(connection, request, said)))
            return
        answer(connection, request, said)
        if doom.awaits("after the bytes left"):
            following.add(asyncio.ensure_future(left(connection)))

    setattr(Connection, "answer", answered)  # noqa: B010 - as above


async def _left(cycle: RequestResponseCycle | Connection) -> None:
    """Return when the kernel has what was written: the loop hands it over at the end of a step."""
    await asyncio.sleep(0)
    # A transport of the service's own may pass bytes on to the one that knows the socket.
    wire = cycle.transport.write.__self__  # type: ignore[attr-defined]
    # A client that has its answer may have gone already, and a transport that is closed says nothing of its buffer.
    while not wire.is_closing() and wire.get_write_buffer_size():  # noqa: ASYNC110 - there is nothing that could be waited for
        await asyncio.sleep(0)


def _disk(doom: Doom) -> Disk:
    """Put journals on a disk that counts writes and syncs, and keep its log short."""
    disk = Disk()
    synced: dict[str, bytes] = {}

    def is_log(path: str) -> bool:
        return path.endswith("-wal")

    def wrote(path: str, offset: int) -> None:
        if not is_log(path):
            doom.passed("page of the log moved")
        else:
            doom.passed("frame of the log written")
            if offset == 0:
                doom.passed("log begun anew")

    def restore(path: str) -> None:
        Path(path).write_bytes(synced[path])

    def before_sync(path: str) -> None:
        doom.passed("before the log's sync" if is_log(path) else "before the database's sync")
        if is_log(path) and path in synced:
            doom.passed("what is not synced lost", lambda: restore(path))

    def after_sync(path: str) -> None:
        if is_log(path) and doom.awaits("what is not synced lost"):
            synced[path] = Path(path).read_bytes()
        doom.passed("after the log's sync" if is_log(path) else "after the database's sync")

    disk.fail_sync, disk.wrote, disk.synced = before_sync, wrote, after_sync
    opened, kept = SqliteJournal.__init__.__kwdefaults__, LogKeeper.__init__.__kwdefaults__
    _defaulted(opened, vfs=disk.name)
    _defaulted(kept, passive_bytes=LOG_PASSIVE_BYTES, limit_bytes=LOG_LIMIT_BYTES)
    return disk


def _defaulted(defaults: dict[str, Any] | None, **given: Any) -> None:
    """Change the defaults of a function's named arguments, which must be there."""
    assert defaults is not None
    assert given.keys() <= defaults.keys()
    defaults.update(given)
