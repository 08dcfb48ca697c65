"""The catalogue: one table of commands, complete, and equal to what the contract says word by word."""

import pytest

from app.gates.catalogue import COMMANDS, name_of, word_of
from app.gates.decision import Command
from app.gates.event import EventRefusal
from app.gates.graph import GraphRefusal
from app.gates.parameter import ParameterRefusal
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
    gates = (TransitionRefusal, ParameterRefusal, EventRefusal, GraphRefusal)

    assert given == {str(refusal) for gate in gates for refusal in gate} | {"stale_life"}
