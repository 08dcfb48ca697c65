"""What the tests of telemetry share: the log as it was written, and a service in this process with its caller."""

import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import structlog
from fastapi import FastAPI

from app.main import build
from app.settings import Settings
from app.telemetry import log as telemetry
from app.telemetry.tracing import Tracing

Written = Callable[[], list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    level = logging.getLogger().level
    yield
    telemetry.configure("info")
    structlog.reset_defaults()
    libraries = logging.getLogger()
    libraries.handlers = [held for held in libraries.handlers if not isinstance(held, telemetry.LibraryLines)]
    libraries.setLevel(level)


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str]) -> Written:
    """Log from debug on; gives what was written since it was last asked, each line as the object it must be."""
    telemetry.configure("debug")
    return lambda: [json.loads(line) for line in capsys.readouterr().err.splitlines()]


Serve = Callable[..., Any]


@asynccontextmanager
async def _served(
    tracing: Tracing | None = None, prepare: Callable[[FastAPI], None] | None = None, **settings: Any
) -> AsyncIterator[httpx.AsyncClient]:
    app = build(Settings(**{"journal": "memory:", **settings}), tracing=tracing)
    if prepare is not None:
        prepare(app)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        yield client


@pytest.fixture
def serve() -> Serve:
    """Give the function that serves: with a tracing of its own, routes added by `prepare`, and settings."""
    return _served
