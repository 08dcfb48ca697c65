"""Following: hints are kept until they are read, a scene's own are none, and who waits is told."""

import asyncio

import pytest
import structlog

from app.journal.memory import MemoryJournal
from app.journal.port import START, JournalUnavailable
from app.sequencing.following import Following, SequenceAhead
from tests.support.journal_fakes import OneHand


class Woken:
    """Counts how often it was woken."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


def following(journal: MemoryJournal | None = None) -> tuple[Following, Woken, MemoryJournal]:
    woken, given = Woken(), journal or MemoryJournal()
    made = Following("room", given, woken)
    made.begin()
    return made, woken, given


async def append(journal: MemoryJournal, after: int) -> int:
    return await journal.append("room", after=after, first=1, last=1, blob=b"turn")


async def test_anothers_append_is_a_hint_and_wakes():
    held, woken, journal = following()

    await append(journal, START)

    assert (held.has_moved, held.wants_look, woken.times) == (True, True, 1)


async def test_its_own_append_is_no_hint_but_one_that_comes_meanwhile_from_elsewhere_is():
    held, woken, journal = following()
    held.appending()
    await append(journal, START)
    own = held.has_moved

    await asyncio.create_task(append(journal, 1))
    held.appended(succeeded=True)

    assert (own, held.has_moved, woken.times) == (False, True, 1)


async def test_an_append_that_succeeds_settles_the_hints_before_it_and_one_that_fails_does_not():
    held, *_ = following()
    held.moved()
    held.is_owed = True
    held.appending()
    held.appended(succeeded=False)
    after_failing = held.has_moved, held.is_owed
    held.appending()
    held.appended(succeeded=True)

    assert after_failing == (True, True)
    assert (held.has_moved, held.is_owed) == (False, False)


async def test_what_is_hinted_while_it_reads_stays():
    held, *_ = following()
    held.moved()
    held.reading()

    held.moved()
    held.has_read(4)

    assert held.wants_look


async def test_a_reading_that_failed_is_owed_and_logged_once():
    held, *_ = following()
    held.moved()
    held.reading()

    with structlog.testing.capture_logs() as logged:
        held.failed(JournalUnavailable("cut off"))
        held.failed(JournalUnavailable("cut off"))

    assert [line["event"] for line in logged] == ["scene-cannot-be-followed"]
    assert (held.is_owed, held.wants_look) == (True, False), "nothing is tried before the next look"
    held.look_again()
    assert held.wants_look


async def test_a_journal_of_one_hand_is_not_shared_and_nobody_waits_for_it():
    held, *_ = following(OneHand())

    with pytest.raises(SequenceAhead):
        await held.until(5, seen=4)

    assert not held.is_shared
    assert held.waiting == []


async def test_who_waits_is_told_when_the_decision_is_visible_and_not_before():
    held, *_ = following()
    waiting = asyncio.ensure_future(held.until(5, seen=1))
    await asyncio.sleep(0)

    held.reached(4)
    await asyncio.sleep(0)
    was_done = waiting.done()
    held.reached(6)
    await waiting

    assert (was_done, held.waiting) == (False, [])


async def test_who_leaves_waits_no_longer():
    held, woken, _ = following()
    waiting = asyncio.ensure_future(held.until(5, seen=1))
    await asyncio.sleep(0)

    waiting.cancel()
    await asyncio.wait([waiting])

    assert (held.waiting, woken.times) == ([], 1)


async def test_the_end_tells_who_waits_and_ends_the_hints_and_a_second_end_does_nothing():
    held, woken, journal = following()
    waiting = asyncio.ensure_future(held.until(5, seen=1))
    await asyncio.sleep(0)

    held.end("it stopped")
    held.end("it stopped")
    with pytest.raises(JournalUnavailable, match="it stopped"):
        await waiting
    woken.times = 0
    await append(journal, START)

    assert (held.has_moved, woken.times) == (False, 0)
