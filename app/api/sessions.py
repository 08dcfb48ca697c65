"""Sessions: short-lived tokens for players' engine clients, minted by their game server."""

import hashlib
import time
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import jwt
import msgspec
from msgspec import Struct
from msgspec.structs import asdict
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from app.api.bodies import FROM_FLOAT
from app.api.callers import Caller, Role
from app.api.problems import ProblemError
from app.gates.decision import name_of
from app.gates.event_commands import CommitLoop, Covered, Enqueue, Play, Retire
from app.gates.graph import SubmitCandidate
from app.gates.identity import NUMBER_MAX
from app.gates.transition import Cancel, Complete, Fail

ALGORITHM = "HS256"
"""The one algorithm: what a token's own header says does not count."""

ISSUER = AUDIENCE = "posegate"
CHARACTERS_MAX = 64
LAYERS_MAX = 64
TOKENS_KEPT = 4_096
"""How many tokens are remembered as read, so that a busy client does not pay for its token with every request."""

TOKEN_LENGTH_MAX = 16_384

CALLBACKS = frozenset(
    map(name_of, (Complete, Cancel, Fail, Play, Enqueue, Covered, CommitLoop, Retire, SubmitCandidate))
)
"""The commands that a session may give for its characters; `begin` besides, on the layers that its mint lists."""

_REQUIRED = ["exp", "iat", "iss", "aud", "sub", "scene", "characters"]

_Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$")]
_Life = Annotated[int, Field(ge=1, le=NUMBER_MAX), FROM_FLOAT]
_Layer = Annotated[str, StringConstraints(min_length=1, max_length=128)]


class SessionBody(BaseModel):
    """What a game server asks for: whose session, for which characters in which lives, how long, and how much.

    `commands` narrows what the session may do; left out, it is every callback.
    """

    model_config = ConfigDict(extra="forbid", strict=True, title="SessionRequest")

    sub: _Id = Field(description="Whose session: the player's id at the game server.")
    characters: dict[_Id, _Life] = Field(
        min_length=1, max_length=CHARACTERS_MAX, description="The characters it speaks for, each with its life."
    )
    begin_layers: list[_Layer] = Field(
        default=[], max_length=LAYERS_MAX, description="Layers on which it may `begin` too."
    )
    commands: list[str] = Field(
        default=sorted(CALLBACKS),
        max_length=len(CALLBACKS),
        description="Which callbacks it may send; left out, all of them.",
    )
    ttl_s: Annotated[int, Field(ge=1, le=NUMBER_MAX), FROM_FLOAT] = Field(
        default=600, description="How long it lasts, seconds."
    )


class SessionView(BaseModel):
    """A session: the token to send as `Authorization: Bearer …`, and when it ends."""

    token: str
    expires_at: str


class _Claims(Struct, frozen=True):
    """What a token says: whose it is, until when (seconds since 1970), which key minted it, and what it may."""

    sub: str
    exp: int
    key: str
    key_digest: str
    under: str
    scene: str
    characters: dict[str, int]
    begin_layers: list[str]
    commands: list[str]


class Minter(NamedTuple):
    """The key that minted a token, by its name and a part of its hash; both empty where none was needed."""

    name: str
    digest: str


class NoSession(Exception):
    """The token is none of this journal, is altered, or its time is over."""


class Sessions:
    """Mints and reads the session tokens of one journal, under a secret that is derived from the journal's.

    Bound:     `TOKENS_KEPT` tokens that were read are remembered; beyond, all are read again.
    A token of another journal, or of one that was replaced, opens nothing.
    """

    def __init__(self, secret: bytes, *, clock: Callable[[], float] = time.time) -> None:
        self._secret = hashlib.blake2b(b"session tokens", key=secret, digest_size=32).digest()
        self._clock = clock
        self._read: dict[str, tuple[float, Minter, Caller]] = {}

    def mint(self, body: SessionBody, *, scene: str, under: str, minter: Caller) -> tuple[str, int]:
        """Give a token and the time it ends, seconds since 1970.

        Raises:
            ProblemError: `too-large`, for more characters and layers than a token takes.
        """
        now = int(self._clock())
        claims = _Claims(
            sub=body.sub,
            exp=now + body.ttl_s,
            key=minter.name.removeprefix("key/"),
            key_digest=minter.digest,
            under=under,
            scene=scene,
            characters=body.characters,
            begin_layers=body.begin_layers,
            commands=body.commands,
        )
        said = {"iss": ISSUER, "aud": AUDIENCE, "iat": now, **asdict(claims)}
        token = jwt.encode(said, self._secret, algorithm=ALGORITHM)
        if len(token) > TOKEN_LENGTH_MAX:
            raise ProblemError("too-large", f"the token would have {len(token)} characters", limit=TOKEN_LENGTH_MAX)
        return token, claims.exp

    def read(self, token: str) -> tuple[Minter, Caller]:
        """Give which key minted a token, and the caller it makes.

        Raises:
            NoSession: It makes none.
        """
        held = self._read.get(token)
        if held is None:
            held = self._verified(token)
            if len(self._read) >= TOKENS_KEPT:
                self._read.clear()
            self._read[token] = held
        expires, minter, caller = held
        if self._clock() >= expires:
            self._read.pop(token, None)
            raise NoSession("the session token has ended")
        return minter, caller

    def _verified(self, token: str) -> tuple[float, Minter, Caller]:
        if len(token) > TOKEN_LENGTH_MAX:
            raise NoSession("no session token is that long")
        try:
            said: dict[str, Any] = jwt.decode(
                token,
                self._secret,
                algorithms=[ALGORITHM],
                audience=AUDIENCE,
                issuer=ISSUER,
                options={"require": _REQUIRED, "verify_exp": False, "verify_iat": False, "strict_aud": True},
            )
        except (jwt.InvalidTokenError, UnicodeError) as error:
            raise NoSession("it is no session token of this service either") from error
        return _caller_of(said)


def _caller_of(said: dict[str, Any]) -> tuple[float, Minter, Caller]:
    """Give what a genuine token says. It was minted here, so what does not fit is of another version."""
    try:
        claims = msgspec.convert(said, _Claims)
    except msgspec.ValidationError as error:
        raise NoSession("the token was minted by another version") from error
    caller = Caller(
        name=f"session/{claims.key}/{claims.sub}",
        role=Role.SESSION,
        scene=claims.scene,
        under=claims.under,
        characters=claims.characters,
        begin_layers=frozenset(claims.begin_layers),
        commands=frozenset(claims.commands) & CALLBACKS,
    )
    return claims.exp, Minter(claims.key, claims.key_digest), caller
