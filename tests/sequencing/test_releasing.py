"""Releasing: what ticks let go of is freed bit by bit, and nothing that they still hold is touched."""

import gc
import weakref

import pytest

from app.gates.tick import Sealed, TickAnswers, Ticks
from app.sequencing import pace as pace_module
from app.sequencing.pace import Pace
from app.sequencing.releasing import PACED, Releasing


class Value:
    """Something that can be seen to be freed."""


def sealed(*values: Value) -> Sealed:
    return Sealed({str(number): value for number, value in enumerate(values)}, {}, [], 1, b"")  # type: ignore[misc]


async def test_what_is_let_go_of_is_freed_a_few_at_a_time_while_others_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pace_module, "WORK_S_MAX", 0.0)
    values = [Value() for _ in range(3 * PACED)]
    alive = weakref.WeakSet(values)
    seen = list[int]()

    class Watched(Pace):
        async def pause(self) -> None:
            seen.append(len(alive))
            await super().pause()

    former = Ticks(past={1: sealed(*values)})
    releasing, now = Releasing(former), Ticks()
    del former, values

    await releasing.release(now, Watched())

    gc.collect()
    assert seen == [2 * PACED, PACED, 0]


async def test_what_the_ticks_still_hold_stays():
    kept, gone = [Value() for _ in range(4)], [Value() for _ in range(4)]
    alive = weakref.WeakSet(gone)
    stays = sealed(*kept)
    former = Ticks(past={1: sealed(*gone), 2: stays}, answered={2: TickAnswers(3, [])})
    releasing, now = Releasing(former), Ticks(past={2: stays})
    del former, gone

    await releasing.release(now, Pace())

    assert len(alive) == 0
    assert [id(value) for value in now.past[2].before.values()] == [id(value) for value in kept]
