"""The journal as the sequencer sees it: what it promises, and the three ways it can fail."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

Committed = Callable[[int, float], None]
"""Is told of each commit that became durable: how many entries it held, and how long it took, seconds."""


def unwatched(entries: int, seconds: float) -> None:
    """Be told of a commit, and do nothing."""


START = 0
"""The position before a scene's first entry, in every journal."""

UNBOUNDED_BYTES = 1 << 30
"""The largest entry of a journal that has no smaller bound of its own, bytes."""

Moved = Callable[[], None]
"""Is told that a scene's history may have become longer by another hand. It must not raise."""


def alone() -> None:
    """End a following that there was nothing to follow in: what `follow` gives where only one hand ever writes."""


class JournalUnavailable(Exception):
    """Certainly nothing was written. The same call may succeed later."""


class CommitUnknown(Exception):
    """The write may or may not be on disk. Read the scene's tail to find out."""


class NotTheWriter(Exception):
    """The scene's history is longer than the caller believed. Nothing was written."""


class JournalDamaged(Exception):
    """What was read back cannot have been written here. Nothing was changed.

    `sequence` is the first decision of the scene that cannot be trusted, where that is known.
    """

    def __init__(self, said: str, *, sequence: int | None = None) -> None:
        super().__init__(said)
        self.sequence = sequence


class Superseded(ValueError):
    """A later checkpoint of the scene is there already, be it another node's. Nothing was changed."""


class StoredEntry(NamedTuple):
    """One turn as it lies in the journal.

    `position` is the journal's own and opaque, rising within a scene; `first` and `last` are the sequences of
    the decisions inside `blob` (both inclusive).
    """

    position: int
    first: int
    last: int
    blob: bytes


class SealSecret(NamedTuple):
    """The secret of a scene's seals from the decision `first` on, made by a repair that lost decisions before it.

    `granted` is the repair's record of what had been granted until then, encoded by its own codec.
    """

    first: int
    secret: bytes
    granted: bytes


class Checkpoint(NamedTuple):
    """A scene as it stood after the entry at `position`: reopening reads this and the entries behind it.

    `characters` maps every character that is held, alive or remembered, to its encoded value. `secrets` are those that
    repairs made, ascending; below the first of them the journal's own holds.
    """

    position: int
    header: bytes
    characters: dict[str, bytes]
    secrets: tuple[SealSecret, ...] = ()


class Journal(Protocol):
    """Entries in order, one history a scene; all or none; durable when the call returns."""

    @property
    def secret(self) -> bytes:
        """32 random bytes that belong to this journal for its whole life: the key of every seal."""
        ...

    @property
    def is_reachable(self) -> bool:
        """Say whether it can be asked now, as far as is known without asking."""
        ...

    @property
    def entry_bytes_max(self) -> int:
        """The largest blob that `append` takes, bytes."""
        ...

    async def append(self, scene: str, *, after: int, first: int, last: int, blob: bytes) -> int:
        """Write one entry directly behind position `after`; return its position once it is durable.

        Raises:
            NotTheWriter: `after` is not the scene's last position. Nothing was written.
            JournalUnavailable: Nothing was written.
            JournalDamaged: Nothing was written; what the entry belongs to is damaged.
            CommitUnknown: The entry may or may not be there. Read before deciding again.
        """
        ...

    async def read(self, scene: str, *, after: int, limit: int) -> list[StoredEntry]:
        """Give at most `limit` entries of positions above `after`, ascending. An unknown scene has none.

        Every entry given is what was written. Damage behind them is raised by the next read, which would begin with it;
        so only an empty answer says that this is the end.

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
            Superseded: `position` is below the last checkpoint's. Nothing was changed.
            ValueError: `position` is above the last entry's. Nothing was changed.
            JournalUnavailable, JournalDamaged, CommitUnknown: As `append`.
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
            JournalUnavailable, JournalDamaged, CommitUnknown: Some of the oldest entries may be gone already; no gap is
                left.
        """
        ...

    def follow(self, scene: str, moved: Moved) -> Callable[[], None]:
        """Have `moved` called when the scene's history may have become longer by another hand; give what ends that.

        It is a hint: it may come without need, and may be lost with a connection, after which it comes once for all.
        """
        ...

    async def close(self) -> None:
        """Finish what was accepted, then let go of files and threads. Further calls raise JournalUnavailable."""
        ...


class Moving(Journal, Protocol):
    """A journal that another takes the place of, or that takes another's place: nobody serves either meanwhile."""

    async def everything(self) -> list[str]:
        """Give the names of all scenes that are known of, unlisted ones too, ascending."""
        ...

    async def adopt_secret(self, secret: bytes) -> None:
        """Make `secret` this journal's own.

        Raises:
            ValueError: The journal holds a scene already. Nothing was changed.
            JournalUnavailable, CommitUnknown: As `append`.
        """
        ...

    async def place(self, scene: str, checkpoint: Checkpoint, *, listed: bool) -> None:
        """Make a whole checkpoint the scene's, with its secrets; its position is one of this journal.

        Raises as `checkpoint`.
        """
        ...


class Remedy(NamedTuple):
    """What is made of a damaged scene: the entries behind `floor` up to `until` stay, and `checkpoint` is its newest.

    Both are positions, START for the beginning: of a checkpoint, or of entries in the journal as it is.
    """

    floor: int
    until: int
    checkpoint: Checkpoint
    listed: bool


class Salvage(Journal, Protocol):
    """A copy of a damaged journal that nobody serves, to be mended and then put in its place.

    Its `load` and `read` check as any journal's, but for the marks: a missing mark is for `is_marked` to tell.
    """

    async def everything(self) -> list[str]:
        """Give the names of all scenes that are known of, unlisted and lost ones too, ascending."""
        ...

    async def refusal(self, scene: str) -> JournalDamaged | None:
        """Give what a server would refuse the scene for in the journal as it is; None when it would serve it.

        What was wrong may be mended by the copying alone: a broken index, a page that leads nowhere.
        """
        ...

    async def is_marked(self, scene: str) -> bool:
        """Say whether there is a sound mark of where the scene ended."""
        ...

    async def from_start(self, scene: str, *, after: int, limit: int) -> list[StoredEntry]:
        """Read as `read`, trusting nothing but that each entry is tied to the one before, from the very first on."""
        ...

    async def forgettable(self, scene: str) -> tuple[int, int]:
        """Give the position up to which entries must be forgotten, so that all up to the checkpoint are tied again.

        With it comes the last sequence that is forgotten by that, 0 when it is no more than was trimmed already.

        Raises:
            JournalDamaged: There is no sound checkpoint.
        """
        ...

    async def highest(self, scene: str) -> int:
        """Give the highest sequence that anything sound tells of."""
        ...

    async def mend(self, scene: str, remedy: Remedy) -> None:
        """Make of a scene what `remedy` says, in one step.

        Raises:
            JournalUnavailable, CommitUnknown: Discard the copy.
        """
        ...

    async def adopt(self) -> str:
        """Put the copy in the journal's place and close it; give where the former journal lies now.

        Raises:
            JournalUnavailable: It could not be put there. The journal is as it was.
        """
        ...

    async def discard(self) -> None:
        """Close and delete the copy. The journal is as it was."""
        ...
