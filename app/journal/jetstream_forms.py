"""How the journal's messages look inside: entries, the pieces that checkpoints are made of, and heads.

A head is a scene's newest checkpoint: it names the pieces, oldest first, whose rows make it up when each later row
takes the place of an earlier one of its kind and name.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from app.journal.port import Checkpoint, JournalDamaged, SealSecret, StoredEntry

FORMAT = 1
"""The format of everything here. A later one is refused, not guessed at."""

_prefix = struct.Struct(">BQQQ")

PREFIX_BYTES = _prefix.size
"""What stands before an entry's blob in its message."""

HEADER, CHARACTER, SECRETS = 0, 1, 2
"""What a row of a piece holds."""

KINDS = (HEADER, CHARACTER, SECRETS)

ROW_BYTES = 16
"""What a row costs besides its name and its bytes, at most."""

PIECE_ROOM_BYTES = 64


class Linked(NamedTuple):
    """An entry, and the position of the one before it in its scene."""

    after: int
    entry: StoredEntry


class Piece(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One message's worth of rows: kind, name, bytes (None: the character went), and whether the next row goes on."""

    format: int
    rows: list[tuple[int, str, bytes | None, bool]]


class Change(msgspec.Struct, frozen=True, array_like=True):
    """What one checkpoint wrote: the sequences of its pieces, and how many bytes they are."""

    pieces: list[int]
    size: int


class Head(msgspec.Struct, frozen=True, array_like=True):
    """A scene's checkpoint, and what is forgotten: entries up to `floor` are not given any more.

    The oldest change was written whole; each further one says what changed since.
    """

    format: int
    position: int
    floor: int
    is_listed: bool
    changes: list[Change]

    @property
    def first_piece(self) -> int | None:
        """The lowest sequence that is still needed; None when nothing is."""
        return self.changes[0].pieces[0] if self.changes else None


class Merged:
    """Rows put together: what a checkpoint holds."""

    def __init__(self) -> None:
        self.header = b""
        self.characters: dict[str, bytes] = {}
        self.secrets: tuple[SealSecret, ...] = ()
        self._begun: list[bytes] = []

    def add(self, piece: Piece) -> None:
        """Take the rows of the next piece.

        Raises:
            JournalDamaged: What should be secrets is none.
        """
        for kind, name, part, goes_on in piece.rows:
            if goes_on:
                self._begun.append(part or b"")
                continue
            content = b"".join([*self._begun, part or b""]) if self._begun else part
            self._begun.clear()
            if kind == CHARACTER and content is None:
                self.characters.pop(name, None)
            elif kind == CHARACTER and content is not None:
                self.characters[name] = content
            elif kind == HEADER:
                self.header = content or b""
            else:
                self.secrets = _secrets(content or b"")

    def checkpoint(self, position: int) -> Checkpoint:
        """Give what was put together."""
        return Checkpoint(position, self.header, self.characters, self.secrets)


def token_of(scene: str) -> str:
    """Give a scene's name as one token of a subject. Names have dots, which would part tokens, but never `=`."""
    return scene.replace(".", "=")


def scene_of(token: str) -> str:
    """Give the name that a token stands for."""
    return token.replace("=", ".")


def packed_entry(after: int, first: int, last: int) -> bytes:
    """Give what stands before an entry's blob."""
    return _prefix.pack(FORMAT, after, first, last)


def unpacked_entry(scene: str, position: int, payload: bytes) -> Linked:
    """Read an entry's message.

    Raises:
        JournalDamaged: It is none.
    """
    if len(payload) < PREFIX_BYTES or payload[0] != FORMAT:
        raise JournalDamaged(f"scene {scene!r}: {_foreign(f'message {position}')}")
    _, after, first, last = _prefix.unpack_from(payload)
    if not (after < position and first <= last):
        raise JournalDamaged(f"scene {scene!r}: {_foreign(f'message {position}')}")
    return Linked(after, StoredEntry(position, first, last, payload[PREFIX_BYTES:]))


def unpacked_head(scene: str, payload: bytes) -> Head:
    """Read a head's message. Raises as `unpacked_entry`."""
    try:
        head = msgspec.msgpack.decode(payload, type=Head)
    except msgspec.DecodeError:
        raise JournalDamaged(f"scene {scene!r}: {_foreign('its head')}") from None
    if head.format != FORMAT or any(not change.pieces for change in head.changes):
        raise JournalDamaged(f"scene {scene!r}: {_foreign('its head')}")
    return head


def unpacked_piece(scene: str, sequence: int, payload: bytes) -> Piece:
    """Read a piece's message. Raises as `unpacked_entry`."""
    try:
        piece = msgspec.msgpack.decode(payload, type=Piece)
    except msgspec.DecodeError:
        raise JournalDamaged(f"scene {scene!r}: {_foreign(f'piece {sequence}')}") from None
    if piece.format != FORMAT or any(kind not in KINDS for kind, *_ in piece.rows):
        raise JournalDamaged(f"scene {scene!r}: {_foreign(f'piece {sequence}')}")
    return piece


def pieces_of(
    header: bytes, characters: Mapping[str, bytes | None], secrets: tuple[SealSecret, ...] | None, *, bytes_max: int
) -> Iterator[bytes]:
    """Give a checkpoint as messages of at most `bytes_max` bytes each. `secrets` None: they stay what they were."""
    rows: list[tuple[int, str, bytes | None, bool]] = []
    room = bytes_max - PIECE_ROOM_BYTES
    free = room
    for kind, name, content in _contents(header, characters, secrets):
        cost = len(name) + ROW_BYTES
        begin, end = 0, len(content or b"")
        while True:
            if free < cost + min(end - begin, room // 2):
                yield msgspec.msgpack.encode(Piece(FORMAT, rows))
                rows, free = [], room
            stop = min(end, begin + free - cost)
            whole = begin == 0 and stop == end
            rows.append((kind, name, content if whole or content is None else content[begin:stop], stop < end))
            free -= cost + stop - begin
            if stop == end:
                break
            begin = stop
    yield msgspec.msgpack.encode(Piece(FORMAT, rows))


def _contents(
    header: bytes, characters: Mapping[str, bytes | None], secrets: tuple[SealSecret, ...] | None
) -> Iterable[tuple[int, str, bytes | None]]:
    yield HEADER, "", header
    if secrets is not None:
        yield SECRETS, "", msgspec.msgpack.encode(secrets)
    for name, content in characters.items():
        yield CHARACTER, name, content


def _secrets(content: bytes) -> tuple[SealSecret, ...]:
    try:
        return msgspec.msgpack.decode(content, type=tuple[SealSecret, ...])
    except msgspec.DecodeError:
        raise JournalDamaged(_foreign("the secrets of a checkpoint")) from None


def _foreign(what: str) -> str:
    return (
        f"{what} was not written by this version of the service: either a later version wrote it, or somebody else "
        "writes to the journal's subjects; restore the streams from a back-up, or serve with the later version"
    )
