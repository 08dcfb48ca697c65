"""Ordinary events: what surely fits is accepted, and what may not is left to the ladder."""

import pytest
from msgspec.structs import replace

from app.gates.clip import ClipInstance
from app.gates.event_commands import Enqueue
from app.gates.ordinary import is_bare, surely_fits
from app.gates.rig import KindRule
from tests.support.rigs import rig

HELD = ClipInstance(1, 0, 0, committed_loop=3, waiting={4: {(12, "footstep"): None}}, seen={3: {(1, "footstep"): b""}})
EVENT = Enqueue(clip_instance=1, loop=4, frame=13, kind="footstep")
ANY = rig()
GAMEPLAY = rig(kinds={"footstep": KindRule("gameplay")})


def test_a_new_event_in_the_window_surely_fits():
    assert surely_fits(EVENT, HELD, ANY, lambda layer: 1)
    assert is_bare(EVENT, ANY)


@pytest.mark.parametrize(
    "event",
    [
        replace(EVENT, loop=2),
        replace(EVENT, loop=3 + ANY.loop_window + 1),
        replace(EVENT, frame=12),
        replace(EVENT, loop=3, frame=1),
        replace(EVENT, payload={"foot": "left"}),
        replace(EVENT, group="walk", mark="left"),
    ],
    ids=["late", "beyond", "waiting", "seen", "payload", "group"],
)
def test_what_may_be_refused_does_not_surely_fit(event: Enqueue):
    assert not surely_fits(event, HELD, ANY, lambda layer: 1)


def test_an_instance_without_a_watermark_of_an_old_epoch_or_full_takes_nothing_for_sure():
    assert not surely_fits(EVENT, replace(HELD, committed_loop=None), ANY, lambda layer: 1)
    assert not surely_fits(EVENT, HELD, ANY, lambda layer: 2)
    assert not surely_fits(EVENT, replace(HELD, remembered=ANY.events_per_instance), ANY, lambda layer: 1)
    assert not surely_fits(EVENT, HELD, GAMEPLAY, lambda layer: 1)


@pytest.mark.parametrize("event", [replace(EVENT, mark="left"), replace(EVENT, tick=4)])
def test_an_event_that_keeps_more_than_its_key_is_not_bare(event: Enqueue):
    assert not is_bare(event, ANY)
    assert not is_bare(EVENT, GAMEPLAY)
