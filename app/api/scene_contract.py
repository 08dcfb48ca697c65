"""The contract of batches, bundles and ticks: bodies whose items are commands, each with an envelope of its own."""

from typing import Any

from app.api.contract import EXAMPLES, IN_PATH, KEY, REF
from app.gates.bundle import Bundle
from app.gates.catalogue import COMMANDS, word_of
from app.gates.decision import Command
from app.gates.identity import NUMBER_MAX, TICK_MAX
from app.gates.tick import Tick

Schema = dict[str, Any]

_NUMBER: Schema = {"type": "integer", "minimum": 0, "maximum": NUMBER_MAX}
_TICK: Schema = {"type": "integer", "minimum": 0, "maximum": TICK_MAX}
_CHARACTER: Schema = {"type": "string", "pattern": IN_PATH[1]["schema"]["pattern"]}
_REQUEST: Schema = {
    "tick": _TICK,
    "source": {
        "type": "string",
        "minLength": 1,
        "maxLength": 128,
        "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$",
    },
    "number": _NUMBER,
    "priority": {
        "type": "integer",
        "minimum": -NUMBER_MAX,
        "maximum": NUMBER_MAX,
        "description": "0 when not given; of a tick the highest has the last word.",
    },
}
_HOLDER: Schema = {"$ref": REF.format(name="Token")}


def _object(properties: Schema, required: list[str], **more: Any) -> Schema:
    return {"type": "object", "required": required, "additionalProperties": False, "properties": properties, **more}


_EVENTS: Schema = {"type": "array", "items": {"$ref": REF.format(name="Event")}}
ANSWERED: Schema = {
    "type": "object",
    "required": ["tick", "source", "number", "character", "command", "answer"],
    "properties": {
        "tick": _NUMBER,
        "source": {"type": "string"},
        "number": _NUMBER,
        "character": {"type": ["string", "null"]},
        "command": {"type": "string"},
        "answer": {"type": "object", "description": "As the command's own path answers, or a `problem`."},
    },
}
"""A request that a seal applied, with its answer."""


def _part(properties: Schema) -> Schema:
    """Give the schema of what became of one part of a tick."""
    said = {"accepted": {"type": "boolean"}, "retryable": {"type": "boolean"}, "outcome": {"type": "string"}}
    return {"type": "object", "required": [*said], "properties": {**said, **properties}}


def _item(envelope: Schema, required: list[str], names: list[str]) -> Schema:
    """Give the schema of a command in an envelope; its own fields are those of its own path."""
    return {
        "type": "object",
        "required": ["command", *required],
        "properties": {"command": {"enum": names}, **envelope},
        "description": "The fields of a command, as on its own path, beside its envelope.",
    }


def _described(schema: Schema, answer: Schema, examples: Schema, said: str, *, is_keyed: bool) -> Schema:
    body = {"schema": schema, "examples": {name: {"value": example} for name, example in examples.items()}}
    return {
        "parameters": [IN_PATH[0], KEY] if is_keyed else [IN_PATH[0]],
        "requestBody": {"required": True, "content": {"application/json": body}},
        "responses": {"200": {"description": said, "content": {"application/json": {"schema": answer}}}},
    }


def _of_scene(command: type[Command], schema: Schema, parts: Schema, examples: Schema) -> Schema:
    entry = COMMANDS[command]
    words = ", ".join(f"`{word}`" for word in (*map(word_of, entry.facts), *map(str, entry.refusals)))
    properties = {
        "accepted": {"type": "boolean"},
        "outcome": {"type": "string"},
        "sequence": {"type": "integer"},
        **parts,
    }
    answer = {"type": "object", "required": ["accepted", "outcome", "sequence"], "properties": properties}
    return _described(schema, answer, examples, f"Decided: {words}.", is_keyed=True)


_NAMES = sorted(EXAMPLES)
_BATCHED = _item(
    {
        "character": {"type": "string", "description": "Whom it is for; a bundle and a tick are for no one."},
        "key": {"type": "string"},
    },
    [],
    [*_NAMES, "bundle", "tick"],
)

BATCH = _described(
    _object({"commands": {"type": "array", "items": _BATCHED}}, ["commands"]),
    {
        "type": "object",
        "required": ["answers"],
        "properties": {"answers": {"type": "array", "items": {"type": "object"}}},
    },
    {
        "batch": {
            "commands": [
                {"command": name, "character": "hero", **fields} for name, fields in EXAMPLES.items() if name != "spawn"
            ]
        }
    },
    "An answer, or a `problem`, at the place of each command.",
    is_keyed=False,
)
"""The description of the batch."""
BATCH["requestBody"]["description"] = (
    "Sent as `application/msgpack`, with the same members, it is answered in MessagePack. It is not listed as a media "
    "type: tools that make requests from this document could not write it."
)

_REFERENCES = (
    'Fields `token`, `holder`, `clip_instance` and `request` may be `{"answer": i}`: '
    "what the command at place i before it got."
)

BUNDLE = _of_scene(
    Bundle,
    _object(
        {
            "commands": {
                "type": "array",
                "items": _item({"character": _CHARACTER}, ["character"], _NAMES),
                "description": _REFERENCES,
            },
            "link": {"type": "boolean", "description": "The tokens it grants end together."},
            "holder": _HOLDER,
        },
        ["commands"],
    ),
    {"failed_at": {"type": "integer"}, "answers": {"type": "array"}},
    {
        "snap": {
            "commands": [
                {"command": "begin", "character": "hero", "layer": "base", "target": "Hit"},
                {"command": "complete", "character": "hero", "token": {"answer": 0}},
            ]
        },
        "grab": {
            "link": True,
            "commands": [
                {"command": "begin", "character": "hero", "layer": "base", "target": "Grab"},
                {"command": "begin", "character": "villain", "layer": "base", "target": "Grabbed"},
            ],
        },
    },
)
"""The description of the bundle."""

_REQUESTED = _item({"character": _CHARACTER, **_REQUEST}, ["tick", "source", "number"], [*_NAMES, "bundle"])

TICK = _of_scene(
    Tick,
    _object(
        {
            "rollback": _TICK,
            "requests": {
                "type": "array",
                "items": _REQUESTED,
            },
            "seal": _TICK,
            "confirm": _TICK,
            "holder": _HOLDER,
        },
        [],
        anyOf=[{"required": [part]} for part in ("rollback", "requests", "seal", "confirm")],
    ),
    {
        "rollback": _part(
            {
                "tick": _NUMBER,
                "timeline": _NUMBER,
                "characters": {"type": "array", "items": {"type": "string"}},
                "ended": {"type": "array", "items": _HOLDER},
                "closed": {"type": "array", "items": {"type": "object"}},
            }
        ),
        "requests": {"type": "array", "items": _part({})},
        "seal": _part(
            {
                "tick": _NUMBER,
                "digest": {
                    "type": "string",
                    "description": "Stands for every sealed tick in which something happened.",
                },
                "answers": {"type": "array", "items": ANSWERED},
                "expired": {"type": "array", "items": _HOLDER},
                "closed": {"type": "array", "items": {"type": "object"}},
            }
        ),
        "confirm": _part(
            {
                "tick": _NUMBER,
                "deliveries": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["character", "delivery", "events"],
                        "properties": {"character": {"type": "string"}, "delivery": _NUMBER, "events": _EVENTS},
                    },
                },
                "withdrawn": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["character", "life", "tick", "event"],
                        "properties": {
                            "character": {"type": "string"},
                            "life": _NUMBER,
                            "tick": _NUMBER,
                            "event": _EVENTS["items"],
                        },
                    },
                },
            }
        ),
    },
    {
        "resimulated": {
            "rollback": 1199,
            "requests": [
                {
                    "tick": 1200,
                    "source": "ai",
                    "number": 7,
                    "priority": 10,
                    "command": "begin",
                    "character": "hero",
                    "layer": "base",
                    "target": "Run",
                }
            ],
            "seal": 1207,
            "confirm": 1200,
        }
    },
)
"""The description of the tick."""

ANSWERS: Schema = {
    "responses": {
        "200": {
            "description": "The requests that the tick applied, in order, each with its answer.",
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "required": ["tick", "answers"],
                        "properties": {"tick": _NUMBER, "answers": {"type": "array", "items": ANSWERED}},
                    }
                }
            },
        }
    }
}
"""The description of the answers of a sealed tick."""
