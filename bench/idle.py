"""What an idle character weighs, with much behind it, and in a Redis hash; and how long 100,000 of them are collected.

Each has 3 layers with 64 endings, 30 parameters and 16 event keys, and nothing pending.
"""

import json
import os
import random
import signal
import time
from pathlib import Path

from app.gates.candidate import Candidate
from app.gates.character import Character
from app.gates.decision import Command
from app.gates.event_commands import Acknowledge, CommitLoop, Enqueue
from app.gates.lives import Spawn, Spawned
from app.gates.parameter import CommitParameters, ParameterValue
from app.gates.scene import Record, Scene
from app.gates.transition import Begin, Cancel, Complete, Fail, TransitionGranted
from app.journal import open_journal
from app.journal.port import Journal
from app.sequencing.store import bounds_of
from app.settings import Settings
from bench.cost import Side, compared
from bench.journals import Building, rig_declared
from bench.load import Caller, connected
from bench.mix import LAYERS, PARAMETERS, opened
from bench.redis_rules import RespReading, resp
from bench.rounds import NOTHING, Findings, Line, Plan, at_most, say
from bench.servers import posegate, redis, resident_bytes

SETTLED, WEIGHED = 2_000, 100_000
"""Characters of a first scene, who pay for what a service holds anyway, and those that are weighed."""

TEMPLATES = 200
"""How many different histories there are: each character has a copy of its own of what one of them led to."""

GENERATIONS, KEYS = 65, 16
STATES = ("Idle", "Run", "Hit", "Jump", "Fall")
ENDINGS = {"supersede": 6, "complete": 12, "cancel": 1, "fail": 1}
"""How transitions end, and how many of twenty."""

TOGETHER = 10
BYTES_MAX, PAUSE_MS_MAX = 1_100, 10.0
OURS, HASH = "bytes of an idle character, posegate", "bytes of an idle character, Redis hash"
LONGEST, FULL = "longest pause of the collector under load, ms", "a full collection that is asked for, ms"


class History:
    """What happened to one character: drawn at random, but always the same for the same number."""

    def __init__(self, number: int) -> None:
        chance = random.Random(number)
        ways, weights = list(ENDINGS), list(ENDINGS.values())
        self.name = f"c{number}"
        self.targets = {layer: chance.choices(STATES, k=GENERATIONS) for layer in LAYERS}
        # The last one commits, so that nothing is pending: the character is idle.
        self.endings = {layer: [*chance.choices(ways, weights, k=GENERATIONS - 1), "complete"] for layer in LAYERS}
        self.values = {name: round(chance.uniform(-100, 100), 3) for name in PARAMETERS}
        self.keys = [(frame, chance.choice(("footstep", "dust", "swing"))) for frame in chance.sample(range(60), KEYS)]

    def live(self, candidate: Candidate) -> None:
        """Have all of it decided. Nothing is left to be delivered or acknowledged."""
        self._decide(candidate, Spawn(rig="bench"))
        for layer, targets in self.targets.items():
            for target, way in zip(targets, self.endings[layer], strict=True):
                granted = self._decide(candidate, Begin(layer=layer, target=target))
                assert isinstance(granted, TransitionGranted)
                token = granted.token
                if way == "complete":
                    self._decide(candidate, Complete(token=token))
                elif way == "cancel":
                    self._decide(candidate, Cancel(token=token))
                elif way == "fail":
                    self._decide(candidate, Fail(token=token, why="stuck"))
        values = [ParameterValue(name=name, value=value) for name, value in self.values.items()]
        self._decide(candidate, CommitParameters(values=values))
        for frame, kind in self.keys:
            self._decide(candidate, Enqueue(clip_instance=1, loop=0, frame=frame, kind=kind))
        self._decide(candidate, CommitLoop(clip_instance=1, loop=0))
        self._decide(candidate, Acknowledge(through=1))

    def _decide(self, candidate: Candidate, command: Command) -> object:
        record = candidate.decide(self.name, command)
        assert isinstance(record, Record)
        assert record.accepted, f"{command} is refused: {record.answer}"
        return record.answer

    def hashed(self, name: str) -> bytes:
        """Give the command that puts the same into a Redis hash, endings as one letter each."""
        words: list[str | int | float] = []
        for layer, endings in self.endings.items():
            backwards = zip(reversed(self.targets[layer]), reversed(endings), strict=True)
            current = next(target for target, way in backwards if way == "complete")
            # The newest generation is the layer's own; those before it are remembered.
            words += [f"{layer}:state", current, f"{layer}:generation", GENERATIONS, f"{layer}:epoch", 1]
            words += [f"{layer}:endings", "".join(way[0] for way in endings[:-1])]
        for parameter, value in self.values.items():
            words += [parameter, value]
        words += ["version", 1, "1:loop", 0]
        for frame, kind in self.keys:
            words += [f"1:0:{frame}:{kind}", "d"]
        return resp("HSET", name, *words)


def characters() -> list[Character]:
    """Give what the histories led to."""
    candidate = Candidate(Scene("idle", bytes(32), bounds_of(Settings())), int(time.time() * 1000))
    candidate.decide(None, rig_declared())
    lived = list[Character]()
    for number in range(TEMPLATES):
        history = History(number)
        history.live(candidate)
        character = candidate.character(history.name)
        assert character is not None
        lived.append(character)
    return lived


async def peopled(path: str) -> None:
    """Make a journal of two scenes whose characters begin with a history behind them.

    A spawn's fact holds the life's first value, and replay asks no rule: so a scene that is opened on it holds what it
    would hold had all of it been sent.
    """
    settings = Settings(journal=f"sqlite:{path}")
    journal = open_journal(settings.journal)
    try:
        lived = characters()
        for scene, how_many in (("settled", SETTLED), ("idle", WEIGHED)):
            await _peopled(journal, settings, scene, [lived[number % TEMPLATES] for number in range(how_many)])
    finally:
        await journal.close()


async def _peopled(journal: Journal, settings: Settings, scene: str, lived: list[Character]) -> None:
    building, spawn = await Building.begun(journal, settings, scene), Spawn(rig="bench")
    for start in range(0, len(lived), TOGETHER):
        candidate = building.candidate()
        for number in range(start, min(start + TOGETHER, len(lived))):
            fact = Spawned(1, True, lived[number])
            candidate.apply(Record(f"c{number}", spawn, fact, lived[number].revision))
        building.write(candidate)
        if start % 1_000 == 0:
            await building.written()
    await building.written()


async def measured(plan: Plan) -> Findings:
    """Weigh 100,000 characters, once, and watch the collector while commands are sent to them."""
    path, pauses = Path(plan.directory) / "idle.db", Path(plan.directory) / "pauses.json"
    say(f"making a journal of {WEIGHED:,} characters with {GENERATIONS - 1} endings a layer")
    await peopled(str(path))
    # A scene that is read with so much behind its checkpoint would be checkpointed at once, which no other is.
    with posegate(f"sqlite:{path}", pauses=pauses, checkpoint_decisions=10_000_000) as address:
        await opened(address, "settled")
        before = resident_bytes(address.process)
        await opened(address, "idle")
        figures = {OURS: (resident_bytes(address.process) - before) / WEIGHED}
        since = time.monotonic()
        side = Side(address, lambda number: ("idle", f"c{number}"), WEIGHED, 500, 500)
        figures |= await compared(plan, "idle characters that are woken", {f"{WEIGHED:,} with a history": side})
        os.kill(address.process, signal.SIGUSR1)
        # The next command is answered behind the collection.
        await opened(address, "settled")
    figures |= paused(pauses, since) | {HASH: await _hashed(plan)}
    return Findings(_lines(figures), figures)


async def _hashed(plan: Plan) -> float:
    """Put the same into Redis; give the bytes of one."""
    histories = [History(number) for number in range(TEMPLATES)]
    with redis(plan.directory, always=False) as address:
        resident = list[int]()
        for first, last in ((0, SETTLED), (SETTLED, SETTLED + WEIGHED)):
            resident.append(resident_bytes(address.process))
            for start in range(first, last, 500):
                caller = await connected(address.host, address.port, Caller(RespReading(500)))
                numbers = range(start, start + 500)
                await caller.ask(b"".join([histories[each % TEMPLATES].hashed(f"c{each}") for each in numbers]))
                caller.close()
        return (resident_bytes(address.process) - resident[1]) / WEIGHED


def paused(path: Path, since: float) -> dict[str, float]:
    """Read what the launcher wrote down: pauses since a time, and the one that was asked for."""
    taken = json.loads(path.read_text())
    own = [took for began, _, took, is_asked in taken if began >= since and not is_asked]
    asked = [took for _, _, took, is_asked in taken if is_asked]
    return {LONGEST: max(own, default=0.0) * 1000, "collections": float(len(own)), FULL: max(asked) * 1000}


def _lines(figures: dict[str, float]) -> list[Line]:
    weight, its = figures[OURS], figures[HASH]
    # The last generation is collected so seldom that the load may not see it; its turn comes all the same.
    longest = max(figures[LONGEST], figures[FULL])
    weighed = (
        f"resident bytes of an idle character: 3 layers with {GENERATIONS - 1} endings, 30 parameters, {KEYS} keys"
    )
    pause = f"longest pause of the collector, a full collection included, {WEIGHED:,} characters"
    beside = f"Redis hash: {its:,.0f}"
    return [
        at_most("idle", weighed, f"{weight:,.0f}", beside, weight, BYTES_MAX, f"≤ {BYTES_MAX:,} bytes"),
        at_most("pause", pause, f"{longest:.2f} ms", NOTHING, longest, PAUSE_MS_MAX, f"≤ {PAUSE_MS_MAX:g} ms"),
    ]
