"""The OpenAPI document: generated from the code, kept in openapi/v1.json, with an example that works per command."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from app.api.contract import EXAMPLES
from app.gates.bundle import Bundle
from app.gates.catalogue import COMMANDS
from app.gates.decision import name_of
from app.gates.lives import CloseScene, DeclareRig
from app.gates.tick import Tick
from app.main import build
from app.settings import Settings
from tests.api.test_decode import BODIES
from tests.support.caller import RIG, Caller

KEPT = Path(__file__).parents[2] / "openapi/v1.json"
DOCUMENT: dict[str, Any] = build(Settings(journal="memory:")).openapi()
OPERATIONS = {
    (method.upper(), path): operation
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
}
CHARACTER = "/v1/scenes/{scene}/characters/{character}"


def validator(schema: dict[str, Any]) -> Any:
    return jsonschema_rs.validator_for(
        {**schema, "$schema": "https://json-schema.org/draft/2020-12/schema", "components": DOCUMENT["components"]}
    )


def body_of(path: str, method: str = "POST") -> dict[str, Any]:
    content: dict[str, Any] = OPERATIONS[method, path]["requestBody"]["content"]["application/json"]
    return content


def test_the_document_that_is_kept_is_the_one_the_code_generates():
    kept = json.loads(KEPT.read_text(encoding="utf-8"))

    assert kept == DOCUMENT, "run `make openapi`, read the difference, and raise the version if a caller will notice"


def test_every_command_has_an_example():
    elsewhere = {name_of(command) for command in (DeclareRig, CloseScene, Bundle, Tick)}

    assert set(EXAMPLES) == {name_of(command) for command in COMMANDS} - elsewhere


@pytest.mark.parametrize("name", BODIES)
def test_the_example_of_a_command_fits_its_schema_and_is_decided(call: Caller, name: str):
    content = body_of(f"{CHARACTER}/{name}")
    example = content["examples"][name]["value"]

    validator(content["schema"]).validate(example)
    reply = call.command(name, example)

    assert reply.status == 200
    answered = OPERATIONS["POST", f"{CHARACTER}/{name}"]["responses"]["200"]["content"]["application/json"]
    validator(answered["schema"]).validate(reply.body)


def test_the_examples_of_spawn_and_batch_work(call: Caller):
    """The rig that the spawn's example names is declared first."""
    call.ask("PUT", "rigs/humanoid", RIG)
    spawn = body_of(CHARACTER, "PUT")
    batch = body_of("/v1/scenes/{scene}/batch")

    spawned = call.spawn("other", spawn["examples"]["spawn"]["value"])
    answers = call.ask("POST", "batch", batch["examples"]["batch"]["value"]).body["answers"]

    assert spawned.status == 201
    assert len(answers) == len(EXAMPLES) - 1
    assert not [answer for answer in answers if "problem" in answer]


@pytest.mark.parametrize("name", ["bundle", "tick"])
def test_the_examples_of_what_is_for_a_whole_scene_fit_their_schemas_and_are_decided(call: Caller, name: str):
    call.spawn("villain", {})
    content = body_of(f"/v1/scenes/{{scene}}/{name}")
    answered = OPERATIONS["POST", f"/v1/scenes/{{scene}}/{name}"]["responses"]["200"]["content"]["application/json"]

    for example in content["examples"].values():
        validator(content["schema"]).validate(example["value"])
        reply = call.ask("POST", name, example["value"])

        assert reply.status == 200, reply
        validator(answered["schema"]).validate(reply.body)


@pytest.mark.parametrize("name", BODIES)
def test_the_body_of_a_path_does_not_say_which_command_it_is(name: str):
    schema = validator(body_of(f"{CHARACTER}/{name}")["schema"])

    assert schema.is_valid(BODIES[name])
    assert not schema.is_valid({**BODIES[name], "command": name})
    assert not schema.is_valid({**BODIES[name], "unknown": 1})


def test_every_operation_says_how_its_errors_look():
    missing = [key for key, operation in OPERATIONS.items() if "default" not in operation["responses"]]

    assert not missing
    assert all("422" not in operation["responses"] for operation in OPERATIONS.values())


def test_whatever_changes_a_character_takes_a_key():
    keyed = {
        key
        for key, operation in OPERATIONS.items()
        if any(parameter["name"] == "Idempotency-Key" for parameter in operation.get("parameters", []))
    }

    assert keyed == {("POST", f"{CHARACTER}/{name}") for name in BODIES} | {
        ("PUT", CHARACTER),
        ("DELETE", CHARACTER),
        ("PUT", "/v1/scenes/{scene}/rigs/{rig}"),
        ("POST", "/v1/scenes/{scene}/bundle"),
        ("POST", "/v1/scenes/{scene}/tick"),
    }


@pytest.mark.parametrize("key", ["12345678", '"12345678"', 'a"b"c"d!', "1234567", '"1234567', '12345678"', "k" * 256])
def test_the_documents_keys_are_those_that_are_taken(call: Caller, key: str):
    [schema] = [
        parameter["schema"]
        for parameter in OPERATIONS["POST", f"{CHARACTER}/begin"]["parameters"]
        if parameter["name"] == "Idempotency-Key"
    ]

    reply = call.command("begin", {"layer": "base", "target": "Run"}, idempotency_key=key)

    assert validator(schema).is_valid(key) == (reply.status == 200)
