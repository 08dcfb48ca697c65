"""The journal as the sequencer sees it: what it promises, and the three ways it can fail."""

from typing import NamedTuple, Protocol

START = 0
"""The position before a scene's first entry, in every journal."""


class JournalUnavailable(Exception):
    """Certainly nothing was written. The same call may succeed later."""


class CommitUnknown(Exception):
    """The write may or may not be on disk. Read the scene's tail to find out."""


class NotTheWriter(Exception):
    """The scene's history is longer than the caller believed. Nothing was written."""


class JournalDamaged(Exception):
    """What was read back cannot have been written here. Nothing was changed."""


class StoredEntry(NamedTuple):
    """One turn as it lies in the journal.

    `position` is the journal's own and opaque, rising within a scene; `first` and `last` are the sequences of
    the decisions inside `blob` (both inclusive).
    """

    position: int
    first: int
    last: int
    blob: bytes


class Checkpoint(NamedTuple):
    """A scene as it stood after the entry at `position`: reopening reads this and the entries behind it.

    `characters` maps every character that is held, alive or remembered, to its encoded value.
    """

    position: int
    header: bytes
    characters: dict[str, bytes]


class Journal(Protocol):
    """Entries in order, one history a scene; all or none; durable when the call returns."""

    @property
    def secret(self) -> bytes:
        """32 random bytes that belong to this journal for its whole life: the key of every seal."""
        ...

    async def append(self, scene: str, *, after: int, first: int, last: int, blob: bytes) -> int:
        """Write one entry directly behind position `after`; return its position once it is durable.

        Raises:
            NotTheWriter: `after` is not the scene's last position. Nothing was written.
            JournalUnavailable: Nothing was written.
            CommitUnknown: The entry may or may not be there. Read before deciding again.
        """
        ...

    async def read(self, scene: str, *, after: int, limit: int) -> list[StoredEntry]:
        """Give at most `limit` entries of positions above `after`, ascending. An unknown scene has none.

        Raises (as do `seek`, `load` and `scenes`):
            JournalUnavailable: It cannot be read now. Nothing was changed.
            JournalDamaged: What is there cannot have been written here. Nothing was changed.
        """
        ...

    async def seek(self, scene: str, *, sequence: int) -> int:
        """Give the position to `read` after, so that the first entry read is the one holding `sequence`.

        When `sequence` is older than what is kept, reading starts with the oldest kept entry; when it is newer than the
        last, nothing is read.
        """
        ...

    async def checkpoint(
        self, scene: str, *, position: int, header: bytes, changed: dict[str, bytes | None], listed: bool
    ) -> None:
        """Replace the scene's checkpoint in one step: a new header, and the characters that changed since the last one.

        `None` removes a character. `listed` says whether `scenes` names the scene.

        Raises:
            ValueError: `position` is below the last checkpoint's or above the last entry's. Nothing was changed.
            JournalUnavailable, CommitUnknown: As `append`.
        """
        ...

    async def load(self, scene: str) -> Checkpoint | None:
        """Give the newest checkpoint, or None for a scene that has none."""
        ...

    async def scenes(self, *, after: str, limit: int) -> list[str]:
        """Give at most `limit` names above `after`, ascending by bytes: scenes that hold entries, unless unlisted."""
        ...

    async def trim(self, scene: str, *, before: int) -> None:
        """Forget the entries of positions up to and including `before`, which a checkpoint must cover already.

        The scene's last position stays what it was, so a later `append` still names it.

        Raises:
            ValueError: No checkpoint covers `before`. Nothing was changed.
            JournalUnavailable, CommitUnknown: Some of the oldest entries may be gone already; no gap is left.
        """
        ...

    async def close(self) -> None:
        """Finish what was accepted, then let go of files and threads. Further calls raise JournalUnavailable."""
        ...
