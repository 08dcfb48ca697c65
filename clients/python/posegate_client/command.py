"""The command: one thing that is asked of a scene, as a value that every door takes."""

import re
import secrets
from typing import Any, Generic, TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import replace

from posegate_client.values import FromAnswer, Token

AnswerT = TypeVar("AnswerT")

_KEY = re.compile(r"[!-~]{8,255}")

Ref = FromAnswer
"""Short for the many places that take one."""


class Command(Struct, Generic[AnswerT], frozen=True):
    """One command and what it is answered with. `character` is None for a bundle and a tick."""

    name: str
    character: str | None
    fields: dict[str, Any]
    key: str | None = None

    def keyed(self) -> "Command[AnswerT]":
        """Give the command with a key: its own, or a new one that nobody else makes."""
        return self if self.key is not None else replace(self, key=secrets.token_hex(16))

    def members(self) -> dict[str, Any]:
        """Give it as it stands in a batch or on a channel."""
        envelope = {"command": self.name, "character": self.character, "key": self.key}
        return {**{name: value for name, value in envelope.items() if value is not None}, **self.fields}


def made(
    command: str,
    character: str | None,
    /,
    *,
    life: int | None = None,
    holder: Token | Ref | None = None,
    key: str | None = None,
    **fields: Any,
) -> Command[Any]:
    """Make a command of the fields that are given.

    Raises:
        ValueError: The key is none that posegate takes.
    """
    given = {field: value for field, value in fields.items() if value is not None and value is not UNSET}
    if life is not None:
        given["life"] = life
    if holder is not None:
        given["holder"] = holder
    if key is not None and _KEY.fullmatch(key) is None:
        raise ValueError("an idempotency key is 8 to 255 visible ASCII characters")
    return Command(command, character, given, key)


def unkeyed(command: Command[Any], whole: str) -> dict[str, Any]:
    """Give a command as it stands in another.

    Raises:
        ValueError: It has a key.
    """
    if command.key is not None:
        raise ValueError(f"{whole} takes no key: what it is part of has one")
    return command.members()
