"""What was once used to make posegate large, slow or wrong, and is held here."""

import pytest

from tests.support.caller import Caller

LONG = "\U0001f600" * 120


def test_a_refusal_stays_small_however_many_parameters_are_missing(call: Caller):
    declared = {f"{LONG}{number}": {"type": "float", "required": True} for number in range(500)}
    rig = {"parameters": {"mode": "full", "declared": declared}}
    assert call.spawn("filled", {"rig": rig}).status == 201

    refused = call.ask("POST", "characters/filled/commit-parameters", {"values": []})

    assert refused.body["outcome"] == "missing_parameter"
    assert refused.body["missing"] == sorted(declared)[:16]


def test_spawning_again_costs_no_more_for_a_large_character(call: Caller):
    values = [{"name": f"{LONG}{number}", "value": number} for number in range(500)]
    call.spawn("filled", {})
    call.ask("POST", "characters/filled/commit-parameters", {"values": values})

    again = call.ask("POST", "batch", {"commands": [{"command": "spawn", "character": "filled"}] * 50})

    assert {answer["created"] for answer in again.body["answers"]} == {False}
    assert len(again.content) < 50 * 200


def test_a_page_of_the_history_ends_when_it_is_large(call: Caller):
    values = [{"name": f"{LONG}{number}", "value": number} for number in range(1000)]
    call.spawn("filled", {})
    for _ in range(5):
        call.ask("POST", "characters/filled/commit-parameters", {"values": values})

    first = call.ask("GET", "history?command=commit-parameters")
    rest = call.ask("GET", f"history?command=commit-parameters&after={first.body['next']}")

    assert len(first.content) < 2 * 1_048_576
    assert 0 < len(first.body["decisions"]) < 5
    assert len(first.body["decisions"]) + len(rest.body["decisions"]) == 5


@pytest.mark.parametrize(
    "rig",
    [
        {"layers": {f"layer{number}": 1 for number in range(5000)}},
        {"graphs": {"main": {"bind_pose": {f"bone{number}": [""] for number in range(5000)}}}},
        {f"unknown{number}": 1 for number in range(5000)},
    ],
    ids=["layers", "bones", "unknown"],
)
def test_a_body_of_too_many_items_is_refused_before_each_is_looked_at(call: Caller, rig: object):
    assert call.ask("PUT", "rigs/huge", rig).problem[0] == "too-large"
    assert call.ask("PUT", "characters/huge", {"rig": rig}).problem[0] == "too-large"


def test_the_order_of_members_makes_no_other_spawn(call: Caller):
    assert call.spawn("twice", {"rig": {"layers": {"a": {}, "b": {}}}}).status == 201
    assert call.spawn("twice", {"rig": {"layers": {"b": {}, "a": {}}}}).status == 200


@pytest.mark.parametrize(
    ("command", "short", "spelled"),
    [
        ("request-graph", {"name": "Combat"}, {"name": "Combat", "graph": "main"}),
        ("begin", {"layer": "base", "target": "Run"}, {"layer": "base", "target": "Run", "if_same": "restart"}),
    ],
)
def test_a_default_that_is_spelled_out_is_the_same_command_under_a_key(
    call: Caller, command: str, short: dict[str, str], spelled: dict[str, str]
):
    path = f"characters/hero/{command}"
    first = call.ask("POST", path, short, idempotency_key="the-same-key")

    assert call.ask("POST", path, spelled, idempotency_key="the-same-key").body == first.body


@pytest.mark.parametrize("query", ["Life=9", "life=9&life=1", "life=1&why=no"])
def test_a_despawn_takes_nothing_it_does_not_know(call: Caller, query: str):
    assert call.ask("DELETE", f"characters/hero?{query}").problem[0] == "invalid"
    assert call.ask("GET", "characters/hero").body["life"] == 1


def test_a_full_batch_is_measured_by_what_it_leaves_and_not_by_what_it_replaces(call: Caller):
    call.spawn("full", {"rig": {"parameters": {"mode": "full"}}})
    for start in ("a", "b"):
        values = [{"name": f"{start}{number}", "value": 1} for number in range(3000)]
        answer = call.ask("POST", "characters/full/commit-parameters", {"values": values})
        assert answer.body["outcome"] == "committed"


def test_an_infinite_whole_number_is_a_decision_and_one_that_would_be_rounded_is_none(call: Caller):
    path = "characters/hero/commit-parameters"
    infinite = b'{"values":[{"name":"Speed","value":340282356779733660000000000000000000000}]}'
    rounded = b'{"values":[{"name":"Speed","value":9007199254740993}]}'

    assert call.ask("POST", path, infinite).body["outcome"] == "non_finite_value"
    assert call.ask("POST", path, rounded).problem[0] == "invalid"


def test_a_slash_at_the_end_is_another_path_and_leads_nowhere(call: Caller):
    path = f"/v1/scenes/{call.scene}/characters/hero/begin/"

    reply = call.ask("POST", path, {"layer": "base", "target": "Run"}, host="evil.example")

    assert reply.problem[0] == "not-found"
    assert "location" not in reply.headers
