"""Watch: every decision of a scene as it becomes visible, as server-sent events that resume without a gap."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from app.api.deps import MinSequence, RegistryDep, SceneName, settings_of
from app.api.feeding import Feeding
from app.api.history import Word
from app.api.problems import ProblemError
from app.api.security import Door, GuardedRoute, admit, security_of
from app.api.spout import CYCLE, Spout
from app.api.wanted import GATES, wanted_of
from app.gates.identity import NUMBER_MAX

router = APIRouter(route_class=GuardedRoute, prefix="/v1/scenes/{scene}", tags=["inspection"])

WRITTEN_BYTES = 65_536
"""How many bytes of a message are written at once: so much a client that does not read makes its connection hold."""

_DIGITS_MAX = 16

After = Annotated[int | None, Query(ge=0, le=NUMBER_MAX, description="Begin behind this sequence; without it, now.")]
GateWord = Annotated[str | None, Query(json_schema_extra={"enum": list(GATES)})]
LastEventId = Annotated[
    str | None,
    Header(description="The `id` that was read last: begin behind it, whatever `after` and `snapshot` say."),
]

_DESCRIBED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events: `decisions`, `snapshot`, `reset`, `end`. The stream ends behind an `end`.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


class Events:
    """How server-sent events are packed: an event a message, its `id` the sequence that was read with it."""

    name = "events"

    def __init__(self, *, retry_after_s: int) -> None:
        self.opening = b"retry: %d\n\n" % (retry_after_s * 1000)

    def decisions(self, decisions: list[bytes], *, last: int) -> bytes:
        """Pack decisions of one turn."""
        return b'event: decisions\nid: %d\ndata: {"decisions":[%b]}\n\n' % (last, b",".join(decisions))

    def place(self, sequence: int) -> bytes:
        """Pack an `id` alone: no event for the client, but the place that it resumes from."""
        return b"id: %d\n\n" % sequence

    def portrait(self, kind: str, body: bytes, *, last: int | None) -> bytes:
        """Pack a piece of a `snapshot` or `reset`; only the last has an `id`, so that half of one is begun anew."""
        told = b"" if last is None else b"id: %d\n" % last
        return b"event: %b\n%bdata: %b\n\n" % (kind.encode(), told, body)

    def end(self, body: bytes) -> bytes:
        """Pack why nothing more comes."""
        return b"event: end\ndata: %b\n\n" % body

    def beat(self) -> bytes:
        """Pack a comment."""
        return b":\n\n"


class EventStream(StreamingResponse):
    """What a feeding gives, for as long as the client is there and reads."""

    media_type = "text/event-stream"

    def __init__(self, feeding: Feeding, opening: bytes) -> None:
        super().__init__(feeding, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._feeding = feeding
        self._opening = opening

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the feeding ends or the client goes; nothing is held afterwards."""
        cycle = scope.pop(CYCLE, None)
        if cycle is not None:
            self._feeding.straight = Spout(cycle)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._feeding.straight = None
            self._feeding.close()

    async def stream_response(self, send: Send) -> None:
        """Send piece by piece, the next only when the client has read enough."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self._opening, "more_body": True})
        async for piece in self._feeding:
            for start in range(0, len(piece), WRITTEN_BYTES):
                await send(
                    {
                        "type": "http.response.body",
                        "body": piece[start : start + WRITTEN_BYTES],
                        "more_body": True,
                    }
                )
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def place_of(headers: list[str]) -> int | None:
    """Read the place that `Last-Event-ID` says; None without that header.

    Raises:
        ProblemError: `invalid`: this is no `id` of this service, or there are several.
    """
    if not headers:
        return None
    [said, *more] = headers
    if more or not (said.isascii() and said.isdigit() and len(said) <= _DIGITS_MAX and int(said) <= NUMBER_MAX):
        raise ProblemError("invalid", "one sequence that this service gave as an `id`", at="last-event-id")
    return int(said)


@router.get("/watch", response_class=StreamingResponse, responses=_DESCRIBED)
async def watch(
    request: Request,
    scene: SceneName,
    registry: RegistryDep,
    after: After = None,
    snapshot: bool = False,
    min_sequence: MinSequence = 0,
    character: Word = None,
    layer: Word = None,
    gate: GateWord = None,
    accepted: bool | None = None,
    last_event_id: LastEventId = None,
) -> Response:
    """Be told every decision of a scene from now on, or behind one: one event a turn, resumed by its `id`."""
    settings, security = settings_of(request), security_of(request.scope)
    resumed = place_of(request.headers.getlist("last-event-id"))
    if snapshot and after is not None:
        raise ProblemError("invalid", "a snapshot is of now: leave `after` or `snapshot` out", at="after")
    wanted = wanted_of({"character": character, "layer": layer, "gate": gate, "accepted": accepted})
    authorization = request.headers.getlist("authorization")

    def admitted() -> None:
        admit(security.caller(*authorization), Door.READ, scene=scene, character=None)

    packing = Events(retry_after_s=settings.retry_after_s)
    feeding = await Feeding.begun(
        registry,
        settings,
        scene,
        wanted=wanted,
        packing=packing,
        after=after if resumed is None else resumed,
        snapshot=snapshot and resumed is None,
        at_least=min_sequence,
        admitted=admitted,
    )
    return EventStream(feeding, packing.opening)
