"""The roster: the living characters of a scene, most of them asleep as the bytes they are stored as."""

from collections.abc import Iterator

import msgspec

from app.gates.character import Character

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Character).decode


def freeze(character: Character) -> bytes:
    """Give a character's stored form. Equal characters that were built in the same order freeze alike."""
    return _encode(character)


def thaw(blob: bytes) -> Character:
    """Give back the character that was frozen."""
    return _decode(blob)


class Roster:
    """Living characters by id. What a reader got never changes; `put` replaces a reference.

    Bound:     `hot_max` live values, once `cool` was called often enough after `put`.
    Order:     of names in `names`, ascending by code point.
    Senders:   one, the scene's sequencer.  Thread-safe: no.
    """

    def __init__(self, *, hot_max: int) -> None:
        self._hot_max = hot_max
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
        blob = self._asleep.get(name)
        return None if blob is None else _decode(blob)

    def put(self, name: str, character: Character) -> None:
        """Replace a character by its next value, or add a new one."""
        if name not in self._asleep:
            self._names = None
        self._asleep[name] = None
        hot = self._hot
        hot.pop(name, None)
        hot[name] = character

    def cool(self, at_most: int) -> None:
        """Let the longest untouched go to sleep, as far as there are more live values than the bound and `at_most`."""
        hot = self._hot
        for _ in range(min(at_most, len(hot) - self._hot_max)):
            sleeper = next(iter(hot))
            self._asleep[sleeper] = _encode(hot.pop(sleeper))
            self._sizes.pop(sleeper, None)

    def note_sizes(self, sizes: dict[str, int]) -> None:
        """Keep how large live values are at most, bytes, as long as they are live."""
        self._sizes.update((name, size) for name, size in sizes.items() if name in self._hot)

    def size(self, name: str) -> int | None:
        """Give how large a living character's stored form is at most, bytes; None where nobody knows."""
        blob = self._asleep.get(name)
        return self._sizes.get(name) if blob is None else len(blob)

    def load(self, name: str, blob: bytes) -> None:
        """Add a character that is asleep."""
        self._asleep[name] = blob
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
        return self._asleep.get(name) if held is None else _encode(held)

    def names(self) -> list[str]:
        """Give all names, ascending. The list is kept until a name comes or goes: do not change it."""
        if self._names is None:
            self._names = sorted(self._asleep)
        return self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._asleep)
