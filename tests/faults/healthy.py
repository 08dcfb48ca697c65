"""Healthy callers who go on asking while others misbehave, and how long their answers took."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from tests.support.process import Process
from tests.support.wire import Wire, wire

CALLERS = 4
SCENE = "/v1/scenes/match-7"


class Healthy:
    """Callers with a connection each, and the times of their answers (seconds). Every answer must be a grant."""

    def __init__(self, wires: list[Wire]) -> None:
        self.times: list[float] = []
        self._wires = wires
        self._is_over = False

    async def ask(self, count: int) -> None:
        """Ask so often."""
        await asyncio.gather(*(self._ask(number, count) for number in range(CALLERS)))

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Ask all the time; what they were answered is checked, and that they were answered at all."""
        self._is_over = False
        before = len(self.times)
        asking = asyncio.gather(*(self._ask(number, None) for number in range(CALLERS)))
        try:
            yield
        finally:
            self._is_over = True
            await asking
        assert len(self.times) > before

    async def _ask(self, number: int, count: int | None) -> None:
        client, loop = self._wires[number], asyncio.get_running_loop()
        body = json.dumps({"layer": "base", "target": "Run"}).encode()
        while not self._is_over if count is None else count > 0:
            began = loop.time()
            client.ask("POST", f"{SCENE}/characters/hero-{number}/begin", body)
            answer = await client.answer()
            self.times.append(loop.time() - began)
            assert (answer.status, answer.body["outcome"]) == (200, "granted"), answer
            count = None if count is None else count - 1
            await asyncio.sleep(0.002)

    def percentile_ms(self, share: float, asked: slice) -> float:
        """Give the time within which this share of some of the answers came, ms."""
        times = sorted(self.times[asked])
        return 1000 * times[min(len(times) - 1, int(share * len(times)))]


@asynccontextmanager
async def healthy(served: Process) -> AsyncIterator[Healthy]:
    """Spawn a character for each caller, and let them ask a little, so that everything is warm."""
    async with AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(wire(served.port)) for _ in range(CALLERS)]
        for number, client in enumerate(wires):
            client.ask("PUT", f"{SCENE}/characters/hero-{number}", b"{}")
            assert (await client.answer()).status in (200, 201)
        callers = Healthy(wires)
        await callers.ask(50)
        yield callers
