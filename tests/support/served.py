"""A posegate service inside the test process, spoken to as HTTP speaks to it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import httpx
from fastapi import FastAPI

from app.main import build
from app.settings import Settings
from tests.support.player import Response, Send


@contextmanager
def served(settings: Settings | None = None, *, beside: asyncio.Runner | None = None) -> Iterator[Send]:
    """Serve with `settings` (a memory journal by default); yields the function that sends one request.

    Services that are `beside` each other on one runner run together, whichever of them is asked.
    """
    app = build(settings or Settings(journal="memory:"))
    with asyncio.Runner() if beside is None else nullcontext(beside) as runner:
        stop = asyncio.Event()
        lifespan = runner.run(_started(app, stop))
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        client = httpx.AsyncClient(transport=transport, base_url="http://posegate.test")

        def send(method: str, path: str, headers: dict[str, str], body: bytes | None) -> Response:
            response = runner.run(client.request(method, path, headers=headers, content=body))
            return Response(response.status_code, response.headers, response.content)

        try:
            yield send
        finally:
            stop.set()
            runner.run(_ended(client, lifespan))


async def _started(app: FastAPI, stop: asyncio.Event) -> "asyncio.Task[None]":
    """The task that holds the lifespan open, once the service is up."""
    is_up = asyncio.Event()

    async def live() -> None:
        async with app.router.lifespan_context(app):
            is_up.set()
            await stop.wait()

    lifespan = asyncio.create_task(live(), name="lifespan")
    waiting = asyncio.create_task(is_up.wait(), name="is-up")
    await asyncio.wait({lifespan, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if lifespan.done():
        waiting.cancel()
        lifespan.result()
    return lifespan


async def _ended(client: httpx.AsyncClient, lifespan: "asyncio.Task[None]") -> None:
    await client.aclose()
    await lifespan
