"""The soak: mixed load for a long time, under kills and clients that go away; then nothing may be wrong, or grown.

    python -m tests.faults.soak --minutes 30 [--seed N] [--journal PATH]

In the first part of the time the service is killed, or told to stop, and started again. In the rest it lives on under
the same load, and its memory is watched. All the time each scene that is done is held against what its writers were
told. At the end `posegate verify` reads the whole journal.
"""

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from app.replay.player import SceneTaken
from app.replay.run import replay
from app.replay.service import ServiceError
from app.replay.trace import read_trace
from tests.faults.connected import Client
from tests.faults.drawn import Asked, Draw
from tests.faults.drawn import check_twin as check_drawn
from tests.faults.leaving import WAYS, go_away, raw
from tests.faults.ledger import check_kept, check_once, check_twin, history_of, ledger
from tests.faults.mixed import Party
from tests.faults.twin import client_of, secret_of, twin
from tests.support.process import ROOT, Process, process

KILLED_SHARE = 0.4
"""The part of the time in which the service is killed again and again."""

LIFE_S_MIN, LIFE_S_MAX = 4.0, 20.0
SAMPLED_S = 1.0
TOLD_S = 30.0
WRITTEN_MAX = 400
"""Requests of all writers between two looks at what is not answered."""

PARTIES = 2
BURSTS = 6
WAVES, WAVE_REQUESTS = 4, 12
AGAIN_S = 0.05
SETTINGS = {"scene_idle_ms": "2000", "checkpoint_decisions": "500"}
GROWN_SHARE_MAX, GROWN_BYTES_MAX = 0.10, 8 * 2**20
"""How much more memory the last third of the quiet time may have than the second: either is room for noise."""

TRACES = sorted((ROOT / "tests" / "traces").glob("*.jsonl"))


class Enough:
    """A client that stops answering after some requests, as a lost connection would, so that a burst has an end."""

    def __init__(self, client: Client, requests: int) -> None:
        self._client = client
        self._left = requests

    async def get(self, path: str, /) -> Any:
        """Ask on."""
        return await self._client.get(path)

    async def put(self, path: str, /, *, json: Any) -> Any:
        """Ask on."""
        return await self._client.put(path, json=json)

    async def post(self, path: str, /, *, json: Any, headers: dict[str, str] | None = None) -> Any:
        """Ask on, unless it is enough."""
        if self._left <= 0:
            raise httpx.TransportError("enough for this burst")
        self._left -= 1
        return await self._client.post(path, json=json, headers=headers)


class Service:
    """The service under soak, over all its lives; `up` is set while it can be asked."""

    def __init__(self, journal: str) -> None:
        self.journal = journal
        self.up = asyncio.Event()
        self.lives = 0
        self._stack = ExitStack()
        self._process: Process | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    @property
    def process(self) -> Process:
        """The present process."""
        assert self._process is not None
        return self._process

    async def start(self) -> None:
        """Start a life."""
        self._process = await asyncio.to_thread(self._stack.enter_context, process(self.journal, **SETTINGS))
        self.lives += 1
        self.up.set()

    async def end(self, *, kindly: bool) -> None:
        """End a life: told to stop, it must end with 0; else it is killed."""
        self.up.clear()
        if kindly:
            self.process.terminate()
            code = await asyncio.to_thread(self.process.ended)
            assert code == 0, f"ended with {code}"
        else:
            self.process.kill()
        self._stack.close()


class Soak:
    """One soak. Everything that is drawn at random follows from its seed, but for what depends on time."""

    def __init__(self, journal: str, minutes: float, seed: int) -> None:
        self.done: Counter[str] = Counter()
        self.memory: list[tuple[float, int]] = []
        self._service = Service(journal)
        self._seed = seed
        self._begun = time.monotonic()
        self._length_s = minutes * 60

    async def run(self) -> None:
        """Load the service until the time is up, then stop it. Raises AssertionError where something is wrong."""
        work = {"clients": self._go_away(), "traces": self._replay(), "kills": self._kill(), "watch": self._watch()}
        work |= {f"party {number}": self._write(number) for number in range(PARTIES)}
        with self._service:
            await self._service.start()
            async with asyncio.TaskGroup() as group:
                for name, each in work.items():
                    group.create_task(each, name=name)
            await self._service.end(kindly=True)

    def check_memory(self) -> str:
        """The memory of the last life, once it is warm, does not grow. Give the figures."""
        start, end = self._begun + KILLED_SHARE * self._length_s, self._begun + self._length_s
        third = (end - start) / 3
        first, middle, last = (
            [size for at, size in self.memory if start + part * third <= at < start + (part + 1) * third]
            for part in range(3)
        )
        warm, late = statistics.median(middle), statistics.median(last)
        figures = (
            f"memory by thirds, MB: {' '.join(f'{statistics.median(p) / 2**20:.1f}' for p in (first, middle, last))}"
        )
        assert late - warm <= max(GROWN_SHARE_MAX * warm, GROWN_BYTES_MAX), f"it grows: {figures}"
        return figures

    @property
    def _is_over(self) -> bool:
        return time.monotonic() - self._begun >= self._length_s

    def _numbers(self) -> Iterator[int]:
        """Count until the time is up."""
        for number in count():
            if self._is_over:
                return
            yield number

    async def _write(self, party_number: int) -> None:
        """Let writers write in bursts, a scene at a time; settle all; hold the scene against what they were told."""
        for number in self._numbers():
            scene = f"party-{party_number}-{number}"
            party = Party(scene, f"{self._seed} {scene}")
            for _ in range(BURSTS):
                await self._settled(party)
                client = Client(self._service.process.url)
                await party.write(Enough(client, WRITTEN_MAX))
                client.close()
            await self._settled(party)
            rows = ledger(party.sent)
            check_once(rows)
            await self._held(lambda client, party=party, rows=rows: self._check_party(client, party, rows))
            self.done["decisions by parties"] += len(rows)
            self.done["scenes"] += 1

    async def _settled(self, party: Party) -> None:
        """Ask again until everything is answered."""
        while True:
            await self._service.up.wait()
            client = Client(self._service.process.url)
            is_settled = await party.settle(client)
            client.close()
            if is_settled:
                return
            self.done["settled at another try"] += 1
            await asyncio.sleep(AGAIN_S)

    async def _check_party(self, client: httpx.AsyncClient, party: Party, rows: list[Any]) -> None:
        check_kept(rows, await history_of(client, party.scene), is_trimmed=False)
        await check_twin(client, party, rows, self._service.journal)

    async def _held(self, check: Any) -> None:
        """Make a check that asks the service; again when it was stopped meanwhile."""
        while True:
            await self._service.up.wait()
            life = self._service.lives
            try:
                async with client_of(self._service.process.url) as client:
                    await check(client)
            except (httpx.TransportError, AssertionError, KeyError):
                if self._service.lives == life and self._service.up.is_set():
                    raise
                await asyncio.sleep(AGAIN_S)
            else:
                return

    async def _go_away(self) -> None:
        """Ask as clients who go away, then settle by key; hold each scene against a twin."""
        for number in self._numbers():
            scene, chance = f"gone-{number}", random.Random(f"{self._seed} gone {number}")
            draw = Draw(scene, chance)
            await self._settle_drawn(draw.spawning())
            for _ in range(WAVES):
                wave = draw.wave(WAVE_REQUESTS)
                for asked in wave:
                    try:
                        await go_away(self._service.process, raw(asked), chance.choice(WAYS), chance)
                    except OSError:
                        await asyncio.sleep(AGAIN_S)
                    self.done["clients gone"] += 1
                await self._settle_drawn(wave)
            await self._held(lambda client, draw=draw, scene=scene: self._check_drawn(client, draw, scene))

    async def _settle_drawn(self, wave: list[Asked]) -> None:
        for asked in wave:
            while True:
                await self._service.up.wait()
                async with client_of(self._service.process.url) as client:
                    if await asked.send(client):
                        break
                await asyncio.sleep(AGAIN_S)

    async def _check_drawn(self, client: httpx.AsyncClient, draw: Draw, scene: str) -> None:
        async with twin(await secret_of(self._service.journal)) as other:
            await check_drawn(client, other, draw.asked, scene)

    async def _replay(self) -> None:
        """Replay recorded engine traces, one after the other; a kill ends one before its time."""
        traces = [read_trace(path) for path in TRACES]
        for number in self._numbers():
            await self._service.up.wait()
            life = self._service.lives
            try:
                trace = traces[number % len(traces)]
                [report] = await replay([trace], url=self._service.process.url, scene=f"trace-{number}")
            except (ServiceError, SceneTaken, httpx.HTTPError):
                if self._service.lives == life and self._service.up.is_set():
                    raise
                self.done["traces cut off"] += 1
            else:
                assert not report.problems or self._service.lives != life or not self._service.up.is_set(), report
                self.done["traces replayed"] += 1

    async def _kill(self) -> None:
        """End the service again and again in the first part of the time; one life in four ends as it is told to."""
        chance = random.Random(f"{self._seed} kills")
        until = self._begun + KILLED_SHARE * self._length_s
        for number in count(1):
            life_s = chance.uniform(LIFE_S_MIN, LIFE_S_MAX)
            if time.monotonic() + life_s >= until:
                return
            await asyncio.sleep(life_s)
            kindly = number % 4 == 0
            await self._service.end(kindly=kindly)
            self.done["stops" if kindly else "kills"] += 1
            await self._service.start()

    async def _watch(self) -> None:
        """Note the memory, and say now and then how far it is."""
        told = self._begun
        while not self._is_over:
            await asyncio.sleep(SAMPLED_S)
            if not self._service.up.is_set():
                continue
            now, size = time.monotonic(), self._service.process.resident_bytes
            self.memory.append((now, size))
            if now - told >= TOLD_S:
                told = now
                done = ", ".join(f"{number} {what}" for what, number in sorted(self.done.items()))
                print(f"{(now - self._begun) / 60:5.1f} min  {size / 2**20:6.1f} MB  {done}", flush=True)


def verified(journal: str) -> str:
    """Read the whole journal again; nothing may differ."""
    command = [sys.executable, "-m", "app.cli", "verify", journal]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def main() -> None:
    """Soak, and say what came of it; exit code 1 when something is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.soak", description="Load the service for a long time."
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    parser.add_argument("--journal", type=Path, help="where the journal is, which is left there; else a temporary one")
    asked = parser.parse_args()
    print(f"soak of {asked.minutes:g} minutes, seed {asked.seed}", flush=True)
    with TemporaryDirectory() as folder:
        journal = f"sqlite:{asked.journal or Path(folder, 'soak.db')}"
        soak = Soak(journal, asked.minutes, asked.seed)
        asyncio.run(soak.run())
        print(", ".join(f"{number} {what}" for what, number in sorted(soak.done.items())))
        print(verified(journal))
        print(soak.check_memory())


if __name__ == "__main__":
    main()
