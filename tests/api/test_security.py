"""Security: the whole matrix of role, route, scene and character; sessions inside batches; nothing else learnt."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import httpx
import jwt
import pytest
from fastapi.routing import APIRoute

from app.api.callers import ANYBODY
from app.api.security import DOORS, Door, GuardedRoute, admit, is_loopback
from app.main import build
from app.settings import Settings
from tests.support.keyed import LOBBY, MATCH, OPS, Keyed, keyed

OWN, OTHER = "match-7", "lobby-1"
"""The scene of the caller under test, and one of somebody else."""

NOBODY, WRONG = None, "posegate_never-given"
CALLBACKS = ["complete", "cancel", "fail", "play", "enqueue", "covered", "commit-loop", "retire", "submit-candidate"]

PUBLIC = {"GET /livez", "GET /readyz", "GET /problems/{name}"}
WATCH = "GET /v1/scenes/{scene}/watch"
"""Whoever passes gets a stream without an end, so the matrix asks for one that there is none of."""

CHANNEL = "GET /v1/scenes/{scene}/channel"
"""Whoever passes is told to ask for a WebSocket, which the matrix does not."""

READS = {
    *("GET /v1/scenes/{scene}", "GET /v1/scenes/{scene}/characters", "GET /v1/scenes/{scene}/history", WATCH),
    *(f"GET /v1/scenes/{{scene}}/characters/{{character}}{part}" for part in ("", "/parameters", "/deliveries")),
}


def passes(role: str, route: str, *, own_scene: bool, own_character: bool) -> bool:
    """Say who may pass, as the issue says it, written without a look at the code."""
    if route in PUBLIC:
        return True
    of_scene = "{scene}" in route
    match role:
        case "server":
            return route != "GET /metrics" and (own_scene or not of_scene)
        case "ops":
            return route in READS | {"GET /metrics", "GET /v1/info", "GET /v1/scenes", CHANNEL}
        case "session":
            if not own_scene:
                return False
            name = route.rpartition("/")[2]
            is_command = "/characters/{character}/" in route and route.startswith("POST")
            return name in ("batch", "bundle", "channel") or (is_command and name in CALLBACKS and own_character)
        case _:
            return False


ENDS_THE_SCENE = ("server", "DELETE /v1/scenes/{scene}", True)
"""The one case that would end the scene which all the others are asked about: a test of its own has it."""


def cases() -> Iterator[Any]:
    for route in sorted(DOORS):
        for role in ("nobody", "wrong", "server", "ops", "session"):
            for own_scene in (True, False) if "{scene}" in route else (True,):
                for own_character in (True, False) if "{character}" in route else (True,):
                    if (role, route, own_scene) != ENDS_THE_SCENE:
                        yield pytest.param(role, route, own_scene, own_character)


@pytest.fixture(scope="module")
def world() -> Iterator[Any]:
    """One service for the whole matrix: nothing in it is changed by who may not."""
    with asyncio.Runner() as runner:
        service = keyed()
        speaks = runner.run(service.__aenter__())
        runner.run(speaks.spawn(MATCH, OWN, "hero", "other"))
        runner.run(speaks.spawn(LOBBY, OTHER, "hero", "other"))
        session = runner.run(speaks.session(MATCH, OWN, {"hero": 1}))
        yield runner, speaks, {"nobody": NOBODY, "wrong": WRONG, "server": MATCH, "ops": OPS, "session": session}
        runner.run(service.__aexit__(None, None, None))


BODIES: dict[str, Any] = {
    "begin": {"layer": "base", "target": "Run"},
    **{name: {} for name in ("complete", "cancel", "fail", "enqueue", "covered", "commit-loop", "retire")},
    "play": {"clip": "Walk"},
    "batch": {"commands": []},
    "bundle": {"commands": []},
}


@pytest.mark.parametrize(("role", "route", "own_scene", "own_character"), list(cases()))
def test_who_may_do_what(world: Any, role: str, route: str, own_scene: bool, own_character: bool):
    runner, speaks, credentials = world
    method, _, template = route.partition(" ")
    path = template.format(
        scene=OWN if own_scene else OTHER,
        character="hero" if own_character else "other",
        rig="humanoid",
        name="forbidden",
        tick=1,
    )
    if route == "DELETE /v1/scenes/{scene}/characters/{character}":
        path += "?life=9"
    if route == WATCH:
        path += "?gate=none"

    response = runner.run(speaks.ask(credentials[role], method, path, BODIES.get(template.rpartition("/")[2])))

    if passes(role, route, own_scene=own_scene, own_character=own_character):
        assert response.status_code not in (401, 403), response.text
    else:
        known = role in ("server", "ops", "session")
        assert response.status_code == (403 if known else 401), response.text
        assert response.json()["type"] == f"/problems/{'forbidden' if known else 'unauthenticated'}"
        assert ("www-authenticate" in response.headers) is not known


async def test_a_server_ends_its_own_scene():
    async with keyed() as speaks:
        await speaks.spawn(MATCH, OWN, "hero")

        ended = await speaks.ask(MATCH, "DELETE", f"/v1/scenes/{OWN}")

        assert ended.status_code == 204
        assert (await speaks.ask(MATCH, "GET", f"/v1/scenes/{OWN}")).status_code == 404


def test_every_route_has_a_door_and_every_door_a_route():
    app = build(Settings(journal="memory:"))
    routes = {f"{method.upper()} {path}" for path, methods in app.openapi()["paths"].items() for method in methods}

    assert routes == set(DOORS)


def test_a_route_without_a_door_cannot_be_built():
    with pytest.raises(KeyError):
        GuardedRoute("/v1/new", lambda: None, methods=["GET"])

    assert issubclass(GuardedRoute, APIRoute)


def test_without_keys_anybody_may_do_everything():
    for door in Door:
        admit(ANYBODY, door, scene="match-7", character="hero")


async def test_what_is_forbidden_reads_the_same_whether_or_not_it_is_there():
    async with keyed() as speaks:
        await speaks.spawn(LOBBY, OTHER, "hero")

        there = await speaks.ask(MATCH, "GET", f"/v1/scenes/{OTHER}/characters/hero")
        absent = await speaks.ask(MATCH, "GET", "/v1/scenes/lobby-404/characters/hero")

        assert (there.status_code, there.content) == (absent.status_code, absent.content)


async def test_a_list_shows_a_server_its_own_scenes_only_page_by_page():
    async with keyed() as speaks:
        for scene in ("match-1", "match-2", "match-3"):
            await speaks.spawn(MATCH, scene, "hero")
        for scene in ("lobby-1", "lobby-2"):
            await speaks.spawn(LOBBY, scene, "hero")

        first = (await speaks.ask(MATCH, "GET", "/v1/scenes?limit=2")).json()
        second = (await speaks.ask(MATCH, "GET", f"/v1/scenes?limit=2&cursor={first['next']}")).json()
        everything = (await speaks.ask(OPS, "GET", "/v1/scenes")).json()

        assert first == {"scenes": ["match-1", "match-2"], "next": "match-2"}
        assert second == {"scenes": ["match-3"], "next": None}
        assert len(everything["scenes"]) == 5


async def begun(speaks: Keyed, credential: str, layer: str = "base", character: str = "hero") -> dict[str, Any]:
    path = f"/v1/scenes/{OWN}/characters/{character}/begin"
    answer = await speaks.ask(credential, "POST", path, {"layer": layer, "target": "Run"})
    assert answer.status_code == 200, answer.text
    token: dict[str, Any] = answer.json()["token"]
    return token


FACES: dict[str, Any] = {"layers": {"base": {}, "face": {}}}


async def test_a_session_completes_what_its_server_began_and_begins_on_its_layers_only():
    async with keyed() as speaks:
        await speaks.ask(MATCH, "PUT", f"/v1/scenes/{OWN}/characters/hero", {"rig": FACES})
        token = await begun(speaks, MATCH)
        session = await speaks.session(MATCH, OWN, {"hero": 1}, begin_layers=["face"])
        hero = f"/v1/scenes/{OWN}/characters/hero"

        completed = await speaks.ask(session, "POST", f"{hero}/complete", {"token": token})
        emote = await speaks.ask(session, "POST", f"{hero}/begin", {"layer": "face", "target": "Smile"})
        run = await speaks.ask(session, "POST", f"{hero}/begin", {"layer": "base", "target": "Idle"})

        assert completed.json()["outcome"] == "committed"
        assert emote.json()["outcome"] == "granted"
        assert (run.status_code, run.json()["type"]) == (403, "/problems/forbidden")


async def test_a_session_of_an_ended_life_is_told_so_and_changes_nothing():
    async with keyed() as speaks:
        await speaks.spawn(MATCH, OWN, "hero")
        session = await speaks.session(MATCH, OWN, {"hero": 1})
        hero = f"/v1/scenes/{OWN}/characters/hero"
        await speaks.ask(MATCH, "DELETE", hero)
        await speaks.spawn(MATCH, OWN, "hero")

        late = await speaks.ask(session, "POST", f"{hero}/play", {"clip": "Walk"})
        other = await speaks.ask(session, "POST", f"{hero}/play", {"clip": "Walk", "life": 2})

        assert (late.status_code, late.json()["outcome"]) == (200, "stale_life")
        assert other.status_code == 403


async def test_a_batch_of_a_session_decides_what_it_may_and_names_what_it_may_not():
    async with keyed() as speaks:
        await speaks.spawn(MATCH, OWN, "hero", "other")
        session = await speaks.session(MATCH, OWN, {"hero": 1})
        play = {"command": "play", "clip": "Walk"}
        commands = [
            {**play, "character": "hero"},
            {**play, "character": "other"},
            {"command": "ack", "character": "hero", "through": 0},
            {"command": "despawn", "character": "hero"},
            {"command": "tick", "seal": 1},
            {"command": "bundle", "commands": [{**play, "character": "hero"}, {**play, "character": "other"}]},
            {"command": "bundle", "commands": [{**play, "character": "hero"}]},
        ]

        response = await speaks.ask(session, "POST", f"/v1/scenes/{OWN}/batch", {"commands": commands})

        told = [answer.get("outcome") or answer["problem"]["type"] for answer in response.json()["answers"]]
        assert told == ["opened", *["/problems/forbidden"] * 5, "bundled"]


async def test_keys_of_idempotency_belong_to_their_caller():
    async with keyed() as speaks:
        await speaks.spawn(MATCH, OWN, "hero")
        session = await speaks.session(MATCH, OWN, {"hero": 1})
        path, body = f"/v1/scenes/{OWN}/characters/hero/play", {"clip": "Walk"}

        async def played(credential: str) -> Any:
            response = await speaks.ask(credential, "POST", path, body, Idempotency_Key="the-same-key")
            return response.json()["clip_instance"]

        assert await played(MATCH) == await played(MATCH) == 1
        assert await played(session) == await played(session) == 2


async def test_a_retry_under_a_new_life_gets_the_first_answer():
    async with keyed() as speaks:
        await speaks.spawn(MATCH, OWN, "hero")
        path, body = f"/v1/scenes/{OWN}/characters/hero/play", {"clip": "Walk"}
        session = await speaks.session(MATCH, OWN, {"hero": 1})
        first = await speaks.ask(session, "POST", path, body, Idempotency_Key="kept-over-lives")
        await speaks.ask(MATCH, "DELETE", f"/v1/scenes/{OWN}/characters/hero")
        await speaks.spawn(MATCH, OWN, "hero")
        session = await speaks.session(MATCH, OWN, {"hero": 2})

        again = await speaks.ask(session, "POST", path, body, Idempotency_Key="kept-over-lives")

        assert again.content == first.content


async def test_no_read_shows_a_seal():
    async with keyed() as speaks:
        await speaks.spawn(MATCH, OWN, "hero")
        seal = (await begun(speaks, MATCH))["seal"]

        for route in DOORS:
            if DOORS[route] is Door.READ and route != WATCH:
                path = route.removeprefix("GET ").format(scene=OWN, character="hero")
                assert seal not in (await speaks.ask(MATCH, "GET", path)).text


def forged(token: str, *, secret: str = "x" * 32, algorithm: str = "HS256", **changed: Any) -> str:
    claims = jwt.decode(token, options={"verify_signature": False})
    return jwt.encode({**claims, **changed}, secret if algorithm != "none" else None, algorithm=algorithm)


async def test_forged_altered_and_expired_tokens_open_nothing(monkeypatch: pytest.MonkeyPatch):
    async with keyed() as speaks:
        await speaks.spawn(MATCH, OWN, "hero")
        token = await speaks.session(MATCH, OWN, {"hero": 1})
        head, payload, signature = token.split(".")
        tokens = [
            forged(token),
            forged(token, algorithm="none"),
            forged(token, secret="x" * 64, algorithm="HS512"),
            f"{head}.{payload}.{signature[:-4]}AAAA",
            f"{head}.{payload}.",
            f"{head}.{payload}",
            "..",
            "",
            "x" * 100_000,
            "é",
        ]

        for bad in tokens:
            response = await raw(speaks, f"Bearer {bad}".encode("utf-8", "replace"))
            assert response.status_code == 401, bad[:80]
            assert response.json()["type"] == "/problems/unauthenticated"
        for header in (b"", b"Basic dXNlcjpwYXNz", b"Bearer", b"bearer  "):
            assert (await raw(speaks, header)).status_code == 401

        path = f"/v1/scenes/{OWN}/characters/hero/play"
        assert (await speaks.ask(token, "POST", path, {"clip": "Walk"})).status_code == 200
        now = time.time()
        monkeypatch.setattr(speaks_sessions(speaks), "_clock", lambda: now + 601)
        assert (await speaks.ask(token, "POST", path, {"clip": "Walk"})).status_code == 401


async def raw(speaks: Keyed, authorization: bytes) -> httpx.Response:
    headers = [(b"authorization", authorization), (b"content-type", b"application/json")]
    return await speaks._client.post(f"/v1/scenes/{OWN}/batch", headers=headers, content=b'{"commands":[]}')


def speaks_sessions(speaks: Keyed) -> Any:
    return speaks._client._transport.app.state.security.sessions  # type: ignore[attr-defined]  # an ASGI transport


async def test_of_two_credentials_none_counts():
    async with keyed() as speaks:
        await speaks.spawn(MATCH, OWN, "hero")
        headers = [("authorization", f"Bearer {MATCH}"), ("authorization", f"Bearer {OPS}")]

        response = await speaks._client.get(f"/v1/scenes/{OWN}", headers=headers)

        assert response.status_code == 401


async def test_a_token_of_another_service_opens_nothing():
    async with keyed() as here, keyed() as there:
        await there.spawn(MATCH, OWN, "hero")
        await here.spawn(MATCH, OWN, "hero")
        token = await there.session(MATCH, OWN, {"hero": 1})

        assert (await here.ask(token, "POST", f"/v1/scenes/{OWN}/batch", {"commands": []})).status_code == 401


@pytest.mark.parametrize(
    ("host", "is_one"),
    [
        *((own, True) for own in ("127.0.0.1", "127.8.8.8", "::1", "localhost")),
        *((other, False) for other in ("0.0.0.0", "::", "10.0.0.7", "posegate.example", "")),
    ],
)
def test_what_counts_as_this_machine(host: str, is_one: bool):
    assert is_loopback(host) is is_one
