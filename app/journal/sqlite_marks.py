"""The high-water marks: how far each scene was written, kept in a file beside the database and outside of its log."""

import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from app.gates.identity import is_identifier
from app.journal.port import JournalDamaged, JournalUnavailable
from app.journal.sqlite_chain import Digests, Link

SLOT_BYTES = 256
"""A slot lies inside one sector of any disk, so that a power failure leaves the former one or this one, whole."""

NAME_BYTES_MAX = 199

RESERVED_SLOTS = 512
"""How many slots are made at a time, so that a new scene costs a sync of its own only now and then."""

READS_MAX = 3
"""How often a slot that makes no sense is read: it may be under way to the file just then."""

_HEAD = b"posegate marks 2".ljust(SLOT_BYTES, b"\0")
_RUN_SLOTS = 4_096
_SUM_MAX = 2**32 - 1
_slot = struct.Struct("<16sqqB199s20xI")
_end = struct.Struct("<qq")
_sum = struct.Struct("<I")
_BLANK = _slot.pack(b"", -1, -1, 0, b"", 0)[:-4]


class Mark(NamedTuple):
    """How far a scene was written: its name, and the entry that was its last."""

    name: str
    end: Link


class Marks:
    """One slot a scene, at its row's number; slot 0 only says what the file is.

    A slot is made, blank and synced, before its scene is. It is written after each COMMIT that moved the scene, and
    synced when the log moves into the database. So after a power failure it may be older than the database, or blank;
    it is never newer, unless the database lost what was synced, and never missing, unless the file lost it.

    Bound:        SLOT_BYTES a scene in the file, about 60 bytes in memory.
    Thread-safe:  one thread writes and syncs may come from another; any thread reads.
    """

    def __init__(self, database: str, digests: Digests, *, read_only: bool) -> None:
        """Open the marks of `database` and learn all names. A missing file is made, unless it is to be only read.

        Raises:
            OSError: The file cannot be opened or read.
        """
        self.path = path_of(database)
        self._seed = digests.seed
        self._known: set[int] = set()
        self._unwritten: dict[int, bytes] = {}
        self.highest_id = 0
        self.highest_position = 0
        self._file: int | None = None
        with suppress(FileNotFoundError):
            self._file = os.open(self.path, os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT, 0o600)
        self._slots = 0 if self._file is None else os.fstat(self._file).st_size // SLOT_BYTES
        for number, name, mark in self.all():
            self.learn(number, name)
            if mark is not None:
                self.highest_position = max(self.highest_position, mark.end.position)

    @staticmethod
    def require_none(database: str) -> None:
        """See that no marks tell of a journal, where the database tells of none.

        Raises:
            JournalDamaged: They do.
        """
        path = Path(path_of(database))
        if path.exists() and path.stat().st_size > SLOT_BYTES:
            raise JournalDamaged(
                f"{database} holds no journal, but {path} says that it did. Bring back a copy of the journal and run"
                f" `posegate repair`; to begin anew, move {path} away"
            )

    @staticmethod
    def make(database: str) -> None:
        """Make a file without marks, on disk when this returns.

        Raises:
            JournalDamaged: There is one that has marks, so there was a journal. Nothing was changed.
            OSError: It cannot be written.
        """
        Marks.require_none(database)
        descriptor = os.open(path_of(database), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            _written(descriptor, _HEAD, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def knows(self, scene: str) -> bool:
        """Say whether a scene of this name was ever marked."""
        return hash(scene) in self._known

    def read(self, number: int) -> Mark | None:
        """Give the mark of the scene with this row; None when it was not written, or did not reach the disk.

        Raises:
            JournalDamaged: There is no such slot, or what is in it is no mark.
        """
        for _ in range(READS_MAX):
            content = b"" if self._file is None else os.pread(self._file, SLOT_BYTES, number * SLOT_BYTES)
            if self._is_sound(number, content):
                return None if content[:-4] == _BLANK else _mark_in(content)
        raise JournalDamaged(f"slot {number} of {self.path} is missing or damaged, so nothing says where it ended")

    def all(self) -> Iterator[tuple[int, str, Mark | None]]:
        """Give the number and name of every slot that was written, ascending, and its mark unless it is damaged.

        The name in a damaged slot is given as it is, where it can be one: as a rule it is not what was damaged.
        """
        number = 1
        while self._file is not None and (run := os.pread(self._file, _RUN_SLOTS * SLOT_BYTES, number * SLOT_BYTES)):
            for start in range(0, len(run) - SLOT_BYTES + 1, SLOT_BYTES):
                content = run[start : start + SLOT_BYTES]
                if self._is_sound(number, content):
                    if content[:-4] != _BLANK:
                        yield number, _name_in(content), _mark_in(content)
                elif (name := _name_still_in(content)) is not None:
                    yield number, name, None
                number += 1
            if len(run) < _RUN_SLOTS * SLOT_BYTES:
                return

    def reserve(self, number: int) -> None:
        """Make the slot of a scene that is about to be made, and some more: blank, and on disk when this returns.

        Raises:
            JournalUnavailable: The disk does not take it. Nothing was changed that counts.
        """
        if number < self._slots or self._file is None:
            return
        blanks = [self._summed(free, _BLANK) for free in range(number, number + RESERVED_SLOTS)]
        try:
            _written(self._file, b"".join(blanks), number * SLOT_BYTES)
            _written(self._file, _HEAD, 0)
            os.fsync(self._file)
        except OSError as error:
            raise JournalUnavailable(f"nothing was written: no room for marks in {self.path}: {error}") from error
        self._slots = number + RESERVED_SLOTS

    def learn(self, number: int, name: str) -> None:
        """Take note of a scene that is new, and of the number of its row."""
        self._known.add(hash(name))
        self.highest_id = max(self.highest_id, number)

    def write(self, ends: Iterable[tuple[int, bytes, Link]]) -> None:
        """Write how far scenes came, each as its number, its `named` and its end; neighbours are written at once.

        It need not be durable, nor even written: a mark that is behind only guards less. What the disk does not take
        comes again with the next.
        """
        seed, crc32, pack, pack_sum, slots = self._seed, zlib.crc32, _end.pack, _sum.pack, self._unwritten
        for number, named, (position, last, chain) in ends:
            content = chain + pack(position, last) + named
            slots[number] = content + pack_sum(crc32(content, seed ^ number & _SUM_MAX))
        if self._file is None:
            slots.clear()
        with suppress(OSError):
            for start, run in _runs(slots):
                _written(self._file, run, start * SLOT_BYTES)
            slots.clear()

    def sync(self) -> None:
        """Bring what was written to the disk, as far as the disk takes it."""
        with suppress(OSError):
            if self._file is not None:
                os.fsync(self._file)

    def close(self) -> None:
        """Let go of the file. A second call does nothing."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _is_sound(self, number: int, content: bytes) -> bool:
        return len(content) == SLOT_BYTES and content == self._summed(number, content[:-4])

    def _summed(self, number: int, content: bytes) -> bytes:
        return content + _sum.pack(zlib.crc32(content, self._seed ^ number & _SUM_MAX))


def path_of(database: str) -> str:
    """Give where a database's marks are."""
    return database + ".mark"


def named(scene: str) -> bytes:
    """Give the part of a scene's slot that never changes."""
    name = scene.encode()
    return bytes((len(name),)) + name.ljust(SLOT_BYTES - 16 - _end.size - 1 - _sum.size, b"\0")


def _name_in(content: bytes) -> str:
    *_, length, name, _ = _slot.unpack(content)
    return str(name[:length].decode(errors="replace"))


def _name_still_in(content: bytes) -> str | None:
    """Give the name in a damaged slot, by its length or else by its end; None where there is none that can be one."""
    *_, length, name, _ = _slot.unpack(content.ljust(SLOT_BYTES, b"\0"))
    told = (part.decode(errors="replace") for part in (name[:length], name.rstrip(b"\0")))
    return next(filter(is_identifier, told), None)


def _mark_in(content: bytes) -> Mark:
    chain, position, last, *_ = _slot.unpack(content)
    return Mark(_name_in(content), Link(position, last, chain))


def _runs(slots: dict[int, bytes]) -> Iterator[tuple[int, bytes]]:
    """Join slots that are neighbours, so that many scenes of one transaction take few writes."""
    run: list[bytes] = []
    start = 0
    for number in sorted(slots):
        if run and number != start + len(run):
            yield start, b"".join(run)
            run = []
        if not run:
            start = number
        run.append(slots[number])
    if run:
        yield start, b"".join(run)


def _written(file: int | None, content: bytes, offset: int) -> None:
    """Write all of `content`; the kernel may take it in parts."""
    assert file is not None
    while content:
        count = os.pwrite(file, content, offset)
        content, offset = content[count:], offset + count
