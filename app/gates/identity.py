"""The names, numbers and tokens that every gate compares, and the seal that makes a token unguessable."""

import hashlib
import re
import unicodedata
from functools import lru_cache
from hmac import compare_digest
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field

NUMBER_MAX = 2**53 - 1
"""The largest whole number that every JSON client keeps exactly."""

NAME_LENGTH_MAX = 128

Number = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]

TICK_MAX = 2**52
"""The highest tick: what is counted from it by `TickCount` is still a number that every client keeps."""

TickNumber = Annotated[int, Meta(ge=0, le=TICK_MAX)]
TickCount = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""A number of ticks, counted from one: at 60 a second more than a year."""
Name = Annotated[
    str,
    Meta(
        min_length=1, max_length=NAME_LENGTH_MAX, extra_json_schema={"pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"}
    ),
]
"""A layer, state, parameter, kind, output or clip: compared code point by code point, never folded or normalised."""

_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")


@lru_cache(65_536)
def is_identifier(text: str) -> bool:
    """Say whether `text` may name a scene, character or rig in a path."""
    return _IDENTIFIER.fullmatch(text) is not None


def has_control_characters(text: str) -> bool:
    """Say whether `text` holds a character of category Cc, or a lone surrogate.

    `isprintable` is the fast answer for nearly every name; a name with a space from another script is not
    "printable" and takes the exact way.
    """
    return not text.isprintable() and any(unicodedata.category(character) in {"Cc", "Cs"} for character in text)


class Token(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The right to commit one transition. Compared whole: every field, the seal included.

    A token without a seal names a transition (what was superseded, what ended) and commits nothing.
    """

    character: Annotated[str, Meta(max_length=NAME_LENGTH_MAX)]
    layer: Annotated[str, Meta(max_length=NAME_LENGTH_MAX)]
    epoch: Number
    generation: Number
    from_: Annotated[str, Meta(max_length=NAME_LENGTH_MAX)] = field(name="from")
    to: Annotated[str, Meta(max_length=NAME_LENGTH_MAX)]
    seal: Annotated[str, Meta(max_length=NAME_LENGTH_MAX)] | UnsetType = UNSET


class Granted(Struct, frozen=True, array_like=True):
    """What had been granted in a scene until its seals got another secret, because what came behind was lost.

    `lives` is the newest life of each id, `generations` the newest generation of each layer of the living. An id that
    is not named had no life above `floor`.
    """

    floor: int = 0
    lives: dict[str, int] = {}
    generations: dict[str, dict[str, int]] = {}

    def has(self, token: Token, life: int) -> bool:
        """Say whether a token that was granted in `life` is one of these, and not one of the lost."""
        newest = self.lives.get(token.character, self.floor)
        if life != newest:
            return life < newest
        layers = self.generations.get(token.character)
        # The life of a dead one was granted whole.
        return layers is None or token.generation <= layers.get(token.layer, 0)


class Sealer:
    """Makes and checks the seals of one scene, under the secret that belongs to the journal.

    After a repair that lost decisions it has a secret of its own; `earlier` is then the sealer from before and what is
    still valid of what that one granted.

    A seal starts with the life it was granted in, so that a token of a former life is recognised as such and
    not mistaken for a forged one.

    `fingerprint` is the same as long as the scene's secret is, and tells nothing of it.

    Bound: the digests begun for `begun_max` layers are kept, so that a seal costs only what is new in it.
    """

    def __init__(
        self, scene: str, secret: bytes, *, earlier: "tuple[Sealer, Granted] | None" = None, begun_max: int = 16_384
    ) -> None:
        self._earlier = earlier
        keyed = hashlib.blake2b(scene.encode(), key=secret, digest_size=16, person=b"posegate-seal")

        def begun(life: int, character: str, layer: str) -> hashlib.blake2b:
            digest = keyed.copy()
            digest.update(f"\0{life}\0{character}\0{layer}".encode("utf-8", "surrogatepass"))
            return digest

        self.fingerprint = keyed.hexdigest()
        self._begun = begun
        self._kept = lru_cache(begun_max)(begun)

    def seal(self, life: int, character: str, layer: str, epoch: int, generation: int, from_: str, to: str) -> str:
        """Give the seal of one token. No field can hold the separator, so no two tokens share a text."""
        return _sealed(self._kept(life, character, layer), life, epoch, generation, from_, to)

    def life_of(self, token: Token) -> int | None:
        """Give the life in which `token` was granted by this journal; None for one that never was, or was lost."""
        if token.seal is UNSET or "\0" in f"{token.layer}{token.from_}{token.to}{token.character}":
            return None
        digits, _, _ = token.seal.partition("-")
        if not (0 < len(digits) <= 14 and all(digit in "0123456789abcdef" for digit in digits)):
            return None
        life = int(digits, 16)
        # Whoever forges layers must not fill the cache: what is not granted here is begun anew.
        begun = self._begun(life, token.character, token.layer)
        genuine = _sealed(begun, life, token.epoch, token.generation, token.from_, token.to)
        if compare_digest(genuine.encode(), token.seal.encode("utf-8", "replace")):
            return life
        return None if self._earlier is None else self._life_before(*self._earlier, token)

    @staticmethod
    def _life_before(sealer: "Sealer", granted: Granted, token: Token) -> int | None:
        life = sealer.life_of(token)
        return life if life is not None and granted.has(token, life) else None


def _sealed(begun: hashlib.blake2b, life: int, epoch: int, generation: int, from_: str, to: str) -> str:
    digest = begun.copy()
    digest.update(f"\0{epoch}\0{generation}\0{from_}\0{to}".encode("utf-8", "surrogatepass"))
    return f"{life:x}-{digest.hexdigest()}"
