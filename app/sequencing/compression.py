"""Compression: how the sleepers of a scene are kept small, by what characters of one rig have in common."""

import lz4.block  # type: ignore[import-untyped]  # it has no types

RIGS_MAX = 255
"""Of how many rigs a scene's compression learns; sleepers of the others are compressed by themselves."""

COMMON_BYTES_MAX = 65_536
"""How much of a rig's first sleeper the others are compressed by: the library looks back no further."""

_NOTHING_COMMON = 0
_SIZE = slice(1, 5)


class CommonCompression:
    """Compresses the stored form of a character by that of the first one of its rig that fell asleep.

    What is compressed can be decompressed by this very compression only: it lives in memory and is never stored.

    Bound:     `RIGS_MAX` rigs, `COMMON_BYTES_MAX` bytes each.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._common: list[bytes] = [b""]

    def compress(self, rig: str, blob: bytes) -> bytes:
        """Give a blob in fewer bytes: the number of what it shares, its size, and what is its own."""
        number = self._numbers.get(rig, _NOTHING_COMMON)
        if number == _NOTHING_COMMON and len(self._common) <= RIGS_MAX:
            number = self._numbers[rig] = len(self._common)
            self._common.append(blob[-COMMON_BYTES_MAX:])
        compressed: bytes = lz4.block.compress(blob, store_size=True, dict=self._common[number])
        return bytes((number,)) + compressed

    def decompress(self, compressed: bytes) -> bytes:
        """Give the blob back."""
        blob: bytes = lz4.block.decompress(memoryview(compressed)[1:], dict=self._common[compressed[0]])
        return blob

    def size(self, compressed: bytes) -> int:
        """Give how many bytes the blob has."""
        return int.from_bytes(compressed[_SIZE], "little")
