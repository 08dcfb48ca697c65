"""The writer's statements: each checks its request against what it knows of the scene, then writes."""

from dataclasses import dataclass

import apsw

from app.journal.covering import require_checkpoint_between, require_covered
from app.journal.port import START, NotTheWriter

SCENES_KNOWN_MAX = 65_536
"""Scenes whose places are remembered (about 200 bytes each). Beyond it all are forgotten and read again when needed."""

TRIM_ENTRIES_MAX = 256
"""Entries forgotten in one transaction, so that a long history does not keep the other scenes' appends waiting."""


@dataclass(slots=True)
class _Place:
    """Where one scene stands: what a request is checked against. `id` is None until the scene has a row."""

    id: int | None
    last: int
    checkpoint: int | None
    is_listed: bool


class Tables:
    """Statements on one connection, between `begin` and `commit`. One thread uses it.

    What is remembered of the scenes runs ahead of the disk inside a transaction, so a transaction that fails must be
    followed by `forget`.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self._places: dict[str, _Place] = {}
        self._position: int | None = None

    def begin(self) -> None:
        """Start a transaction that no other process can get ahead of."""
        if len(self._places) > SCENES_KNOWN_MAX:
            self.forget()
        self.connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make the transaction durable: when this returns, it is on disk."""
        self.connection.execute("COMMIT")

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
        self._position = None

    def append(self, scene: str, *, after: int, first: int, last: int, blob: bytes) -> int:
        """Write one entry behind `after` and give its position.

        Raises:
            NotTheWriter: `after` is not the scene's last position. Nothing was changed.
        """
        place = self._place(scene)
        if after != place.last:
            raise NotTheWriter(f"{scene} does not end at position {after}")
        scene_id = self._row(scene, place)
        if not place.is_listed:
            self.connection.execute("UPDATE scenes SET listed = 1 WHERE id = ?", (scene_id,))
            place.is_listed = True
        position = self._next_position()
        self.connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", (position, scene_id, first, last, blob))
        place.last = position
        return position

    def checkpoint(
        self, scene: str, *, position: int, header: bytes, changed: dict[str, bytes | None], listed: bool
    ) -> None:
        """Replace the scene's checkpoint. Entries behind `position` keep the scene listed whatever `listed` says.

        Raises:
            Misuse: `position` is below the earlier checkpoint's or above the scene's last. Nothing was changed.
        """
        place = self._place(scene)
        require_checkpoint_between(scene, position, lowest=place.checkpoint, last=place.last)
        scene_id = self._row(scene, place)
        place.checkpoint = position
        place.is_listed = listed or place.last > position
        self.connection.execute(
            "UPDATE scenes SET position = ?, header = ?, listed = ? WHERE id = ?",
            (position, header, place.is_listed, scene_id),
        )
        # In the order of the key, so that neighbours are written to the same page: five times faster for a whole scene.
        self.connection.executemany(
            "INSERT INTO characters VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
            [(scene_id, name, value) for name, value in sorted(changed.items()) if value is not None],
        )
        self.connection.executemany(
            "DELETE FROM characters WHERE scene_id = ? AND name = ?",
            [(scene_id, name) for name, value in changed.items() if value is None],
        )

    def trim(self, scene: str, *, before: int) -> bool:
        """Forget the oldest entries up to and including `before`, TRIM_ENTRIES_MAX at most; tell whether none is left.

        Raises:
            Misuse: No checkpoint covers `before`. Nothing was forgotten.
        """
        place = self._place(scene)
        require_covered(scene, before, checkpoint=place.checkpoint)
        if place.id is None:
            return True
        # The floor keeps the last position known, here and for positions to come, once the entries are gone.
        self.connection.execute("UPDATE scenes SET floor = ? WHERE id = ? AND floor < ?", (before, place.id, before))
        oldest = "SELECT position FROM entries INDEXED BY entries_position WHERE scene_id = ? AND position <= ?"
        self.connection.execute(
            f"DELETE FROM entries WHERE position IN ({oldest} ORDER BY position LIMIT ?)",  # noqa: S608 - constant text
            (place.id, before, TRIM_ENTRIES_MAX),
        )
        return self.connection.changes() < TRIM_ENTRIES_MAX

    def _place(self, scene: str) -> _Place:
        """Give where the scene stands, from memory or, the first time, from the database."""
        place = self._places.get(scene)
        if place is None:
            row = self.connection.execute(
                "SELECT id, floor, position, listed, (SELECT max(position) FROM entries WHERE scene_id = scenes.id)"
                " FROM scenes WHERE name = ?",
                (scene,),
            ).fetchone()
            if row is None:
                place = _Place(None, START, None, is_listed=True)
            else:
                scene_id, floor, checkpoint, listed, last = row
                place = _Place(scene_id, max(floor, last or START), checkpoint, is_listed=bool(listed))
            self._places[scene] = place
        return place

    def _row(self, scene: str, place: _Place) -> int:
        """Give the number of the scene's row, which is made for a scene that is new."""
        if place.id is None:
            self.connection.execute("INSERT INTO scenes (name) VALUES (?)", (scene,))
            place.id = self.connection.last_insert_rowid()
        return place.id

    def _next_position(self) -> int:
        """Give a position above every one that was ever given, trimmed ones included."""
        if self._position is None:
            kept, trimmed = self.connection.execute(
                "SELECT (SELECT max(position) FROM entries), (SELECT max(floor) FROM scenes)"
            ).get
            self._position = max(kept or START, trimmed or START)
        self._position += 1
        return self._position


def fence(connection: apsw.Connection) -> None:
    """Write something small, so that what an earlier COMMIT left behind the end of the log can never come back.

    A COMMIT that failed in its sync has written frames that look whole. Nothing counts them now, but a recovery after a
    crash would; the next transaction is written over them.
    """
    connection.execute("BEGIN IMMEDIATE; UPDATE meta SET value = value + 1 WHERE name = 'fence'; COMMIT")
