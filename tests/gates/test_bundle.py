"""The bundle as it is asked: what it may hold, and what stands in the place of an earlier answer."""

from typing import Any

import pytest
from msgspec import UNSET

from app.gates.bundle import Bundle, Member, resolved
from app.gates.decision import Command, Problem, Undecided
from app.gates.event_commands import CommitLoop, Enqueue, InstanceOpened
from app.gates.graph import GraphRequested, RequestGraph, WithdrawGraph
from app.gates.identity import Token
from app.gates.transition import Begin, Complete, TransitionCommitted, TransitionGranted, TransitionKept
from tests.support.rigs import candidate

TOKEN = Token("hero", "base", 1, 1, "Idle", "Run", "1-0")
NOTHING = Token("", "", 0, 0, "", "")
GRANTED = TransitionGranted(TOKEN, None)
COMPLETE = Complete(token=NOTHING)
EVENT = Enqueue(clip_instance=0, loop=0, frame=0, kind="step")


def test_a_bundle_names_no_life_its_commands_do():
    with pytest.raises(ValueError, match="life"):
        Bundle(commands=[], life=1)


@pytest.mark.parametrize(
    ("command", "field", "answer", "expected"),
    [
        (COMPLETE, "token", GRANTED, Complete(token=TOKEN)),
        (COMPLETE, "token", TransitionKept(TOKEN), Complete(token=TOKEN)),
        (Begin(layer="face", target="Cry", holder=NOTHING), "holder", GRANTED, None),
        (EVENT, "clip_instance", InstanceOpened(7), Enqueue(clip_instance=7, loop=0, frame=0, kind="step")),
        (CommitLoop(clip_instance=0, loop=3), "clip_instance", InstanceOpened(7), CommitLoop(clip_instance=7, loop=3)),
        (candidate(0), "request", GraphRequested(4, None), candidate(4)),
        (WithdrawGraph(request=0), "request", GraphRequested(4, None), WithdrawGraph(request=4)),
    ],
)
def test_a_reference_becomes_what_the_answer_gives(command: Command, field: str, answer: Any, expected: Any):
    wanted = Begin(layer="face", target="Cry", holder=TOKEN) if expected is None else expected

    assert resolved(command, {field: 1}, {0: None, 1: answer}) == wanted


@pytest.mark.parametrize(
    ("command", "field", "answer"),
    [
        (COMPLETE, "token", None),
        (COMPLETE, "token", TransitionKept(None)),
        (COMPLETE, "token", TransitionCommitted("Run")),
        (COMPLETE, "token", InstanceOpened(7)),
        (EVENT, "clip_instance", GRANTED),
        (EVENT, "clip_instance", GraphRequested(4, None)),
        (candidate(0), "request", InstanceOpened(7)),
    ],
)
def test_a_reference_to_an_answer_that_gives_none_is_invalid_at_its_field(command: Command, field: str, answer: Any):
    undecided = resolved(command, {field: 0}, {0: answer})

    assert isinstance(undecided, Undecided)
    assert (undecided.problem, undecided.at) == (Problem.INVALID, field)


def test_a_reference_to_what_was_not_answered_yet_is_invalid():
    assert isinstance(resolved(COMPLETE, {"token": 1}, {0: GRANTED}), Undecided)


def test_a_command_without_references_stays_the_one_it_is():
    command = RequestGraph(name="A")

    assert resolved(command, {}, {}) is command


def test_a_member_refers_to_nothing_unless_told():
    assert Member("hero", COMPLETE).references == {}
    assert Bundle(commands=[]).holder is UNSET
