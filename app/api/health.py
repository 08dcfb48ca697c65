"""Health and help: whether the service lives and is ready, what it is, what it counts, what its problems mean."""

from html import escape

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import HTMLResponse, JSONResponse, Response

from app import __version__
from app.api.deps import RegistryDep, settings_of
from app.api.problems import KINDS, ProblemError
from app.api.security import GuardedRoute

router = APIRouter(route_class=GuardedRoute, tags=["operations"])


class Alive(BaseModel):
    """The process answers."""

    alive: bool


class Ready(BaseModel):
    """Whether the service takes commands, and why not."""

    ready: bool
    reasons: list[str]


class Info(BaseModel):
    """What this service is, and its limits."""

    name: str
    version: str
    journal: str
    limits: dict[str, int]


@router.get("/livez")
async def livez() -> Alive:
    """Say that the process answers."""
    return Alive(alive=True)


@router.get("/readyz", response_model=Ready, responses={503: {"model": Ready, "description": "Not ready."}})
async def readyz(registry: RegistryDep) -> Response:
    """Say whether new commands are welcome here, and why not: `draining`, `journal-unavailable` or `memory-full`."""
    reasons = registry.readiness.reasons()
    return JSONResponse(Ready(ready=not reasons, reasons=reasons).model_dump(), status_code=503 if reasons else 200)


@router.get("/v1/info")
async def info(request: Request) -> Info:
    """Say what this service is, and its limits."""
    settings = settings_of(request)
    limits = {name: value for name, value in settings.model_dump().items() if name.endswith("_max")}
    return Info(name="posegate", version=__version__, journal=settings.journal.partition(":")[0], limits=limits)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(registry: RegistryDep) -> Response:
    """Give what is counted, in Prometheus' text format."""
    return Response(registry.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/problems/{name}", response_class=HTMLResponse)
async def problem(name: str) -> HTMLResponse:
    """Explain one type of problem."""
    kind = KINDS.get(name)
    if kind is None:
        raise ProblemError("not-found", "there is no such type of problem")
    again = "The same request may succeed later." if kind.retryable else "The same request will not succeed later."
    text = (
        f"<h1>{escape(kind.title)}</h1><p>{name} &middot; {kind.status}</p><p>{escape(kind.advice)}</p><p>{again}</p>"
    )
    return HTMLResponse(f'<!doctype html><html lang="en"><title>{escape(kind.title)}</title>{text}</html>')
