"""Keys: read from a file or the environment, kept as hashes, revoked without a restart."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app.api.callers import Role
from app.api.keys import LOOKED_AT_S, Keyring, KeysUnreadable, digest_of, new_key


def entry(name: str, secret: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "role": "server", "prefixes": ["match-"], "sha256": digest_of(secret), **more}


class Clock:
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Give the time."""
        return self.now

    def pass_by(self) -> None:
        """Let enough time pass that the file is looked at again."""
        self.now += LOOKED_AT_S


def written(path: Path, *entries: dict[str, Any], revoked: tuple[str, ...] = ()) -> Path:
    path.write_text(json.dumps({"keys": entries, "revoked": revoked}))
    return path


def test_a_new_key_opens_and_only_its_hash_is_kept(tmp_path: Path):
    made = new_key("match", "server", ["match-", "duel-"])
    kept = made.entry.model_dump()

    caller = Keyring(file=written(tmp_path / "keys.json", kept)).find(made.secret)

    assert made.secret not in json.dumps(kept)
    assert caller is not None
    assert (caller.name, caller.role, caller.prefixes) == ("key/match", Role.SERVER, ("match-", "duel-"))


def test_two_new_keys_differ():
    assert new_key("a", "ops", []).secret != new_key("a", "ops", []).secret


@pytest.mark.parametrize(
    ("name", "role", "prefixes"),
    [("", "ops", []), ("a b", "ops", []), ("a", "server", []), ("a", "ops", ["match-"]), ("a", "server", ["../"])],
)
def test_a_key_that_cannot_be_is_not_made(name: str, role: Any, prefixes: list[str]):
    with pytest.raises(ValidationError):
        new_key(name, role, prefixes)


def test_keys_of_the_environment_and_of_the_file_are_both_in_force(tmp_path: Path):
    given = json.dumps({"keys": [entry("one", "first")]})

    keyring = Keyring(given=given, file=written(tmp_path / "keys.json", entry("two", "second")))

    assert keyring.is_configured
    assert [keyring.find(secret) is not None for secret in ("first", "second", "third", "")] == [
        True,
        True,
        False,
        False,
    ]
    assert [keyring.named(name) is not None for name in ("one", "three")] == [True, False]


def test_without_a_place_for_keys_none_is_asked_for_and_an_empty_file_is_a_place(tmp_path: Path):
    assert not Keyring().is_configured
    assert Keyring(file=written(tmp_path / "keys.json")).is_configured
    assert Keyring(given='{"keys": []}').is_configured


def test_a_key_is_added_and_revoked_while_the_service_runs(tmp_path: Path):
    clock, path = Clock(), tmp_path / "keys.json"
    keyring = Keyring(file=written(path, entry("one", "first")), clock=clock)

    written(path, entry("one", "first"), entry("two", "second"), revoked=("one",))
    before = keyring.find("first") is not None
    clock.pass_by()

    assert before
    assert keyring.find("first") is None
    assert keyring.named("one") is None
    assert keyring.find("second") is not None


def test_a_file_revokes_a_key_of_the_environment(tmp_path: Path):
    given = json.dumps({"keys": [entry("one", "first")]})

    keyring = Keyring(given=given, file=written(tmp_path / "keys.json", revoked=("one",)))

    assert keyring.find("first") is None
    assert keyring.is_configured


def test_a_file_that_became_unreadable_changes_nothing_until_it_can_be_read(tmp_path: Path):
    clock, path = Clock(), tmp_path / "keys.json"
    keyring = Keyring(file=written(path, entry("one", "first")), clock=clock)

    for broken in ("{", '{"keys": [{}]}', None):
        path.unlink() if broken is None else path.write_text(broken)
        clock.pass_by()
        assert keyring.find("first") is not None

    written(path, entry("two", "second"))
    clock.pass_by()
    assert keyring.find("first") is None
    assert keyring.find("second") is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"keys": [{"name": "a", "role": "god", "sha256": "00"}]}',
        json.dumps({"keys": [entry("a", "x"), entry("a", "y")]}),
        json.dumps({"keys": [entry("a", "x"), entry("b", "x")]}),
        json.dumps({"keys": [entry("a", "x", prefixes=[])]}),
        json.dumps({"keys": [entry("a", "x", more=1)]}),
    ],
)
def test_keys_that_cannot_be_read_let_nobody_in(tmp_path: Path, text: str):
    path = tmp_path / "keys.json"
    path.write_text(text)

    with pytest.raises(KeysUnreadable) as raised:
        Keyring(file=path)

    assert str(path) in str(raised.value)
    assert digest_of("x") not in str(raised.value)


def test_a_name_that_both_places_have_is_not_guessed_at(tmp_path: Path):
    with pytest.raises(KeysUnreadable):
        Keyring(given=json.dumps({"keys": [entry("a", "x")]}), file=written(tmp_path / "keys.json", entry("a", "y")))


def test_what_is_no_file_is_told_and_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")

    for place in (tmp_path / "pipe", tmp_path):
        with pytest.raises(KeysUnreadable, match="no file"):
            Keyring(file=place)


def test_a_file_that_is_not_there_is_told(tmp_path: Path):
    with pytest.raises(KeysUnreadable):
        Keyring(file=tmp_path / "absent.json")


async def test_a_file_is_looked_at_without_anybody_coming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.api.keys.LOOKED_AT_S", 0.001)
    path = tmp_path / "keys.json"
    keyring = Keyring(file=written(path, entry("one", "first")))
    has_read, read = asyncio.Event(), keyring._read

    def noted() -> None:
        read()
        has_read.set()

    monkeypatch.setattr(keyring, "_read", noted)
    looking = asyncio.ensure_future(keyring.watch())
    written(path, entry("two", "second"), revoked=("one", "misspelt"))
    await has_read.wait()

    looking.cancel()
    assert set(keyring._named) == {"two"}


def test_what_is_wrong_with_a_file_is_told_once_and_names_its_setting(tmp_path: Path, capsys):
    clock, path = Clock(), tmp_path / "keys.json"
    keyring = Keyring(file=written(path, entry("one", "first")), clock=clock)
    path.unlink()

    for _ in range(3):
        clock.pass_by()
        keyring.find("first")

    told = [line for line in "".join(capsys.readouterr()).splitlines() if "keys-unreadable" in line]
    assert len(told) == 1
    assert "POSEGATE_KEYS_FILE" in told[0]


def test_a_revoked_name_that_no_key_has_is_told(tmp_path: Path, capsys):
    Keyring(file=written(tmp_path / "keys.json", entry("one", "first"), revoked=("on",)))

    assert "revoked-unknown" in "".join(capsys.readouterr())
