"""The journal that forgets with its process: the reference that every other must equal, and the one for tests."""

import os
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from operator import attrgetter

from app.journal.covering import require_checkpoint_between, require_covered
from app.journal.port import (
    START,
    UNBOUNDED_BYTES,
    Checkpoint,
    JournalUnavailable,
    Moved,
    NotTheWriter,
    SealSecret,
    StoredEntry,
)

_position = attrgetter("position")
_last = attrgetter("last")


class _Scene:
    """One scene's history: entries in order, the last position even when no entry is left, and the checkpoint."""

    __slots__ = ("characters", "checkpoint", "entries", "header", "is_listed", "last", "secrets")

    def __init__(self) -> None:
        self.entries: list[StoredEntry] = []
        self.last = START
        self.checkpoint: int | None = None
        self.header = b""
        self.characters: dict[str, bytes] = {}
        self.secrets: tuple[SealSecret, ...] = ()
        self.is_listed = True


class MemoryJournal:
    """A journal in dictionaries. No method suspends, so each is one step for whoever calls from one event loop.

    Bound:       none; it is as large as what it was given and not told to forget.
    Thread-safe: no.
    """

    def __init__(self) -> None:
        self._secret = os.urandom(32)
        self._scenes: dict[str, _Scene] = {}
        self._names: list[str] = []
        self._position = START
        self._followers: dict[str, dict[object, Moved]] = {}
        self._is_closed = False

    @property
    def secret(self) -> bytes:
        """32 random bytes, new with every journal; they stay readable after `close`."""
        return self._secret

    @property
    def is_reachable(self) -> bool:
        """There is nothing to be reached."""
        return True

    @property
    def entry_bytes_max(self) -> int:
        """No bound of its own."""
        return UNBOUNDED_BYTES

    async def append(self, scene: str, *, after: int, first: int, last: int, blob: bytes) -> int:
        """Keep one entry directly behind `after`. Positions rise over all scenes, so nobody can count on steps of one.

        Raises:
            NotTheWriter: `after` is not the scene's last position. Nothing was kept.
            JournalUnavailable: The journal is closed.
        """
        self._require_open()
        known = self._scenes.get(scene)
        if after != (START if known is None else known.last):
            raise NotTheWriter(f"{scene} does not end at position {after}")
        kept = self._named(scene)
        self._position += 1
        kept.entries.append(StoredEntry(self._position, first, last, blob))
        kept.last = self._position
        kept.is_listed = True
        for moved in list(self._followers.get(scene, {}).values()):
            moved()
        return self._position

    async def read(self, scene: str, *, after: int, limit: int) -> list[StoredEntry]:
        """Give at most `limit` entries of positions above `after`, ascending."""
        self._require_open()
        known = self._scenes.get(scene)
        if known is None:
            return []
        start = bisect_right(known.entries, after, key=_position)
        return known.entries[start : start + limit]

    async def seek(self, scene: str, *, sequence: int) -> int:
        """Give the position of the last kept entry that ends below `sequence`; START when there is none."""
        self._require_open()
        known = self._scenes.get(scene)
        if known is None:
            return START
        index = bisect_left(known.entries, sequence, key=_last)
        return known.entries[index - 1].position if index else START

    async def checkpoint(
        self, scene: str, *, position: int, header: bytes, changed: dict[str, bytes | None], listed: bool
    ) -> None:
        """Replace the scene's checkpoint. Entries behind `position` keep the scene listed whatever `listed` says.

        Raises:
            Misuse: `position` is below the earlier checkpoint's or above the scene's last. Nothing was changed.
            JournalUnavailable: The journal is closed.
        """
        self._require_open()
        known = self._scenes.get(scene) or _Scene()
        require_checkpoint_between(scene, position, lowest=known.checkpoint, last=known.last)
        kept = self._named(scene)
        kept.checkpoint = position
        kept.header = header
        kept.is_listed = listed or kept.last > position
        for name, value in changed.items():
            if value is None:
                kept.characters.pop(name, None)
            else:
                kept.characters[name] = value

    async def load(self, scene: str) -> Checkpoint | None:
        """Give the newest checkpoint, with a dictionary of its own for the caller."""
        self._require_open()
        known = self._scenes.get(scene)
        if known is None or known.checkpoint is None:
            return None
        return Checkpoint(known.checkpoint, known.header, dict(known.characters), known.secrets)

    async def scenes(self, *, after: str, limit: int) -> list[str]:
        """Give at most `limit` listed names above `after`, ascending."""
        self._require_open()
        names: list[str] = []
        for index in range(bisect_right(self._names, after), len(self._names)):
            if len(names) >= limit:
                break
            if self._scenes[self._names[index]].is_listed:
                names.append(self._names[index])
        return names

    async def trim(self, scene: str, *, before: int) -> None:
        """Forget the entries up to and including `before`.

        Raises:
            Misuse: No checkpoint covers `before`. Nothing was forgotten.
            JournalUnavailable: The journal is closed.
        """
        self._require_open()
        known = self._scenes.get(scene)
        require_covered(scene, before, checkpoint=None if known is None else known.checkpoint)
        if known is not None:
            del known.entries[: bisect_right(known.entries, before, key=_position)]

    def follow(self, scene: str, moved: Moved) -> Callable[[], None]:
        """Call `moved` after every append to the scene, the caller's own too: whoever shares the journal is a node."""
        me = object()
        self._followers.setdefault(scene, {})[me] = moved

        def stop() -> None:
            followers = self._followers.get(scene, {})
            if followers.pop(me, None) is not None and not followers:
                del self._followers[scene]

        return stop

    async def everything(self) -> list[str]:
        """Give the names of all scenes, unlisted ones too, ascending."""
        self._require_open()
        return list(self._names)

    async def adopt_secret(self, secret: bytes) -> None:
        """Make `secret` this journal's own.

        Raises:
            ValueError: The journal holds a scene already. Nothing was changed.
            JournalUnavailable: The journal is closed.
        """
        self._require_open()
        if self._names:
            raise ValueError("the journal holds scenes already, sealed with the secret that it has")
        self._secret = secret

    async def place(self, scene: str, checkpoint: Checkpoint, *, listed: bool) -> None:
        """Make a whole checkpoint the scene's, with its secrets.

        Raises:
            Superseded, Misuse: As `checkpoint`. Nothing was changed.
            JournalUnavailable: The journal is closed.
        """
        changed: dict[str, bytes | None] = {}
        known = self._scenes.get(scene)
        if known is not None:
            changed = dict.fromkeys(known.characters)
        changed |= checkpoint.characters
        await self.checkpoint(
            scene, position=checkpoint.position, header=checkpoint.header, changed=changed, listed=listed
        )
        self._scenes[scene].secrets = checkpoint.secrets

    async def close(self) -> None:
        """Refuse further calls. A second close does nothing."""
        self._is_closed = True

    def _named(self, scene: str) -> _Scene:
        """Give the scene's history, an empty one for a name not seen before."""
        known = self._scenes.get(scene)
        if known is None:
            known = self._scenes[scene] = _Scene()
            insort(self._names, scene)
        return known

    def _require_open(self) -> None:
        """Raise JournalUnavailable once the journal is closed."""
        if self._is_closed:
            raise JournalUnavailable("the journal is closed")
