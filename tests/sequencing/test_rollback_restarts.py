"""A scene that leaves memory, or a service that restarts, between any two steps of a rollback answers the same."""

import re
from typing import Any

import pytest

from app.gates.decision import Command
from app.gates.event_commands import CommitLoop, Enqueue, Play, Retire
from app.gates.lives import Despawn, Spawn
from app.gates.rig import KindRule
from app.gates.tick import Tick
from app.gates.transition import Begin
from app.journal import open_journal
from app.sequencing.mailbox import Addressed, Decided
from app.sequencing.registry import Registry
from app.settings import Settings
from tests.support.journal_fakes import FaultyJournal
from tests.support.played import assert_same_scene, request
from tests.support.rigs import rig
from tests.support.sequenced import Clock, idle, replayed, seen

KINDS: dict[str, Any] = {
    "step": "presentation",
    "flash": KindRule("immediate", "flashed"),
    "flashed": "immediate",
    "danger": KindRule("gameplay", "safe"),
    "safe": "gameplay",
}


def event(kind: str, frame: int, number: int = 1) -> Enqueue:
    return Enqueue(clip_instance=number, loop=0, frame=frame, kind=kind)


STORY: list[Command] = [
    Spawn(inline=rig(kinds=KINDS)),
    Play(clip="Attack"),
    event("step", 1),
    Tick(seal=1),
    Begin(layer="base", target="Attack", deadline_ticks=3),
    event("danger", 2),
    event("flash", 3, 2),
    CommitLoop(clip_instance=1, loop=0),
    Tick(requests=[request(2, event("step", 9, 3)), request(3, event("flash", 4, 4), number=2)], seal=3),
    Tick(rollback=1),
    event("flash", 3, 2),
    Play(clip="Attack", clip_instance=2),
    event("flash", 3, 2),
    Retire(clip_instance=2),
    CommitLoop(clip_instance=1, loop=0),
    event("danger", 5),
    Tick(seal=2),
    Tick(rollback=1, seal=2),
    CommitLoop(clip_instance=1, loop=0),
    Retire(clip_instance=1),
    Despawn(),
    Tick(seal=4),
    Tick(confirm=2),
    Tick(confirm=4),
]


async def told(journal: FaultyJournal, leaves: str) -> list[Any]:
    """Tell the story to a registry; give every answer."""
    settings, clock = Settings(checkpoint_decisions=3), Clock()
    registry, answers = Registry(journal, settings, clock=clock), []
    for command in STORY:
        who = None if isinstance(command, Tick) else "hero"
        [result] = await registry.submit("room", [Addressed(who, command)])
        assert isinstance(result, Decided), result
        answers.append(result.record.answer)
        if leaves == "memory":
            await idle(registry)
        elif leaves == "the service":
            await registry.close()
            journal.is_closed = False
            registry = Registry(journal, settings, clock=clock)
    assert_same_scene(await seen(registry), await replayed(journal))
    await registry.close()
    return answers


@pytest.mark.parametrize("leaves", ["memory", "the service"])
async def test_a_scene_that_reopens_after_every_step_answers_as_one_that_stays(journal: FaultyJournal, leaves: str):
    stays = FaultyJournal(open_journal("memory:"))

    answered, expected = await told(journal, leaves), await told(stays, "never")

    assert [shown(answer) for answer in answered] == [shown(answer) for answer in expected]
    assert {type(each).__name__ for each in answered} >= {"Ticked", "LoopDelivered", "Refused", "InstanceRetired"}


def shown(answer: Any) -> Any:
    """Give an answer without its seals, which belong to a journal."""
    return re.sub(r"seal='[^']*'", "", repr(answer))
