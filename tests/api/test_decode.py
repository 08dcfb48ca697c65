"""Decoding is the same at every door; what cannot be decoded changes nothing."""

import json
from typing import Any

import pytest

from app.gates.catalogue import COMMANDS
from tests.support.caller import DOORS, Caller, problem_of

TOKEN = {"character": "hero", "layer": "base", "epoch": 1, "generation": 1, "from": "Idle", "to": "Run", "seal": "1-0"}
BODIES: dict[str, dict[str, Any]] = {
    "begin": {"layer": "base", "target": "Run"},
    "complete": {"token": TOKEN},
    "cancel": {"token": TOKEN},
    "fail": {"token": TOKEN, "why": "slot missing"},
    "commit-parameters": {"values": [{"name": "Speed", "value": 4.25}]},
    "play": {"clip": "Walk", "layer": "base"},
    "enqueue": {"clip_instance": 41, "loop": 0, "frame": 12, "kind": "footstep"},
    "covered": {"clip_instance": 41, "loop": 0, "from_frame": 9, "to_frame": 34},
    "commit-loop": {"clip_instance": 41, "loop": 0},
    "retire": {"clip_instance": 41},
    "ack": {"through": 0},
    "request-graph": {"name": "CombatV8"},
    "submit-candidate": {"request": 1, "name": "C", "outputs": ["Animator"], "evaluation": {"succeeded": True}},
    "withdraw-graph": {"request": 4},
}
BEYOND_FLOAT32 = ["3.4028235677973366e38", "-3.4028235677973366e38", "1e400", "-1e400", "9" * 5000, "-" + "9" * 5000]
NON_FINITE = [
    *("NaN", "Infinity", "-Infinity", "null", *BEYOND_FLOAT32),
    *('"NaN"', '"nan"', '"Infinity"', '"-Infinity"', '"inf"', '"-inf"', '"+Infinity"', '" NaN "'),
]
MALFORMED: dict[str, bytes] = {
    "nothing": b"",
    "only space": b" \r\n\t",
    "text": b"hello",
    "a signed nan": b'{"layer": -nan}',
    "a small nan": b'{"layer": nan}',
    "a signed NaN": b'{"layer": -NaN}',
    "a lone surrogate": rb'{"layer": "base", "target": "\ud800"}',
    "a low surrogate first": rb'{"layer": "base", "target": "\ude00\ud83d"}',
    "a lone surrogate as a member": rb'{"layer": "base", "target": "Run", "\udfff": 1}',
    "a surrogate written as bytes": b'{"layer": "base", "target": "\xed\xa0\x80"}',
    "a byte order mark": b'\xef\xbb\xbf{"layer": "base", "target": "Run"}',
    "UTF-16": '{"layer": "base", "target": "Run"}'.encode("utf-16"),
    "broken UTF-8": b'{"layer": "base", "target": "\xff"}',
    "UTF-8 cut short": b'{"layer": "base", "target": "\xc3"}',
    "an overlong slash": b'{"layer": "base", "target": "\xc0\xaf"}',
    "something behind": b'{"layer": "base", "target": "Run"} x',
    "a second value": b'{"layer": "base", "target": "Run"}{}',
    "a comma too much": b'{"layer": "base", "target": "Run",}',
    "a comment": b'{"layer": "base", /* why */ "target": "Run"}',
    "single quotes": b"{'layer': 'base', 'target': 'Run'}",
    "no end": b'{"layer": "base", "target": "Run"',
    "a control character": b'{"layer": "base", "target": "\x01"}',
    "a zero byte": b'{"layer": "base", "target": "\x00"}',
    "a leading zero": b'{"layer": "base", "target": "Run", "if_generation": 01}',
    "a bare plus": b'{"layer": "base", "target": "Run", "if_generation": +1}',
    "a hexadecimal number": b'{"layer": "base", "target": "Run", "if_generation": 0x1}',
    "a long number and then nonsense": b'{"layer": ' + b"9" * 5000 + b", nope}",
    "a long number and a lone surrogate": b'{"layer": ' + b"9" * 5000 + rb', "target": "\ud800"}',
}
WHOLE_NUMBERS = [
    *(("begin", "min_ticks"), ("begin", "deadline_ticks")),
    *(("begin", "if_generation"), ("begin", "life"), ("commit-parameters", "base_version"), ("play", "clip_instance")),
    *(("enqueue", "clip_instance"), ("enqueue", "loop"), ("enqueue", "frame"), ("commit-loop", "loop")),
    *(("enqueue", "tick"), ("covered", "clip_instance"), ("covered", "loop"), ("covered", "tick")),
    *(("retire", "clip_instance"), ("ack", "through"), ("submit-candidate", "request"), ("withdraw-graph", "request")),
]
NO_WHOLE_NUMBERS = ["9007199254740992", "1e16", "-1", "4.5", "true", '"4"', "[4]", "{}", "NaN", "1e400", "9" * 5000]


def problem(answer: dict[str, Any]) -> tuple[str, int, str | None]:
    assert set(answer) == {"problem"}, answer
    return problem_of(answer["problem"])


def values(value: str) -> str:
    return f'{{"values": [{{"name": "Speed", "value": {value}}}]}}'


def test_the_bodies_here_name_every_command():
    elsewhere = {"spawn", "despawn", "declare-rig", "close-scene", "bundle", "tick"}

    assert set(BODIES) | elsewhere == {command.__struct_config__.tag for command in COMMANDS}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", BODIES)
def test_the_body_of_every_command_is_taken_at_every_door(call: Caller, door: str, name: str):
    answer = call.through(door, name, json.dumps(BODIES[name]))

    assert {"accepted", "outcome", "retryable", "sequence", "revision"} <= answer.keys()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("value", NON_FINITE, ids=lambda value: value[:24])
def test_every_spelling_of_a_non_finite_number_is_decided_and_refused(call: Caller, door: str, value: str):
    before = call.state()

    answer = call.through(door, "commit-parameters", values(value))

    assert (answer["accepted"], answer["outcome"], answer["at"]) == (False, "non_finite_value", "Speed")
    assert call.state() == before


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("value", ["0." + "0" * 5000 + "1", "4." + "0" * 5000, "0.0" + "1" * 5000])
def test_a_long_fraction_is_a_number_like_any_other(call: Caller, door: str, value: str):
    assert call.through(door, "commit-parameters", values(value))["accepted"]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("value", ["[]", "{}", "[NaN]", '{"value": 1}'])
def test_a_value_that_is_a_list_or_an_object_is_invalid(call: Caller, door: str, value: str):
    name, status, at = problem(call.through(door, "commit-parameters", values(value)))

    assert (name, status, at) == ("invalid", 422, "values[0].value")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("begin", '{"layer": "base", "layer": "base", "target": "Run"}'),
        ("begin", r'{"layer": "base", "l\u0061yer": "base", "target": "Run"}'),
        ("begin", '{"layer": "base", "target": "Run", "data": {"clip": {"a": 1, "a": 1}}}'),
        ("begin", '{"layer": "base", "target": "Run", "": 1, "": 2}'),
        ("complete", '{"token": {"character": "hero", "layer": "base", "epoch": 1, "epoch": 2}}'),
        ("commit-parameters", '{"values": [{"name": "Speed", "value": 1, "value": NaN}]}'),
        ("commit-parameters", f'{{"values": [{{"name": "Speed", "value": {"9" * 5000}, "value": 1}}]}}'),
        ("submit-candidate", '{"evaluation": {"succeeded": true, "pose": {"hips": [], "hips": []}}}'),
    ],
)
def test_a_member_that_stands_twice_is_never_guessed(call: Caller, door: str, name: str, text: str):
    before = call.state()

    kind, status, _ = problem(call.through(door, name, text))

    assert (kind, status) == ("duplicate-json-key", 400)
    assert call.state() == before


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_what_is_not_json_is_malformed(call: Caller, body: bytes):
    before = call.state()

    reply = call.command("begin", body)

    assert reply.problem == ("malformed-json", 400, None)
    assert call.state() == before


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("path", ["batch", "characters/other", "rigs/humanoid"])
def test_what_is_not_json_is_malformed_at_every_path(call: Caller, path: str, body: bytes):
    reply = call.ask("POST" if path == "batch" else "PUT", path, body)

    assert reply.problem == ("malformed-json", 400, None)


@pytest.mark.parametrize("text", ["[]", "null", "true", "4", "NaN", '"begin"', "9" * 5000])
@pytest.mark.parametrize("path", ["characters/hero/begin", "batch", "characters/other", "rigs/humanoid"])
def test_a_body_that_is_no_object_is_invalid(call: Caller, path: str, text: str):
    reply = call.ask("POST" if path.endswith(("begin", "batch")) else "PUT", path, text.encode())

    assert reply.problem == ("invalid", 422, None)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("value", NO_WHOLE_NUMBERS, ids=lambda value: value[:20])
@pytest.mark.parametrize(("name", "field"), WHOLE_NUMBERS)
def test_a_whole_number_is_0_to_2_53_minus_1(call: Caller, door: str, name: str, field: str, value: str):
    fields = {member: item for member, item in BODIES[name].items() if member != field}
    text = json.dumps(fields).removesuffix("}") + (", " if fields else "") + f'"{field}": {value}}}'

    assert problem(call.through(door, name, text)) == ("invalid", 422, field)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("name", "field"), WHOLE_NUMBERS)
def test_4_with_a_fraction_of_zero_is_4(call: Caller, door: str, name: str, field: str):
    as_float = call.through(door, name, json.dumps({**BODIES[name], field: 4.0}))
    call.ask("DELETE", "characters/hero")
    call.spawn()
    as_whole = call.through(door, name, json.dumps({**BODIES[name], field: 4}))

    assert "problem" not in as_float
    assert as_float["outcome"] in {as_whole["outcome"], "stale_life", "opened", "accepted", "delivered", "retired"}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("field", ["from_frame", "to_frame"])
@pytest.mark.parametrize(
    ("value", "is_taken"),
    [("-4", True), ("-4.0", True), ("9007199254740991", True), ("-9007199254740991", True)]
    + [(value, False) for value in NO_WHOLE_NUMBERS if value != "-1"]
    + [("-9007199254740992", False), ("-4.5", False)],
    ids=str,
)
def test_a_frame_of_a_span_is_within_2_53_minus_1_on_either_side(
    call: Caller, door: str, field: str, value: str, is_taken: bool
):
    fields = {member: item for member, item in BODIES["covered"].items() if member != field}

    answer = call.through(door, "covered", json.dumps(fields).removesuffix("}") + f', "{field}": {value}}}')

    if is_taken:
        assert answer["outcome"] == "unknown_instance"
    else:
        assert problem(answer) == ("invalid", 422, field)


@pytest.mark.parametrize("door", DOORS)
def test_the_largest_whole_number_is_kept(call: Caller, door: str):
    answer = call.through(door, "retire", '{"clip_instance": 9007199254740991}')

    assert answer["outcome"] == "unknown_instance"


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("field", ["epoch", "generation"])
def test_the_numbers_of_a_token_take_no_fraction(call: Caller, door: str, field: str):
    whole = call.through(door, "complete", json.dumps({"token": {**TOKEN, field: 1.0}}))
    broken = call.through(door, "complete", json.dumps({"token": {**TOKEN, field: 1.5}}))

    assert whole["outcome"] == "unknown_token"
    assert problem(broken) == ("invalid", 422, f"token.{field}")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", BODIES)
def test_an_unknown_field_is_invalid_in_every_command(call: Caller, door: str, name: str):
    before = call.state()

    answer = call.through(door, name, json.dumps({**BODIES[name], "unknown": 1}))

    assert problem(answer) == ("invalid", 422, "unknown")
    assert "`unknown`" in answer["problem"]["detail"]
    assert call.state() == before


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize(
    ("holder", "at"),
    [(1, "holder"), (None, "holder"), ({}, "holder.character"), ({**TOKEN, "life": 1}, "holder.life")],
    ids=str,
)
def test_a_holder_that_is_no_token_is_invalid_in_every_command(
    call: Caller, door: str, name: str, holder: Any, at: str
):
    before = call.state()

    answer = call.through(door, name, json.dumps({**BODIES[name], "holder": holder}))

    assert problem(answer) == ("invalid", 422, at)
    assert call.state() == before


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("name", "fields", "at"),
    [
        ("complete", {"token": {**TOKEN, "life": 1}}, "token.life"),
        ("commit-parameters", {"values": [{"name": "Speed", "value": 1, "type": "float"}]}, "values[0].type"),
        (
            "submit-candidate",
            {**BODIES["submit-candidate"], "evaluation": {"succeeded": True, "why": ""}},
            "evaluation.why",
        ),
        ("complete", {"token": {"answer": 0}}, "token.answer"),
        ("enqueue", {**BODIES["enqueue"], "clip_instance": {"answer": 0, "more": 1}}, "clip_instance"),
        ("spawn", {"unknown": 1}, "unknown"),
    ],
)
def test_an_unknown_field_is_invalid_wherever_it_is(
    call: Caller, door: str, name: str, fields: dict[str, Any], at: str
):
    if name == "spawn" and door == "single":
        kind, status, place = call.spawn("other", fields).problem
    else:
        kind, status, place = problem(call.through(door, name, json.dumps(fields), "hero"))

    assert (kind, status) == ("invalid", 422)
    assert place == at


NO_COMMANDS = ["declare-rig", "close-scene", "Begin", "x" * 1000]


@pytest.mark.parametrize(("door", "name"), [*((door, name) for door in DOORS for name in NO_COMMANDS), ("batch", "")])
def test_a_command_that_is_not_there_is_not_decided(call: Caller, door: str, name: str):
    """Without a name, the single door's path is that of the character."""
    if door == "batch":
        kind = problem(call.through(door, name, '{"layer": "base"}'))[0]
    else:
        kind = call.command(name, {"layer": "base"}).problem[0]

    assert kind == ("invalid" if door == "batch" else "not-found")
