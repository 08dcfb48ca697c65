"""A disk that is full, or fails on some write or sync: nobody is told what is not durable, and it recovers alone."""

import asyncio
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.gates.lives import Spawn
from app.gates.transition import Begin
from app.journal.port import START, CommitUnknown, JournalUnavailable
from app.journal.sqlite import SqliteJournal
from app.sequencing.mailbox import Addressed, Decided
from app.sequencing.registry import Registry
from app.settings import Settings
from tests.support.disk import Disk
from tests.support.sequenced import Clock, generation, seen

ROUNDS = max(12, int(os.environ.get("POSEGATE_FAULT_ROUNDS", "0")) // 5)
SEED = int(os.environ.get("POSEGATE_FAULT_SEED", "4"))
SCENES = [f"scene-{number}" for number in range(4)]
FAILURES = 30
"""How many writes and syncs fail before the disk is well again."""

LARGE = Begin(layer="base", target="Run", data="x" * 900)


class Caller:
    """Begins transitions of one hero of a scene, each with a key of its own, and retries until it is answered."""

    def __init__(self, registry: Registry, scene: str) -> None:
        self.registry = registry
        self.scene = scene
        self.acknowledged: list[int] = []
        self.refused: list[Exception] = []

    async def begin(self, number: int) -> None:
        """Have one transition begun."""
        while True:
            try:
                [given] = await self.registry.submit(self.scene, [Addressed("hero", LARGE, f"key-{number}")])
            except (JournalUnavailable, CommitUnknown) as error:
                self.refused.append(error)
                opened = await self.read()
                assert opened >= len(self.acknowledged)
                await asyncio.sleep(0.001)
                continue
            assert isinstance(given, Decided)
            self.acknowledged.append(given.sequence)
            return

    async def read(self) -> int:
        """Give the generation of the hero, as a reader sees it while the disk may be failing."""
        opened = await self.registry.opened(self.scene)
        assert opened is not None
        hero = opened.scene.roster.get("hero")
        assert hero is not None
        return hero.layers["base"].generation


class Failing:
    """Lets a disk fail from its nth write or sync on, some times in a row."""

    def __init__(self, disk: Disk, error: str) -> None:
        self._fail = disk.is_full if error == "full" else disk.is_broken
        self._disk = disk
        self._until = 0
        self.failed = 0

    @property
    def is_failing(self) -> bool:
        """Say whether it has begun to fail and is not well again."""
        return 0 < self.failed < FAILURES

    def begin(self, *, on: str, after: int) -> None:
        """Fail from now on, after so many writes or syncs."""
        self._until = after
        setattr(self._disk, f"fail_{on}", self._count)

    def _count(self, path: str) -> None:
        self._until -= 1
        if self._until < 0:
            self.failed += 1
            if self.failed >= FAILURES:
                self._disk.heal()
            self._fail(path)


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    yield made
    made.heal()
    made.unregister()


@pytest.mark.parametrize("seed", range(SEED * 1_000, SEED * 1_000 + ROUNDS))
async def test_a_disk_that_fails_for_a_while_loses_nothing_and_nobody_is_answered_twice(
    tmp_path: Path, disk: Disk, seed: int
):
    chances = random.Random(seed)
    error, on = chances.choice([("full", "write"), ("broken", "write"), ("broken", "sync")])
    after = chances.randrange(60 if on == "write" else 25)
    print(f"seed {seed}: {error} on {on} {after}")
    committed: list[bool] = []
    journal = SqliteJournal(
        str(tmp_path / "journal.db"), vfs=disk.name, committed=lambda *_: committed.append(failing.is_failing)
    )
    registry = Registry(journal, Settings(checkpoint_decisions=8), clock=Clock())
    failing = Failing(disk, error)
    for scene in SCENES:
        await registry.submit(scene, [Addressed("hero", Spawn())])
    failing.begin(on=on, after=after)
    callers = [Caller(registry, scene) for scene in SCENES]

    async def called(caller: Caller) -> None:
        for number in range(30):
            await caller.begin(number)

    await asyncio.gather(*map(called, callers))
    for scene in SCENES:
        assert await generation(registry, scene) == 30
    await registry.close()

    assert failing.failed >= FAILURES
    assert not any(committed)
    assert any(caller.refused for caller in callers)
    again = Registry(SqliteJournal(str(tmp_path / "journal.db")), Settings(), clock=Clock())
    for caller in callers:
        assert await generation(again, caller.scene) == 30
        assert (await seen(again, caller.scene)).sequence == 31
        assert sorted(caller.acknowledged) == list(range(2, 32))
    await again.close()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Give a file system of 6 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = shutil.which("mount")
    mounted = mount and subprocess.run([mount, "-t", "tmpfs", "-o", "size=6m", "tmpfs", place], capture_output=True)
    if not mounted or mounted.returncode != 0:
        pytest.skip("no file system may be mounted here; the disk above is full as well")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


async def test_a_full_file_system_takes_nothing_serves_readers_and_goes_on_when_there_is_room(small: Path):
    ballast = small / "ballast"
    ballast.write_bytes(bytes(3 * 1024 * 1024))
    journal = SqliteJournal(str(small / "journal.db"))
    registry = Registry(journal, Settings(), clock=Clock())
    await registry.submit("room", [Addressed("hero", Spawn())])
    acknowledged = 0

    async def filled() -> None:
        nonlocal acknowledged
        while True:
            await registry.submit("room", [Addressed("hero", LARGE)])
            acknowledged += 1

    with pytest.raises(JournalUnavailable, match="nothing was written"):
        await filled()
    for _ in range(20):
        with pytest.raises(JournalUnavailable):
            await registry.submit("room", [Addressed("hero", LARGE)])
        with pytest.raises(JournalUnavailable):
            await registry.submit("new", [Addressed("hero", Spawn())])
        assert await generation(registry, "room") == acknowledged
        assert await journal.read("room", after=START, limit=1)
    ballast.unlink()
    for _ in range(10):
        await registry.submit("room", [Addressed("hero", LARGE)])
    await registry.submit("new", [Addressed("hero", Spawn())])
    await registry.close()

    again = Registry(SqliteJournal(str(small / "journal.db")), Settings(), clock=Clock())
    assert acknowledged > 100
    assert await generation(again, "room") == acknowledged + 10
    assert await again.scenes(after="", limit=9) == ["new", "room"]
    await again.close()
