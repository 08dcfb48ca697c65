"""A server with nothing behind it but routes that wait, echo or say much, so that only its connections matter."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api.capacity import Capacity
from app.api.connection import Connection, connections
from app.api.stopping import StoppingServer
from app.settings import Settings
from tests.support.wire import until


class Listening:
    """The server, the capacity it has, what its routes saw, and what its connections told."""

    def __init__(self, settings: Settings) -> None:
        self.told: list[str] = []
        self.capacity = Capacity(settings, self.told.append)
        self.is_draining = False
        self.started: asyncio.Queue[str] = asyncio.Queue()
        self.gone: asyncio.Queue[str] = asyncio.Queue()
        self.release = asyncio.Event()
        config = uvicorn.Config(
            self._answer,
            interface="asgi3",
            host="127.0.0.1",
            port=0,
            http=connections(self.capacity),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
        )
        config.load()
        self.config = config
        self.server = StoppingServer(config, self.capacity, self._drain)
        self.server.lifespan = config.lifespan_class(config)

    @property
    def port(self) -> int:
        """The port it listens on."""
        port: int = self.server.servers[0].sockets[0].getsockname()[1]
        return port

    @property
    def open(self) -> list[Connection]:
        """The connections there are."""
        return [each for each in self.server.server_state.connections if isinstance(each, Connection)]

    async def until(self, count: int) -> None:
        """Wait until so many connections are open."""
        await until(lambda: len(self.open) == count)

    def _drain(self) -> None:
        self.is_draining = True

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`/echo` reads the body first; `/quick` does not; `/held` waits to be released; `/much?n` says n bytes."""
        request = Request(scope, receive)
        path = scope["path"]
        self.started.put_nowait(path)
        body = b""
        if path in ("/echo", "/held"):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    self.gone.put_nowait(path)
                    return
                body += message["body"]
                if not message["more_body"]:
                    break
        if path == "/held":
            await self.release.wait()
        if path == "/much":
            content = b"x" * int(scope["query_string"])
        else:
            shown = {"body": body.decode(), "headers": request.headers.keys(), "path": path}
            content = json.dumps(shown).encode()
        await Response(content, media_type="application/json")(scope, receive, send)


@asynccontextmanager
async def listening(**settings: int) -> AsyncIterator[Listening]:
    """Listen on a free port with these settings; it stops at the end."""
    served = Listening(Settings.model_validate(settings))
    await served.server.startup()
    try:
        yield served
    finally:
        served.release.set()
        served.server.handle_exit(2, None)
        served.server.handle_exit(2, None)
        await served.server.shutdown()
