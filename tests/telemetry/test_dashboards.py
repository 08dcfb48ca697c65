"""The dashboard and the alerts ask for metrics and labels that the service has, and for nothing else."""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.telemetry.conftest import Serve

DOCKER = Path(__file__).parents[2] / "docker"
DASHBOARD = DOCKER / "grafana/dashboards/posegate.json"
ALERTS = DOCKER / "alerts.yml"

OF_PROMETHEUS = {"up": {"job", "instance"}}
"""What Prometheus adds itself."""

ADDED = {"job", "instance", "le"}
"""The labels that every series gets when it is scraped, and the one of every bucket."""

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{([^}]*)\}")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_NAME = re.compile(r"(?<![\w$:.])([a-zA-Z_:][a-zA-Z0-9_:]*)(?![\w:]*\s*\()")
_WORDS = {"and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "offset", "bool"}


def expressions() -> dict[str, str]:
    """Give every expression of the dashboard and of the alerts, by where it stands."""
    found: dict[str, str] = {}
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            found[f"{panel['title']} {target['refId']}"] = target["expr"]
    text = ALERTS.read_text(encoding="utf-8")
    for alert, block in re.findall(r"- alert: (\w+)\n(.*?)(?=\n\n|\Z)", text, re.DOTALL):
        [expression] = re.findall(r"^ {8}expr: (?:\|\n((?: {10}.*\n)+)|(.*)\n)", block + "\n", re.MULTILINE)
        found[alert] = expression[0] or expression[1]
    return found


def asked(expression: str) -> dict[str, set[str]]:
    """Give the metrics that an expression names, each with the labels that its selectors name."""
    plain = re.sub(r"\[[^\]]*\]", "", _STRING.sub('""', expression))
    labels: dict[str, set[str]] = defaultdict(set)
    for name, inside in _SELECTOR.findall(plain):
        labels[name].update(re.findall(r"([a-zA-Z_]\w*)\s*(?:=|!)", inside))
    bare = _GROUPING.sub("", re.sub(r"\{[^}]*\}", "", plain))
    bare = re.sub(r"\boffset\s+\w+", "", bare)
    for name in _NAME.findall(bare):
        if name not in _WORDS:
            labels.setdefault(name, set())
    return dict(labels)


def grouped(expression: str) -> set[str]:
    """Give the labels that an expression groups by."""
    return {label.strip() for inside in _GROUPING.findall(expression) for label in inside.split(",") if label.strip()}


async def exposed(serve: Serve) -> dict[str, set[str]]:
    """Give what a service that did a bit of everything exposes: each sample's name with its labels."""
    async with serve() as client:
        hero = "/v1/scenes/match-7/characters/hero"
        await client.put(hero, json={})
        token = (await client.post(f"{hero}/begin", json={"layer": "base", "target": "Run"})).json()["token"]
        for _ in range(2):
            await client.post(f"{hero}/complete", json={"token": token})
        await client.get("/v1/scenes/nobody")
        text = (await client.get("/metrics")).text
    found: dict[str, set[str]] = {name: set(labels) for name, labels in OF_PROMETHEUS.items()}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels, ADDED)
    return found


def test_names_and_labels_are_found_in_an_expression():
    """A parser that finds nothing would let every expression pass."""
    expression = (
        'topk(8, sum by (route, le) (rate(one_bucket{instance=~"$i", a!="b{c}"}[5m] offset 1d)))\n'
        "/ ignoring (outcome) group_left two_total > 0.5 and three == 1 or bool_four"
    )

    assert asked(expression) == {
        "one_bucket": {"instance", "a"},
        "two_total": set(),
        "three": set(),
        "bool_four": set(),
    }
    assert grouped(expression) == {"route", "le", "outcome"}


def test_the_expressions_were_found():
    found = expressions()

    assert len([where for where in found if where.startswith("Posegate")]) == ALERTS.read_text().count("- alert:") >= 9
    assert len(found) > 35


async def test_every_metric_and_label_that_is_asked_for_is_exposed(serve: Serve):
    there = await exposed(serve)

    wrong = []
    for where, expression in expressions().items():
        metrics = asked(expression)
        assert metrics, where
        wrong += [f"{where}: {name}" for name in metrics if name not in there]
        wrong += [
            f"{where}: {name} has no label {label}"
            for name, labels in metrics.items()
            for label in labels - there.get(name, labels)
        ]
        labels = set().union(*(there.get(name, set()) for name in metrics))
        wrong += [f"{where}: groups by {label}" for label in grouped(expression) - labels]

    assert not wrong, "\n".join(wrong)


async def test_every_metric_of_the_service_is_shown_or_watched(serve: Serve):
    """One that nobody looks at is not worth counting."""
    there = await exposed(serve)
    looked_at = {name for expression in expressions().values() for name in asked(expression)}

    families = {
        re.sub(r"_(bucket|sum|count|total|created)$", "", name) for name in there if name.startswith("posegate")
    }
    shown = {re.sub(r"_(bucket|sum|count|total)$", "", name) for name in looked_at}

    assert families - shown == set()


@pytest.mark.parametrize("needed", ["journal-unavailable", "commit-unknown", "damaged", "stale", "mailbox_age"])
def test_what_needs_somebody_is_alerted(needed: str):
    assert needed in ALERTS.read_text(encoding="utf-8")


def test_every_alert_has_its_line_in_the_operations_page():
    page = (DOCKER.parent / "docs/operations.md").read_text(encoding="utf-8")

    alerts = [where for where in expressions() if where.startswith("Posegate")]
    assert [alert for alert in alerts if f"`{alert}`" not in page] == []


def test_every_metric_has_its_line_in_the_operations_page():
    page = (DOCKER.parent / "docs/operations.md").read_text(encoding="utf-8")
    names = {name for expression in expressions().values() for name in asked(expression) if name.startswith("posegate")}

    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}
    assert [family for family in sorted(families) if f"`{family}" not in page] == []


def test_panels_have_ids_and_places_of_their_own():
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
