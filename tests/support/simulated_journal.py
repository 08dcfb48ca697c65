"""A journal whose delays, failures and losses are drawn from a seed, and the disk that outlives its processes."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from math import inf
from typing import Any, TypeVar

from msgspec import Struct

from app.gates.scene import Bounds
from app.journal import open_journal
from app.journal.port import (
    UNBOUNDED_BYTES,
    Checkpoint,
    CommitUnknown,
    JournalUnavailable,
    Moved,
    NotTheWriter,
    StoredEntry,
)
from tests.support.simulated_history import SceneHistory
from tests.support.simulated_loop import Broken

T = TypeVar("T")


class Weather(Struct):
    """How a journal behaves: probabilities a call, and delays in seconds. `is_out` says that every call fails now.

    Of writes `breaks` raise what nobody expects, written or not, and `unknown` are answered by nobody knows; of those
    `late` are written some time after. Of appends `conflicts` find that another node wrote. `landing` is how likely
    what was under way when a process died is on the disk. No entry is larger than `entry_bytes_max`. Whoever asks later
    than `foul_until` meets no fault.
    """

    delay_s: float = 0.0
    slow: float = 0.0
    fails: float = 0.0
    unknown: float = 0.0
    late: float = 0.0
    conflicts: float = 0.0
    breaks: float = 0.0
    landing: float = 0.5
    entry_bytes_max: int = UNBOUNDED_BYTES
    is_out: bool = False
    foul_until: float = 0.0

    def __post_init__(self) -> None:
        self._settle(0.0)

    def go_out(self) -> None:
        """Let every call fail."""
        self.is_out = True
        self._settle(0.0)

    def come_back(self, at: float) -> None:
        """Let calls fail as they did before, if they did."""
        self.is_out = False
        self._settle(at)

    def calm(self, at: float) -> None:
        """Let nothing fail from a time on; delays stay."""
        self.fails = self.unknown = self.late = self.conflicts = self.breaks = 0.0
        self.come_back(at)

    def _settle(self, at: float) -> None:
        is_foul = self.is_out or self.fails or self.unknown or self.conflicts or self.breaks
        self.foul_until = inf if is_foul else at


HINTED = 2 / 3
"""How likely a follower hears of an append."""

SLOW_TIMES = 20
"""How much longer than usual a slow call takes at most."""


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """Run a call that never waits, as none of the memory journal does; give what it gives."""
    try:
        call.send(None)
    except StopIteration as ended:
        value: T = ended.value
        return value
    raise AssertionError("a call of the memory journal waited")


class SimulatedDisk:
    """What is durable: an inner journal, and the history of each scene, which is told in the same step.

    `other_node` writes one turn of another node of its own to a scene, or does nothing.
    """

    def __init__(
        self, secret: bytes, bounds: Bounds, trace: Callable[[str], None], abort: Callable[[BaseException], None]
    ) -> None:
        self.inner = open_journal("memory:")
        self.inner._secret = secret  # type: ignore[attr-defined]  # drawn, so that the seals of a seed are the same
        self.scenes: dict[str, SceneHistory] = {}
        self.trace = trace
        self.other_node: Callable[[str], None] = lambda scene: None
        self.followers: dict[object, tuple[str, Moved]] = {}
        self._bounds = bounds
        self._abort = abort

    def history(self, scene: str) -> SceneHistory:
        """Give the history of a scene, an empty one for a name not seen before."""
        held = self.scenes.get(scene)
        if held is None:
            held = self.scenes[scene] = SceneHistory(scene, self.inner.secret, self._bounds)
        return held

    def append(self, scene: str, *, after: int, first: int, last: int, blob: bytes) -> int:
        """Make an entry durable now."""
        position = at_once(self.inner.append(scene, after=after, first=first, last=last, blob=blob))
        self.trace(f"durable {scene} {first}-{last} at {position}")
        try:
            self.history(scene).land(StoredEntry(position, first, last, blob))
        except AssertionError as error:
            self._abort(error)
            raise
        for followed, moved in list(self.followers.values()):
            if followed == scene:
                moved()
        return position


class SimulatedJournal:
    """The whole port, as one process sees a disk. A dead process waits in it for ever; `lose` settles what it wrote."""

    def __init__(self, disk: SimulatedDisk, weather: Weather, chance: random.Random) -> None:
        self._disk = disk
        self._weather = weather
        self._chance = chance
        self._under_way: list[Callable[[], object]] = []
        self._is_closed = False

    @property
    def secret(self) -> bytes:
        """The disk's."""
        return self._disk.inner.secret

    @property
    def is_reachable(self) -> bool:
        """The disk's."""
        return self._disk.inner.is_reachable

    @property
    def entry_bytes_max(self) -> int:
        """What the weather says."""
        return self._weather.entry_bytes_max

    def follow(self, scene: str, moved: Moved) -> Callable[[], None]:
        """Call `moved` some time after an append, or never: one hint in three is lost."""
        loop, context, me = asyncio.get_running_loop(), copy_context(), object()

        def hinted() -> None:
            if self._chance.random() < HINTED:
                loop.call_later(self._weather.delay_s * self._chance.random(), moved, context=context)

        self._disk.followers[me] = scene, hinted
        return lambda: self._disk.followers.pop(me, None) and None

    def lose(self) -> None:
        """Settle by chance, write by write, what of a dead process's writes is on the disk."""
        for write in self._under_way:
            if self._chance.random() < self._weather.landing:
                self._land(write)
        self._under_way.clear()

    async def append(self, scene: str, *, after: int, first: int, last: int, blob: bytes) -> int:
        """Append once durable, or fail before, in between or behind."""
        assert len(blob) <= self._weather.entry_bytes_max, "an entry is larger than the journal takes"
        await self._passed("append", scene)
        if self._happens(self._weather.conflicts):
            self._disk.other_node(scene)

        def write() -> int:
            return self._disk.append(scene, after=after, first=first, last=last, blob=blob)

        if self._happens(self._weather.unknown):
            await self._unknown(write)
        return await self._written(write)

    async def _written(self, write: Callable[[], T]) -> T:
        """Write in two steps that take time each: on the way to the disk, where a crash may lose it, and back."""
        self._under_way.append(write)
        await self._delay()
        self._under_way.remove(write)
        if self._happens(self._weather.breaks):
            self._disk.trace("broken")
            if self._happens(0.5):
                write()
            raise Broken("something that nobody expects")
        written = write()
        await self._delay()
        return written

    async def _unknown(self, write: Callable[[], object]) -> None:
        """Write, or do not, or do later; nobody knows."""
        self._under_way.append(write)
        await self._delay()
        if self._happens(self._weather.late):
            self._disk.trace("unknown, and late")
            asyncio.get_running_loop().call_later(self._chance.random(), self._land_late, write)
            raise CommitUnknown("the answer was lost; the write is under way")
        self._under_way.remove(write)
        if self._happens(0.5):
            write()
            await self._delay()
        self._disk.trace("unknown")
        raise CommitUnknown("the answer was lost")

    def _land_late(self, write: Callable[[], object]) -> None:
        self._under_way.remove(write)
        self._land(write)

    def _land(self, write: Callable[[], object]) -> None:
        """Let a write reach the disk that nobody waits for: it may no longer fit what is there."""
        try:
            write()
        except (NotTheWriter, ValueError) as error:
            self._disk.trace(f"landed in vain: {type(error).__name__}")

    async def read(self, scene: str, *, after: int, limit: int) -> list[StoredEntry]:
        """Read, now and then less than could be had; or fail."""
        await self._passed("read", scene)
        few = self._chance.randint(1, limit) if self._happens(0.4) else limit
        return await self._disk.inner.read(scene, after=after, limit=few)

    async def seek(self, scene: str, *, sequence: int) -> int:
        """Seek, or fail."""
        await self._passed("seek", scene)
        return await self._disk.inner.seek(scene, sequence=sequence)

    async def checkpoint(
        self, scene: str, *, position: int, header: bytes, changed: dict[str, bytes | None], listed: bool
    ) -> None:
        """Checkpoint, or fail as an append does."""
        await self._passed("checkpoint", scene)

        def write() -> None:
            inner = self._disk.inner
            at_once(inner.checkpoint(scene, position=position, header=header, changed=changed, listed=listed))
            self._disk.trace(f"checkpoint {scene} at {position}")

        if self._happens(self._weather.unknown):
            await self._unknown(write)
        await self._written(write)

    async def load(self, scene: str) -> Checkpoint | None:
        """Load, or fail."""
        await self._passed("load", scene)
        return await self._disk.inner.load(scene)

    async def scenes(self, *, after: str, limit: int) -> list[str]:
        """List, or fail."""
        await self._passed("scenes", "")
        return await self._disk.inner.scenes(after=after, limit=limit)

    async def trim(self, scene: str, *, before: int) -> None:
        """Trim, or fail with some of the oldest entries gone already."""
        await self._passed("trim", scene)
        kept = await self._disk.inner.read(scene, after=0, limit=1_000_000)
        covered = [stored.position for stored in kept if stored.position <= before]
        if covered and self._happens(self._weather.unknown):
            await self._disk.inner.trim(scene, before=self._chance.choice(covered))
            raise CommitUnknown("the answer was lost")
        await self._disk.inner.trim(scene, before=before)
        await self._delay()

    async def close(self) -> None:
        """Fail every later call; the disk stays."""
        await self._delay()
        self._is_closed = True

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self._chance.random() < probability

    async def _passed(self, call: str, scene: str) -> None:
        """Take some time, then fail when this call is to fail."""
        await self._delay()
        if self._is_closed or self._weather.is_out or self._happens(self._weather.fails):
            self._disk.trace(f"{call} {scene} fails")
            raise JournalUnavailable(f"{call}: cut off")
        self._disk.trace(f"{call} {scene}")

    async def _delay(self) -> None:
        """Let nothing, some scheduling, or some time pass."""
        drawn = self._chance.random()
        if drawn < 0.3:
            return
        if drawn < 0.5:
            await asyncio.sleep(0)
            return
        slow = SLOW_TIMES if self._happens(self._weather.slow) else 1
        await asyncio.sleep(self._weather.delay_s * slow * self._chance.random())
