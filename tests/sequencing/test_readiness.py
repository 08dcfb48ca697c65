"""Readiness: each reason is given while it holds, and a failing journal is tried again after a while."""

from app.sequencing.readiness import DOUBTED_S, Readiness


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_nothing_stands_against_a_service_that_has_done_nothing_yet():
    assert Readiness(lambda: False, lambda: True, clock=Clock()).reasons() == []


def test_each_reason_is_given_while_it_holds():
    full = True
    readiness = Readiness(lambda: full, lambda: True, clock=Clock())

    readiness.is_draining = True
    readiness.failed()
    all_of_them = readiness.reasons()
    full = False
    readiness.decided()

    assert all_of_them == ["draining", "journal-unavailable", "memory-full"]
    assert readiness.reasons() == ["draining"]


def test_a_journal_that_failed_is_tried_again_after_a_while():
    """Taken out of rotation for good, nothing would ever be decided that could bring it back."""
    clock = Clock()
    readiness = Readiness(lambda: False, lambda: True, clock=clock)

    readiness.failed()
    clock.seconds += DOUBTED_S - 0.1
    doubted = readiness.reasons()
    clock.seconds += 0.2

    assert (doubted, readiness.reasons()) == (["journal-unavailable"], [])


def test_a_journal_that_cannot_be_reached_stands_against_it_until_it_can():
    """A node that is cut off fails whatever it is given: it may not come back into rotation by time alone."""
    clock, is_reachable = Clock(), False
    readiness = Readiness(lambda: False, lambda: is_reachable, clock=clock)

    cut_off = readiness.reasons()
    clock.seconds += 2 * DOUBTED_S
    still = readiness.reasons()
    is_reachable = True

    assert cut_off == still == ["journal-unavailable"]
    assert readiness.reasons() == []
