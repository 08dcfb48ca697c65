"""A character is shown whole, with exactly the members of the wire."""

import re

from tests.support.caller import Caller

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def test_a_character_is_shown_with_all_its_members(call: Caller):
    call.accepted("begin", {"layer": "base", "target": "Hit", "data": {"clip": "hit_front"}})
    call.accepted("commit-parameters", {"values": [{"name": "Speed", "value": 4.25}]})
    call.accepted("enqueue", {"clip_instance": 41, "loop": 0, "frame": 12, "kind": "footstep"})
    call.command("enqueue", {"clip_instance": 41, "loop": 0, "frame": 12, "kind": "footstep"})
    call.accepted("request-graph", {"name": "CombatV8"})

    shown = call.inspect()
    layer, [instance] = shown["layers"]["base"], shown["clip_instances"]

    assert (shown["scene"], shown["character"], shown["life"], shown["rig"]) == (call.scene, "hero", 1, None)
    assert (shown["sequence"], shown["revision"]) == (6, 5)
    assert TIME.fullmatch(layer.pop("committed_at"))
    assert TIME.fullmatch(layer["pending"].pop("begun_at"))
    assert layer == {
        "current": "Idle",
        "data": None,
        "epoch": 1,
        "generation": 1,
        "newest": 1,
        "pending": {
            "generation": 1,
            "from": "Idle",
            "to": "Hit",
            "data": {"clip": "hit_front"},
            "not_before": None,
            "deadline": None,
            "link": None,
        },
        "tallies": {
            "granted": 1,
            "committed": 0,
            "superseded": 0,
            "stale": 0,
            "already_completed": 0,
            "unknown": 0,
        },
    }
    assert shown["parameters"]["values"]["Speed"] == 4.25
    assert TIME.fullmatch(instance.pop("opened_at"))
    assert instance == {
        "clip_instance": 41,
        "clip": None,
        "layer": None,
        "epoch": 1,
        "committed_loop": None,
        "pending": 1,
        "accepted": 1,
        "suppressed": 1,
        "data": None,
        "group": None,
        "windows": [],
    }
    assert shown["deliveries"] == {"last": 0, "acknowledged": 0, "due": 0}
    assert shown["graphs"]["main"] == {
        "active": None,
        "epoch": 1,
        "latest_request": 1,
        "lagging": True,
        "last_refusal": None,
    }


def test_an_active_graph_and_the_last_refusal_are_shown(call: Caller):
    candidate = {"request": 1, "name": "CombatV8", "outputs": ["Animator"], "evaluation": {"succeeded": True}}
    call.accepted("request-graph", {"name": "CombatV8"})
    call.command("submit-candidate", candidate)
    refused = call.inspect()["graphs"]["main"]
    call.accepted("submit-candidate", {**candidate, "outputs": ["Animator", "GameplayEvents"]})

    shown = call.inspect()

    assert (refused["active"], refused["last_refusal"]) == (None, {"request": 1, "outcome": "missing_output"})
    assert shown["graphs"]["main"]["active"]["name"] == "CombatV8"
    assert shown["graphs"]["main"]["lagging"] is False
    assert {layer["epoch"] for layer in shown["layers"].values()} == {2}


def test_tallies_count_what_was_refused(call: Caller):
    run = call.accepted("begin", {"layer": "base", "target": "Run"})["token"]
    hit = call.accepted("begin", {"layer": "base", "target": "Hit"})["token"]
    call.command("complete", {"token": run})
    call.accepted("complete", {"token": hit})
    call.command("complete", {"token": hit})
    call.command("complete", {"token": {**hit, "seal": "1-0"}})

    assert call.inspect()["layers"]["base"]["tallies"] == {
        "granted": 2,
        "committed": 1,
        "superseded": 1,
        "stale": 1,
        "already_completed": 1,
        "unknown": 1,
    }


def test_a_declared_rig_is_named_and_an_inline_or_default_one_is_not(call: Caller):
    call.ask("PUT", "rigs/humanoid", {})

    assert call.spawn("named", {"rig": "humanoid"}).body["rig"] == "humanoid"
    assert call.spawn("default", {}).body["rig"] is None
