"""Every public bug report is a scenario here, waits for a later section, or has its reason in decision 0010."""

import itertools
import json
import re
from pathlib import Path

import pytest

from tests.support.player import Send, play
from tests.support.scenario import Scenario, read_all

HERE = Path(__file__).parent
DECISION = HERE.parents[1] / "docs" / "decisions" / "0010-cases-answered-differently.md"

REPORTS = [json.loads(line)["id"] for line in (HERE / "reports.jsonl").read_text(encoding="utf-8").splitlines()]
SCENARIOS = read_all(HERE)

LATER = {
    "gas-repeat-montage-not-seen-by-proxies": "api.md, issue 5: watch",
    "ngo-fast-toggle-loses-last-value": "api.md, issue 5: watch",
    "colyseus-message-before-reconnect": "api.md, issue 5: watch resumed after a sequence",
    "ngo-session-owner-not-updated": "design.md, issue 6: a node that is behind is fenced by the store",
    "orleans-two-activations-one-id": "design.md, issue 6: two nodes on one scene",
}
"""What of a case waits for a later issue; where a part of it can be asked already, it has a scenario as well."""

_numbers = itertools.count(1)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_case(scenario: Scenario, send: Send):
    play(scenario, send, f"case-{next(_numbers)}")


@pytest.mark.parametrize("report", REPORTS)
def test_every_report_is_answered_somewhere(report: str):
    places = [report in have for have in (_played(), LATER, _decided())]

    assert any(places)


def test_nothing_is_answered_that_was_not_reported():
    assert (_played() | LATER.keys() | _decided()) - set(REPORTS) == set()


def _played() -> set[str]:
    return {Path(scenario.file).stem for scenario in SCENARIOS}


def _decided() -> set[str]:
    return set(re.findall(r"^### (\S+)$", DECISION.read_text(encoding="utf-8"), re.MULTILINE))
