"""The copy of a damaged journal in which it is mended: every row that can be read, in a file that is sound."""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

import apsw

from app.journal.port import START, JournalDamaged, JournalUnavailable, Remedy, StoredEntry
from app.journal.sqlite import SqliteJournal
from app.journal.sqlite_chain import Digests
from app.journal.sqlite_examination import Examination
from app.journal.sqlite_file import DAMAGE, PAGE_BYTES, DatabaseFile, create, failures_named, recognise
from app.journal.sqlite_marks import path_of
from app.journal.sqlite_reader import Reader
from app.journal.sqlite_tables import Tables

T = TypeVar("T")

COPY, FORMER = ".repaired", ".damaged"
"""What is added to the journal's name: for the copy, and for the former journal when the copy took its place."""

ENTRIES_READ_MAX = 256

_BESIDE = ("", "-wal", "-shm", "-journal", ".lock", ".mark")

_PASSES = (
    ("scenes", "NOT INDEXED", "id"),
    ("scenes", "INDEXED BY sqlite_autoindex_scenes_1", "name"),
    ("entries", "INDEXED BY entries_position", "scene_id, position"),
    ("entries", "NOT INDEXED", "position"),
    ("characters", "NOT INDEXED", "scene_id, name"),
)
"""How each table is read, and in which order: a row that one way does not come to, another may.

Entries come first the way that a server reads them, so that a scene that serves is the same in the copy.
"""


@dataclass(slots=True)
class _Mend:
    """A scene to be written anew."""

    reply: asyncio.Future[int]
    scene: str
    remedy: Remedy
    digests: Digests
    number: int | None

    def apply(self, tables: Tables) -> int:
        """Write it and give its last position."""
        examined = Examination(tables.connection, self.digests, self.scene, self.number)
        remedy = self.remedy
        floor, end = examined.entry_at(remedy.floor), examined.entry_at(remedy.until)
        covered = examined.entry_at(remedy.checkpoint.position)
        row = examined.bare._replace(floor=floor.position, floor_last=floor.last, floor_chain=floor.chain)
        row = row._replace(listed=int(remedy.listed), position=covered.position, last=covered.last, chain=covered.chain)
        tables.restore(row, end, remedy.checkpoint)
        return end.position


class SqliteSalvage(SqliteJournal):
    """A damaged journal's copy, beside it. The damaged files are only read, until the copy takes their place."""

    def __init__(self, path: str) -> None:
        """Take the journal's lock and copy it; for that it takes as much room again.

        Raises:
            JournalUnavailable: It cannot be copied, or a process serves it. Nothing was changed.
            JournalDamaged: Not even its secret can be read. Nothing was changed.
        """
        with ExitStack() as undo:
            self._original = DatabaseFile(path, read_only=True, locked=True)
            undo.callback(self._original.release)
            self._copy = self._original.path + COPY
            undo.callback(_delete, self._copy)
            with failures_named(path):
                _copied(self._original, self._copy)
            self._former = Reader(self._original)
            undo.callback(self._former.stop)
            super().__init__(self._copy, needs_marks=False)
            self._numbers: dict[str, int] | None = None
            undo.pop_all()

    async def everything(self) -> list[str]:
        """Give the names of all scenes that a row or a mark tells of, ascending."""
        return sorted(await self._all_numbers())

    async def refusal(self, scene: str) -> JournalDamaged | None:
        """Read all of a scene in the damaged files, as a server does, and compare their indexes; give what is wrong."""
        former = self._former
        try:
            if scene in former.strays:
                raise JournalDamaged(f"scene {scene!r} is damaged: an index of the scenes does not lead to it")
            await former.run(lambda: former.checkpoint(scene))
            position = START
            while entries := await former.run(partial(former.entries, scene, position, ENTRIES_READ_MAX)):
                position = entries[-1].position
            await former.look(partial(_require_indexes_agree, scene))
        except JournalDamaged as error:
            return error
        return None

    async def is_marked(self, scene: str) -> bool:
        """Say whether the slot of the scene's mark is there and sound."""
        number = (await self._all_numbers()).get(scene)
        try:
            mark = None if number is None else self._reader.marks.read(number)
        except JournalDamaged:
            return False
        return mark is None or mark.name == scene

    async def from_start(self, scene: str, *, after: int, limit: int) -> list[StoredEntry]:
        """Read as `read`, trusting nothing but that each entry is tied to the one before, from the very first on."""
        return await self._examined(scene, lambda examined: examined.from_start(after, limit))

    async def forgettable(self, scene: str) -> tuple[int, int]:
        """Give the position up to which entries must be forgotten, and the last sequence that is forgotten by that."""
        return await self._examined(scene, Examination.forgettable)

    async def highest(self, scene: str) -> int:
        """Give the highest sequence that the mark, the row or a run of entries that are tied tells of."""
        highest = await self._examined(scene, Examination.highest)
        number = (await self._all_numbers()).get(scene)
        with suppress(JournalDamaged):
            mark = None if number is None else self._reader.marks.read(number)
            return highest if mark is None else max(highest, mark.end.last)
        return highest

    async def mend(self, scene: str, remedy: Remedy) -> None:
        """Make of a scene what `remedy` says, in one transaction."""
        number = (await self._all_numbers()).get(scene)
        reply = self._reply()
        await self._written(reply, _Mend(reply, scene, remedy, self._reader.digests, number))

    async def adopt(self) -> str:
        """Close the copy and let it take the journal's place; the former database stays beside it.

        The database comes first: until the marks follow, the scenes that lost something are refused still.
        """
        await self._closed()
        path = self._original.path
        try:
            with failures_named(path):
                former = _placed(self._original, self._copy)
        finally:
            self._original.release()
            _delete(self._copy)
        return former

    async def discard(self) -> None:
        """Close and delete the copy."""
        await self._closed()
        self._original.release()
        _delete(self._copy)

    async def _closed(self) -> None:
        """Close the copy and what is read of the former journal."""
        await asyncio.wrap_future(self._former.stop())
        self._former.marks.close()
        await self.close()

    async def _examined(self, scene: str, query: Callable[[Examination], T]) -> T:
        number = (await self._all_numbers()).get(scene)
        digests = self._reader.digests
        return await self._reader.look(lambda connection: query(Examination(connection, digests, scene, number)))

    async def _all_numbers(self) -> dict[str, int]:
        """Give the number of every scene's row: its mark says what the row was called, which may be what is damaged."""
        if self._numbers is None:
            slots = list(self._reader.marks.all())
            rows = await self._reader.look(lambda connection: dict(connection.execute("SELECT id, name FROM scenes")))
            unsound = {number: name for number, name, mark in slots if mark is None}
            sound = {number: name for number, name, mark in slots if mark is not None}
            names: dict[int, str] = {**unsound, **rows, **sound}
            self._numbers = {name: number for number, name in names.items()}
        return self._numbers


def _copied(original: DatabaseFile, copy: str) -> None:
    """Copy every row that can be read, and the marks. The indexes are made anew."""
    _delete(copy)
    with ExitStack() as closing:
        source = original.connect(writing=False)
        closing.callback(source.close)
        secret = recognise(source, original.path)
        for made in (copy, path_of(copy)):
            os.close(os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        target = apsw.Connection(copy)
        closing.callback(target.close)
        target.pragma("page_size", PAGE_BYTES)
        # It is synced once, when it takes the journal's place; until then nothing depends on it.
        target.pragma("journal_mode", "OFF")
        target.pragma("synchronous", "OFF")
        create(target, secret)
        with target:
            for table, way, key in _PASSES:
                for row in _readable(source, f"{table} {way}", key):
                    holders = ", ".join("?" * len(row))
                    # What is damaged may be less than the table asks for; it is then as good as lost.
                    target.execute(f"INSERT OR IGNORE INTO {table} VALUES ({holders})", row)  # noqa: S608 - constant text
                    if way == "NOT INDEXED" and table == "entries" and not target.changes():
                        _settle(source, target, row)
    with suppress(FileNotFoundError):
        shutil.copyfile(path_of(original.path), path_of(copy))


def _require_indexes_agree(scene: str, connection: apsw.Connection) -> None:
    """See that both indexes of a scene's entries lead to the same, each in its own order.

    Raises:
        JournalDamaged: They do not.
    """
    own = "(SELECT id FROM scenes WHERE name = ?)"
    by_position = connection.execute(
        f"SELECT position, last FROM entries INDEXED BY entries_position WHERE scene_id = {own} ORDER BY position",  # noqa: S608 - constant text
        (scene,),
    )
    by_last = connection.cursor().execute(
        f"SELECT position, last FROM entries INDEXED BY entries_last WHERE scene_id = {own} ORDER BY last",  # noqa: S608 - constant text
        (scene,),
    )
    if any(one != other for one, other in zip_longest(by_position, by_last)):
        raise JournalDamaged(f"scene {scene!r} is damaged: the indexes of its entries do not agree")


def _settle(source: apsw.Connection, target: apsw.Connection, row: tuple[Any, ...]) -> None:
    """Where the table says that an entry is another scene's than one index says, believe what the other index says."""
    position, scene_id, _, last, *_ = row
    (copied,) = target.execute("SELECT scene_id FROM entries WHERE position = ?", (position,)).fetchone() or (scene_id,)
    if copied == scene_id:
        return
    with suppress(*DAMAGE):
        if source.execute(
            "SELECT 1 FROM entries INDEXED BY entries_last WHERE scene_id = ? AND last = ? AND position = ?",
            (scene_id, last, position),
        ).fetchone():
            target.execute("UPDATE entries SET scene_id = ? WHERE position = ?", (scene_id, position))


def _readable(connection: apsw.Connection, table: str, key: str) -> Iterator[tuple[Any, ...]]:
    """Give a table's rows from the front, and where that ends in damage, those behind it from the back."""
    reached: tuple[Any, ...] = ()
    columns = key.count(",") + 1
    try:
        for row in connection.execute(f"SELECT {key}, * FROM {table} ORDER BY {key}"):  # noqa: S608 - constant text
            reached = row[:columns]
            yield row[columns:]
    except DAMAGE:
        beyond = f"WHERE ({key}) > ({', '.join('?' * columns)})" if reached else ""
        backwards = ", ".join(f"{column} DESC" for column in key.split(", "))
        with suppress(*DAMAGE):
            yield from connection.execute(
                f"SELECT * FROM {table} {beyond} ORDER BY {backwards}",  # noqa: S608 - constant text
                reached,
            )


def _placed(original: DatabaseFile, copy: str) -> str:
    """Put the copy's files in place of the journal's; give where the former database lies.

    Raises:
        OSError, JournalUnavailable: They could not be put there.
    """
    path = original.path
    # What is left of the log goes into the database first: beside another database it would be played over it.
    connection = original.connect(writing=True)
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()
    log = Path(path + "-wal")
    if log.exists() and log.stat().st_size:
        raise JournalUnavailable(f"{log} is in use; stop whoever reads the journal and repair it again")
    log.unlink(missing_ok=True)
    Path(path + "-shm").unlink(missing_ok=True)
    former = _unused(path + FORMER)
    os.link(path, former)
    for file in (copy, path_of(copy)):
        _synced(file, os.O_RDWR)
    Path(copy).replace(path)
    Path(path_of(copy)).replace(path_of(path))
    _synced(str(Path(path).parent), os.O_RDONLY)
    return former


def _unused(path: str) -> str:
    """Give `path`, or with the first number behind it where there is no file yet."""
    number, free = 1, path
    while Path(free).exists():
        number, free = number + 1, f"{path}-{number + 1}"
    return free


def _synced(path: str, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _delete(copy: str) -> None:
    for beside in _BESIDE:
        Path(copy + beside).unlink(missing_ok=True)
