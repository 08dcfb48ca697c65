"""Every command has a path, takes only POST, and answers what its gate decided."""

import pytest

from app.api.commands import router
from app.gates.bundle import Bundle
from app.gates.catalogue import COMMANDS
from app.gates.decision import name_of
from app.gates.lives import CloseScene, DeclareRig, Despawn, Spawn
from app.gates.tick import Tick
from tests.api.test_decode import BODIES
from tests.support.caller import Caller


def test_every_command_of_the_gates_has_its_path():
    paths = {str(getattr(route, "path", "")).rpartition("/")[2] for route in router.routes}

    assert paths == {name_of(command) for command in COMMANDS} - {
        name_of(command) for command in (Spawn, Despawn, DeclareRig, CloseScene, Bundle, Tick)
    }


def test_the_hit_reaction_story(call: Caller):
    """The older blend finishes first; its callback must not write Run over Hit. Source: 2026-08-03-1930."""
    run = call.accepted("begin", {"layer": "base", "target": "Run"})
    hit = call.accepted("begin", {"layer": "base", "target": "Hit"})

    late = call.command("complete", {"token": run["token"]})
    committed = call.accepted("complete", {"token": hit["token"]})

    assert {**run["token"], "seal": ""} == {**hit["superseded"], "seal": ""}
    assert late.status == 200
    assert late.body["outcome"] == "stale_generation"
    assert late.body["by"] == {"generation": 2, "to": "Hit"}
    assert late.body["layer"]["pending"] == {"generation": 2, "to": "Hit"}
    assert (committed["outcome"], committed["current"]) == ("committed", "Hit")


@pytest.mark.parametrize("name", BODIES)
def test_a_command_for_nobody_is_a_problem(call: Caller, name: str):
    assert call.command(name, BODIES[name], "nobody").problem == ("unknown-character", 404, None)
    assert call.elsewhere().command(name, BODIES[name]).problem == ("unknown-scene", 404, None)


@pytest.mark.parametrize("name", BODIES)
def test_a_command_names_a_life_first(call: Caller, name: str):
    before = call.state()

    reply = call.command(name, {**BODIES[name], "life": 2})

    assert (reply.status, reply.body["outcome"], reply.body["by"]) == (200, "stale_life", {"life": 1})
    assert call.state() == before


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_a_command_takes_post_only(call: Caller, method: str, name: str):
    reply = call.ask(method, f"characters/hero/{name}")

    assert (reply.status, reply.headers["allow"]) == (405, "POST")
