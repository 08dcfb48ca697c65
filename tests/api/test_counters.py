"""Counters: windows that begin with their first hit, as the library's own storage has them, and no thread."""

import threading

import pytest
from limits import RateLimitItemPerSecond
from limits.strategies import FixedWindowRateLimiter

from app.api import counters
from app.api.counters import COUNTERS_MAX, Counters


class Clock:
    """Seconds since 1970 that pass when a test says so."""

    now = 1_000.0

    def time(self) -> float:
        """Give the present time."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(counters, "time", clock)
    return clock


def test_a_window_counts_what_is_asked_in_it_and_ends(clock: Clock):
    limiter, limit = FixedWindowRateLimiter(Counters()), RateLimitItemPerSecond(3)

    hits = [limiter.hit(limit, "server", cost=2), limiter.hit(limit, "server"), limiter.hit(limit, "server")]
    others = limiter.hit(limit, "another", cost=3)
    ends = limiter.get_window_stats(limit, "server").reset_time
    clock.now += 1
    afterwards = limiter.hit(limit, "server", cost=3)

    assert (hits, others, ends, afterwards) == ([True, True, False], True, 1_001.0, True)


def test_what_was_counted_is_read_and_forgotten(clock: Clock):
    counted = Counters()
    counted.incr("a", 1, 5)
    counted.incr("b", 1, 7)

    counted.clear("a")

    assert (counted.get("a"), counted.get("b"), counted.get_expiry("a")) == (0, 7, 1_000.0)
    assert (counted.check(), counted.reset(), counted.get("b")) == (True, 1, 0)
    counted.incr("b", 1)
    clock.now += 2
    assert counted.get("b") == 0


def test_windows_that_ended_are_forgotten_when_there_are_many(clock: Clock):
    counted = Counters()
    for number in range(COUNTERS_MAX):
        counted.incr(f"caller {number}", 1)
    clock.now += 2

    counted.incr("one more", 1)

    assert counted.reset() == 1


def test_no_thread_is_started():
    before = threading.active_count()
    counted = Counters()
    for _ in range(100):
        counted.incr("a", 1)

    assert threading.active_count() == before
