"""The wiring: journal, registry, routes and server, put together once."""

import gc
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match

from app import __version__
from app.api import batch, commands, health, history, inspect, lives, ticks
from app.api.document import document
from app.api.guard import PathGuard
from app.api.problems import ProblemError, problem_of_status, problem_response
from app.journal import open_journal
from app.journal.port import CommitUnknown, JournalDamaged, JournalUnavailable
from app.sequencing.registry import Draining, MailboxFull, Registry
from app.settings import Settings
from app.telemetry import log as telemetry

_NAMES: dict[type[Exception], str] = {
    MailboxFull: "mailbox-full",
    Draining: "draining",
    JournalUnavailable: "journal-unavailable",
    JournalDamaged: "journal-damaged",
    CommitUnknown: "commit-unknown",
}
_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")


def build(settings: Settings) -> FastAPI:
    """Build the service. Its journal is opened when it starts and closed, last of all, when it stops."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.registry = Registry(open_journal(settings.journal), settings)
        yield
        await app.state.registry.close()

    app = FastAPI(
        title="posegate",
        version=__version__,
        description="The one place that owns the right to commit animation state.",
        lifespan=lifespan,
        redoc_url=None,
        redirect_slashes=False,
        strict_content_type=False,
    )
    app.state.settings = settings
    app.add_middleware(PathGuard, retry_after=settings.retry_after_s)
    for module in (commands, batch, ticks, lives, inspect, history, health):
        app.include_router(module.router)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]  # how FastAPI lets a document be made otherwise
    _answer_failures(app, settings)
    return app


def _answer_failures(app: FastAPI, settings: Settings) -> None:
    """Turn whatever a route raises into a problem."""

    def answer(error: ProblemError) -> Response:
        return problem_response(error, retry_after=settings.retry_after_s)

    async def problem(request: Request, error: Any) -> Response:
        return answer(error)

    async def named(request: Request, error: Exception) -> Response:
        return answer(ProblemError(_NAMES[type(error)], str(error)))

    async def of_framework(request: Request, error: Any) -> Response:
        response = answer(problem_of_status(error.status_code, error.detail))
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            response.headers["Allow"] = _allowed(request)
        return response

    async def of_parameters(request: Request, error: Any) -> Response:
        first = error.errors()[0]
        return answer(ProblemError("invalid", first["msg"], at=".".join(str(part) for part in first["loc"][1:])))

    async def gone(request: Request, error: Exception) -> Response:
        return Response(status_code=400)

    async def fault(request: Request, error: Exception) -> Response:
        telemetry.log.error("fault", path=request.url.path, exc_info=error)
        return answer(ProblemError("internal-error", "the service made a mistake; its log says more"))

    app.add_exception_handler(ProblemError, problem)
    for kind in _NAMES:
        app.add_exception_handler(kind, named)
    app.add_exception_handler(HTTPException, of_framework)
    app.add_exception_handler(RequestValidationError, of_parameters)
    app.add_exception_handler(ClientDisconnect, gone)
    app.add_exception_handler(Exception, fault)


def _allowed(request: Request) -> str:
    """Name the methods that a path takes, over all routes: the framework names only those of the first it finds."""
    routes, scope = request.app.routes, request.scope
    takes = (m for m in _METHODS if any(route.matches({**scope, "method": m})[0] is Match.FULL for route in routes))
    return ", ".join(takes)


class _Server(uvicorn.Server):
    """A server that says where it listens once it does."""

    async def startup(self, sockets: Any = None) -> None:
        """Start listening, then print the address."""
        await super().startup(sockets=sockets)
        for server in self.servers:
            for bound in server.sockets:
                host, port = bound.getsockname()[:2]
                shown = f"[{host}]" if ":" in host else host
                print(f"posegate listens on http://{shown}:{port}", flush=True)


def serve(settings: Settings) -> None:
    """Serve until told to stop (SIGINT, SIGTERM); that is an end like any other, with exit code 0."""
    for told in (signal.SIGINT, signal.SIGTERM):
        # While it serves, uvicorn listens to these; before that and, raised once more, after it, they come here.
        signal.signal(told, lambda *_: sys.exit(0))
    telemetry.configure(settings.log_level)
    gc.set_threshold(50_000, 20, 100)
    config = uvicorn.Config(
        build(settings),
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http="httptools",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=-(-settings.shutdown_ms_max // 1000),
    )
    server = _Server(config)
    try:
        server.run()
    finally:
        if server.started:
            print("posegate stopped: what was running is answered, the journal is closed", flush=True)
