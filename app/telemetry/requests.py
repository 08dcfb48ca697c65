"""Every request's passage: its id, its line in the log, its place in the metrics."""

import itertools
import re
import secrets
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

from fastapi.routing import iter_route_contexts
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.telemetry.log import is_debugging, log
from app.telemetry.metrics import Metrics
from app.telemetry.passage import FAILED, Passage, entered, left

UNMATCHED = "unmatched"
"""The route of a request whose path no route takes: the path itself would make a label set of every guess."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SANE = re.compile(rb"[\x21-\x7e]{1,128}")
_TRACEPARENT = re.compile(rb"00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")

# Unique over restarts and nodes by the drawn part, within a process by the count: a fresh draw each time costs more.
_DRAWN = secrets.token_hex(8).encode("ascii")
_count = itertools.count(1)


class RequestWatch:
    """Gives each HTTP request an id, answers with it, counts the request, and logs it.

    `X-Request-Id` is taken from the caller when it is 1 to 128 visible ASCII characters, else made. A request is one
    line at debug, or at warning when its status is 5xx: route template, method, status, milliseconds and the problem's
    name; no path, query, header or body.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics
        self._templates: dict[Any, str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, and watch what becomes of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = perf_counter()
        passage = scope["posegate.passage"] = _passage(scope["headers"])

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                passage.status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), (b"x-request-id", passage.id)]}
            await send(message)

        token = entered(passage)
        try:
            await self._app(scope, receive, answer)
        finally:
            self._passed(scope, passage, perf_counter() - started)
            left(token)

    def _passed(self, scope: Scope, passage: Passage, seconds: float) -> None:
        """Count a request, and log it where its level asks for that."""
        endpoint = scope.get("endpoint")
        route = UNMATCHED if endpoint is None else self._templates.get(endpoint) or self._template(scope, endpoint)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        passed(self._metrics, passage, route, method, seconds)

    def _template(self, scope: Scope, endpoint: Any) -> str:
        """Look a route up by what it calls, and remember all there are: routes are added before the first request."""
        for context in iter_route_contexts(scope["app"].routes):
            path: str | None = getattr(context, "path_format", None)
            if path is not None and context.endpoint is not None:
                self._templates[context.endpoint] = path
        return self._templates.setdefault(endpoint, UNMATCHED)


def passed(metrics: Metrics, passage: Passage, route: str, method: str, seconds: float) -> None:
    """Count a request that was answered, and log it, in its passage, where its level asks for that."""
    metrics.request(route, method, passage.status, seconds)
    if passage.problem is not None:
        metrics.problem(passage.problem)
    if passage.status >= FAILED:
        _line(log.warning, "request-failed", passage, route, method, seconds)
    elif is_debugging():
        _line(log.debug, "request", passage, route, method, seconds)


def _line(write: Callable[..., Any], event: str, passage: Passage, route: str, method: str, seconds: float) -> None:
    problem = {} if passage.problem is None else {"problem": passage.problem}
    write(event, route=route, method=method, status=passage.status, ms=round(seconds * 1000, 3), **problem)


def _passage(headers: Iterable[tuple[bytes, bytes]]) -> Passage:
    """Start a request's passage from its headers: its id, and the trace that its caller says it belongs to."""
    held = dict(headers)
    given, parent = held.get(b"x-request-id"), held.get(b"traceparent")
    named = None if parent is None else _TRACEPARENT.fullmatch(parent)
    return Passage(id_of(given), None if named is None else named[1].decode("ascii"))


def id_of(given: bytes | None) -> bytes:
    """Give the id of a request: what its caller gave, if that is sane, else one of its own."""
    return given if given is not None and _SANE.fullmatch(given) else b"%b-%x" % (_DRAWN, next(_count))
