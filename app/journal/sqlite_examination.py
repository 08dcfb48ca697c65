"""What can still be said of a damaged scene: which of its entries are tied together, and how far it had come."""

from collections.abc import Iterator
from typing import Any

import apsw

from app.journal.port import START, JournalDamaged, StoredEntry
from app.journal.sqlite_chain import COLUMNS, Digests, Link, Row, as_total


class Examination:
    """One scene in a sound file, at one moment; what is in its rows need not be what was written. Nothing is changed.

    `bare` is the row of the scene as if it had just been made; `row` what it has, where that is sealed.
    """

    def __init__(self, connection: apsw.Connection, digests: Digests, scene: str, number: int | None) -> None:
        self._connection = connection
        self._digests = digests
        number = self._new_number() if number is None else number
        start = digests.start(scene)
        self.bare = Row(number, scene, *start, 1, None, None, None, None, None, 0, as_total(0), b"")
        read = connection.execute(f"SELECT {COLUMNS} FROM scenes WHERE id = ?", (number,)).fetchone()  # noqa: S608 - constant text
        row = None if read is None else Row(*read)
        self.row = row if row is not None and digests.is_sealed(row, scene) else None

    def entry_at(self, position: int) -> Link:
        """Give an entry that a remedy names: the beginning, what the row knows of, or a kept entry, as it says itself.

        Raises:
            JournalDamaged: There is none.
        """
        known = (self.bare.trimmed,) if self.row is None else (self.bare.trimmed, self.row.trimmed, self.row.covered)
        for link in known:
            if link is not None and link.position == position:
                return link
        for link, _ in self._entries(position - 1):
            if link.position == position:
                return link
            break
        raise JournalDamaged(f"scene {self.bare.name!r} has no entry at position {position}")

    def from_start(self, after: int, limit: int) -> list[StoredEntry]:
        """Give entries as long as each is tied to the one before; `after` is START or the last one that was given."""
        before = self.bare.trimmed if after == START else self.entry_at(after)
        given: list[StoredEntry] = []
        for link, stored in self._entries(after):
            if len(given) == limit or not self._digests.follows(before, stored):
                break
            given.append(StoredEntry(*stored[:4]))
            before = link
        return given

    def forgettable(self) -> tuple[int, int]:
        """Give the position and last sequence of the last entry up to the checkpoint that is not tied to another.

        Where all are tied, that is where the trimmed ones end, and no sequence (0).

        Raises:
            JournalDamaged: There is no sound checkpoint.
        """
        covered = None if self.row is None else self.row.covered
        if self.row is None or covered is None:
            raise JournalDamaged(f"scene {self.bare.name!r} has no sound checkpoint")
        before = self.row.trimmed
        bad = before.position, 0
        for link, stored in self._entries(before.position):
            if link.position > covered.position:
                break
            if not self._digests.follows(before, stored):
                bad = link.position, link.last
            before = link
        is_tied = (before.position, before.chain) == (covered.position, covered.chain)
        return bad if is_tied else (covered.position, covered.last)

    def highest(self) -> int:
        """Give the highest sequence that the sealed row tells of, or an entry that is tied to what it follows."""
        highest = 0
        before = self.bare.trimmed
        if self.row is not None:
            before = self.row.trimmed
            highest = max(self.row.floor_last, self.row.last or 0)
        for link, stored in self._entries(START):
            if self._digests.follows(before, stored):
                highest = max(highest, link.last)
            before = link
        return highest

    def _entries(self, after: int) -> Iterator[tuple[Link, tuple[Any, ...]]]:
        for stored in self._connection.execute(
            "SELECT position, first, last, blob, chain FROM entries WHERE scene_id = ? AND position > ?"
            " ORDER BY position",
            (self.bare.id, after),
        ):
            position, _, last, _, chain = stored
            if type(last) is int and type(chain) is bytes:
                yield Link(position, last, chain), stored

    def _new_number(self) -> int:
        newest: int | None = self._connection.execute("SELECT max(id) FROM scenes").get
        return (newest or 0) + 1
