"""Minting: what a game server may ask for, and what it gets."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.api import keys as keys_module
from app.gates.identity import Sealer
from app.main import build
from app.settings import Settings
from tests.support.keyed import KEYS, LOBBY, MATCH, OPS, keyed

PATH = "/v1/scenes/match-7/sessions"
EXAMPLE = build(Settings(journal="memory:")).openapi()["paths"]["/v1/scenes/{scene}/sessions"]["post"]["requestBody"][
    "content"
]["application/json"]["examples"]["sessionrequest"]["value"]
BODY = {"sub": "player-7", "characters": {"hero": 1}}


async def test_a_session_is_answered_with_its_end_and_never_cached():
    async with keyed() as speaks:
        await speaks.spawn(MATCH, "match-7", "hero")

        response = await speaks.ask(MATCH, "POST", PATH, {**BODY, "ttl_s": 60})

        assert response.status_code == 201
        assert response.headers["cache-control"] == "no-store"
        assert response.json()["expires_at"].endswith("Z")


async def test_the_example_of_the_document_works_and_whole_numbers_may_be_written_as_floats():
    async with keyed() as speaks:
        await speaks.spawn(MATCH, "match-7", "hero")

        for body in (EXAMPLE, {**EXAMPLE, "characters": {"hero": 1.0}, "ttl_s": 60.0}):
            assert (await speaks.ask(MATCH, "POST", PATH, body)).status_code == 201


@pytest.mark.parametrize(
    ("change", "status", "at"),
    [
        ({"sub": ""}, 422, "sub"),
        ({"sub": None}, 422, "sub"),
        ({"characters": {}}, 422, "characters"),
        ({"characters": {"hero": 0}}, 422, "characters.hero"),
        ({"characters": {"hero": True}}, 422, "characters.hero"),
        ({"characters": {"hero": 2}}, 422, "characters.hero"),
        ({"characters": {"ghost": 1}}, 404, "characters"),
        ({"characters": {f"c{number}": 1 for number in range(65)}}, 422, "characters"),
        ({"begin_layers": [""]}, 422, "begin_layers[0]"),
        ({"commands": ["despawn"]}, 422, "commands"),
        ({"commands": ["play"] * 10}, 422, "commands"),
        ({"ttl_s": 0}, 422, "ttl_s"),
        ({"ttl_s": 3601}, 413, "ttl_s"),
        ({"role": "server"}, 422, "role"),
    ],
)
async def test_a_session_that_cannot_be_is_told_where(change: dict[str, Any], status: int, at: str):
    async with keyed() as speaks:
        await speaks.spawn(MATCH, "match-7", "hero")

        response = await speaks.ask(MATCH, "POST", PATH, {**BODY, **change})

        assert (response.status_code, response.json()["at"]) == (status, at), response.text


async def test_only_the_scenes_own_server_mints():
    async with keyed() as speaks:
        await speaks.spawn(MATCH, "match-7", "hero")
        session = await speaks.session(MATCH, "match-7", {"hero": 1})

        came = [(await speaks.ask(who, "POST", PATH, BODY)).status_code for who in (LOBBY, OPS, session, None)]

        assert came == [403, 403, 403, 401]


async def test_a_session_ends_with_the_key_that_minted_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(keys_module, "LOOKED_AT_S", 0.0)
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(KEYS))
    async with keyed(keys="", keys_file=file) as speaks:
        await speaks.spawn(MATCH, "match-7", "hero")
        session = await speaks.session(MATCH, "match-7", {"hero": 1})
        path = "/v1/scenes/match-7/characters/hero/play"
        before = await speaks.ask(session, "POST", path, {"clip": "Walk"})

        file.write_text(json.dumps({**KEYS, "revoked": ["match"]}))

        assert before.status_code == 200
        assert (await speaks.ask(session, "POST", path, {"clip": "Walk"})).status_code == 401
        assert (await speaks.ask(MATCH, "GET", "/v1/scenes/match-7")).status_code == 401
        assert (await speaks.ask(OPS, "GET", "/v1/scenes/match-7")).status_code == 200


@pytest.mark.parametrize("change", ["prefixes", "role", "rotated", "removed"])
async def test_a_session_lasts_no_longer_than_its_key_could_mint_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
):
    monkeypatch.setattr(keys_module, "LOOKED_AT_S", 0.0)
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(KEYS))
    async with keyed(keys="", keys_file=file) as speaks:
        await speaks.spawn(MATCH, "match-7", "hero")
        session = await speaks.session(MATCH, "match-7", {"hero": 1})
        [match, *others] = [dict(key) for key in KEYS["keys"]]
        if change == "prefixes":
            match["prefixes"] = ["other-"]
        elif change == "role":
            match = {"name": "match", "role": "ops", "sha256": match["sha256"]}
        elif change == "rotated":
            match["sha256"] = "0" * 64

        file.write_text(json.dumps({"keys": others if change == "removed" else [match, *others]}))

        path = "/v1/scenes/match-7/characters/hero/play"
        assert (await speaks.ask(session, "POST", path, {"clip": "Walk"})).status_code == 401


async def test_a_session_from_before_a_repair_that_lost_decisions_opens_nothing():
    """After it, lives are given again, maybe to somebody else."""
    async with keyed() as speaks:
        await speaks.spawn(MATCH, "match-7", "hero")
        session = await speaks.session(MATCH, "match-7", {"hero": 1})
        opened = await speaks.registry.opened("match-7")
        assert opened is not None
        opened.scene.sealer = Sealer("match-7", b"another secret of thirty-two by.")

        for path, body in (("characters/hero/play", {"clip": "Walk"}), ("batch", {"commands": []})):
            response = await speaks.ask(session, "POST", f"/v1/scenes/match-7/{path}", body)
            assert response.status_code == 401, response.text


async def test_without_keys_sessions_can_be_tried_out():
    async with keyed(keys="") as speaks:
        await speaks.ask(None, "PUT", "/v1/scenes/match-7/characters/hero")
        response = await speaks.ask(None, "POST", PATH, BODY)
        session = response.json()["token"]

        assert (await speaks.ask(session, "POST", "/v1/scenes/match-7/batch", {"commands": []})).status_code == 200
        assert (await speaks.ask(session, "GET", "/v1/scenes/match-7")).status_code == 403
        assert (await speaks.ask("made up", "GET", "/v1/scenes/match-7")).status_code == 401
