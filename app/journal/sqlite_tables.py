"""The writer's statements: each checks its request against what it knows of the scene, then writes."""

from dataclasses import dataclass
from typing import Any

import apsw

from app.journal.covering import Misuse, require_checkpoint_between, require_covered
from app.journal.port import START, Checkpoint, JournalDamaged, NotTheWriter
from app.journal.sqlite_chain import COLUMNS, Digests, Link, Row, as_total, packed_secrets
from app.journal.sqlite_marks import NAME_BYTES_MAX, Marks, named

SCENES_KNOWN_MAX = 32_768
"""Scenes whose places are remembered (about 900 bytes each). Beyond it all are forgotten and read again when needed."""

TRIM_ENTRIES_MAX = 256
"""Entries forgotten in one transaction, so that a long history does not keep the other scenes' appends waiting."""

_STORED = Row._fields[2:]
"""What of a row may change: not its number and name."""

_STORE = f"UPDATE scenes SET {' = ?, '.join(_STORED)} = ? WHERE id = ?"  # noqa: S608 - constant text


@dataclass(slots=True)
class _Place:
    """Where one scene stands: its row and its last entry. `row.id` is 0 until the scene has a row."""

    row: Row
    end: Link
    named: bytes


class Tables:
    """Statements on one connection, between `begin` and `commit`. One thread uses it.

    What is remembered of the scenes runs ahead of the disk inside a transaction, so a transaction that fails must be
    followed by `forget`. Every row is sealed as it is written, and a row that is not sealed is never written over.
    """

    def __init__(self, connection: apsw.Connection, digests: Digests, marks: Marks) -> None:
        self.connection = connection
        self._digests = digests
        self._marks = marks
        self._places: dict[str, _Place] = {}
        self._moved: dict[str, _Place] = {}
        self._born: list[Row] = []
        self._position: int | None = None

    def begin(self) -> None:
        """Start a transaction that no other process can get ahead of."""
        if len(self._places) > SCENES_KNOWN_MAX:
            self.forget()
        self.connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make the transaction durable: when this returns, it is on disk, and the scenes it moved are marked."""
        self.connection.execute("COMMIT")
        for row in self._born:
            self._marks.learn(row.id, row.name)
        self._marks.write([(place.row.id, place.named, place.end) for place in self._moved.values()])
        self._born.clear()
        self._moved.clear()

    def rolled_back(self) -> bool:
        """Take the transaction back and forget the scenes' places; tell whether SQLite says that it is gone."""
        self.forget()
        try:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        except apsw.Error:
            return False
        return not self.connection.in_transaction

    def forget(self) -> None:
        """Drop what is remembered of the scenes; it is read from the database again when needed."""
        self._places.clear()
        self._moved.clear()
        self._born.clear()
        self._position = None

    def append(self, scene: str, *, after: int, first: int, last: int, blob: bytes) -> int:
        """Write one entry behind `after` and give its position.

        Raises:
            NotTheWriter: `after` is not the scene's last position. Nothing was changed.
            JournalDamaged: The scene's row is. Nothing was changed.
        """
        place = self._place(scene)
        if after != place.end.position:
            raise NotTheWriter(f"{scene} does not end at position {after}")
        if not place.row.listed or not place.row.id:
            self._store(place, place.row._replace(listed=1))
        position = self._next_position()
        chain = self._digests.chain(place.end.chain, position, first, last, blob)
        self.connection.execute(
            "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", (position, place.row.id, first, last, blob, chain)
        )
        place.end = Link(position, last, chain)
        self._moved[scene] = place
        return position

    def checkpoint(
        self, scene: str, *, position: int, header: bytes, changed: dict[str, bytes | None], listed: bool
    ) -> None:
        """Replace the scene's checkpoint. Entries behind `position` keep the scene listed whatever `listed` says.

        Raises:
            Misuse: `position` is below the earlier checkpoint's or above the scene's last. Nothing was changed.
            JournalDamaged: The scene's row is. Nothing was changed.
        """
        place = self._place(scene)
        require_checkpoint_between(scene, position, lowest=place.row.position, last=place.end.position)
        covered = self._entry_at(place, position)
        if not place.row.id:
            self._store(place, place.row)
        characters, total = self._replaced(place.row, changed)
        row = place.row._replace(
            listed=int(listed or place.end.position > position),
            position=position,
            last=covered.last,
            chain=covered.chain,
            header_digest=self._digests.content(header),
            characters=characters,
            total=as_total(total),
        )
        self._store(place, row)
        self.connection.execute("UPDATE scenes SET header = ? WHERE id = ?", (header, row.id))

    def _replaced(self, row: Row, changed: dict[str, bytes | None]) -> tuple[int, int]:
        """Write the characters that changed; give how many there are now, and the sum of their digests."""
        characters, total = row.characters, int.from_bytes(row.total, "little")
        names = sorted(changed)
        for name in names if characters else ():
            former = self.connection.execute(
                "SELECT value FROM characters WHERE scene_id = ? AND name = ?", (row.id, name)
            ).get
            # One that is damaged stays in the sum, where it will be noticed.
            if type(former) is bytes:
                characters -= 1
                total -= self._digests.character(row.name, name, former)
        kept = [(name, value) for name in names if (value := changed[name]) is not None]
        total += sum(self._digests.character(row.name, name, value) for name, value in kept)
        # In the order of the key, so that neighbours are written to the same page: five times faster for a whole scene.
        self.connection.executemany(
            "INSERT INTO characters VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
            [(row.id, name, value) for name, value in kept],
        )
        self.connection.executemany(
            "DELETE FROM characters WHERE scene_id = ? AND name = ?",
            [(row.id, name) for name in names if changed[name] is None],
        )
        return characters + len(kept), total

    def trim(self, scene: str, *, before: int) -> bool:
        """Forget the oldest entries up to and including `before`, TRIM_ENTRIES_MAX at most; tell whether none is left.

        Raises:
            Misuse: No checkpoint covers `before`. Nothing was forgotten.
            JournalDamaged: The scene's row is. Nothing was forgotten.
        """
        place = self._place(scene)
        require_covered(scene, before, checkpoint=place.row.position)
        if not place.row.id:
            return True
        oldest = self.connection.execute(
            "SELECT position, last, chain FROM entries INDEXED BY entries_position"
            " WHERE scene_id = ? AND position <= ? ORDER BY position LIMIT ?",
            (place.row.id, before, TRIM_ENTRIES_MAX),
        ).fetchall()
        if oldest:
            newest = _link(oldest[-1])
            # The floor keeps the last position known, here and for positions to come, once the entries are gone; and
            # what the oldest kept entry is tied to.
            self.connection.execute(
                "DELETE FROM entries WHERE scene_id = ? AND position <= ?", (place.row.id, newest.position)
            )
            row = place.row
            self._store(place, row._replace(floor=newest.position, floor_last=newest.last, floor_chain=newest.chain))
        return len(oldest) < TRIM_ENTRIES_MAX

    def _place(self, scene: str) -> _Place:
        """Give where the scene stands, from memory or, the first time, from the database."""
        place = self._places.get(scene)
        if place is None:
            place = self._places[scene] = self._read(scene)
        return place

    def _read(self, scene: str) -> _Place:
        if len(scene.encode()) > NAME_BYTES_MAX:
            raise Misuse(f"a scene's name takes at most {NAME_BYTES_MAX} bytes")
        read = self.connection.execute(
            f"SELECT {COLUMNS} FROM scenes WHERE id = (SELECT id FROM scenes WHERE name = ?)",  # noqa: S608 - constant text
            (scene,),
        ).fetchone()
        if read is None:
            if self._marks.knows(scene):
                raise JournalDamaged(f"scene {scene!r} is damaged: it was written, but the database does not have it")
            start = self._digests.start(scene)
            row = Row(0, scene, *start, 1, None, None, None, None, None, 0, as_total(0), b"")
            return _Place(row, start, named(scene))
        row = Row(*read)
        if not self._digests.is_sealed(row, scene):
            raise JournalDamaged(f"scene {scene!r} is damaged: its row is not what was written")
        newest = self.connection.execute(
            "SELECT position, last, chain FROM entries INDEXED BY entries_position"
            " WHERE scene_id = ? ORDER BY position DESC LIMIT 1",
            (row.id,),
        ).fetchone()
        return _Place(row, row.trimmed if newest is None else _link(newest), named(scene))

    def _entry_at(self, place: _Place, position: int) -> Link:
        """Give the entry at a position that a checkpoint may be at.

        Raises:
            Misuse: There is none. Nothing was changed.
        """
        for known in (place.end, place.row.covered, place.row.trimmed):
            if known is not None and known.position == position:
                return known
        found = self.connection.execute(
            "SELECT position, last, chain FROM entries INDEXED BY entries_position WHERE scene_id = ? AND position = ?",
            (place.row.id, position),
        ).fetchone()
        if found is None:
            raise Misuse(f"{place.row.name} has no entry at position {position}")
        return _link(found)

    def _store(self, place: _Place, row: Row) -> None:
        """Write a scene's row, sealed; a new scene gets a number that no scene had before, lost ones included."""
        if not row.id:
            newest = self.connection.execute("SELECT max(id) FROM scenes").get or 0
            row = row._replace(id=max(newest, self._marks.highest_id) + 1)
            self._marks.reserve(row.id)
            self._insert(place, row)
        else:
            place.row = self._digests.sealed(row)
            self.connection.execute(_STORE, (*place.row[2:], row.id))

    def _insert(self, place: _Place, row: Row) -> None:
        """Write a row that has a number and is not there."""
        place.row = self._digests.sealed(row)
        self.connection.execute(
            f"INSERT INTO scenes ({COLUMNS}) VALUES ({', '.join('?' * len(row))})",  # noqa: S608 - constant text
            place.row,
        )
        self._born.append(place.row)
        self._moved[row.name] = place

    def restore(self, row: Row, end: Link, checkpoint: Checkpoint) -> None:
        """Write a scene anew, at the number in `row`: only its entries behind the floor up to `end` stay.

        What `row` says of the checkpoint's content is filled in here.
        """
        outside = "scene_id = ? AND (position <= ? OR position > ?)"
        self.connection.execute(f"DELETE FROM entries WHERE {outside}", (row.id, row.floor, end.position))  # noqa: S608 - constant text
        self.connection.execute("DELETE FROM characters WHERE scene_id = ?", (row.id,))
        self.connection.execute("DELETE FROM scenes WHERE id = ? OR name = ?", (row.id, row.name))
        place = self._places[row.name] = _Place(row, end, named(row.name))
        self._insert(place, row)
        self._fill(place, row, checkpoint)

    def place(self, scene: str, checkpoint: Checkpoint, *, sequence: int, listed: bool) -> None:
        """Make a whole checkpoint the scene's; `sequence` is its last decision's, which entries need not tell.

        Where the history before the first entry was never here, the floor is told how far it went.

        Raises:
            Misuse: As `checkpoint`. Nothing was changed.
            JournalDamaged: The scene's row is. Nothing was changed.
        """
        place = self._place(scene)
        position = checkpoint.position
        require_checkpoint_between(scene, position, lowest=place.row.position, last=place.end.position)
        self._entry_at(place, position)
        if not place.row.id:
            self._store(place, place.row)
        row = place.row
        if row.floor == START:
            first = self.connection.execute(
                "SELECT first FROM entries INDEXED BY entries_position WHERE scene_id = ? ORDER BY position LIMIT 1",
                (row.id,),
            ).get
            row = row._replace(floor_last=sequence if first is None else first - 1)
            place.row = row
            if place.end.position == START:
                place.end = row.trimmed
        covered = self._entry_at(place, position)
        self.connection.execute("DELETE FROM characters WHERE scene_id = ?", (row.id,))
        listed = listed or place.end.position > position
        row = row._replace(listed=int(listed), position=position, last=covered.last, chain=covered.chain)
        self._fill(place, row, checkpoint)

    def _fill(self, place: _Place, row: Row, checkpoint: Checkpoint) -> None:
        """Write what a whole checkpoint holds, for a scene of which no character is there."""
        header, secrets = checkpoint.header, packed_secrets(checkpoint.secrets)
        characters, total = self._replaced(row._replace(characters=0, total=as_total(0)), {**checkpoint.characters})
        content = self._digests.content
        row = row._replace(header_digest=content(header), secrets_digest=content(secrets))
        self._store(place, row._replace(characters=characters, total=as_total(total)))
        self.connection.execute("UPDATE scenes SET header = ?, secrets = ? WHERE id = ?", (header, secrets, row.id))

    def _next_position(self) -> int:
        """Give a position above every one that was ever given, trimmed and lost ones included."""
        if self._position is None:
            kept, trimmed = self.connection.execute(
                "SELECT (SELECT max(position) FROM entries), (SELECT max(floor) FROM scenes)"
            ).get
            self._position = max(kept or START, trimmed or START, self._marks.highest_position)
        self._position += 1
        return self._position


def _link(read: tuple[Any, ...]) -> Link:
    return Link(*read)


def fence(connection: apsw.Connection) -> None:
    """Write something small, so that what an earlier COMMIT left behind the end of the log can never come back.

    A COMMIT that failed in its sync has written frames that look whole. Nothing counts them now, but a recovery after a
    crash would; the next transaction is written over them.
    """
    connection.execute("BEGIN IMMEDIATE; UPDATE meta SET value = value + 1 WHERE name = 'fence'; COMMIT")
