"""A whole service on a socket of this process, and clients that watch it: what they are told, event by event."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn
from msgspec import Struct

from app.api.capacity import Capacity
from app.api.connection import Connection, connections
from app.api.stopping import StoppingServer
from app.main import build
from app.sequencing.registry import Registry
from app.settings import Settings
from tests.support.wire import WAIT_S_MAX, Answer, Wire, request, wire


class Event(Struct, frozen=True):
    """One event as it came; a bare place has neither kind nor data, a comment nothing at all."""

    kind: str | None = None
    id: int | None = None
    data: Any = None

    @property
    def sequences(self) -> list[int]:
        """The sequences of its decisions."""
        return [decision["sequence"] for decision in self.data["decisions"]] if self.kind == "decisions" else []


class Watch:
    """One client that watches. It reads when it is asked for an event, and not before."""

    def __init__(self, connection: Wire) -> None:
        self._wire = connection
        self._text = b""
        self._chunks = b""
        self._is_over = False
        self.head = ""
        self.last_id: int | None = None

    async def begin(self, path: str, headers: str = "") -> None:
        """Ask, and read the head of the answer."""
        self._wire.send(request("GET", path, headers=headers))
        while b"\r\n\r\n" not in self._chunks:
            self._chunks += await self._wire.some()
        head, _, self._chunks = self._chunks.partition(b"\r\n\r\n")
        self.head = head.decode("latin-1").lower()

    async def event(self) -> Event | None:
        """Read the next event; None at the end of the stream."""
        async with asyncio.timeout(WAIT_S_MAX):
            while b"\n\n" not in self._text:
                if self._is_over or not await self._more():
                    assert not self._text, self._text
                    return None
        text, _, self._text = self._text.partition(b"\n\n")
        fields = dict(line.split(": ", 1) for line in text.decode().split("\n") if not line.startswith(":"))
        data = json.loads(fields["data"]) if "data" in fields else None
        event = Event(fields.get("event"), int(fields["id"]) if "id" in fields else None, data)
        self.last_id = self.last_id if event.id is None else event.id
        return event

    async def told(self, kind: str) -> Event:
        """Read the next event that a client would hear of (no comment, no bare place), which must be of a kind."""
        while True:
            event = await self.event()
            assert event is not None, f"the stream has ended before a {kind}"
            if event.kind is not None:
                assert event.kind == kind, event
                return event

    async def end(self) -> dict[str, Any]:
        """Read the last event, behind which there is nothing."""
        event = await self.told("end")
        assert await self.event() is None
        data: dict[str, Any] = event.data
        return data

    async def decisions(self, count: int) -> list[int]:
        """Read decisions until there are so many; give their sequences. Anything else is a fault."""
        read: list[int] = []
        while len(read) < count:
            read += (await self.told("decisions")).sequences
        return read

    async def portrait(self, kind: str) -> list[dict[str, Any]]:
        """Read all pieces of a snapshot or a reset."""
        pieces: list[dict[str, Any]] = []
        while not pieces or pieces[-1]["more"]:
            event = await self.told(kind)
            pieces.append(event.data)
            assert (event.id is None) is event.data["more"], event
        return pieces

    async def _more(self) -> bool:
        """Take a chunk of the body; False at the last one."""
        while b"\r\n" not in self._chunks:
            self._chunks += await self._wire.some()
        size, _, rest = self._chunks.partition(b"\r\n")
        length = int(size, 16)
        while len(rest) < length + 2:
            rest += await self._wire.some()
        self._text += rest[:length]
        self._chunks = rest[length + 2 :]
        self._is_over = length == 0
        return not self._is_over


class Service:
    """A service that listens, what is inside of it, and a client for what is asked of it."""

    def __init__(self, settings: Settings) -> None:
        self.app = build(settings)
        self.capacity = Capacity(settings)
        config = uvicorn.Config(
            self.app, host="127.0.0.1", port=0, http=connections(self.capacity), ws="none", log_config=None
        )
        config.load()
        self.server = StoppingServer(config, self.capacity, self._drain)
        self.server.lifespan = config.lifespan_class(config)
        self.client: httpx.AsyncClient

    def _drain(self) -> None:
        self.registry.drain()

    @property
    def registry(self) -> Registry:
        """Its registry."""
        registry: Registry = self.app.state.registry
        return registry

    @property
    def port(self) -> int:
        """The port it listens on."""
        port: int = self.server.servers[0].sockets[0].getsockname()[1]
        return port

    def narrow(self) -> None:
        """Have the system take little of what is sent on connections to come: it takes megabytes else."""
        self.server.servers[0].sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)

    @property
    def connections(self) -> list[Connection]:
        """The connections there are."""
        return [each for each in self.server.server_state.connections if isinstance(each, Connection)]

    async def spawn(self, *names: str, scene: str = "room") -> None:
        """Spawn characters, a turn each."""
        for name in names:
            answer = await self.client.put(f"/v1/scenes/{scene}/characters/{name}", json={})
            assert answer.status_code == 201, answer.text

    async def begin(self, count: int = 1, *, character: str = "hero", scene: str = "room") -> int:
        """Have so many transitions begun in one batch, which is one turn; give the last sequence."""
        command = {"command": "begin", "character": character, "layer": "base", "target": "Run"}
        answer = await self.client.post(f"/v1/scenes/{scene}/batch", json={"commands": [command] * count})
        last: int = answer.json()["answers"][-1]["sequence"]
        return last

    @asynccontextmanager
    async def watch(
        self, query: str = "", *, scene: str = "room", headers: str = "", receive_bytes: int | None = None
    ) -> AsyncIterator[Watch]:
        """Watch a scene."""
        async with wire(self.port, receive_bytes=receive_bytes) as connection:
            watch = Watch(connection)
            await watch.begin(f"/v1/scenes/{scene}/watch{query}", headers)
            assert "200 ok" in watch.head, watch.head
            yield watch

    async def refused(self, query: str = "", *, scene: str = "room", headers: str = "") -> Answer:
        """Ask to watch, and give the answer, which is none to read on in."""
        async with wire(self.port) as connection:
            connection.ask("GET", f"/v1/scenes/{scene}/watch{query}", headers=headers)
            answer = await connection.answer()
            assert answer.status != 200, answer
            return answer


@asynccontextmanager
async def service(**settings: Any) -> AsyncIterator[Service]:
    """Serve on a free port, a memory journal by default; it stops at the end."""
    served = Service(Settings(**{"journal": "memory:", **settings}))
    await served.server.startup()
    url = f"http://127.0.0.1:{served.port}"
    async with httpx.AsyncClient(base_url=url, timeout=WAIT_S_MAX) as served.client:
        try:
            yield served
        finally:
            served.server.handle_exit(2, None)
            served.server.handle_exit(2, None)
            await served.server.shutdown()
            # Told twice, the server does not wait for its journal.
            await served.registry.close()
