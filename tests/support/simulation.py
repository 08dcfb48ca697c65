"""One simulation: the real registry and sequencer under callers, faults and crashes, all of it drawn from one seed."""

import asyncio
import hashlib
import random
from collections import Counter, deque
from typing import Any

import structlog
from msgspec import Struct

from app.gates.candidate import Candidate
from app.gates.scene import Record
from app.journal.codec import encode_entry
from app.journal.port import UNBOUNDED_BYTES
from app.sequencing.mailbox import Addressed
from app.sequencing.store import SceneStore, bounds_of
from app.sequencing.verify import verify_scene
from app.settings import Settings
from tests.support.played import assert_same_scene
from tests.support.simulated_callers import COMMANDS_MAX, SCENES, Caller, Reader
from tests.support.simulated_commands import Asker
from tests.support.simulated_journal import SimulatedDisk, SimulatedJournal, Weather
from tests.support.simulated_loop import SimulatedLoop
from tests.support.simulated_rules import Violation
from tests.support.simulated_service import Nodes, Service

TRACE_LINES_SHOWN = 80
NODES_TWO = 0.4
"""How many of the simulations have two nodes that serve the same scenes."""

CALM_S_MAX = 600.0
"""How much virtual time everyone may need to settle what is open once nothing fails any more."""


class Outcome(Struct):
    """What a simulation came to: a digest over all that happened in it, in order, and how often what happened."""

    seed: int
    digest: str
    happened: Counter[str]


class SimulationFailed(AssertionError):
    """A simulation found a violation; it tells the seed that replays it, and what happened last."""


def simulate(seed: int) -> Outcome:
    """Run one simulation.

    Raises:
        SimulationFailed: Something happened that must never happen.
    """
    simulation = Simulation(seed)
    with structlog.testing.capture_logs():
        try:
            return simulation.run()
        except Exception as error:
            last = "\n".join(simulation.last)
            said = str(error) or repr(error)
            told = f"seed {seed}: {said}\nreplay it with POSEGATE_SIMULATION_SEED={seed}\nwhat happened last:\n{last}"
            raise SimulationFailed(told) from error


def simulate_all(seeds: range) -> list[Counter[str]]:
    """Run some simulations, one after the other; say for each what happened. The first that fails ends it."""
    return [simulate(seed).happened for seed in seeds]


class Simulation:
    """The parts of one seed and the chances that each of them draws from."""

    def __init__(self, seed: int) -> None:
        self.last: deque[str] = deque(maxlen=TRACE_LINES_SHOWN)
        self.happened: Counter[str] = Counter()
        self._seed = seed
        self._digest = hashlib.blake2b(digest_size=16)
        self._chance = self._chance_of("plan")
        self._settings = drawn_settings(self._chance)
        self._weather = drawn_weather(self._chance)
        self._loop = SimulatedLoop(  # type: ignore[abstract]  # what of a loop nobody here asks for
            self._chance_of("schedule"), self._picked
        )
        secret = self._chance.randbytes(32)
        self._disk = SimulatedDisk(secret, bounds_of(self._settings), self._trace, self._loop.abort)
        self._disk.other_node = self._write_elsewhere
        with_ticks = self._chance.random() < 0.6
        asking = self._chance_of("asking")
        self._askers = {
            scene: Asker(asking, lambda scene=scene: self._disk.history(scene).scene, ticks=with_ticks)  # type: ignore[misc]
            for scene in SCENES
        }
        journal = self._chance_of("journal")
        given = self._loop, self._disk, self._weather, self._settings, journal, self.happened
        first = Service(*given)
        others = [Service(*given, clock=first.clock, number=1)] if self._chance.random() < NODES_TWO else []
        self.happened["two nodes"] += len(others)
        self._service = Nodes([first, *others], self._chance_of("balancer"))
        self._keys = 0

    def run(self) -> Outcome:
        """Run it to its end."""
        self._loop.run(self._main())
        self.happened.update(kind for history in self._disk.scenes.values() for kind in history.kinds())
        return Outcome(self._seed, self._digest.hexdigest(), self.happened)

    def _chance_of(self, part: str) -> random.Random:
        return random.Random(f"{self._seed}/{part}")

    def _picked(self, index: int) -> None:
        self._digest.update(index.to_bytes(4))

    def _trace(self, line: str) -> None:
        told = f"{self._loop.now:.6f} {line}"
        self._digest.update(told.encode())
        self.last.append(told)

    async def _main(self) -> None:
        self._service.start()
        chance, pause_s = self._chance_of("callers"), self._chance.choice((0.0, 0.02, 0.2))
        callers = [
            Caller(f"server {number}", self._service, self._askers, chance, self.happened, pause_s=pause_s)
            for number in range(self._chance.randint(1, 4))
        ]
        reader = Reader(self._service, chance, self.happened)
        reading = self._loop.create_task(reader.run(), name="reader")
        submissions = self._chance.randint(3, 10)
        asking = [self._loop.create_task(caller.run(submissions), name=caller.name) for caller in callers]
        await self._trouble(self._chance.randint(0, 6))
        self._trace("calm")
        self._weather.calm(self._loop.time())
        self._service.start()
        try:
            async with asyncio.timeout(CALM_S_MAX):
                await asyncio.gather(*asking)
        except TimeoutError as error:
            raise Violation(f"callers ask in vain, {CALM_S_MAX} s after the last fault") from error
        reader.is_over = True
        await reading
        await self._service.stop()
        self._service.start()
        for scene in sorted(self._disk.scenes):
            await self._service.read(scene)
            await self._check_end(scene)
        await self._service.stop()

    async def _trouble(self, times: int) -> None:
        """Let the process crash or stop, the journal be out, or the clock be set, one after the other."""
        chance = self._chance
        for _ in range(times):
            await asyncio.sleep(0.6 * chance.random())
            match chance.choice(("crash", "crash", "crash", "stop", "out", "clock")):
                case "crash":
                    node = self._service.any
                    node.crash()
                    await asyncio.sleep(0.05 * chance.random())
                    node.start()
                case "stop":
                    node = self._service.any
                    await node.stop()
                    node.start()
                case "out":
                    self._weather.go_out()
                    await asyncio.sleep(0.3 * chance.random())
                    self._weather.come_back(self._loop.time())
                case "clock":
                    self._service.clock.set_ms += chance.choice((-5_000, 100, 3_000, 700_000))

    def _write_elsewhere(self, scene: str) -> None:
        """Write one turn as another node would that decides on the same history."""
        history = self._disk.history(scene)
        candidate = Candidate(history.scene, self._service.clock())
        for _ in range(self._chance.randint(1, 2)):
            asked: Addressed = self._askers[scene].addressed(None)
            candidate.decide(asked.character, asked.command)
        if not candidate.records:
            return
        self.happened["conflict"] += 1
        records: list[Record] = candidate.records
        blob = encode_entry(at=candidate.at, first=candidate.first, records=records)
        self._disk.append(scene, after=history.position, first=candidate.first, last=candidate.sequence, blob=blob)

    async def _check_end(self, scene: str) -> None:
        """Hold what opens from the journal, and what its entries say when they are decided again, to the history."""
        history, journal = self._disk.history(scene), SimulatedJournal(self._disk, Weather(), self._chance)
        opened, _ = await SceneStore(scene, journal, self._settings).open()
        try:
            assert_same_scene(history.scene, opened)
        except AssertionError as error:
            raise Violation(f"{scene!r} opens otherwise than its history, replayed; {error}") from error
        report = await verify_scene(self._disk.inner, scene, self._settings)
        if report.found:
            raise Violation(f"verifying finds {report.differences}")
        self.happened["verified"] += report.decided_again


_DEFAULTS = Settings()


def drawn_settings(chance: random.Random) -> Settings:
    """Draw limits, many of them so small that they are met all the time."""
    pick: dict[str, Any] = {
        "mailbox_commands_max": (3, 8, 64),
        "turn_commands_max": (1, 4, 4096),
        "scene_idle_ms": (100, 1_000, 60_000),
        "scenes_open_max": (1, 2, 64),
        "hot_characters_max": (1, 2, 64),
        "remains_max": (1, 2, 100),
        "receipts_max": (2 * COMMANDS_MAX, 20, 10_000),
        "receipts_ms": (2_000, 600_000, 600_000),
        "rigs_max": (2, 1_000),
        "characters_max": (2, 1_000_000),
        "scene_requests_max": (3, 8_192),
        "process_bytes_max": (2**60,),
        "checkpoint_decisions": (1, 5, 20, 4096),
        "history_decisions_max": (1, 20, 10_000_000),
        "rollback_ticks": (2, 64),
        "tick_window_ticks": (3, 64),
        "tick_requests_max": (2, 4096),
        "tick_deliveries_max": (3, 65_536),
    }
    return _DEFAULTS.model_copy(update={name: chance.choice(values) for name, values in pick.items()})


def drawn_weather(chance: random.Random) -> Weather:
    """Draw how the journal behaves."""
    return Weather(
        delay_s=chance.choice((0.001, 0.01, 0.04)),
        slow=chance.choice((0.0, 0.05)),
        fails=chance.choice((0.0, 0.0, 0.02, 0.1, 0.3)),
        unknown=chance.choice((0.0, 0.0, 0.05, 0.2)),
        late=chance.choice((0.0, 0.0, 0.5)),
        conflicts=chance.choice((0.0, 0.0, 0.1, 0.8)),
        breaks=chance.choice((0.0, 0.0, 0.03)),
        landing=chance.random(),
        entry_bytes_max=chance.choice((UNBOUNDED_BYTES, UNBOUNDED_BYTES, 2_000, 700)),
    )
