import io
import json

import pytest
from rich.console import Console

from app.replay.ledger import Disagreement, EventFlow, GateCount
from app.replay.report import Report, as_json, as_table


def report(**given):
    asked = {
        "transitions": GateCount(asked=3, accepted={"granted": 2}, refused={"stale_generation": 1}, unanswerable=1),
        "parameters": GateCount(asked=1, refused={"non_finite_value": 1}),
        "events": GateCount(asked=1200, accepted={"accepted": 1199}, problems={"mailbox-full": 1}),
        "graphs": GateCount(),
    }
    believed = [
        Disagreement("transitions", "from_differs", "begins believed from another state", 1, 2, ["hero/base: run"]),
        Disagreement("parameters", "final_value_differs", "parameters ending otherwise", 0, 3),
        Disagreement("events", "fired_while_refused", "effects fired though refused", 1234, None, ["x" * 60]),
        Disagreement("graphs", "final_graph_differs", "characters ending on another graph", 0, 0),
    ]
    fields = {
        "trace": "made-by-hand",
        "engine": "hand 1",
        "scenario": "made up",
        "scene": "made-by-hand-ab12",
        "characters": 1,
        "gates": asked,
        "events": EventFlow(fired=1234, accepted=1199, delivered=1000, waiting=199),
        "disagreements": believed,
        "requests": 7,
        "retries": 1,
        "elapsed_s": 0.5,
    }
    return Report(**{**fields, **given})


def printed(shown, width=100):
    output = io.StringIO()
    Console(file=output, width=width).print(as_table(shown))
    return output.getvalue()


def row(text, start):
    """The line that starts so, its words one space apart."""
    [line] = [line for line in text.splitlines() if line.strip().startswith(start)]
    return " ".join(line.split())


def test_a_row_a_gate_says_what_was_asked_and_answered():
    text = printed(report())

    assert row(text, "transitions") == "transitions 3 2 1 0 1 stale_generation 1"
    assert row(text, "parameters  ") == "parameters 1 0 1 0 0 non_finite_value 1"
    assert row(text, "events  ") == "events 1,200 1,199 0 1 0 mailbox-full 1"
    assert row(text, "graphs") == "graphs 0 0 0 0 0"
    assert row(text, "all") == "all 1,204 1,201 2 1 1"


def test_a_row_a_disagreement_says_how_often_and_where():
    text = printed(report())

    assert row(text, "begins believed") == "begins believed from another state 1 of 2 hero/base: run"
    assert row(text, "parameters ending") == "parameters ending otherwise 0 of 3"


def test_a_gate_that_was_asked_nothing_has_no_disagreements_to_show():
    assert "another graph" not in printed(report())


def test_the_end_says_where_events_went_and_what_was_observed():
    text = printed(report())

    assert "the naive client fired 1,234; the gate accepted 1,199, delivered 1,000, 199 still wait" in text
    assert "1,204 commands in 7 requests (1 sent again), 0.50 s, 2,408 commands a second as observed here" in text


def test_without_events_nothing_is_said_of_them():
    assert "fired" not in printed(report(events=EventFlow(0, 0, 0, 0), disagreements=[]))


@pytest.mark.parametrize("width", [80, 100])
def test_the_tables_fit_where_they_are_printed_and_carry_no_colour_into_a_pipe(width):
    text = printed(report(), width)

    assert max(len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text


def test_machines_get_everything_in_one_object():
    shown = json.loads(as_json([report(), report(gates={"graphs": GateCount()})]))

    assert shown["problems"] == 1
    assert [trace["trace"] for trace in shown["traces"]] == ["made-by-hand"] * 2
    first = shown["traces"][0]
    assert first["gates"]["transitions"] == {
        "asked": 3,
        "accepted": {"granted": 2},
        "refused": {"stale_generation": 1},
        "problems": {},
        "unanswerable": 1,
    }
    assert first["events"] == {"fired": 1234, "accepted": 1199, "delivered": 1000, "waiting": 199}
    assert first["disagreements"][0]["key"] == "from_differs"
    assert (first["elapsed_s"], first["commands_per_s"]) == (0.5, 2408.0)


def test_no_time_gives_no_rate():
    assert report(elapsed_s=0.0).commands_per_s == 0.0
