"""Twins: the same service twice in the test process, once with its fast lane and once without, told the same bytes."""

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar
from unittest.mock import patch

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from app.api.capacity import Capacity
from app.api.connection import Connection, connections
from app.main import build
from app.settings import Settings
from tests.support.caller import RIG
from tests.support.wire import request

WAIT_S_MAX = 30.0
SECRET = bytes(range(32))
DATED = [(b"date", b"Mon, 30 Nov 2026 15:00:00 GMT")]

_MADE_ID = re.compile(rb"x-request-id: [0-9a-f]{16}-[0-9a-f]+\r\n")
_TIME = re.compile(rb'"[0-9-]{10}T[0-9:.]{12}Z"')
_scenes = count(1)

ResultT = TypeVar("ResultT")


class Tape(asyncio.Transport):
    """The other end of a connection: what was sent to it, its end included, and whether it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.read = b""
        self.reads_paused = False
        self._is_closing = False

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes."""
        return self.read.endswith((b"<ended>", b"<closed>", b"<reset>"))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self._is_closing, "a transport that has closed takes nothing"
        self.read += data

    def write_eof(self) -> None:
        self.read += b"<ended>"

    def close(self) -> None:
        self.read += b"" if self._is_closing else b"<closed>"
        self._is_closing = True

    def abort(self) -> None:
        self.read += b"" if self._is_closing else b"<reset>"
        self._is_closing = True

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self.reads_paused = True

    def resume_reading(self) -> None:
        self.reads_paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


class Service:
    """One of the two: what it needs to serve connections that are taped."""

    def __init__(self, settings: Settings) -> None:
        self.app: FastAPI = build(settings)
        self.capacity = Capacity(settings, self.app.state.metrics.problem)
        self._class = connections(self.capacity, self.app.state.lane)
        self._config = uvicorn.Config(self.app, http=self._class, ws="none", log_config=None, access_log=False)
        self._config.load()
        self.state = ServerState()
        self.state.default_headers = list(DATED)
        self._lifespan = self.app.router.lifespan_context(self.app)

    async def start(self) -> None:
        """Open the journal."""
        await self._lifespan.__aenter__()

    async def stop(self) -> None:
        """Close the journal."""
        await self._lifespan.__aexit__(None, None, None)

    def connect(self) -> tuple[Connection, Tape]:
        """Open a connection."""
        tape = Tape()
        connection = self._class(config=self._config, server_state=self.state, app_state={})
        connection.connection_made(tape)
        return connection, tape

    def counted(self) -> dict[tuple[str, ...], float]:
        """Give how many requests of each route, method and status, and how many problems of each name, there were.

        What the metrics hold is read as it is: written out, it would take longer than the conversations.
        """
        metrics = self.app.state.metrics
        requests = {(route, method, str(status)): count for (route, method, status), count in metrics._requests.items()}
        timed = {labels: held.buckets()[-1][1] for labels, held in metrics._request_seconds.items()}
        return {**requests, **timed, **{(name,): count for name, count in metrics._problems.items()}}

    async def say(self, pieces: Iterable[bytes]) -> bytes:
        """Send pieces over one connection, each when what came before is answered; give what came back."""
        connection, tape = self.connect()
        for piece in pieces:
            connection.data_received(piece)
            await answered(connection)
        connection.connection_lost(None)
        await self.quiet()
        return plain(tape.read)

    async def quiet(self) -> None:
        """Wait until no application is at work for a connection."""
        async with asyncio.timeout(WAIT_S_MAX):
            while self.state.tasks:  # noqa: ASYNC110  # nothing tells of it
                await asyncio.sleep(0)


def plain(said: bytes) -> bytes:
    """Give answers without what differs each time: ids that were made, and times."""
    return _TIME.sub(b'"then"', _MADE_ID.sub(b"x-request-id: made\r\n", said))


async def answered(connection: Connection) -> None:
    """Wait until a connection answers nothing, or what it answers waits for more of its body, and nothing behind it."""
    async with asyncio.timeout(WAIT_S_MAX):
        while True:
            present: RequestResponseCycle | None = connection._answering
            is_over = present is None or present.response_complete or present.disconnected
            if not connection.pipeline and (is_over or (present is not None and present.more_body)):
                return
            await asyncio.sleep(0)


class Twins:
    """Both services; `fast` has its lane, `slow` does not. Their seals and session tokens are the same."""

    def __init__(self, runner: asyncio.Runner, fast: Service, slow: Service) -> None:
        self._runner = runner
        self.fast = fast
        self.slow = slow

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Do work in the loop that both live in."""
        return self._runner.run(work)

    async def closed(self, scene: str) -> None:
        """Wait until a scene has left the memory of both."""
        async with asyncio.timeout(WAIT_S_MAX):
            for service in (self.fast, self.slow):
                registry = service.app.state.registry
                registry._ask_to_leave(scene)
                while registry.in_memory(scene) is not None:  # noqa: ASYNC110  # nothing tells of it
                    await asyncio.sleep(0)

    @contextmanager
    def sending(self, send: Callable[..., None]) -> Iterator[None]:
        """Have this in the place of what sends commands to their scenes, in both."""
        registries = [service.app.state.registry for service in (self.fast, self.slow)]
        for registry in registries:
            registry.send = send
        yield
        for registry in registries:
            del registry.send

    def session(self, scene: str, key: str, **wanted: Any) -> str:
        """Mint a session for `hero`, which both take."""
        body = json.dumps({"sub": "player", "characters": {"hero": 1}, **wanted}).encode()
        headers = f"Authorization: Bearer {key}\r\n"
        minted = self.run(self.fast.say([request("POST", f"/v1/scenes/{scene}/sessions", body, headers=headers)]))
        return str(json.loads(minted.partition(b"\r\n\r\n")[2])["token"])

    def scene(self, *, prefix: str = "twin-", authorization: str | None = None) -> str:
        """Make a scene in both, in which `hero` is alive."""
        name = f"{prefix}{next(_scenes)}"
        headers = "" if authorization is None else f"Authorization: {authorization}\r\n"
        body = json.dumps({"rig": RIG}).encode()
        made = self.say(request("PUT", f"/v1/scenes/{name}/characters/hero", body, headers=headers))
        assert made.startswith(b"HTTP/1.1 201 Created"), made
        return name

    def say(self, *pieces: bytes) -> bytes:
        """Send the same pieces to both; what came back must be the same, and is given."""
        before = self.fast.counted(), self.slow.counted()
        fast = self._runner.run(self.fast.say(pieces))
        slow = self._runner.run(self.slow.say(pieces))
        assert fast == slow, f"\nwith the lane:    {fast!r}\nwithout the lane: {slow!r}\nto {pieces!r}"
        counts = more(before[0], self.fast.counted()), more(before[1], self.slow.counted())
        # What is found to be no HTTP behind its head was begun, and is counted, if those before it were answered by
        # then; the lane answers them sooner. What the client is told is the same.
        is_comparable = ("malformed-http",) not in counts[0]
        assert counts[0] == counts[1] or not is_comparable, f"{counts[0]} with the lane, {counts[1]} not; {pieces!r}"
        return fast


def more(before: dict[tuple[str, ...], float], after: dict[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
    """Give by how much each count has grown."""
    return {name: count - before.get(name, 0) for name, count in after.items() if count != before.get(name, 0)}


@contextmanager
def twins(**settings: Any) -> Iterator[Twins]:
    """Serve twice from memory journals that share their secret."""
    given = {"journal": "memory:", **settings}
    fast, slow = (Service(Settings(**given, fast_lane=lane)) for lane in ("on", "off"))
    with asyncio.Runner() as runner:
        with patch("app.journal.memory.os.urandom", lambda size: SECRET[:size]):
            for service in (fast, slow):
                runner.run(service.start())
        try:
            yield Twins(runner, fast, slow)
        finally:
            for service in (fast, slow):
                runner.run(service.stop())
