"""What every gate answers. Contract, section 3."""

import msgspec
import pytest

from app.gates.catalogue import COMMANDS, outcome_of
from app.gates.decision import RETRYABLE, Problem, Refused
from app.gates.transition import Begin, TransitionCommitted, TransitionRefusal


def test_exactly_what_may_succeed_later_is_retryable():
    assert {
        "beyond_window",
        "queue_full",
        "instances_full",
        "delivery_backlog",
        "too_early",
        "layer_busy",
    } == RETRYABLE


def test_a_refusal_says_only_what_it_knows():
    assert msgspec.to_builtins(Refused(TransitionRefusal.UNKNOWN_LAYER, at="layer")) == {
        "outcome": "unknown_layer",
        "at": "layer",
    }


def test_an_answer_has_one_word():
    assert outcome_of(TransitionCommitted("Run")) == "committed"
    assert outcome_of(Refused(TransitionRefusal.UNKNOWN_TOKEN)) == "unknown_token"


@pytest.mark.parametrize(
    "fields", [{"targt": "Run"}, {"command": "cancel"}, {"life": -1}, {"life": 2**53}, {"life": 1.5}]
)
def test_a_command_takes_its_own_fields_only(fields: dict[str, object]):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"command": "begin", "layer": "base", "target": "Run", **fields}, Begin)


def test_problems_are_no_outcomes():
    words = {str(refusal) for entry in COMMANDS.values() for refusal in entry.refusals}

    assert words.isdisjoint(set(Problem))
