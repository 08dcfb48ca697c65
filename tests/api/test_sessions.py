"""Session tokens: minted and read under one journal's secret, and gone when their time is over."""

from typing import Any

import jwt
import pytest

from app.api import sessions
from app.api.callers import Caller, Role
from app.api.problems import ProblemError
from app.api.sessions import CALLBACKS, NoSession, SessionBody, Sessions

SECRET = b"s" * 32
SERVER = Caller("key/match", Role.SERVER, ("match-",), digest="d1")


class Clock:
    """A clock that a test sets."""

    now = 1_000.0

    def __call__(self) -> float:
        """Give the time."""
        return self.now


def minted(held: Sessions, **body: Any) -> str:
    asked = SessionBody.model_validate({"sub": "player-7", "characters": {"hero": 2}, **body})
    return held.mint(asked, scene="match-7", under="f1", minter=SERVER)[0]


def test_a_token_says_who_where_and_what():
    held = Sessions(SECRET)

    key, caller = held.read(minted(held, begin_layers=["face"], commands=["complete"]))

    assert key == ("match", "d1")
    assert caller == Caller(
        "session/match/player-7",
        Role.SESSION,
        scene="match-7",
        under="f1",
        characters={"hero": 2},
        begin_layers=frozenset({"face"}),
        commands=frozenset({"complete"}),
    )


def test_a_token_carries_every_name_that_it_must():
    said = jwt.decode(minted(Sessions(SECRET)), options={"verify_signature": False})

    assert {"exp", "iat", "iss", "aud", "sub", "scene", "characters"} <= said.keys()
    assert set(said["commands"]) == CALLBACKS


def test_a_token_ends_even_when_it_was_read_before():
    clock = Clock()
    held = Sessions(SECRET, clock=clock)
    token = minted(held, ttl_s=60)
    held.read(token)

    clock.now += 59
    held.read(token)
    clock.now += 1
    with pytest.raises(NoSession):
        held.read(token)
    with pytest.raises(NoSession):
        held.read(token)


@pytest.mark.parametrize("missing", ["exp", "iat", "iss", "aud", "sub", "scene", "characters", "key", "commands"])
def test_a_token_without_one_of_its_names_is_none(missing: str):
    held = Sessions(SECRET)
    said = jwt.decode(minted(held), options={"verify_signature": False})
    del said[missing]

    with pytest.raises(NoSession):
        held.read(jwt.encode(said, held._secret, algorithm="HS256"))


@pytest.mark.parametrize(
    "changed",
    [
        {"aud": "other"},
        {"aud": ["posegate", "other"]},
        {"iss": "other"},
        {"characters": {"hero": "2"}},
        {"exp": "soon"},
    ],
)
def test_a_token_for_somebody_else_is_none(changed: dict[str, Any]):
    held = Sessions(SECRET)
    said = jwt.decode(minted(held), options={"verify_signature": False})

    with pytest.raises(NoSession):
        held.read(jwt.encode({**said, **changed}, held._secret, algorithm="HS256"))


def test_what_a_later_version_may_grant_is_not_granted_here():
    held = Sessions(SECRET)
    said = jwt.decode(minted(held), options={"verify_signature": False})

    _, caller = held.read(jwt.encode({**said, "commands": ["complete", "despawn"]}, held._secret, algorithm="HS256"))

    assert caller.commands == {"complete"}


def test_the_secret_is_the_journals_and_not_the_journals_own():
    held = Sessions(SECRET)

    assert held.read(minted(Sessions(SECRET)))[0] == ("match", "d1")
    assert held._secret != SECRET
    with pytest.raises(NoSession):
        held.read(minted(Sessions(b"t" * 32)))


def test_only_so_many_tokens_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sessions, "TOKENS_KEPT", 3)
    held = Sessions(SECRET)

    for player in range(10):
        held.read(minted(held, sub=f"player-{player}"))
        assert len(held._read) <= 3


def test_a_token_that_would_be_too_long_to_be_read_is_not_minted():
    with pytest.raises(ProblemError) as raised:
        minted(Sessions(SECRET), begin_layers=["\U0001f600" * 128] * 12)

    assert raised.value.name == "too-large"
