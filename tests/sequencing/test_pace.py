"""Pace: work that takes long lets others run, and what they see meanwhile is what was adopted before."""

import asyncio
from collections.abc import Generator

import pytest

from app.gates.lives import Spawn
from app.gates.tick import Request, Tick
from app.gates.transition import Begin
from app.journal.memory import MemoryJournal
from app.sequencing import pace as pace_module
from app.sequencing.mailbox import Addressed, Decided
from app.sequencing.pace import Pace
from app.sequencing.registry import Registry
from app.settings import Settings

RUN = Begin(layer="base", target="Run")


async def test_work_is_due_for_a_pause_after_a_while_and_not_before():
    loop, held = asyncio.get_running_loop(), Pace()
    now = loop.time()
    held._time = lambda: now
    held._since = now

    before = held.is_due
    now += 2 * pace_module.WORK_S_MAX

    assert (before, held.is_due) == (False, True)
    await held.pause()
    assert not held.is_due


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every look say that others should run."""
    monkeypatch.setattr(pace_module, "WORK_S_MAX", 0.0)


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("kind", ["batch", "seal", "checkpoint and opening"])
async def test_others_run_while_much_is_decided_and_see_nothing_of_it(kind: str):
    journal, settings = MemoryJournal(), Settings(journal="memory:", checkpoint_decisions=1)
    registry = Registry(journal, settings)
    names = [f"hero-{number}" for number in range(256)]
    await registry.submit("room", [Addressed(name, Spawn()) for name in names])
    requests = [Request(1, "ai", number, 0, name, RUN) for number, name in enumerate(names)]
    await registry.submit("room", [Addressed(None, Tick(requests=requests))])
    opened = await registry.opened("room")
    assert opened is not None
    before, seen = opened.scene.sequence, set[int]()
    commands = {
        "batch": [Addressed(name, RUN) for name in names],
        "seal": [Addressed(None, Tick(seal=1))],
        "checkpoint and opening": [],
    }[kind]
    if kind == "checkpoint and opening":
        await registry.close()
        journal._is_closed = False
        registry = Registry(journal, settings)
    rounds = 0

    async def look() -> None:
        nonlocal rounds
        while not deciding.done():
            rounds += 1
            seen.add(opened.scene.sequence)
            await asyncio.sleep(0)

    deciding = asyncio.create_task(registry.submit("room", commands))
    await look()
    results = await deciding

    assert all(isinstance(result, Decided) for result in results)
    assert rounds > 5
    assert seen <= {before, before + len(commands)}
    await registry.close()


async def test_work_in_steps_gives_what_it_gives_at_once_and_raises_what_it_raises():
    def steps(number: int) -> Generator[None, None, int]:
        yield
        if number < 0:
            raise ValueError("below 0")
        return number

    assert await Pace().through(steps(4)) == 4
    with pytest.raises(ValueError, match="below 0"):
        await Pace().through(steps(-1))


@pytest.mark.usefixtures("restless")
async def test_others_run_in_every_step_when_it_is_due():
    ran = list[int]()

    def steps() -> Generator[None, None, None]:
        for number in range(4):
            asyncio.get_running_loop().call_soon(ran.append, number)
            yield
            assert len(ran) == number + 1, "others ran"

    await Pace().through(steps())
