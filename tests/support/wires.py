"""Wires to no server, or to one that is not always up to date: what JetStream says is written down before."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from app.journal.nats_wire import Message, Wire


class ScriptedWire:
    """A wire whose answers come from a list, in order; a message with a status ends several."""

    def __init__(self, answers: Iterable[Message | Exception]) -> None:
        self._answers = iter(answers)
        self.asked: list[tuple[str, bytes, bytes]] = []
        self.times_given: list[float | None] = []
        self.most_at_once = 0
        self._at_once = 0

    @property
    def is_connected(self) -> bool:
        """It always is."""
        return True

    @property
    def payload_bytes_max(self) -> int:
        """The servers' default."""
        return 1024 * 1024

    async def ask(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        headers: bytes = b"",
        again_s: float | None = None,
        passes_over: Callable[[Message], bool] | None = None,
    ) -> Message:
        """Give the next answer."""
        del again_s, passes_over
        self.asked.append((subject, payload, headers))
        return self._next()

    async def ask_for_many(self, subject: str, payload: bytes, *, within_s: float | None = None) -> list[Message]:
        """Give the next answers up to one with a status; what has none and stands alone is given a 400."""
        self.times_given.append(within_s)
        self.asked.append((subject, payload, b""))
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(0)
        try:
            answers = [self._next()]
            while not answers[-1].status:
                try:
                    answers.append(self._next())
                except StopIteration:
                    answers.append(Message(400, b"NATS/1.0 400 Bad Request\r\n\r\n", b""))
            return answers
        finally:
            self._at_once -= 1

    def listen(self, subject: str, heard: Callable[[Message], None]) -> Callable[[], None]:
        """Hear nothing."""
        del subject, heard
        return lambda: None

    async def close(self) -> None:
        """Nothing is open."""

    async def crowd(self, call: Callable[[], Awaitable[object]], many: int) -> None:
        """Call so many times at once."""
        await asyncio.gather(*(call() for _ in range(many)))

    def _next(self) -> Message:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


class BehindWire:
    """A wire on which the copies that answer direct questions are behind: they know of nothing, as often as told."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.behind = 0
        self.asked: list[str] = []

    @property
    def is_connected(self) -> bool:
        """Whether the wire behind is."""
        return self._wire.is_connected

    @property
    def payload_bytes_max(self) -> int:
        """What the wire behind takes."""
        return self._wire.payload_bytes_max

    async def ask(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        headers: bytes = b"",
        again_s: float | None = None,
        passes_over: Callable[[Message], bool] | None = None,
    ) -> Message:
        """Ask the wire behind."""
        self.asked.append(subject)
        return await self._wire.ask(subject, payload, headers=headers, again_s=again_s, passes_over=passes_over)

    async def ask_for_many(self, subject: str, payload: bytes, *, within_s: float | None = None) -> list[Message]:
        """Say that nothing is there, or ask the wire behind."""
        self.asked.append(subject)
        if self.behind == 0:
            return await self._wire.ask_for_many(subject, payload, within_s=within_s)
        self.behind -= 1
        return [Message(404, b"NATS/1.0 404 Message Not Found\r\n\r\n", b"")]

    def listen(self, subject: str, heard: Callable[[Message], None]) -> Callable[[], None]:
        """Listen on the wire behind."""
        return self._wire.listen(subject, heard)

    async def close(self) -> None:
        """Close the wire behind."""
        await self._wire.close()
