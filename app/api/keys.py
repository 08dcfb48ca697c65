"""Keys: the API keys of game servers and operations, known by their hashes, read from a file or the environment."""

import asyncio
import hashlib
import secrets
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, Self

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from app.api.callers import Caller, Role
from app.telemetry.log import log

KEY_BYTES = 32
"""How much chance a key holds: too much to be guessed, so a plain hash keeps it."""

PREFIX = "posegate_"
"""What every key starts with, so that a scanner for lost secrets finds it."""

LOOKED_AT_S = 1.0
"""How long a keys file is trusted before it is looked at again, seconds: how long a revoked key may still work."""

_Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$")]


class KeysUnreadable(Exception):
    """The keys are not what they must be. Which they are cannot be known, so nobody is let in by them."""


class KeyEntry(BaseModel):
    """One key as the file has it: its name, its role, a server's scene prefixes, and the key's SHA-256 in hex."""

    model_config = ConfigDict(extra="forbid")

    name: _Name
    role: Literal["server", "ops"]
    prefixes: list[Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9][A-Za-z0-9._~-]{0,127})?$")]] = []
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]

    @model_validator(mode="after")
    def _has_scenes(self) -> Self:
        if (self.role == "server") != bool(self.prefixes):
            raise ValueError('a server names at least one prefix of scenes ("" is every scene), and ops none')
        return self


class KeysFile(BaseModel):
    """The keys of a service. A name that is `revoked` opens nothing, whatever else says so."""

    model_config = ConfigDict(extra="forbid")

    keys: list[KeyEntry] = Field(default=[], max_length=10_000)
    revoked: list[str] = []

    @model_validator(mode="after")
    def _are_distinct(self) -> Self:
        if len({key.name for key in self.keys}) < len(self.keys):
            raise ValueError("two keys have one name")
        if len({key.sha256 for key in self.keys}) < len(self.keys):
            raise ValueError("one key stands twice")
        return self


class NewKey(Struct, frozen=True):
    """A key that was just made: the secret, shown once, and what the keys file keeps of it."""

    secret: str
    entry: KeyEntry


def new_key(name: str, role: Literal["server", "ops"], prefixes: list[str]) -> NewKey:
    """Make a key.

    Raises:
        pydantic.ValidationError: The name or a prefix is none, or the role does not take prefixes.
    """
    secret = PREFIX + secrets.token_urlsafe(KEY_BYTES)
    return NewKey(secret, KeyEntry(name=name, role=role, prefixes=prefixes, sha256=digest_of(secret)))


def digest_of(secret: str) -> str:
    """Give what is kept of a key."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def read_keys(text: str, source: str) -> KeysFile:
    """Read keys as JSON.

    Raises:
        KeysUnreadable: They are not what `KeysFile` says; the words name the place, never a hash.
    """
    try:
        return KeysFile.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise KeysUnreadable(f"{source}, at {place}: {first['msg']}") from error


class Keyring:
    """The keys in force: those of the environment and those of a file, without the revoked.

    A file that changed is read again within `LOOKED_AT_S` seconds. One that became unreadable changes nothing but the
    log: what was in force stays so until it can be read.
    """

    def __init__(self, *, given: str = "", file: Path | None = None, clock: Callable[[], float] = time.monotonic):
        """Read the keys.

        Raises:
            KeysUnreadable: They cannot be read. Nobody is to be served then.
        """
        self._given = read_keys(given, "POSEGATE_KEYS") if given else KeysFile()
        self._is_given = bool(given)
        self._file = None if file is None else file.absolute()
        self._clock = clock
        self._seen: object = None
        self._told = ""
        self._callers: dict[str, Caller] = {}
        self._named: dict[str, Caller] = {}
        self._look_at = clock() + LOOKED_AT_S
        self._read()

    @property
    def is_configured(self) -> bool:
        """Say whether there is a place for keys: then nobody is served without one, even when it holds none."""
        return self._file is not None or self._is_given

    def find(self, secret: str) -> Caller | None:
        """Give the caller whose key this is; None for a key that opens nothing."""
        self.refresh()
        return self._callers.get(digest_of(secret))

    def named(self, name: str) -> Caller | None:
        """Give the caller whose key has this name; None when none is in force."""
        self.refresh()
        return self._named.get(name)

    async def watch(self) -> None:
        """Look at the file for as long as the service runs, so that what is wrong with it is told at once."""
        while self._file is not None:
            await asyncio.sleep(LOOKED_AT_S)
            self.refresh()

    def refresh(self) -> None:
        """Read the file again, if it was not looked at for a while and has changed."""
        now = self._clock()
        if self._file is None or now < self._look_at:
            return
        self._look_at = now + LOOKED_AT_S
        try:
            if self._stamp() != self._seen:
                self._read()
                log.info("keys-read", keys=len(self._named))
            self._told = ""
        except KeysUnreadable as error:
            if self._told != str(error):
                self._told = str(error)
                log.error("keys-unreadable", error=self._told)

    def _stamp(self) -> object:
        assert self._file is not None
        try:
            found = self._file.stat()
        except OSError as error:
            raise KeysUnreadable(f"POSEGATE_KEYS_FILE, {self._file}: {error.strerror}") from error
        if not stat.S_ISREG(found.st_mode):
            # Opening a pipe would wait for whoever writes into it, and everybody with it.
            raise KeysUnreadable(f"POSEGATE_KEYS_FILE, {self._file}: it is no file")
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> None:
        held = KeysFile()
        if self._file is not None:
            seen = self._stamp()
            try:
                text = self._file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                said = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
                raise KeysUnreadable(f"POSEGATE_KEYS_FILE, {self._file}: {said}") from error
            held = read_keys(text, f"POSEGATE_KEYS_FILE, {self._file}")
            self._seen = seen
        both = KeysFile.model_construct(keys=[*self._given.keys, *held.keys])
        revoked = {*self._given.revoked, *held.revoked}
        if len({key.name for key in both.keys}) < len(both.keys):
            raise KeysUnreadable("a key of the file has the name of one of the environment")
        unknown = sorted(revoked - {key.name for key in both.keys})
        if unknown:
            log.warning("revoked-unknown", names=unknown)
        callers = {
            key.sha256: Caller(f"key/{key.name}", Role(key.role), tuple(key.prefixes), digest=key.sha256[:16])
            for key in both.keys
            if key.name not in revoked
        }
        self._callers = callers
        self._named = {caller.name.removeprefix("key/"): caller for caller in callers.values()}
