"""What the reader compares before it believes: a scene's row, its chain of entries, its checkpoint, and its end."""

from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import apsw

from app.journal.port import START, Checkpoint, JournalDamaged, StoredEntry
from app.journal.sqlite_chain import COLUMNS, Digests, Link, Row, as_total, secrets_of
from app.journal.sqlite_file import DAMAGE
from app.journal.sqlite_marks import Mark, Marks


class Found(NamedTuple):
    """A scene as it is begun to be read: its row's number, and how far it was marked just before."""

    scene: str
    id: int
    mark: Mark | None


class Checks:
    """Reads on one connection, each compared with what must follow from the rest. One thread uses it.

    Without `needs_marks`, a missing or damaged mark says nothing. All but `found` belong into one transaction. Each
    raises JournalDamaged, with the first sequence that is not what was written where that is known, and changes
    nothing.
    """

    def __init__(
        self, connection: apsw.Connection, digests: Digests, marks: Marks, *, needs_marks: bool = True
    ) -> None:
        self._needs_marks = needs_marks
        self._connection = connection
        self._digests = digests
        self._marks = marks

    def found(self, scene: str) -> Found | None:
        """Look a scene up; None for one that never was. Not inside of a transaction: the mark must be the older."""
        is_marked = self._marks.knows(scene)
        row = self._connection.execute("SELECT id FROM scenes WHERE name = ?", (scene,)).fetchone()
        if row is not None:
            return Found(scene, row[0], self._mark(scene, row[0]))
        if is_marked:
            _damaged(scene, "it was written, but the database does not have it", None)
        return None

    def _mark(self, scene: str, number: int) -> Mark | None:
        try:
            return self._marks.read(number)
        except JournalDamaged as error:
            if self._needs_marks:
                _damaged(scene, str(error), None)
            return None

    def row(self, found: Found) -> Row:
        """Give a scene's row."""
        read = self._connection.execute(f"SELECT {COLUMNS} FROM scenes WHERE id = ?", (found.id,)).fetchone()  # noqa: S608 - constant text
        row = None if read is None else Row(*read)
        if row is None or not self._digests.is_sealed(row, found.scene):
            _damaged(found.scene, "its row is not what was written", None)
        return row

    def entry_at_or_before(self, row: Row, position: int) -> Link:
        """Give the newest entry up to `position`: a kept one, or else the newest trimmed one.

        Where the checkpoint is, the row says it: what lies behind a checkpoint need not be whole for what lies before.
        """
        if row.covered is not None and row.position == position:
            return row.covered
        kept = self._connection.execute(
            "SELECT position, last, chain FROM entries INDEXED BY entries_position"
            " WHERE scene_id = ? AND position <= ? ORDER BY position DESC LIMIT 1",
            (row.id, position),
        ).fetchone()
        return row.trimmed if kept is None else Link(*kept)

    def entries(self, row: Row, before: Link, limit: int) -> list[StoredEntry]:
        """Give at most `limit` entries behind `before`, as long as each is tied to the one before it.

        Damage is raised only where it comes first.
        """
        entries: list[StoredEntry] = []
        for stored in self._stored(row, before.position, limit):
            if not self._digests.follows(before, stored):
                if not entries:
                    _damaged(row.name, "an entry is not what was written", before.last + 1)
                break
            position, first, last, blob, chain = stored
            before = Link(position, last, chain)
            entries.append(StoredEntry(position, first, last, blob))
        return entries

    def _stored(self, row: Row, after: int, limit: int) -> Iterator[tuple[Any, ...]]:
        """Give entries as they are read; where SQLite itself stumbles, something that is no entry."""
        try:
            yield from self._connection.execute(
                "SELECT position, first, last, blob, chain FROM entries INDEXED BY entries_position"
                " WHERE scene_id = ? AND position > ? ORDER BY position LIMIT ?",
                (row.id, after, limit),
            )
        except DAMAGE:
            yield (None,) * 5

    def end(self, found: Found, row: Row, end: Link) -> None:
        """See that a scene ends where it was written to, by its mark and its checkpoint; `end` is its last entry.

        A mark behind the end is what a power failure leaves: what it names must be there, and what follows was checked.
        """
        if row.covered is not None and row.covered.position > end.position:
            _damaged(found.scene, f"its checkpoint covers it up to sequence {row.last}", end.last + 1)
        mark = found.mark
        if mark is None:
            return
        if mark.name != found.scene:
            _damaged(found.scene, f"its mark in {self._marks.path} is that of another scene", None)
        if mark.end.position > end.position:
            _damaged(found.scene, f"it was written up to sequence {mark.end.last}", end.last + 1)
        if mark.end.position >= row.floor and mark.end.chain != self._chain_at(row, end, mark.end.position):
            _damaged(found.scene, "its history is another than the one that was written", mark.end.last)

    def _chain_at(self, row: Row, end: Link, position: int) -> object:
        """Give the chain at a position that is not trimmed; None where there is no entry."""
        for known in (end, row.trimmed, row.covered):
            if known is not None and known.position == position:
                return known.chain
        return self._connection.execute(
            "SELECT chain FROM entries INDEXED BY entries_position WHERE scene_id = ? AND position = ?",
            (row.id, position),
        ).get

    def position_below(self, row: Row, sequence: int) -> int:
        """Give the position of the last kept entry that ends below `sequence`, which the next one must not."""
        below = self._connection.execute(
            "SELECT position FROM entries INDEXED BY entries_last"
            " WHERE scene_id = ? AND last < ? ORDER BY last DESC LIMIT 1",
            (row.id, sequence),
        ).fetchone()
        position = START if below is None else below[0]
        last = None
        if below is not None:
            last = self._connection.execute("SELECT last FROM entries WHERE position = ?", (position,)).get
        following = self._connection.execute(
            "SELECT position FROM entries INDEXED BY entries_position"
            " WHERE scene_id = ? AND position > ? ORDER BY position LIMIT 1",
            (row.id, position),
        ).fetchone()
        behind = None
        if following is not None:
            behind = self._connection.execute("SELECT last FROM entries WHERE position = ?", following).get
        is_below = below is None or (type(last) is int and last < sequence)
        is_above = following is None or (type(behind) is int and behind >= sequence)
        if not (is_below and is_above and type(position) is int):
            _damaged(row.name, f"what leads to sequence {sequence} is damaged", None)
        return position

    def checkpoint(self, row: Row) -> Checkpoint | None:
        """Give the checkpoint, None where there is none."""
        covered = row.covered
        if covered is None:
            return None
        header, secrets = self._connection.execute("SELECT header, secrets FROM scenes WHERE id = ?", (row.id,)).get
        if not (
            type(header) is bytes
            and self._digests.content(header) == row.header_digest
            and (secrets is None or type(secrets) is bytes)
            and self._digests.content(secrets) == row.secrets_digest
        ):
            _damaged(row.name, "the head of its checkpoint is not what was written", None)
        characters: dict[str, bytes] = {}
        total = 0
        for name, value in self._connection.execute("SELECT name, value FROM characters WHERE scene_id = ?", (row.id,)):
            characters[name] = value
            if type(value) is bytes:
                total += self._digests.character(row.name, name, value)
        if len(characters) != row.characters or as_total(total) != row.total:
            _damaged(row.name, "the characters of its checkpoint are not what was written", None)
        return Checkpoint(covered.position, header, characters, secrets_of(secrets))


def _damaged(scene: str, what: str, sequence: int | None) -> NoReturn:
    """Say of which scene what is damaged, and from which sequence on where that is known."""
    since = "" if sequence is None else f" from sequence {sequence} on"
    raise JournalDamaged(f"scene {scene!r} is damaged{since}: {what}", sequence=sequence)
