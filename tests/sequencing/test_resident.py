"""Resident memory: a limit that is reached is noticed, and so is the room that comes back."""

from pathlib import Path

import pytest

from app.gates.lives import Spawn
from app.journal.memory import MemoryJournal
from app.sequencing.mailbox import Addressed
from app.sequencing.registry import MemoryFull, Registry
from app.sequencing.resident import LOOKED_AT_S, Resident, resident_bytes, three_quarters
from app.settings import Settings


def test_a_limit_is_noticed_at_the_next_look_and_so_is_room_again():
    now, held = 0.0, 99
    resident = Resident(100, clock=lambda: now, measure=lambda: held)
    before = resident.is_full

    held = 100
    unlooked = resident.is_full
    now += LOOKED_AT_S
    full = resident.is_full
    held = 50
    now += LOOKED_AT_S

    assert (before, unlooked, full, resident.is_full) == (False, False, True, False)


def test_the_process_has_memory():
    assert 1_000_000 < resident_bytes() < 1_000_000_000_000


def test_without_a_limit_of_its_own_it_takes_three_quarters_of_what_there_is(tmp_path: Path):
    cgroup = tmp_path / "memory.max"
    machine = three_quarters(tmp_path / "absent")

    cgroup.write_text("max\n")
    unlimited = three_quarters(cgroup)
    cgroup.write_text("4000000\n")

    assert unlimited == machine == Resident(0).limit_bytes or Resident(0).limit_bytes < machine
    assert three_quarters(cgroup) == 3_000_000


async def test_a_full_process_decides_nothing_and_goes_on_reading():
    registry = Registry(MemoryJournal(), Settings(journal="memory:", process_bytes_max=1))
    registry._resident.limit_bytes = 10**15
    await registry.submit("room", [Addressed("hero", Spawn())])
    registry._resident.limit_bytes = 1
    registry._resident._look_at = 0

    with pytest.raises(MemoryFull):
        await registry.submit("room", [Addressed("villain", Spawn())])

    opened = await registry.opened("room")
    assert opened is not None
    assert opened.scene.sequence == 1
    await registry.close()
