"""The contract on paper: the OpenAPI document, whose commands and answers come from the gates' own structs."""

from functools import cache
from typing import Any

import msgspec
from pydantic import BaseModel

from app.api.answers import SpawnedAnswer
from app.api.problems import MEDIA_TYPE
from app.gates.bundle import Bundle
from app.gates.catalogue import COMMANDS, word_of
from app.gates.decision import RETRYABLE, Command, Fact, Refused, name_of
from app.gates.lives import CloseScene, DeclareRig, Despawn, Despawned, Spawn, Spawned
from app.gates.tick import Tick

REF = "#/components/schemas/{name}"
_TOKEN = {
    "character": "hero",
    "layer": "base",
    "epoch": 1,
    "generation": 2,
    "from": "Idle",
    "to": "Hit",
    "seal": "1-1612c8edea93ae44f3f6f75f6c1fd668",
}

EXAMPLES: dict[str, dict[str, Any]] = {
    "begin": {"layer": "base", "target": "Run"},
    "complete": {"token": _TOKEN},
    "cancel": {"token": _TOKEN},
    "fail": {"token": _TOKEN, "why": "slot missing"},
    "commit-parameters": {"values": [{"name": "Speed", "value": 4.25}]},
    "play": {"clip": "Walk", "layer": "base"},
    "enqueue": {"clip_instance": 41, "loop": 0, "frame": 12, "kind": "footstep"},
    "covered": {"clip_instance": 41, "loop": 0, "from_frame": 9, "to_frame": 34},
    "commit-loop": {"clip_instance": 41, "loop": 0},
    "retire": {"clip_instance": 41},
    "ack": {"through": 3},
    "request-graph": {"name": "CombatV8"},
    "submit-candidate": {
        "request": 1,
        "name": "CombatV8",
        "outputs": ["Animator", "GameplayEvents"],
        "evaluation": {"succeeded": True, "pose": "combat@0"},
    },
    "withdraw-graph": {"request": 4},
    "spawn": {"rig": "humanoid", "graphs": {"main": {"name": "LocomotionV7", "pose": "explore@0"}}},
    "despawn": {"life": 1},
}
"""One body a command, as a first contact would send it."""

_WITHOUT_PATH = (Spawn, Despawn, DeclareRig, CloseScene, Bundle, Tick)
STRUCTS: list[type[Command]] = [command for command in COMMANDS if command not in _WITHOUT_PATH]
_FACTS: list[type[Any]] = [fact for command in STRUCTS for fact in COMMANDS[command].facts]
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "8 to 255 visible ASCII characters, quoted or bare. The same key gives the same answer.",
    "schema": {"type": "string", "pattern": '^("[!#-~][!-~]{6,253}[!#-~]"|[!#-~][!-~]{6,253}[!#-~])$'},
}
KEYED: dict[str, Any] = {"parameters": [KEY]}
"""The description of a route that takes an idempotency key and no body."""
IN_PATH: list[dict[str, Any]] = [
    {
        "name": name,
        "in": "path",
        "required": True,
        "description": f"The {name}'s id.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$"},
    }
    for name in ("scene", "character")
]
PROBLEM = {
    "description": "No gate decided.",
    "content": {MEDIA_TYPE: {"schema": {"$ref": REF.format(name="Problem")}}},
}


@cache
def struct_schemas() -> tuple[dict[type[Any], dict[str, Any]], dict[str, Any]]:
    """Give the schemas of all structs that are on the wire, and the components they refer to by name."""
    structs: list[type[Any]] = [*STRUCTS, *_FACTS, Despawned, SpawnedAnswer, Refused]
    schemas, components = msgspec.json.schema_components(structs, ref_template=REF)
    for command in STRUCTS:
        # The path says which command it is; a body that says it too is invalid.
        component = components[command.__name__]
        del component["properties"]["command"]
        component["required"] = [field for field in component["required"] if field != "command"]
    components["Enqueue"]["dependentRequired"] = {"group": ["mark"]}
    components["ParameterValue"]["oneOf"] = [{"required": ["name"]}, {"required": ["id"]}]
    return dict(zip(structs, schemas, strict=True)), dict(components)


def _schema(struct: type[Any]) -> dict[str, Any]:
    return struct_schemas()[0][struct]


def envelope(accepted: bool) -> dict[str, Any]:
    """Give the schema of what every answer has, accepted or refused."""
    return {
        "type": "object",
        "required": ["accepted", "outcome", "retryable", "sequence", "revision"],
        "properties": {
            "accepted": {"const": accepted},
            "outcome": {"type": "string"},
            "retryable": {"type": "boolean"},
            "sequence": {"type": "integer", "minimum": 1},
            "revision": {"type": "integer", "minimum": 0},
        },
    }


def _answer(command: type[Command]) -> dict[str, Any]:
    facts = COMMANDS[command].facts
    shown: list[type[Fact] | type[SpawnedAnswer]] = [SpawnedAnswer if fact is Spawned else fact for fact in facts]
    accepted = [{"allOf": [{"$ref": REF.format(name="Accepted")}, _schema(fact)]} for fact in shown]
    return {"oneOf": [*accepted, _refused(command)]}


def _refused(command: type[Command]) -> dict[str, Any]:
    words = [str(refusal) for refusal in COMMANDS[command].refusals]
    return {
        "allOf": [
            {"$ref": REF.format(name="RefusedEnvelope")},
            _schema(Refused),
            {"properties": {"outcome": {"enum": words}}},
        ]
    }


def refuses(command: type[Command], description: str, *, instead: type[BaseModel] | None = None) -> dict[str, Any]:
    """Describe the `200` of a life command: its refusal, or a view where one is shown `instead`."""
    views = [] if instead is None else [{"$ref": REF.format(name=instead.__name__)}]
    schema = {"anyOf": [*views, _refused(command)]}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def describes(command: type[Command]) -> dict[str, Any]:
    """Describe a command's body and answers for its route."""
    name, entry = name_of(command), COMMANDS[command]
    accepted = ", ".join(f"`{word_of(fact)}`" for fact in entry.facts)
    refused = ", ".join(f"`{refusal}`{' (retryable)' if refusal in RETRYABLE else ''}" for refusal in entry.refusals)
    body = {"schema": _schema(command), "examples": {name: {"value": EXAMPLES[name]}}}
    return {
        "parameters": [*IN_PATH, KEY],
        "requestBody": {"required": True, "content": {"application/json": body}},
        "responses": {
            "200": {
                "description": f"Decided. Accepted: {accepted}. Refused, first that applies: {refused}.",
                "content": {"application/json": {"schema": _answer(command)}},
            }
        },
    }


def takes(model: type[BaseModel], *, keyed: bool = True, example: dict[str, Any] | None = None) -> dict[str, Any]:
    """Describe a body that is a pydantic model, for a route that decodes it itself; `keyed` when it takes a key."""
    name = str(model.model_config.get("title", model.__name__))
    body: dict[str, Any] = {"schema": {"$ref": REF.format(name=name)}}
    shown = EXAMPLES.get(name.lower(), example)
    if shown is not None:
        body["examples"] = {name.lower(): {"value": shown}}
    parameters = [KEY] if keyed else []
    return {"parameters": parameters, "requestBody": {"required": True, "content": {"application/json": body}}}


def with_member_names(value: Any) -> Any:
    """Hold every member of an object to the names' pattern; pydantic would let the others be anything."""
    if isinstance(value, list):
        return [with_member_names(item) for item in value]
    if not isinstance(value, dict):
        return value
    schema = {name: with_member_names(item) for name, item in value.items()}
    if "patternProperties" in schema:
        [(pattern, members)] = schema.pop("patternProperties").items()
        schema["additionalProperties"] = members
        schema["propertyNames"] = {**schema.get("propertyNames", {}), "pattern": pattern}
    return schema
