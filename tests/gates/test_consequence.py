"""Consequences are stored with their decision, and come back as they were."""

import msgspec

from app.gates.clip import Event, OpenWindow
from app.gates.consequence import Consequences, TokenEnded, WindowClosed
from app.gates.identity import Token

ENDED = TokenEnded(Token("villain", "base", 1, 3, "Idle", "Grabbed"), "s")


def test_consequences_come_back_as_they_were_packed():
    closed = WindowClosed("hero", OpenWindow("damage_on", 0, 3), Event(4, 0, 9, "damage_off"), 2)
    waiting = WindowClosed("hero", OpenWindow("damage_on", 0, 3), Event(5, 0, 9, "damage_off"), None)
    both = Consequences([ENDED], [closed, waiting])

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(both), type=Consequences) == both


def test_a_token_that_ended_with_another_is_named_without_its_seal():
    assert b"seal" not in msgspec.json.encode(ENDED)


def test_nothing_ends_unless_told():
    assert Consequences() == Consequences([], [])
