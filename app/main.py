"""The wiring: journal, registry, routes and server, put together once."""

import gc
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from threading import Thread
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match

from app import __version__
from app.api import batch, commands, health, history, inspect, lives, minting, switching, ticks, watch
from app.api.asking import FAILURES, MISTAKE, problem_of_failure
from app.api.capacity import Capacity
from app.api.connection import connections
from app.api.descriptors import room_for
from app.api.document import document
from app.api.guard import PathGuard
from app.api.keys import Keyring
from app.api.lane import Lane
from app.api.problems import KINDS, ProblemError, problem_of_status, problem_response
from app.api.quota import Quota
from app.api.security import Security
from app.api.sessions import Sessions
from app.api.stopping import StoppingServer
from app.journal import connect_journal
from app.sequencing.limits import limits_digest
from app.sequencing.registry import Registry
from app.settings import Settings
from app.telemetry import log as telemetry
from app.telemetry.metrics import Metrics
from app.telemetry.passage import request_id
from app.telemetry.requests import RequestWatch
from app.telemetry.tracing import Tracing

_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")


def build(settings: Settings, *, tracing: Tracing | None = None) -> FastAPI:
    """Build the service. Its journal is opened when it starts and closed, last of all, when it stops.

    `tracing` is for who has spans go elsewhere than the settings say.

    Raises:
        ValueError: Traces are to go to what is no address. Nothing was opened.
        KeysUnreadable: There are keys, and they cannot be read. Nothing was opened.
    """
    metrics = Metrics(problems=KINDS)
    metrics.limits_digest = limits_digest(settings)
    tracing = tracing or Tracing.to(settings.otlp_endpoint, ratio=settings.trace_sample_ratio)
    keyring = Keyring(given=settings.keys, file=settings.keys_file)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        journal = await connect_journal(settings.journal, committed=metrics.commit)
        app.state.registry = Registry(journal, settings, metrics=metrics, tracing=tracing)
        app.state.registry.start(keys=keyring.watch())
        app.state.security = Security(keyring, Sessions(journal.secret), Quota(settings))
        if settings.fast_lane == "on" and not tracing.is_on:
            app.state.lane.open(app.state.registry, app.state.security)
        yield
        app.state.lane.close()
        await app.state.registry.close()
        await tracing.close()

    app = FastAPI(
        title="posegate",
        version=__version__,
        description="The one place that owns the right to commit animation state.",
        lifespan=lifespan,
        redoc_url=None,
        redirect_slashes=False,
        strict_content_type=False,
        telemetry=tracing.of_requests(),
    )
    app.state.settings, app.state.metrics, app.state.contained = settings, metrics, _contained
    app.state.lane = Lane(settings, metrics, _contained)
    app.add_middleware(PathGuard, retry_after=settings.retry_after_s)
    for module in (commands, batch, ticks, lives, minting, inspect, history, watch, switching, health):
        app.include_router(module.router)
    # The last that is added is the first to see a request, and the last to see its answer.
    app.add_middleware(RequestWatch, metrics=metrics)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]  # how FastAPI lets a document be made otherwise
    _answer_failures(app, settings, metrics)
    return app


def _answer_failures(app: FastAPI, settings: Settings, metrics: Metrics) -> None:
    """Turn whatever a route raises into a problem."""

    def answer(error: ProblemError) -> Response:
        return problem_response(error, retry_after=settings.retry_after_s)

    async def problem(request: Request, error: Any) -> Response:
        return answer(error)

    async def named(request: Request, error: Exception) -> Response:
        return answer(problem_of_failure(error))

    async def of_framework(request: Request, error: Any) -> Response:
        if error.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
            return answer(problem_of_status(error.status_code, error.detail))
        allowed = _allowed(request)
        response = answer(ProblemError("method-not-allowed", f"the path takes {allowed}"))
        response.headers["Allow"] = allowed
        return response

    async def of_parameters(request: Request, error: Any) -> Response:
        first = error.errors()[0]
        return answer(ProblemError("invalid", first["msg"], at=".".join(str(part) for part in first["loc"][1:])))

    async def gone(request: Request, error: Exception) -> Response:
        return Response(status_code=400)

    async def fault(request: Request, error: Exception) -> Response:
        # Asked for last of all, behind the watch, which has seen no answer: what it does is done here.
        passed = request_id(request.scope)
        telemetry.log.error("fault", request_id=passed, exc_info=error)
        metrics.problem(MISTAKE.name)
        response = answer(MISTAKE)
        if passed is not None:
            response.headers["X-Request-Id"] = passed
        return response

    app.add_exception_handler(ProblemError, problem)
    for kind in FAILURES:
        app.add_exception_handler(kind, named)
    app.add_exception_handler(HTTPException, of_framework)
    app.add_exception_handler(RequestValidationError, of_parameters)
    app.add_exception_handler(ClientDisconnect, gone)
    app.add_exception_handler(Exception, fault)


def _contained(work: Callable[..., None], *given: Any) -> Exception | None:
    """Do work out of which nothing may come; give what would have."""
    try:
        work(*given)
    except Exception as error:
        return error
    return None


def _allowed(request: Request) -> str:
    """Name the methods that a path takes, over all routes: the framework names only those of the first it finds."""
    routes, scope = request.app.routes, request.scope
    takes = (m for m in _METHODS if any(route.matches({**scope, "method": m})[0] is Match.FULL for route in routes))
    return ", ".join(takes)


class _Server(StoppingServer):
    """A server that says where it listens once it does; then `ready` is called."""

    ready: Callable[[], object]

    async def startup(self, sockets: Any = None) -> None:
        """Start listening, then print the address."""
        await super().startup(sockets=sockets)
        for server in self.servers:
            for bound in server.sockets:
                host, port = bound.getsockname()[:2]
                shown = f"[{host}]" if ":" in host else host
                print(f"posegate listens on http://{shown}:{port}", flush=True)
        self.ready()


def _config(app: FastAPI, settings: Settings, capacity: Capacity) -> uvicorn.Config:
    """Say how uvicorn serves: with our connections, and without its own log and WebSocket."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=connections(capacity, app.state.lane),
        ws="none",
        # The log is ours, the library's lines in it too.
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
    )


def serve(settings: Settings) -> None:
    """Serve until told to stop (SIGINT, SIGTERM); that is an end like any other, with exit code 0.

    Told twice, or with a journal that cannot be closed in time, it stops at once with exit code 1: what was
    acknowledged is durable all the same.
    """
    server: _Server | None = None

    def end(*_: Any) -> None:
        sys.exit(1 if server is not None and server.force_exit else 0)

    for told in (signal.SIGINT, signal.SIGTERM):
        # While it serves, uvicorn listens to these; before that and, raised once more, after it, they come here.
        signal.signal(told, end)
    telemetry.configure(settings.log_level)
    gc.set_threshold(50_000, 20, 100)
    room = room_for(settings.connections_open_max)
    if room < settings.connections_open_max:
        telemetry.log.warning("fewer-connections", connections_open_max=room)
        settings = settings.model_copy(update={"connections_open_max": room})
    app = build(settings)
    capacity = Capacity(settings, app.state.metrics.problem)

    def drain() -> None:
        app.state.registry.drain()

    def prepare() -> None:
        app.openapi()
        gc.freeze()

    server = _Server(_config(app, settings, capacity), capacity, drain)
    # The document takes a third of a second: nobody waits for it, neither for the start nor behind who asks for it.
    server.ready = Thread(target=prepare, name="document", daemon=True).start
    # What was made up to here stays until the end: the collector need not walk over it, which took a fifth of a second.
    gc.freeze()
    try:
        server.run()
    finally:
        if server.started and server.force_exit:
            print("posegate stopped at once: what was acknowledged is in the journal", flush=True)
        elif server.started:
            print("posegate stopped: what was running is answered, the journal is closed", flush=True)
