"""What every gate answers: a fact that happened, or a refusal that changed nothing."""

from enum import StrEnum
from functools import cache
from typing import Any, final

from msgspec import UNSET, Struct, UnsetType

from app.gates.identity import Number, Token

MISSING_NAMED = 16
"""How many missing parameters or outputs a refusal names: it must stay small however long a rig's lists are."""

RETRYABLE = frozenset({"beyond_window", "queue_full", "instances_full", "delivery_backlog", "too_early", "layer_busy"})
"""The refusals after which the same request may succeed later (contract, section 3)."""


class Command(
    Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, forbid_unknown_fields=True, tag_field="command"
):
    """What a caller asks of one character. Decoded the same at every door.

    `life`, where it is given, must be the character's present one: the first check of every command. `holder`, where it
    is given, is a token of any character of the scene that must still have its right: the second check.
    """

    life: Number | UnsetType = UNSET
    holder: Token | UnsetType = UNSET


@cache
def name_of(command: type[Command]) -> str:
    """Give a command's name on the wire."""
    tag = command.__struct_config__.tag
    assert isinstance(tag, str)
    return tag


class Fact(Struct, frozen=True, gc=False, tag_field="outcome"):
    """What an accepted command made true. Together with its command it is all that `evolve` needs."""


class LifeRefusal(StrEnum):
    """The refusals that stand before every other, in this order."""

    STALE_LIFE = "stale_life"
    HOLDER_LOST = "holder_lost"


class Grant(Struct, frozen=True, gc=False):
    """A transition named without its right: what is pending, or what beat a token."""

    generation: int
    to: str


class LayerNow(Struct, frozen=True, gc=False):
    """What is true of a layer at the moment of a refusal, so that the caller need not ask again."""

    current: str
    epoch: int
    generation: int
    pending: Grant | None


@final
class Refused(Struct, frozen=True, gc=False):
    """Why a gate said no. It leaves every gate equal to what it was.

    `at` names the field, parameter, output, bone or layer at fault; `by` is what beat the request. A bundle says at
    which of its commands it `failed_at`, and what that one was `refused` for.
    """

    outcome: str
    at: str | UnsetType = UNSET
    by: dict[str, Any] | UnsetType = UNSET
    layer: LayerNow | UnsetType = UNSET
    missing: list[str] | UnsetType = UNSET
    clip_instance: int | UnsetType = UNSET
    payload_differs: bool | UnsetType = UNSET
    release: str | UnsetType = UNSET
    failed_at: int | UnsetType = UNSET
    refused: "Refused | UnsetType" = UNSET

    @property
    def is_retryable(self) -> bool:
        """Say whether the same request may succeed later."""
        return (self if self.refused is UNSET else self.refused).outcome in RETRYABLE


class Problem(StrEnum):
    """Why no gate could decide. These take no sequence, are not recorded, and change nothing."""

    UNKNOWN_SCENE = "unknown-scene"
    UNKNOWN_CHARACTER = "unknown-character"
    UNKNOWN_RIG = "unknown-rig"
    CONFLICTING_SPAWN = "conflicting-spawn"
    CONFLICTING_RIG = "conflicting-rig"
    KEY_REUSED = "key-reused"
    TOO_LARGE = "too-large"
    INVALID = "invalid"


@final
class Undecided(Struct, frozen=True, gc=False):
    """A command that no gate decided, with what a person needs to mend it."""

    problem: Problem
    detail: str
    at: str | UnsetType = UNSET
