"""Depth, size and names of what is decoded are held to their limits, the same at every door."""

import json
from typing import Any

import pytest

from app.settings import Settings
from tests.api.test_decode import BODIES, problem
from tests.support.caller import DOORS, Caller


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("depth", "is_taken"), [(63, True), (64, False), (199, False), (100_000, False)])
@pytest.mark.parametrize("kind", ["list", "object"])
def test_data_may_be_nested_as_deep_as_the_body_may(call: Caller, door: str, depth: int, kind: str, is_taken: bool):
    data = "[" * depth + "]" * depth if kind == "list" else '{"a":' * depth + "0" + "}" * depth

    answer = call.through(door, "begin", f'{{"layer": "base", "target": "Run", "data": {data}}}')

    assert answer.get("outcome") == "granted" if is_taken else problem(answer)[:2] == ("too-large", 413)


NESTED = [
    ("begin", '{"unknown": @}'),
    ("complete", '{"token": @}'),
    ("commit-parameters", '{"values": [{"name": "Speed", "value": @}]}'),
    ("submit-candidate", '{"evaluation": {"succeeded": true, "pose": @}}'),
    ("spawn", '{"rig": @}'),
    ("spawn", '{"graphs": {"main": @}}'),
]
NESTED_IN_A_BATCH = [*NESTED, ("despawn", '{"life": @}'), ("nothing", '{"a": @}')]
"""What takes a body in a batch only: over HTTP a despawn has none, and a command that is not there has no path."""


@pytest.mark.parametrize("depth", [64, 199, 100_000])
@pytest.mark.parametrize(
    ("door", "name", "text"),
    [*(("single", *nested) for nested in NESTED), *(("batch", *nested) for nested in NESTED_IN_A_BATCH)],
)
def test_a_body_nested_too_deep_is_too_large_whatever_else_is_wrong(
    call: Caller, door: str, name: str, text: str, depth: int
):
    text = text.replace("@", "[" * depth + "]" * depth)

    if door == "single" and name == "spawn":
        kind, status, _ = call.spawn("other", text.encode()).problem
    else:
        kind, status, _ = problem(call.through(door, name, text))

    assert (kind, status) == ("too-large", 413)


@pytest.mark.parametrize("text", ["@", '{"commands": @}', '{"unknown": @}', '{"commands": [], "unknown": @}'])
@pytest.mark.parametrize("path", ["batch", "characters/other", "rigs/humanoid", "characters/hero/begin"])
def test_a_body_nested_too_deep_is_too_large_at_every_path(call: Caller, path: str, text: str):
    method = "POST" if path.endswith(("begin", "batch")) else "PUT"
    limit = Settings(journal="memory:").json_depth_max

    reply = call.ask(method, path, text.replace("@", "[" * 65 + "]" * 65).encode())

    if path == "batch" and text == '{"commands": @}':
        assert [problem(answer)[0] for answer in reply.body["answers"]] == ["invalid"]
    else:
        assert reply.problem[:2] == ("too-large", 413)
        assert reply.body["limit"] == limit


@pytest.mark.parametrize("door", ["single", "batch"])
@pytest.mark.parametrize("depth", [65, 199, 500, 900])
def test_a_body_with_a_number_of_thousands_of_digits_is_held_to_the_same_depth(call: Caller, door: str, depth: int):
    nested = '{"clip_instance": 1, "loop": %s, "frame": 0, "kind": "step", "unknown": %s}'

    kind, status, _ = problem(call.through(door, "enqueue", nested % ("1" * 5000, "[" * depth + "]" * depth)))

    assert (kind, status) == ("too-large", 413)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("name", "field"), [("begin", "data"), ("play", "data"), ("enqueue", "payload")])
@pytest.mark.parametrize(
    ("value", "is_taken"),
    [
        ("x" * 1022, True),
        ("x" * 1023, False),
        ("é" * 511, True),
        ("é" * 512, False),
        ([0] * 511 + [10], False),
        ([0] * 510 + [10], True),
    ],
    ids=["text", "text+1", "two bytes each", "two bytes each+1", "list+1", "list"],
)
def test_opaque_json_is_1_kib_of_compact_utf_8(
    call: Caller, door: str, name: str, field: str, value: Any, is_taken: bool
):
    spaced = json.dumps({**BODIES[name], field: value}, indent=4)

    answer = call.through(door, name, spaced)

    assert answer.get("accepted") if is_taken else problem(answer) == ("too-large", 413, field)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("name", "field"), [("begin", "data"), ("play", "data"), ("enqueue", "payload")])
@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e400", "9007199254740992", '{"a": [NaN]}', "9" * 5000])
def test_opaque_json_holds_only_numbers_that_every_client_keeps(
    call: Caller, door: str, name: str, field: str, value: str
):
    text = json.dumps(BODIES[name]).removesuffix("}") + f', "{field}": {value}}}'

    kind, status, at = problem(call.through(door, name, text))

    assert (kind, status, at) in {("invalid", 422, field), ("too-large", 413, field)}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("value", ["null", "false", "0", '""', "[]", '{"4": 4.0}', '"\\u0000"', '"\\ud83d\\ude00"'])
def test_opaque_json_is_shown_as_it_was_sent(call: Caller, door: str, value: str):
    call.through(door, "begin", f'{{"layer": "face", "target": "Run", "data": {value}}}')

    shown = call.inspect()["layers"]["face"]["pending"]["data"]

    assert json.dumps(shown) == json.dumps(json.loads(value))


NAMED = [
    *(("begin", "target"), ("begin", "layer"), ("play", "clip"), ("play", "layer"), ("enqueue", "kind")),
    *(("request-graph", "name"), ("request-graph", "graph"), ("submit-candidate", "name"), ("withdraw-graph", "graph")),
]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("name", "field"), NAMED)
@pytest.mark.parametrize(
    "text", ["", "x" * 129, "😀" * 129, "\0", "a\nb", "\x7f", "\x85", "\x9f", "tab\t"], ids=lambda text: ascii(text[:3])
)
def test_a_name_that_is_none_is_invalid(call: Caller, door: str, name: str, field: str, text: str):
    answer = call.through(door, name, json.dumps({**BODIES[name], field: text}))

    assert problem(answer)[:2] == ("invalid", 422)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "text",
    [
        "x" * 128,
        "😀" * 128,
        " ",
        "a b",
        "e\u0301",
        "\u00e9",
        "\u200b",
        "\u202e",
        "\u2028",
        "\ufeff",
        "\ufffd",
        "\U000e0001",
    ],
    ids=lambda text: ascii(text[:3]),
)
def test_a_name_is_kept_exactly(call: Caller, door: str, text: str):
    """Combining characters are not composed, spaces not trimmed, marks of direction and order not dropped."""
    call.through(door, "begin", json.dumps({"layer": "face", "target": text}))

    assert call.inspect()["layers"]["face"]["pending"]["to"] == text


@pytest.mark.parametrize("text", ["[],", "{},", "1,"])
def test_a_body_of_too_many_values_is_not_read(call: Caller, text: str):
    limit = Settings.model_fields["json_values_max"].default

    few = call.ask("POST", "batch", f'{{"commands": [{text * 1000}0], "x": 1}}'.encode())
    many = call.ask("POST", "batch", f'{{"commands": [{text * limit}0]}}'.encode())

    assert few.problem[0] == "invalid"
    assert (many.problem[:2], many.body["limit"]) == (("too-large", 413), limit)


FEW_TOO_MANY = {
    "play": '{"a": [' + "{}," * 40_000 + "{}]}",
    "begin": '{"layer": "base", "target": "Run", "a": [' + "[0]," * 20_000 + "[0]]}",
    "commit-parameters": '{"values": [' + '{"name": "Speed", "value": 1},' * 12_000 + '{"name": "Speed", "value": 1}]}',
    "submit-candidate": '{"request": 1, "name": "A", "evaluation": {"succeeded": true}, "outputs": ['
    + '"x",' * 40_000
    + '"x"]}',
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", FEW_TOO_MANY)
def test_a_command_with_more_values_than_any_needs_is_not_looked_at_closely(call: Caller, door: str, name: str):
    """Each value that is looked at costs time in which nobody else is served."""
    assert problem(call.through(door, name, FEW_TOO_MANY[name]))[:2] == ("too-large", 413)
