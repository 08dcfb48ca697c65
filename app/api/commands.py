"""The commands of one character, a path each."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.contract import describes
from app.api.deps import decided_by
from app.api.security import GuardedRoute
from app.gates.event_commands import Acknowledge, CommitLoop, Covered, Enqueue, Play, Retire
from app.gates.graph import RequestGraph, SubmitCandidate, WithdrawGraph
from app.gates.parameter import CommitParameters
from app.gates.transition import Begin, Cancel, Complete, Fail

router = APIRouter(route_class=GuardedRoute, prefix="/v1/scenes/{scene}/characters/{character}", tags=["commands"])


@router.post("/begin", openapi_extra=describes(Begin))
async def begin(request: Request) -> Response:
    """Take the layer's commit right; every earlier token on this layer becomes stale."""
    return await decided_by("begin", request)


@router.post("/complete", openapi_extra=describes(Complete))
async def complete(request: Request) -> Response:
    """Commit the transition of the pending token: its target has taken over."""
    return await decided_by("complete", request)


@router.post("/cancel", openapi_extra=describes(Cancel))
async def cancel(request: Request) -> Response:
    """Give the pending token back; the committed state stays."""
    return await decided_by("cancel", request)


@router.post("/fail", openapi_extra=describes(Fail))
async def fail(request: Request) -> Response:
    """Report that the transition of the pending token could not run; the committed state stays."""
    return await decided_by("fail", request)


@router.post("/commit-parameters", openapi_extra=describes(CommitParameters))
async def commit_parameters(request: Request) -> Response:
    """Publish a whole batch of values as one new snapshot, or none of it."""
    return await decided_by("commit-parameters", request)


@router.post("/play", openapi_extra=describes(Play))
async def play(request: Request) -> Response:
    """Open a clip instance: one playing of one clip."""
    return await decided_by("play", request)


@router.post("/enqueue", openapi_extra=describes(Enqueue))
async def enqueue(request: Request) -> Response:
    """Report an event of a clip; its key (instance, loop, frame, kind) is accepted once."""
    return await decided_by("enqueue", request)


@router.post("/covered", openapi_extra=describes(Covered))
async def covered(request: Request) -> Response:
    """Report a span of frames; the clip's events in it are accepted, each once."""
    return await decided_by("covered", request)


@router.post("/commit-loop", openapi_extra=describes(CommitLoop))
async def commit_loop(request: Request) -> Response:
    """Deliver what waits up to a loop, and move the instance's watermark there."""
    return await decided_by("commit-loop", request)


@router.post("/retire", openapi_extra=describes(Retire))
async def retire(request: Request) -> Response:
    """Close a clip instance for good and learn what it never delivered."""
    return await decided_by("retire", request)


@router.post("/ack", openapi_extra=describes(Acknowledge))
async def ack(request: Request) -> Response:
    """Let go of kept deliveries up to a number."""
    return await decided_by("ack", request)


@router.post("/request-graph", openapi_extra=describes(RequestGraph))
async def request_graph(request: Request) -> Response:
    """Ask for another graph; every older request of the slot has lost."""
    return await decided_by("request-graph", request)


@router.post("/submit-candidate", openapi_extra=describes(SubmitCandidate))
async def submit_candidate(request: Request) -> Response:
    """Offer a built graph: it becomes visible in one swap, or the old one stays."""
    return await decided_by("submit-candidate", request)


@router.post("/withdraw-graph", openapi_extra=describes(WithdrawGraph))
async def withdraw_graph(request: Request) -> Response:
    """Close the open request: what is active is what is wanted."""
    return await decided_by("withdraw-graph", request)
