"""Stopping: in what order a server lets go of its listener, its connections and its journal, and by when."""

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import uvicorn

from app.api.capacity import Capacity
from app.api.channel import Channel
from app.api.connection import Connection
from app.telemetry.log import log

LOOKS_S = 0.02
"""How often it is looked whether what is waited for has come."""

LAST_WORDS_S = 0.5
"""How long last words may take to go out."""


class StoppingServer(uvicorn.Server):
    """A server that stops in order: no new commands; no new connections; the running answered; the rest told.

    `drain` is called first of all. From then on it takes at most `drain_ms` (nothing when it was SIGINT), twice
    `shutdown_ms_max` (once for requests, once for the journal) and a second. A second signal ends any wait at once.
    """

    def __init__(self, config: uvicorn.Config, capacity: Capacity, drain: Callable[[], None]) -> None:
        super().__init__(config)
        self._capacity = capacity
        self._drain = drain
        self._signals: list[int] = []
        self._closing: asyncio.Timeout | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Stop; told again, stop waiting for anything."""
        self._signals.append(sig)
        super().handle_exit(sig, frame)
        if len(self._signals) > 1:
            self.force_exit = True
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._hurry)

    async def shutdown(self, sockets: Any = None) -> None:
        """Stop. What was acknowledged is durable then; the journal is closed, unless `force_exit` is set."""
        self._loop = asyncio.get_running_loop()
        self._capacity.is_draining = True
        self._drain()
        log.info("draining", connections=len(self.server_state.connections))
        for connection in self._connections():
            connection.drain()
        if signal.SIGTERM in self._signals:
            await self._until(lambda: False, self._capacity.settings.drain_ms / 1000)
        for server in self.servers:
            server.close()
        for each in list(self.server_state.connections):
            each.shutdown()
        await self._until(self._is_quiet, self._capacity.settings.shutdown_ms_max / 1000)
        await self._let_go()
        await self._close()

    async def _let_go(self) -> None:
        """Tell whoever still waits what is known, close every connection, and end what runs for it."""
        left = self._connections()
        if left:
            log.warning("connections-expired", connections=len(left))
        for connection in left:
            connection.expire()
        await self._until(lambda: not self.server_state.connections, LAST_WORDS_S)
        for connection in self._connections():
            connection.abort()
        for task in self.server_state.tasks:
            task.cancel()
        await self._until(self._is_quiet, LAST_WORDS_S)

    async def _close(self) -> None:
        """Close the journal, as the lifespan does when it ends."""
        try:
            async with asyncio.timeout(self._capacity.settings.shutdown_ms_max / 1000) as self._closing:
                if self.force_exit:
                    self._hurry()
                await self.lifespan.shutdown()
        except TimeoutError:
            self.force_exit = True
            log.warning("journal-left-open")
        finally:
            self._closing = None

    def _hurry(self) -> None:
        if self._closing is not None:
            self._closing.reschedule(asyncio.get_running_loop().time())

    async def _until(self, done: Callable[[], bool], limit_s: float) -> None:
        """Wait until something is so, for a time, or until a second signal; what was written goes out meanwhile."""
        loop = asyncio.get_running_loop()
        until = loop.time() + limit_s
        while not done() and loop.time() < until:
            await asyncio.sleep(LOOKS_S)
            if self.force_exit:
                return

    def _is_quiet(self) -> bool:
        return not self.server_state.connections and not self.server_state.tasks

    def _connections(self) -> list[Connection | Channel]:
        return [each for each in self.server_state.connections if isinstance(each, (Connection, Channel))]
