"""Callers: which scenes each of them may know of."""

import pytest

from app.api.callers import ANYBODY, Caller, Role


@pytest.mark.parametrize(
    ("caller", "seen"),
    [
        (ANYBODY, True),
        (Caller("key/ops", Role.OPS), True),
        (Caller("key/a", Role.SERVER, ("match-",)), True),
        (Caller("key/b", Role.SERVER, ("lobby-", "")), True),
        (Caller("key/c", Role.SERVER, ("match-70", "Match-")), False),
        (Caller("session/a/p", Role.SESSION, scene="match-7"), True),
        (Caller("session/a/p", Role.SESSION, scene="match-77"), False),
    ],
)
def test_a_caller_sees_its_scenes(caller: Caller, seen: bool):
    assert caller.sees("match-7") is seen
