"""The port is asked of every journal in test_contract.py; here is only what types must agree on."""

from app.journal.memory import MemoryJournal
from app.journal.port import CommitUnknown, Journal, JournalDamaged, JournalUnavailable, NotTheWriter
from app.journal.sqlite import SqliteJournal

JOURNALS: list[type[Journal]] = [MemoryJournal, SqliteJournal]
"""mypy reads this line: each of them is a Journal."""


def test_the_ways_to_fail_are_told_apart_by_type():
    """Who catches one must not catch another by accident: each asks for another treatment."""
    failures = (JournalUnavailable, CommitUnknown, NotTheWriter, JournalDamaged)

    assert all(not issubclass(one, other) for one in failures for other in failures if one is not other)
