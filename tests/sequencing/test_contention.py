"""Contention: pauses that grow, have an end, and are not there for a node that is alone."""

import asyncio

import pytest

from app.sequencing import contention as contention_module
from app.sequencing.contention import CONFLICTS_MAX, GIVEN_WAY_S_MAX, Contention


class Slept:
    """Takes down how long was slept, and does not sleep."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> Slept:
    made = Slept()
    monkeypatch.setattr(asyncio, "sleep", made)
    return made


async def test_the_first_conflict_costs_no_pause_and_the_next_ones_more_and_more(slept: Slept):
    contention = Contention(lambda: 1.0)

    for conflicts in range(1, CONFLICTS_MAX):
        await contention.pause(conflicts)

    assert len(slept.seconds) == CONFLICTS_MAX - 2
    assert all(later == 2 * before for before, later in zip(slept.seconds, slept.seconds[1:], strict=False))
    assert sum(slept.seconds) == pytest.approx(1.0, abs=0.1)


async def test_pauses_differ_by_chance(slept: Slept):
    await Contention(lambda: 0.0).pause(4)
    await Contention(lambda: 1.0).pause(4)

    low, high = slept.seconds
    assert high == 2 * low


async def test_a_node_that_is_alone_never_gives_way(slept: Slept):
    contention = Contention(lambda: 1.0)

    contention.appending()
    contention.appended()

    assert not contention.has_lead


async def test_who_wrote_last_where_others_write_gives_way_for_up_to_two_appends(
    slept: Slept, monkeypatch: pytest.MonkeyPatch
):
    times = iter([1.0, 1.0, 1.004, 1.1, 1.2, 1.6, 1.7])
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: next(times), raising=False)
    contention = Contention(lambda: 1.0)
    contention.note_other()
    was_behind = contention.has_lead

    for _ in range(2):
        contention.appending()
        contention.appended()
        assert contention.has_lead
        await contention.give_way()

    monkeypatch.undo()
    assert not was_behind
    assert not contention.has_lead
    assert slept.seconds == [pytest.approx(0.008), GIVEN_WAY_S_MAX]


async def test_others_are_forgotten_when_they_have_not_written_for_a_while(
    slept: Slept, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(contention_module, "CONTENDED_S", 0.0)
    contention = Contention(lambda: 1.0)
    contention.note_other()
    contention.appended()

    await contention.give_way()
    contention.appended()

    assert (slept.seconds, contention.has_lead) == ([], False)
