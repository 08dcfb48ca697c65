"""The roster: the living characters of a scene, most of them asleep as the bytes they are stored as."""

from collections.abc import Iterator
from typing import Protocol

import msgspec
from msgspec import Struct

from app.gates.character import Character

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Character).decode


def freeze(character: Character) -> bytes:
    """Give a character's stored form. Equal characters that were built in the same order freeze alike."""
    return _encode(character)


def thaw(blob: bytes) -> Character:
    """Give back the character that was frozen."""
    return _decode(blob)


class Compression(Protocol):
    """How sleepers are kept small: what a blob is compressed to, and how it and its size in bytes are found again.

    Characters that were spawned with the same rig have much in common, so a compression is told the rig's name.
    """

    def compress(self, rig: str, blob: bytes) -> bytes:
        """Give a blob in fewer bytes."""
        ...

    def decompress(self, compressed: bytes) -> bytes:
        """Give the blob back."""
        ...

    def size(self, compressed: bytes) -> int:
        """Give how many bytes the blob has."""
        ...


class Uncompressed:
    """Keeps blobs as they are."""

    def compress(self, rig: str, blob: bytes) -> bytes:
        """Give the blob."""
        return blob

    def decompress(self, compressed: bytes) -> bytes:
        """Give the blob."""
        return compressed

    def size(self, compressed: bytes) -> int:
        """Give its length."""
        return len(compressed)


UNCOMPRESSED = Uncompressed()


class _Spawned(Struct, array_like=True):
    """The beginning of a stored character."""

    life: int
    rig: str


_decode_spawned = msgspec.msgpack.Decoder(_Spawned).decode


class Roster:
    """Living characters by id. What a reader got never changes; `put` replaces a reference.

    Bound:     `hot_max` live values, once `cool` was called often enough after `put`.
    Order:     of names in `names`, ascending by code point.
    Senders:   one, the scene's sequencer.  Thread-safe: no.
    """

    def __init__(self, *, hot_max: int, compression: Compression = UNCOMPRESSED) -> None:
        self._hot_max = hot_max
        self._compression = compression
        self._hot: dict[str, Character] = {}
        self._asleep: dict[str, bytes | None] = {}
        self._names: list[str] | None = None
        self._sizes: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._asleep)

    def __contains__(self, name: str) -> bool:
        return name in self._asleep

    def get(self, name: str) -> Character | None:
        """Give a living character; None for one that is not alive. A sleeper is thawed and sleeps on."""
        held = self._hot.get(name)
        if held is not None:
            return held
        compressed = self._asleep.get(name)
        return None if compressed is None else _decode(self._compression.decompress(compressed))

    def put(self, name: str, character: Character) -> None:
        """Replace a character by its next value, or add a new one."""
        if name not in self._asleep:
            self._names = None
        self._asleep[name] = None
        hot = self._hot
        hot.pop(name, None)
        hot[name] = character

    @property
    def is_warm(self) -> bool:
        """Say whether there are more live values than the bound."""
        return len(self._hot) > self._hot_max

    def cool(self, at_most: int) -> None:
        """Let the longest untouched go to sleep, as far as there are more live values than the bound and `at_most`."""
        hot = self._hot
        for _ in range(min(at_most, len(hot) - self._hot_max)):
            sleeper = next(iter(hot))
            character = hot.pop(sleeper)
            self._asleep[sleeper] = self._compression.compress(character.rig, _encode(character))
            self._sizes.pop(sleeper, None)

    def note_sizes(self, sizes: dict[str, int]) -> None:
        """Keep how large live values are at most, bytes, as long as they are live."""
        self._sizes.update((name, size) for name, size in sizes.items() if name in self._hot)

    def size(self, name: str) -> int | None:
        """Give how large a living character's stored form is at most, bytes; None where nobody knows."""
        compressed = self._asleep.get(name)
        return self._sizes.get(name) if compressed is None else self._compression.size(compressed)

    def load(self, name: str, blob: bytes) -> None:
        """Add a character that is asleep."""
        self._asleep[name] = self._compression.compress(_decode_spawned(blob).rig, blob)
        self._names = None

    def remove(self, name: str) -> None:
        """Let go of a character whose life ended."""
        del self._asleep[name]
        self._hot.pop(name, None)
        self._sizes.pop(name, None)
        self._names = None

    def clear(self) -> None:
        """Let go of all."""
        self._asleep.clear()
        self._hot.clear()
        self._sizes.clear()
        self._names = None

    def blob(self, name: str) -> bytes | None:
        """Give a living character's stored form; None for one that is not alive."""
        held = self._hot.get(name)
        if held is not None:
            return _encode(held)
        compressed = self._asleep.get(name)
        return None if compressed is None else self._compression.decompress(compressed)

    def still(self) -> "Roster":
        """Give a roster of the same values that no change of this one reaches. Its live values stay live."""
        still = Roster(hot_max=self._hot_max, compression=self._compression)
        still._hot, still._asleep, still._names = self._hot.copy(), self._asleep.copy(), self._names
        return still

    def names(self) -> list[str]:
        """Give all names, ascending. The list is kept until a name comes or goes: do not change it."""
        if self._names is None:
            self._names = sorted(self._asleep)
        return self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._asleep)
