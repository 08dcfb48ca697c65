"""What the memory journal promises beyond the port; the port itself is asked in test_contract.py."""

from collections.abc import Coroutine
from typing import Any

import pytest

from app.journal.memory import MemoryJournal
from app.journal.port import START


def finished(call: Coroutine[Any, Any, Any]) -> Any:
    """Run a call that must not suspend, and give what it returns."""
    with pytest.raises(StopIteration) as stopped:
        call.send(None)
    return stopped.value.value


def test_no_call_suspends():
    journal = MemoryJournal()

    position = finished(journal.append("room", after=START, first=1, last=1, blob=b"a"))
    finished(journal.checkpoint("room", position=position, header=b"h", changed={"hero": b"1"}, listed=True))

    assert len(finished(journal.read("room", after=START, limit=1))) == 1
    assert finished(journal.seek("room", sequence=2)) == position
    assert finished(journal.load("room")).header == b"h"
    assert finished(journal.scenes(after="", limit=1)) == ["room"]
    finished(journal.trim("room", before=position))
    finished(journal.close())


def test_positions_rise_over_all_scenes():
    """Nobody can come to rely on positions that count a scene's entries: no other journal would keep that."""
    journal = MemoryJournal()

    a = finished(journal.append("a", after=START, first=1, last=1, blob=b""))
    b = finished(journal.append("b", after=START, first=1, last=1, blob=b""))

    assert a < b
