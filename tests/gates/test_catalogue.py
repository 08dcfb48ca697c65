"""The catalogue: one table of commands, complete, and equal to what the contract says word by word."""

from typing import get_args

import pytest

from app.gates.bundle import BundleRefusal, MemberCommand
from app.gates.catalogue import COMMANDS, outcome_of, word_of
from app.gates.decision import Command, LifeRefusal, Refused, name_of
from app.gates.event_commands import EventRefusal
from app.gates.graph import GraphRefusal
from app.gates.parameter import ParameterRefusal
from app.gates.tick import Ticked, TickRefusal, TickSealed
from app.gates.transition import TransitionRefusal
from tests.support.outcomes import OUTCOMES

BY_NAME = {name_of(command): command for command in COMMANDS}


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_command_answers_what_the_contract_says_in_the_order_of_its_checks(name: str):
    entry = COMMANDS[BY_NAME[name]]
    words = [str(refusal) for refusal in entry.refusals] + [word_of(fact) for fact in entry.facts]

    assert tuple(words) == OUTCOMES[name]


def test_every_command_of_the_contract_and_no_other_is_listed():
    assert set(BY_NAME) == set(OUTCOMES) | {"declare-rig", "close-scene"}
    assert set(COMMANDS) == set(Command.__subclasses__())


def test_no_word_is_an_acceptance_and_a_refusal_of_one_command():
    for entry in COMMANDS.values():
        assert {str(refusal) for refusal in entry.refusals}.isdisjoint(map(word_of, entry.facts))


def test_every_refusal_of_every_gate_belongs_to_a_command():
    given = {str(refusal) for entry in COMMANDS.values() for refusal in entry.refusals}
    gates = (LifeRefusal, TransitionRefusal, ParameterRefusal, EventRefusal, GraphRefusal, BundleRefusal, TickRefusal)

    assert given == {str(refusal) for gate in gates for refusal in gate}


def test_a_bundle_holds_every_command_of_a_character_and_no_other():
    """A journal that took one it cannot read again would be damaged."""
    of_scenes = {"declare-rig", "close-scene", "bundle", "tick"}

    assert {name_of(command) for command in get_args(MemberCommand)} == set(BY_NAME) - of_scenes


def test_the_word_of_a_tick_with_nothing_accepted_is_that_of_its_first_refusal():
    late, sealed = Refused("late_tick"), Refused("already_sealed")

    assert outcome_of(Ticked(requests=[late, late], refused={"seal": sealed})) == "late_tick"
    assert outcome_of(Ticked(refused={"seal": sealed})) == "already_sealed"
    assert outcome_of(Ticked(requests=[late, None], refused={"seal": sealed})) == "ticked"
    assert outcome_of(Ticked(requests=[late], seal=TickSealed(1, "", []))) == "ticked"
    assert outcome_of(Refused("holder_lost")) == "holder_lost"
