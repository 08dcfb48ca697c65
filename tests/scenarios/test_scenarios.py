"""Plays the scenarios: the specification of every answer, from outside and over HTTP."""

import itertools
import re
from pathlib import Path

import pytest

from tests.support.outcomes import OUTCOMES
from tests.support.player import Send, play
from tests.support.scenario import Scenario, outcomes, read_all

SCENARIOS = read_all(Path(__file__).parent)
EXPLAINED = Path(__file__).parents[2] / "docs" / "outcomes.md"

_numbers = itertools.count(1)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_scenario(scenario: Scenario, send: Send):
    play(scenario, send, f"scenario-{next(_numbers)}")


@pytest.mark.parametrize("command", OUTCOMES)
def test_every_outcome_of_a_command_has_a_scenario(command: str):
    expected = {outcome for name, outcome in outcomes(SCENARIOS) if name == command}

    assert set(OUTCOMES[command]) - expected == set()
    assert expected - set(OUTCOMES[command]) == set()


@pytest.mark.parametrize("command", OUTCOMES)
def test_every_outcome_of_a_command_is_explained(command: str):
    headings = set(re.findall(r"^### `(\w+)`$", EXPLAINED.read_text(encoding="utf-8"), re.MULTILINE))

    assert set(OUTCOMES[command]) - headings == set()


def test_titles_are_told_apart():
    titles = [str(scenario) for scenario in SCENARIOS]

    assert sorted(set(titles)) == sorted(titles)
