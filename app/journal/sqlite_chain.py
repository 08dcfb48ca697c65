"""The digests that tie a journal together: entry to entry, a scene's row, its characters, its mark outside the file."""

import hashlib
import struct
from typing import Any, NamedTuple

import msgspec

from app.journal.port import SealSecret

DIGEST_BYTES = 16

CHARACTERS_MOD = 1 << (8 * DIGEST_BYTES)
"""A scene's characters are summed up modulo this, so that one can leave the sum without the others being read."""

_numbers = struct.Struct("<qqq")
_packed = msgspec.msgpack.Encoder().encode
_secrets = msgspec.msgpack.Decoder(tuple[SealSecret, ...]).decode


class Link(NamedTuple):
    """An entry as the next one sees it: its position, its last sequence, and the chain that ends with it."""

    position: int
    last: int
    chain: bytes


class Row(NamedTuple):
    """A scene's row without its header, in the order of `COLUMNS`; any column may be damaged until `is_sealed` says no.

    `floor` is the newest entry that was trimmed, as a Link; `position`, `last` and `chain` are the checkpoint's, all
    None where there is none. `total` is the sum of the `characters` digests.
    """

    id: int
    name: str
    floor: int
    floor_last: int
    floor_chain: bytes
    listed: int
    position: int | None
    last: int | None
    chain: bytes | None
    header_digest: bytes | None
    secrets_digest: bytes | None
    characters: int
    total: bytes
    seal: bytes

    @property
    def trimmed(self) -> Link:
        """Give the newest trimmed entry; what was never trimmed starts at the scene's own beginning."""
        return Link(self.floor, self.floor_last, self.floor_chain)

    @property
    def covered(self) -> Link | None:
        """Give the entry that the checkpoint covers last; None where there is no checkpoint."""
        if self.position is None or self.last is None or self.chain is None:
            return None
        return Link(self.position, self.last, self.chain)


COLUMNS = ", ".join(Row._fields)


class Digests:
    """Every digest of one journal, keyed by its secret, so that nothing of another journal passes for its own.

    `seed` starts the checksums of the marks. They all find accidents; who can write the file can read the secret, so
    they do not keep out anybody.
    """

    def __init__(self, secret: bytes) -> None:
        def keyed(person: bytes) -> "hashlib.blake2b":
            return hashlib.blake2b(key=secret, digest_size=DIGEST_BYTES, person=person)

        self._entry = keyed(b"posegate-entry")
        self._start = keyed(b"posegate-start")
        self._row = keyed(b"posegate-row")
        self._character = keyed(b"posegate-char")
        self._content = keyed(b"posegate-content")
        self.seed = int.from_bytes(keyed(b"posegate-mark").digest()[:4], "little")

    def start(self, scene: str) -> Link:
        """Give what the first entry of a scene is tied to: its name."""
        digest = self._start.copy()
        digest.update(scene.encode("utf-8", "surrogatepass"))
        return Link(0, 0, digest.digest())

    def chain(self, before: bytes, position: int, first: int, last: int, blob: bytes) -> bytes:
        """Give the chain that ends with an entry, where `before` ends with the entry before it."""
        digest = self._entry.copy()
        digest.update(before + _numbers.pack(position, first, last))
        digest.update(blob)
        return digest.digest()

    def follows(self, before: Link, stored: tuple[Any, ...]) -> bool:
        """Say whether a stored (position, first, last, blob, chain), as it was read, is tied to `before`."""
        position, first, last, blob, chain = stored
        if not (type(position) is type(first) is type(last) is int and type(blob) is bytes):
            return False
        return bool(chain == self.chain(before.chain, position, first, last, blob))

    def sealed(self, row: Row) -> Row:
        """Give the row with the seal that belongs to it."""
        return row._replace(seal=self._seal(row))

    def is_sealed(self, row: Row, scene: str) -> bool:
        """Say whether a row is what was written for `scene`."""
        return row.name == scene and row.seal == self._seal(row)

    def _seal(self, row: Row) -> bytes:
        digest = self._row.copy()
        # A damaged column may hold any type that SQLite has; each is packed as what it is.
        digest.update(_packed(row[:-1]))
        return digest.digest()

    def character(self, scene: str, name: str, value: bytes) -> int:
        """Give what a character adds to its scene's sum."""
        digest = self._character.copy()
        digest.update(_packed((scene, name)))
        digest.update(value)
        return int.from_bytes(digest.digest(), "little")

    def content(self, blob: bytes | None) -> bytes | None:
        """Give the digest of a header or of the secrets; None for none."""
        if blob is None:
            return None
        digest = self._content.copy()
        digest.update(blob)
        return digest.digest()


def as_total(number: int) -> bytes:
    """Give the sum of characters as a row holds it."""
    return (number % CHARACTERS_MOD).to_bytes(DIGEST_BYTES, "little")


def packed_secrets(secrets: tuple[SealSecret, ...]) -> bytes | None:
    """Give the secrets of repairs as a row holds them: nothing for none."""
    return _packed(secrets) if secrets else None


def secrets_of(packed: bytes | None) -> tuple[SealSecret, ...]:
    """Give back what `packed_secrets` packed. Check its digest first."""
    return () if packed is None else _secrets(packed)
