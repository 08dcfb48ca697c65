"""The contract of the channel: an AsyncAPI document of its messages, from the schemas that the other doors have."""

import re
from collections.abc import Iterator
from typing import Any

from app import __version__
from app.api.contract import EXAMPLES, IN_PATH, STRUCTS
from app.api.framing import (
    GOING_AWAY,
    INTERNAL_ERROR,
    INVALID_TEXT,
    MESSAGE_TOO_BIG,
    NORMAL,
    PROTOCOL_ERROR,
    TRY_AGAIN_LATER,
    UNSUPPORTED_DATA,
)
from app.api.line import FORBIDDEN, TIMED_OUT, UNAUTHENTICATED, UNREAD
from app.api.scene_contract import ANSWERED, BUNDLE, TICK
from app.api.switching import SUB_PROTOCOLS
from app.api.wanted import GATES
from app.gates.decision import name_of
from app.gates.identity import NUMBER_MAX

Schema = dict[str, Any]

CLOSE_CODES = {
    NORMAL: "The client closed; its own code is given back, whichever it was.",
    GOING_AWAY: "The service stops. Everything that came before is answered.",
    PROTOCOL_ERROR: "What came is no frame of a client, or is out of place.",
    UNSUPPORTED_DATA: "A binary message where text was agreed upon, or text where MessagePack was.",
    INVALID_TEXT: "A text message, or the reason of a close frame, is not UTF-8.",
    MESSAGE_TOO_BIG: "A message is larger than a body may be, or comes in too many fragments.",
    INTERNAL_ERROR: "A fault of posegate; its log has a line for it.",
    TRY_AGAIN_LATER: "The messages and bodies under way, of all connections, hold as much as they may.",
    UNAUTHENTICATED: "The key or session is no longer in force.",
    FORBIDDEN: "The key may no longer be in this scene.",
    TIMED_OUT: "Half a message came and not the rest, or a ping was not answered.",
    UNREAD: "The client does not read: for too long, or too much waits for it.",
}
"""The codes that a channel is closed with, and what each says. The frame's reason says it of the case."""

_REF = "#/components/schemas/{name}"
_NAMED = re.compile(r"#/components/schemas/([^/]+)")
_ID: Schema = {"type": "integer", "minimum": 0, "maximum": NUMBER_MAX}
_SEQUENCE: Schema = {"type": "integer", "minimum": 0, "maximum": NUMBER_MAX}
_CHARACTER: Schema = {"type": "string", "pattern": IN_PATH[1]["schema"]["pattern"]}
_KEY: Schema = {"type": "string", "minLength": 8, "maxLength": 257}
_OF_SCENES = {"bundle": BUNDLE, "tick": TICK}


def channel_document(openapi: dict[str, Any]) -> dict[str, Any]:
    """Give the document of the channel's messages. Its schemas are those of the document of the other doors."""
    schemas: dict[str, Schema] = openapi["components"]["schemas"]
    said = {
        **_commands(schemas),
        "watch": _watch(),
        "unwatch": _object({"id": _ID, "unwatch": {"const": True}}, ["unwatch"]),
    }
    told = _told()
    named = set(_references([said, told], schemas))
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "posegate: the channel",
            "version": __version__,
            "description": "Commands into a scene, their answers, and what is decided there, on one WebSocket.",
        },
        "channels": {
            "channel": {
                "address": "/v1/scenes/{scene}/channel",
                "parameters": {"scene": {"description": "The scene's id."}},
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in (*said, *told)},
            }
        },
        "operations": {
            "say": _operation("receive", "What a client says.", said),
            "tell": _operation("send", "What it is told.", told),
        },
        "components": {
            "messages": {name: {"payload": schema} for name, schema in (said | told).items()},
            "schemas": {name: schemas[name] for name in sorted(named)},
        },
        "x-sub-protocols": {name: form.media_type for name, form in SUB_PROTOCOLS.items()},
        "x-close-codes": {str(code): text for code, text in CLOSE_CODES.items()},
    }


def _operation(action: str, summary: str, messages: dict[str, Schema]) -> Schema:
    return {
        "action": action,
        "channel": {"$ref": "#/channels/channel"},
        "summary": summary,
        "messages": [{"$ref": f"#/channels/channel/messages/{name}"} for name in messages],
    }


def _object(properties: Schema, required: list[str], **more: Any) -> Schema:
    return {"type": "object", "required": required, "additionalProperties": False, "properties": properties, **more}


def _commands(schemas: dict[str, Schema]) -> dict[str, Schema]:
    """Give a schema for each command: its own fields, as its own path takes them, beside its envelope."""
    bodies = {name_of(struct): schemas[struct.__name__] for struct in STRUCTS}
    bodies |= {"spawn": schemas["Spawn"], "despawn": schemas["Despawn"]}
    made = {}
    for name, body in bodies.items():
        example = {"id": 1, "command": name, "character": "hero", **EXAMPLES[name]}
        made[name] = _enveloped(name, body, {"character": _CHARACTER}, ["character"]) | {"examples": [example]}
    for name, described in _OF_SCENES.items():
        body = described["requestBody"]["content"]["application/json"]["schema"]
        made[name] = _enveloped(name, body, {}, [])
    return made


def _enveloped(name: str, body: Schema, more: Schema, required: list[str]) -> Schema:
    envelope = {"id": _ID, "command": {"const": name}, **more, "key": _KEY}
    own = {key: value for key, value in body.items() if key not in ("type", "title", "properties", "required")}
    needed = ["id", "command", *required, *body.get("required", [])]
    return {"type": "object", "required": needed, **own, "properties": {**envelope, **body.get("properties", {})}}


def _watch() -> Schema:
    wanted = {
        "after": {**_SEQUENCE, "description": "Begin behind this sequence; without it, now."},
        "snapshot": {"type": "boolean", "description": "Begin with the whole scene as it is now."},
        "character": _CHARACTER,
        "layer": {"type": "string", "minLength": 1, "maxLength": 128},
        "gate": {"enum": list(GATES)},
        "accepted": {"type": "boolean"},
    }
    return _object({"id": _ID, "watch": _object(wanted, [])}, ["watch"], examples=[{"id": 2, "watch": {"after": 41}}])


def _told() -> dict[str, Schema]:
    """Give a schema for each message that a client is told."""
    decided = {"anyOf": [{"$ref": _REF.format(name=name)} for name in ("Accepted", "RefusedEnvelope")]}
    decisions = {"type": "array", "items": {"type": "object"}, "description": "Each as the history shows it."}
    piece = {
        "type": "object",
        "required": ["sequence", "characters", "more"],
        "properties": {
            "sequence": _SEQUENCE,
            "reason": {"enum": ["gone", "ahead"]},
            "scene": {"type": ["object", "null"]},
            "characters": {"type": "array", "items": {"type": "object"}},
            "more": {"type": "boolean", "description": "Whether another piece follows."},
        },
    }
    end = {
        "type": "object",
        "required": ["reason", "sequence"],
        "properties": {"reason": {"type": "string"}, "sequence": _SEQUENCE, "problem": {"type": "object"}},
    }
    applied = {"type": "array", "minItems": 1, "items": ANSWERED}
    return {
        "answer": _object({"id": _ID, "answer": decided}, ["id", "answer"]),
        "problem": _object({"id": _ID, "problem": {"$ref": _REF.format(name="Problem")}}, ["problem"]),
        "applied": _object({"id": _ID, "applied": applied}, ["id", "applied"]),
        "watching": _object({"id": _ID, "watching": _object({"after": _SEQUENCE}, ["after"])}, ["watching"]),
        "unwatched": _object({"id": _ID, "unwatched": {"const": True}}, ["unwatched"]),
        "decisions": _object({"decisions": decisions, "last": _SEQUENCE}, ["decisions", "last"]),
        "last": _object({"last": _SEQUENCE}, ["last"]),
        "snapshot": _object({"snapshot": piece}, ["snapshot"]),
        "reset": _object({"reset": piece}, ["reset"]),
        "end": _object({"end": end}, ["end"]),
    }


def _references(value: Any, schemas: dict[str, Schema], seen: set[str] | None = None) -> Iterator[str]:
    """Name the schemas that a value refers to, and those that these refer to."""
    seen = set() if seen is None else seen
    if isinstance(value, list):
        for item in value:
            yield from _references(item, schemas, seen)
    elif isinstance(value, dict):
        named = _NAMED.fullmatch(value["$ref"]) if isinstance(value.get("$ref"), str) else None
        if named is not None and named[1] not in seen:
            seen.add(named[1])
            yield named[1]
            yield from _references(schemas[named[1]], schemas, seen)
        for item in value.values():
            yield from _references(item, schemas, seen)
