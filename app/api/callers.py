"""Callers: who asks, as every door knows them."""

from enum import StrEnum

from msgspec import Struct


class Role(StrEnum):
    """What a caller is to the service."""

    OPEN = "open"
    """Anybody, where no keys are configured: everything is allowed, on the loopback address only."""
    SERVER = "server"
    """A game server: everything in the scenes whose names start with one of its prefixes."""
    OPS = "ops"
    """Operations: every read, no command, no seal."""
    SESSION = "session"
    """A player's engine client: the callbacks of its own characters."""


class Caller(Struct, frozen=True):
    """One caller. `name` is its own over all roles; idempotency keys and budgets are counted by it.

    `prefixes` are a server's; the rest is a session's: its scene, its characters each with the life it speaks for, the
    layers on which it may begin, and the commands that it may give. `digest` tells a key from another of its name;
    `under` is the fingerprint of the secret that the scene's tokens were sealed under when the session was minted.
    """

    name: str
    role: Role
    prefixes: tuple[str, ...] = ()
    scene: str = ""
    characters: dict[str, int] = {}
    begin_layers: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()
    digest: str = ""
    under: str = ""

    def sees(self, scene: str) -> bool:
        """Say whether the caller may know of a scene, whether there is one of that name or not."""
        match self.role:
            case Role.OPEN | Role.OPS:
                return True
            case Role.SERVER:
                return scene.startswith(self.prefixes)
            case Role.SESSION:
                return scene == self.scene


ANYBODY = Caller("", Role.OPEN)
"""The one caller of a service without keys."""
