"""A caller of a service under test: sends JSON or raw bytes, and reads answers as strictly as they must be written."""

import json
from collections.abc import Mapping
from itertools import count
from typing import Any, NamedTuple

from tests.support.player import Send

_numbers = count(1)

DOORS = ("single", "batch")
"""The ways a command can come in: a path of its own, or a place in a batch."""

RIG = {
    "layers": {"base": {"initial": "Idle", "states": ["Idle", "Run", "Hit"]}, "face": {"initial": "Neutral"}},
    "parameters": {
        "declared": {
            "Speed": {"type": "float", "min": 0, "max": 20},
            "Weapon": {"type": "int"},
            "Grounded": {"type": "bool"},
            "Jump": {"type": "trigger"},
        }
    },
    "events": {"kinds": {"footstep": "presentation", "spark": "immediate"}},
}
"""A rig with a layer of listed states, a parameter of every type, and an event kind of every class."""


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def media_type(self) -> str:
        """The media type, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0]

    @property
    def body(self) -> Any:
        """The body read as strict JSON: UTF-8, no NaN, no member twice, no lone surrogate."""
        return strict_json(self.content)

    @property
    def problem(self) -> tuple[str, int, str | None]:
        """The problem's name, status and place, after checking that it is a whole problem."""
        body = self.body
        assert self.media_type == "application/problem+json", self
        assert body["status"] == self.status, self
        return problem_of(body)


class Caller:
    """Speaks to one scene. A body is a value to be written as JSON, or bytes to be sent as they are."""

    def __init__(self, send: Send, scene: str | None = None) -> None:
        self._send = send
        self.scene = f"scene-{next(_numbers)}" if scene is None else scene

    def elsewhere(self) -> "Caller":
        """Speak to another scene, which does not exist yet."""
        return Caller(self._send)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """Send one request; a path without a slash in front is one of the scene."""
        target = path if path.startswith("/") else f"/v1/scenes/{self.scene}/{path}".removesuffix("/")
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        if content is not None and "content-type" not in given:
            given["content-type"] = "application/json"
        response = self._send(method, target, given, content)
        return Reply(response.status, response.headers, response.content)

    def spawn(self, character: str = "hero", body: Any = None) -> Reply:
        """Spawn a character, by default with `RIG`."""
        return self.ask("PUT", f"characters/{character}", {"rig": RIG} if body is None else body)

    def command(self, name: str, fields: Any, character: str = "hero", **headers: str) -> Reply:
        """Send one command to its own path."""
        return self.ask("POST", f"characters/{character}/{name}", fields, **headers)

    def accepted(self, name: str, fields: Any, character: str = "hero", **headers: str) -> dict[str, Any]:
        """Send one command and give its answer, which must be an acceptance."""
        reply = self.command(name, fields, character, **headers)
        body: dict[str, Any] = reply.body
        assert reply.status == 200, reply
        assert body["accepted"], reply
        return body

    def through(self, door: str, name: str, fields: str | bytes, character: str = "hero") -> dict[str, Any]:
        """Send the text of one command's fields through a door; give the decision, or `{"problem": …}`."""
        text = fields.encode() if isinstance(fields, str) else fields
        if door == "single":
            reply = self.command(name, text, character)
            body: dict[str, Any] = reply.body
            return body if reply.status == 200 else {"problem": body}
        envelope = f'{{"commands": [{{"command": "{name}", "character": "{character}"'.encode()
        rest = text.strip().removeprefix(b"{").lstrip()
        reply = self.ask("POST", "batch", envelope + (b"" if rest == b"}" else b", ") + rest + b"]}")
        body = reply.body
        if reply.status != 200:
            return {"problem": body}
        [answer] = body["answers"]
        assert isinstance(answer, dict)
        return answer

    def inspect(self, character: str = "hero") -> dict[str, Any]:
        """Give the character as inspected."""
        reply = self.ask("GET", f"characters/{character}")
        assert reply.status == 200, reply
        body: dict[str, Any] = reply.body
        return body

    def state(self, character: str = "hero") -> dict[str, Any]:
        """Give what a refusal must leave as it was: the character as inspected, tallies and sequence aside."""
        body = self.inspect(character)
        del body["sequence"]
        for layer in body["layers"].values():
            del layer["tallies"]
        for instance in body["clip_instances"]:
            del instance["suppressed"]
        for graph in body["graphs"].values():
            del graph["last_refusal"]
        return body


def problem_of(body: dict[str, Any]) -> tuple[str, int, str | None]:
    """Give a problem's name, status and place, after checking that it has all members of one."""
    kinds = {"type": str, "title": str, "status": int, "detail": str, "retryable": bool}
    assert {name: type(body[name]) for name in kinds} == kinds, body
    assert body["type"].startswith("/problems/"), body
    return body["type"].removeprefix("/problems/"), body["status"], body.get("at")


def strict_json(content: bytes) -> Any:
    """Read JSON as the strictest reader would."""
    value = json.loads(content.decode("utf-8"), parse_constant=_refused, object_pairs_hook=_once)
    json.dumps(value, ensure_ascii=False).encode()
    return value


def _refused(constant: str) -> Any:
    raise AssertionError(f"an answer holds {constant}, which is no JSON")


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    once = dict(members)
    assert len(once) == len(members), f"an answer repeats a member: {[name for name, _ in members]}"
    return once
