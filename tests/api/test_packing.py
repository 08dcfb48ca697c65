"""Packing: a turn is made ready once for all who want the same of it, whoever asks first."""

import asyncio
import json
from collections.abc import Generator

import pytest

from app.api import packing as packing_module
from app.api.packing import packed_at_once, packed_turn
from app.api.wanted import EVERYTHING, Wanted
from app.api.watch import Events
from app.gates.scene import Record
from app.gates.transition import Begin, TransitionKept
from app.sequencing.feed import Turn
from app.sequencing.pace import Pace

KEPT = TransitionKept(token=None)
EVENTS = Events(retry_after_s=1)


class Others(Events):
    """Another packing of the same."""

    name = "others"


def turn(count: int, first: int = 1) -> Turn:
    """Give a turn of so many decisions of `hero` and `other`, one after the other."""
    records = [
        Record("other" if index % 2 else "hero", Begin(layer="base", target="Run"), KEPT, 1) for index in range(count)
    ]
    return Turn(first, first + count - 1, records, at=0, size=100)


def sequences(packed: bytes) -> list[int]:
    """Give the sequences of what was packed as one event."""
    [line] = [line for line in packed.splitlines() if line.startswith(b"data: ")]
    return [decision["sequence"] for decision in json.loads(line.removeprefix(b"data: "))["decisions"]]


async def test_a_whole_turn_is_packed_once_for_each_wish_and_form():
    held = turn(4)

    all_of_it, _ = await packed_turn(held, 0, EVERYTHING, EVENTS, Pace())
    again, place = await packed_turn(held, 0, EVERYTHING, EVENTS, Pace())
    narrow, _ = await packed_turn(held, 0, Wanted(character="other"), EVENTS, Pace())
    other, _ = await packed_turn(held, 0, EVERYTHING, Others(retry_after_s=1), Pace())

    assert again is all_of_it
    assert (sequences(all_of_it), place) == ([1, 2, 3, 4], 4)
    assert sequences(narrow) == [2, 4]
    assert other == all_of_it
    assert other is not all_of_it


async def test_who_is_within_a_turn_gets_the_rest_and_spoils_it_for_nobody():
    held = turn(4)

    rest, place = await packed_turn(held, 2, EVERYTHING, EVENTS, Pace())
    whole, _ = await packed_turn(held, 0, EVERYTHING, EVENTS, Pace())

    assert (sequences(rest), place) == ([3, 4], 4)
    assert sequences(whole) == [1, 2, 3, 4]


async def test_nothing_wanted_is_no_message_and_read_all_the_same():
    held = turn(4, first=5)

    packed = await packed_turn(held, 4, Wanted(character="nobody"), EVENTS, Pace())

    assert packed == (b"", 8)
    assert packed_at_once(held, 4, Wanted(character="nobody"), EVENTS) == b""


async def test_several_who_ask_at_once_share_the_work(monkeypatch: pytest.MonkeyPatch):
    made: list[int] = []

    def counted(sequence: int, at: int, record: Record) -> Generator[None, None, dict[str, int]]:
        made.append(sequence)
        yield from ()
        return {"sequence": sequence}

    monkeypatch.setattr(packing_module, "shown_in_steps", counted)
    held = turn(50)

    packed = await asyncio.gather(*(packed_turn(held, 0, EVERYTHING, EVENTS, Pace(0.0)) for _ in range(5)))

    assert sorted(made) == list(range(1, 51))
    assert {place for _, place in packed} == {50}
    assert {bytes(each) for each, _ in packed} == {packed[0][0]}


async def test_a_turn_beyond_a_message_is_packed_in_parts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(packing_module, "MESSAGE_BYTES", 1_000)
    held, place, parts = turn(20), 0, list[list[int]]()

    while place < 20:
        packed, place = await packed_turn(held, place, EVERYTHING, EVENTS, Pace())
        parts.append(sequences(packed))

    assert len(parts) > 3
    assert [sequence for part in parts for sequence in part] == list(range(1, 21))
    assert packed_at_once(held, 0, EVERYTHING, EVENTS) is None


def test_at_once_is_what_was_packed_or_takes_one_short_step(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(packing_module, "AT_ONCE_DECISIONS", 4)
    small, large = turn(4), turn(5)

    at_once = packed_at_once(small, 0, EVERYTHING, EVENTS)

    assert at_once is not None
    assert sequences(at_once) == [1, 2, 3, 4]
    assert packed_at_once(small, 0, EVERYTHING, EVENTS) is at_once
    assert packed_at_once(small, 2, EVERYTHING, EVENTS) is None
    assert packed_at_once(large, 0, EVERYTHING, EVENTS) is None
    asyncio.run(_packed(large))
    assert packed_at_once(large, 0, EVERYTHING, EVENTS) is not None


async def _packed(held: Turn) -> None:
    await packed_turn(held, 0, EVERYTHING, EVENTS, Pace())


async def test_what_is_made_counts_for_the_turn():
    held = turn(4)
    size = held.size

    packed, _ = await packed_turn(held, 0, EVERYTHING, EVENTS, Pace())

    assert held.size > size + 2 * len(packed) - 200
