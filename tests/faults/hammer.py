"""The hammer: writers and onlookers of one scene at several nodes at once, and what must be true of it afterwards.

Every request goes to another node than the one before, by a balancer or by itself, and is sent again, there or
elsewhere, until it is answered.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from http import HTTPStatus
from itertools import cycle, pairwise
from math import inf
from typing import Any

import httpx

from tests.faults.connected import Came, Client
from tests.faults.ledger import check_kept, check_once, history_of, ledger
from tests.faults.mixed import HEROES, Mixed, Party, Writer
from tests.faults.twin import shown, timeless, twin
from tests.support.watching import Watch
from tests.support.wire import wire

ANSWER_S_MAX = 6.0
"""How long a writer waits before it asks elsewhere: nodes that stand still say nothing."""

SETTLED_S_MAX = 90.0
"""How long a request may take in all, with a fault and what comes after it."""

PAUSE_S_MAX = 0.12
AGAIN_S_MIN, AGAIN_S_MAX = 0.02, 0.3
BEHIND_EVERY = 7
"""Of so many answers, one is looked for at the next node."""

AGAIN = frozenset({"commit-unknown", "journal-unavailable", "draining", "mailbox-full"})
"""The problems that the same request may be sent again for, whoever says them: a node, or the balancer before it."""

OF_BALANCER = (502, 504)
"""With these a balancer says `commit-unknown`: a node went away before it answered."""


class Alternating:
    """A client of several nodes, or of a balancer that alternates: each request goes to the next one.

    `begun` and `ended` are when each key was first sent and first answered (seconds of a monotonic clock). `unanswered`
    counts the tries that no node answered, `problems` what was told instead of a decision.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self._clients = [Client(url) for url in urls]
        self._next: Iterator[Client] = cycle(self._clients)
        self.begun: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.unanswered = 0
        self.problems = Counter[str]()

    async def get(self, path: str, /) -> Came:
        return await self._asked(next(self._next).get(path))

    async def put(self, path: str, /, *, json: Any) -> Came:
        return await self._asked(next(self._next).put(path, json=json))

    async def post(self, path: str, /, *, json: Any, headers: dict[str, str] | None = None) -> Came:
        key = (headers or {}).get("Idempotency-Key", "").strip('"')
        self.begun.setdefault(key, time.monotonic())
        came = await self._asked(next(self._next).post(path, json=json, headers=headers))
        if came.status_code == 200:
            self.ended.setdefault(key, time.monotonic())
        return came

    async def _asked(self, asking: Any) -> Came:
        """Wait for an answer of a node. What a balancer says in its stead must be known to it too, and is none."""
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                came: Came = await asking
        except (TimeoutError, httpx.TransportError, ValueError) as error:
            self.unanswered += 1
            raise httpx.TransportError(f"no answer: {error!r}") from error
        if came.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            kind = came.json()["type"].removeprefix("/problems/")
            assert kind in AGAIN, came.text
            assert came.status_code not in OF_BALANCER or kind == "commit-unknown", came.text
            self.problems[kind] += 1
            if came.status_code in OF_BALANCER:
                self.unanswered += 1
                raise httpx.TransportError(f"no node answered: {came.text}")
        return came

    def close(self) -> None:
        for client in self._clients:
            client.close()


class Onlooker:
    """Watches a scene at one node after another, resumed behind what it read last. `read` is all that it was told."""

    def __init__(self, scene: str, urls: Sequence[str]) -> None:
        self._path = f"/v1/scenes/{scene}/watch"
        self._ports = cycle(int(url.rpartition(":")[2]) for url in urls)
        self.last_id = 0
        self.read: list[dict[str, Any]] = []

    async def look(self) -> None:
        """Watch until cancelled; a stream that breaks, ends or stands still is begun again at the next node."""
        while True:
            with suppress(OSError, AssertionError):
                async with wire(next(self._ports)) as connection:
                    watch = Watch(connection)
                    async with asyncio.timeout(ANSWER_S_MAX):
                        await watch.begin(self._path, f"Last-Event-ID: {self.last_id}\r\n")
                    if "200 ok" in watch.head:
                        await self._read(watch)
            await asyncio.sleep(0.1)

    async def _read(self, watch: Watch) -> None:
        while True:
            async with asyncio.timeout(ANSWER_S_MAX):
                event = await watch.event()
            if event is None or event.kind == "end":
                return
            if event.kind is not None:
                if event.kind != "decisions":
                    raise RuntimeError(f"an onlooker behind {self.last_id} was told {event}")
                self.read += event.data["decisions"]
            self.last_id = self.last_id if event.id is None else event.id


class Hammer:
    """Writers of one scene, and one onlooker for each node, over whatever happens to the nodes meanwhile."""

    def __init__(self, scene: str, seed: str, urls: Sequence[str], watched: Sequence[str] | None = None) -> None:
        """Write to `urls` in turn; watch at each of `watched`, those by default."""
        self.scene = scene
        self.party = Party(scene, seed)
        self.client = Alternating(urls)
        self.answers = 0
        self._chance = random.Random(f"{seed}, hammer")
        places = watched or urls
        self.onlookers = [Onlooker(scene, [*places[n:], *places[:n]]) for n in range(len(places))]
        self.back_s: dict[str, list[float]] = {}
        self._marked: tuple[str, float] | None = None
        self._answered_at = [time.monotonic()]
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def sent(self) -> list[Mixed]:
        """Everything that was sent."""
        return self.party.sent

    async def begin(self) -> None:
        """Spawn the heroes, then let all write and look."""
        await self._settle(self.party.sent[0])
        writing = [self._write(writer) for writer in self.party.writers]
        looking = [onlooker.look() for onlooker in self.onlookers]
        self._tasks = [asyncio.create_task(work, name="hammer") for work in (*writing, *looking)]

    async def answered(self, more: int, wait_s: float = SETTLED_S_MAX) -> float:
        """Wait for so many answers more; give how long it took, seconds."""
        started, until = time.monotonic(), self.answers + more
        while self.answers < until:
            self._require_running()
            assert time.monotonic() - started < wait_s, f"{until - self.answers} of {more} answers have not come"
            await asyncio.sleep(0.02)
        return time.monotonic() - started

    def mark(self, what: str) -> None:
        """Remember that something happens now."""
        self._marked = what, time.monotonic()

    def measure(self) -> None:
        """Note the longest time without an answer since the mark: how long it took until writes were back, seconds."""
        assert self._marked is not None
        what, at = self._marked
        since = [at, *(answered for answered in self._answered_at if answered > at), time.monotonic()]
        self.back_s.setdefault(what, []).append(max(later - earlier for earlier, later in pairwise(since)))

    async def end(self) -> None:
        """Write nothing new, settle what was sent, and let the onlookers read to the end."""
        self._is_over = True
        writing, looking = self._tasks[: len(self.party.writers)], self._tasks[len(self.party.writers) :]
        try:
            async with asyncio.timeout(2 * SETTLED_S_MAX):
                await asyncio.gather(*writing)
                last = max(answer["sequence"] for request in self.sent for answer in request.answers)
                while any(onlooker.last_id < last for onlooker in self.onlookers):
                    self._require_running()
                    await asyncio.sleep(0.02)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*looking, *writing, return_exceptions=True)

    async def check(self, secret: bytes, nodes: Sequence[str]) -> None:
        """Hold everything that was told against the history as each node has it, and against one that never failed."""
        rows = ledger(self.sent)
        check_once(rows)
        check_order(self.sent, self.client)
        for url in nodes:
            client = Client(url)
            decisions = await history_of(client, self.scene)
            check_kept(rows, decisions, is_trimmed=False)
            assert len(decisions) == len(rows), "there are decisions that nobody asked for"
            client.close()
            for onlooker in self.onlookers:
                assert onlooker.read == list(decisions.values()), "an onlooker was told otherwise"
        async with twin(secret) as other:
            response = await other.post(
                f"/v1/scenes/{self.scene}/batch", json={"commands": [row.command for row in rows]}
            )
            assert response.status_code == 200, response.text
            for row, again in zip(rows, response.json()["answers"], strict=True):
                assert timeless(again) == timeless(row.answer), f"the twin says {again} to {row}"
            expected = await shown(other, self.scene, HEROES)
        for url in nodes:
            client = Client(url)
            assert await shown(client, self.scene, HEROES) == expected
            client.close()

    def close(self) -> None:
        """Let go of connections."""
        self.client.close()

    async def _write(self, writer: Writer) -> None:
        while not self._is_over:
            request = writer._next()
            writer.sent.append(request)
            await self._settle(request)
            self.answers += 1
            self._answered_at.append(time.monotonic())
            if self.answers % BEHIND_EVERY == 0:
                await self._read_behind(request.answers[-1]["sequence"])
            await asyncio.sleep(self._chance.uniform(0, PAUSE_S_MAX))

    async def _settle(self, request: Mixed) -> None:
        """Send until it is answered."""
        async with asyncio.timeout(SETTLED_S_MAX):
            while not await request.send(self.client):  # noqa: ASYNC110  # it is sent again, and no event would tell
                await asyncio.sleep(self._chance.uniform(AGAIN_S_MIN, AGAIN_S_MAX))

    async def _read_behind(self, sequence: int) -> None:
        """Read at the next node what was answered at another: a read that asks for it sees it, or is told why not."""
        with suppress(httpx.TransportError):
            came = await self.client.get(f"/v1/scenes/{self.scene}?min_sequence={sequence}")
            assert came.status_code in (200, 503), came.text
            assert came.status_code == 503 or came.json()["sequence"] >= sequence, came.text

    def _require_running(self) -> None:
        for task in self._tasks:
            if task.done() and (self._is_over is False or task.exception() is not None):
                task.result()


def check_order(sent: Sequence[Mixed], times: Alternating) -> None:
    """See that what was answered before another was sent was decided before it: with the twin, that is linearizable.

    Decisions have sequences, and the twin decides them one after another with the same answers. What is left to see is
    that this order could have been: that it holds the order in which requests followed each other.
    """
    latest, latest_request = -inf, None
    for request in sorted(sent, key=lambda each: each.answers[0]["sequence"]):
        ended = times.ended[request.key]
        assert latest <= ended, f"{request} was answered before {latest_request} was sent, and decided behind it"
        if times.begun[request.key] > latest:
            latest, latest_request = times.begun[request.key], request
