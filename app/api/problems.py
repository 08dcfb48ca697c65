"""Problems: what a request is told that no gate decided (RFC 9457), each with a page that explains it."""

from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import UNSET, Struct
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from app.gates.decision import Undecided
from app.telemetry.passage import note_problem

MEDIA_TYPE = "application/problem+json"


class Kind(Struct, frozen=True):
    """One type of problem: its status, its title, whether the same request may succeed later, and what to do."""

    status: int
    title: str
    retryable: bool
    advice: str


KINDS: dict[str, Kind] = {
    "malformed-json": Kind(400, "The body is not JSON", False, "Send one JSON value in UTF-8. NaN is understood."),
    "malformed-msgpack": Kind(
        400,
        "The body is not MessagePack",
        False,
        "Send one MessagePack value of such kinds as JSON has, names as text.",
    ),
    "malformed-http": Kind(400, "The request is not HTTP", False, "Send HTTP/1.1; the connection was closed."),
    "duplicate-json-key": Kind(
        400, "A member stands twice in one object", False, "Send each member once: posegate never guesses which counts."
    ),
    "unauthenticated": Kind(
        401,
        "The caller is not known",
        False,
        "Send `Authorization: Bearer` with an API key or a session token that is in force.",
    ),
    "forbidden": Kind(403, "The caller may not do this", False, "Ask with a key or a session that may."),
    "not-found": Kind(404, "There is no such path", False, "See /docs for the paths there are."),
    "unknown-scene": Kind(404, "There is no such scene", False, "Spawn a character in it: that makes the scene."),
    "unknown-character": Kind(
        404,
        "The character is not alive",
        False,
        "Spawn it first. A late callback of a despawned character can be let go.",
    ),
    "unknown-rig": Kind(404, "The scene has no such rig", False, "Declare the rig with PUT before spawning with it."),
    "unknown-tick": Kind(
        404,
        "The answers of this tick cannot be read",
        False,
        "Read a sealed tick, not longer ago than can be rolled back.",
    ),
    "method-not-allowed": Kind(405, "The path does not take this method", False, "See /docs for what it takes."),
    "request-timeout": Kind(
        408,
        "The request did not come in time",
        True,
        "Send it without pauses; `limit` says how long it may take.",
    ),
    "conflicting-spawn": Kind(
        409, "The character is alive and was spawned otherwise", False, "Despawn it first, or spawn it as it was."
    ),
    "conflicting-rig": Kind(
        409, "Living characters use another rig of this name", False, "Despawn them first, or take a new name."
    ),
    "sequence-ahead": Kind(
        409,
        "The scene has not come that far here",
        True,
        "Ask again after `Retry-After` seconds, or a node that knows more; see that `min_sequence` is this scene's.",
    ),
    "too-large": Kind(413, "The request is beyond a limit", False, "`limit` says which is the largest that is taken."),
    "target-too-long": Kind(414, "The target is too long", False, "`limit` says how many bytes it may have."),
    "unsupported-media-type": Kind(
        415,
        "The body is of a kind that is not taken",
        False,
        "Send `Content-Type: application/json`; a batch may be `application/msgpack` too.",
    ),
    "invalid": Kind(422, "The request does not fit its schema", False, "`at` and `detail` say where and why."),
    "key-reused": Kind(
        422, "The idempotency key was used with another command", False, "Make a new key for every new command."
    ),
    "too-many-requests": Kind(
        429, "The caller asks too much", True, "Ask again after `Retry-After` seconds, and less often."
    ),
    "upgrade-required": Kind(426, "The path is a WebSocket's", False, "Ask for one: `Upgrade: websocket`, version 13."),
    "head-too-large": Kind(
        431, "The head is too large", False, "Send fewer or shorter header fields; `limit` says which is the most."
    ),
    "too-many-connections": Kind(
        503,
        "Too many connections are open",
        True,
        "Use fewer, and again. Ask again after `Retry-After` seconds.",
    ),
    "overloaded": Kind(
        503, "Too many bodies are being sent", True, "Nothing was decided. Ask again after `Retry-After` seconds."
    ),
    "too-many-watchers": Kind(
        503,
        "Too many watch already",
        True,
        "Watch less often: one watch can be shared. Ask again after `Retry-After` seconds.",
    ),
    "mailbox-full": Kind(503, "Too much waits for this scene", True, "Ask again after `Retry-After` seconds."),
    "memory-full": Kind(
        503, "The service has as much in memory as it may", True, "Ask again after `Retry-After` seconds; reads go on."
    ),
    "journal-unavailable": Kind(
        503, "The journal cannot be written now", True, "Nothing was decided. Ask again after `Retry-After` seconds."
    ),
    "journal-damaged": Kind(
        503, "The scene's journal is damaged", False, "Nothing was decided. Run `posegate verify`; other scenes serve."
    ),
    "commit-unknown": Kind(
        503, "The decision may or may not be durable", True, "Ask again with the same idempotency key: that settles it."
    ),
    "draining": Kind(503, "The service is stopping", True, "Ask again after `Retry-After` seconds, or another node."),
    "internal-error": Kind(500, "A fault of posegate", True, "Report it with the time: the log has a line for it."),
}
"""Every type of problem. `/problems/<name>` explains each."""


class ProblemBody(BaseModel):
    """A problem as it is answered: `application/problem+json`."""

    model_config = ConfigDict(extra="allow", title="Problem")

    type: str = Field(description="`/problems/<name>`, a path that the service itself explains.")
    title: str
    status: int
    detail: str
    retryable: bool = Field(description="Whether the same request may succeed later.")
    at: str | None = Field(None, description="The field at fault.")
    limit: int | None = Field(None, description="The largest that is taken.")
    retry_after: int | None = Field(None, description="Seconds after which asking again makes sense.")


class ProblemError(Exception):
    """A request that no gate decides. Nothing was changed."""

    def __init__(
        self,
        name: str,
        detail: str,
        *,
        at: str | None = None,
        limit: int | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.retry_after = retry_after
        self.name = name
        self.detail = detail
        self.at = at
        self.limit = limit

    def body(self, *, retry_after: int) -> dict[str, Any]:
        """Give the members of the problem."""
        kind = KINDS[self.name]
        members: dict[str, Any] = {
            "type": f"/problems/{self.name}",
            "title": kind.title,
            "status": kind.status,
            "detail": self.detail,
            "retryable": kind.retryable,
        }
        if self.at is not None:
            members["at"] = self.at
        if self.limit is not None:
            members["limit"] = self.limit
        if kind.retryable:
            members["retry_after"] = self.retry_after or retry_after
        return members


def problem_of(undecided: Undecided) -> ProblemError:
    """Turn what no gate could decide into the problem that says so."""
    return ProblemError(undecided.problem.value, undecided.detail, at=None if undecided.at is UNSET else undecided.at)


def problem_response(error: ProblemError, *, retry_after: int) -> Response:
    """Answer the request that is being answered here with a problem."""
    note_problem(error.name)
    return written(error, retry_after=retry_after)


def written(error: ProblemError, *, retry_after: int) -> Response:
    """Give the whole answer that tells a problem, to whoever is told."""
    kind = KINDS[error.name]
    headers = {"Retry-After": str(error.retry_after or retry_after)} if kind.retryable else {}
    if error.name == "unauthenticated":
        headers["WWW-Authenticate"] = "Bearer"
    if error.name == "upgrade-required":
        headers |= {"Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    content = msgspec.json.encode(error.body(retry_after=retry_after))
    return Response(content, status_code=kind.status, headers=headers, media_type=MEDIA_TYPE)


def problem_of_status(status: int, detail: str) -> ProblemError:
    """Give the problem for a status that the framework itself answers with."""
    names = {404: "not-found", 405: "method-not-allowed", 413: "too-large", 415: "unsupported-media-type"}
    if status == HTTPStatus.NOT_FOUND:
        detail = "no route has this path; a misspelt command is one, and /docs lists those there are"
    return ProblemError(names.get(status, "invalid"), detail or HTTPStatus(status).phrase)
