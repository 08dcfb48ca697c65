"""What a watcher wants is read strictly, and looked for inside of what is made of several commands too."""

from typing import Any

import pytest
from msgspec import UNSET

from app.api.problems import ProblemError
from app.api.wanted import EVERYTHING, GATES, Wanted, gates_of, wanted_of
from app.gates.bundle import Answered, Bundle, Bundled, Member
from app.gates.decision import Refused
from app.gates.event_commands import Play
from app.gates.lives import DeclareRig, RigDeclared
from app.gates.parameter import CommitParameters
from app.gates.rig import default_rig
from app.gates.scene import Record
from app.gates.tick import Applied, Request, Tick, TickApplied, Ticked, TickSealed
from app.gates.transition import Begin, TransitionKept, TransitionRefusal

KEPT = TransitionKept(token=None)
RUN = Record("hero", Begin(layer="base", target="Run"), KEPT, 1)
REFUSED = Record("other", Begin(layer="face", target="Run"), Refused(TransitionRefusal.UNKNOWN_LAYER), 1)
PLAY = Play(clip="Walk", layer="upper")
BUNDLE = Record(None, Bundle(commands=[Member("hero", PLAY)]), Bundled([Answered("hero", "play", KEPT, 2)]), 0)
HELD = Record(None, Tick(requests=[Request(1, "ai", 1, 0, "hero", CommitParameters(values=[]))]), Ticked(), 0)
APPLIED = [Applied("ai", 1, Answered("hero", "begin", KEPT, 2))]
SEALED = Record(None, Tick(seal=1), Ticked(seal=TickSealed(1, "", [TickApplied(1, APPLIED)])), 0)
RIG = Record(None, DeclareRig(name="humanoid", rig=default_rig()), RigDeclared(created=True), 0)
ALL = {"run": RUN, "refused": REFUSED, "bundle": BUNDLE, "held": HELD, "sealed": SEALED, "rig": RIG}


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, set(ALL)),
        ({"character": "hero"}, {"run", "bundle", "sealed"}),
        ({"character": "other"}, {"refused"}),
        ({"character": "nobody"}, set()),
        ({"accepted": True}, set(ALL) - {"refused"}),
        ({"accepted": False}, {"refused"}),
        ({"gate": "transition"}, {"run", "refused", "sealed"}),
        ({"gate": "event"}, {"bundle"}),
        ({"gate": "parameter"}, {"held"}),
        ({"gate": "tick"}, {"held", "sealed"}),
        ({"gate": "bundle"}, {"bundle"}),
        ({"gate": "life"}, {"rig"}),
        ({"layer": "base"}, {"run"}),
        ({"layer": "upper"}, {"bundle"}),
        ({"layer": "face", "accepted": True}, set()),
        ({"character": "hero", "gate": "transition", "accepted": True, "layer": "base"}, {"run"}),
    ],
)
def test_decisions_are_narrowed(members: dict[str, Any], expected: set[str]):
    wanted = wanted_of(members)

    assert {name for name, record in ALL.items() if wanted.takes(record)} == expected
    assert wanted.is_everything is (not members)


@pytest.mark.parametrize(
    ("members", "at"),
    [
        ({"character": ""}, "character"),
        ({"character": "../hero"}, "character"),
        ({"character": 7}, "character"),
        ({"layer": ""}, "layer"),
        ({"layer": "x" * 129}, "layer"),
        ({"layer": ["base"]}, "layer"),
        ({"gate": "transitions"}, "gate"),
        ({"gate": {}}, "gate"),
        ({"accepted": "true"}, "accepted"),
        ({"accepted": 1}, "accepted"),
    ],
)
def test_what_cannot_be_wanted_is_invalid(members: dict[str, Any], at: str):
    with pytest.raises(ProblemError) as refused:
        wanted_of(members)

    assert (refused.value.name, refused.value.at) == ("invalid", at)


def test_two_that_want_the_same_are_equal():
    assert wanted_of({"character": "hero"}) == Wanted(character="hero")
    assert hash(wanted_of({})) == hash(EVERYTHING)


def test_every_gate_has_its_word():
    assert set(GATES) == {"transition", "parameter", "event", "graph", "life", "bundle", "tick"}


def test_requests_that_hold_a_bundle_count_for_the_gates_inside():
    inside = Bundle(commands=[Member("hero", PLAY)])
    record = Record(None, Tick(requests=[Request(1, "ai", 1, 0, None, inside)], seal=UNSET), Ticked(), 0)

    assert gates_of(record) == {"tick", "bundle", "event"}
