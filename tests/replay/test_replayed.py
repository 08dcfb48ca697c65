"""All eight recordings through the real service, in this process: what it answers is pinned, and worked out twice."""

import asyncio
from functools import cache

import httpx
import pytest

from app.main import build
from app.replay.ledger import EventFlow
from app.replay.player import Player
from app.replay.report import Report
from app.replay.service import Service
from app.replay.trace import read_trace
from app.settings import Settings
from posegate_client import AsyncPosegate
from tests.replay.reference import expected
from tests.support.recorded import NAMES, TRACES

NOTHING: dict[str, int] = {}

PINNED = {
    "godot3-crowd-50x20s": {
        "transitions": {"granted": 1489, "committed": 999, "stale_generation": 180},
        "parameters": {"committed": 919, "non_finite_value": 7},
        "events": {"opened": 217, "accepted": 272, "delivered": 11},
        "graphs": NOTHING,
    },
    "godot3-graph-race": {
        "transitions": NOTHING,
        "parameters": NOTHING,
        "events": NOTHING,
        "graphs": {
            "requested": 44,
            "committed": 11,
            "stale_request": 25,
            "missing_output": 3,
            "evaluation_failed": 5,
        },
    },
    "godot3-hit-interrupt": {
        "transitions": {"granted": 60, "committed": 32, "stale_generation": 17},
        "parameters": {"committed": 204, "non_finite_value": 6},
        "events": {"opened": 24, "accepted": 32, "duplicate": 15},
        "graphs": NOTHING,
    },
    "godot3-walk-footsteps-irregular": {
        "transitions": NOTHING,
        "parameters": NOTHING,
        "events": {"opened": 8, "accepted": 361, "duplicate": 73, "delivered": 158},
        "graphs": NOTHING,
    },
    "panda3d-crowd-50x20s": {
        "transitions": {"granted": 1142, "committed": 556, "stale_generation": 383},
        "parameters": {"committed": 461, "non_finite_value": 10},
        "events": {"opened": 346, "accepted": 613, "duplicate": 57, "delivered": 160},
        "graphs": NOTHING,
    },
    "panda3d-graph-race": {
        "transitions": NOTHING,
        "parameters": NOTHING,
        "events": NOTHING,
        "graphs": {"requested": 37, "committed": 5, "stale_request": 27, "missing_output": 5},
    },
    "panda3d-hit-interrupt": {
        "transitions": {"granted": 40, "committed": 20, "stale_generation": 16},
        "parameters": {"committed": 116, "non_finite_value": 4},
        "events": NOTHING,
        "graphs": NOTHING,
    },
    "panda3d-walk-footsteps-irregular": {
        "transitions": NOTHING,
        "parameters": NOTHING,
        "events": {
            "opened": 6,
            "accepted": 374,
            "duplicate": 28,
            "late_loop": 44,
            "delivered": 153,
            "loop_rollback": 37,
        },
        "graphs": NOTHING,
    },
}

FLOWS = {
    "godot3-crowd-50x20s": EventFlow(fired=272, accepted=272, delivered=28, waiting=244),
    "godot3-hit-interrupt": EventFlow(fired=47, accepted=32, delivered=0, waiting=32),
    "godot3-walk-footsteps-irregular": EventFlow(fired=434, accepted=361, delivered=348, waiting=13),
    "panda3d-crowd-50x20s": EventFlow(fired=670, accepted=613, delivered=474, waiting=139),
    "panda3d-walk-footsteps-irregular": EventFlow(fired=446, accepted=374, delivered=366, waiting=8),
}

DISAGREEMENTS = {
    "godot3-crowd-50x20s": {
        "state_written_while_refused": 180,
        "wrong_state_shown": 145,
        "from_differs": 339,
        "final_state_differs": 1,
        "batch_written_while_refused": 7,
        "non_finite_written": 7,
        "fired_but_waiting": 244,
    },
    "godot3-graph-race": {"unfit_graph_shown": 33},
    "godot3-hit-interrupt": {
        "state_written_while_refused": 17,
        "wrong_state_shown": 13,
        "from_differs": 22,
        "batch_written_while_refused": 6,
        "non_finite_written": 6,
        "fired_while_refused": 15,
        "fired_but_waiting": 32,
    },
    "godot3-walk-footsteps-irregular": {"fired_while_refused": 73, "fired_but_waiting": 13},
    "panda3d-crowd-50x20s": {
        "state_written_while_refused": 383,
        "wrong_state_shown": 291,
        "from_differs": 170,
        "final_state_differs": 19,
        "batch_written_while_refused": 10,
        "non_finite_written": 20,
        "final_value_differs": 10,
        "fired_while_refused": 57,
        "fired_but_waiting": 139,
    },
    "panda3d-graph-race": {"unfit_graph_shown": 32, "final_graph_differs": 1},
    "panda3d-hit-interrupt": {
        "state_written_while_refused": 16,
        "wrong_state_shown": 12,
        "from_differs": 2,
        "batch_written_while_refused": 4,
        "non_finite_written": 8,
    },
    "panda3d-walk-footsteps-irregular": {"fired_while_refused": 72, "fired_but_waiting": 8},
}


@cache
def replayed(name: str) -> Report:
    """Play a recording once, however many tests look at it."""

    async def through_the_service() -> Report:
        app = build(Settings(journal="memory:"))
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app=app)
            async with AsyncPosegate("http://posegate.test", transport=transport) as posegate:
                trace = read_trace(TRACES / f"{name}.jsonl")
                return await Player(Service(posegate), trace, scene=name, run="pinned-run").play()

    return asyncio.run(through_the_service())


@pytest.mark.parametrize("name", NAMES)
def test_every_command_is_decided_and_nothing_is_sent_twice(name):
    report = replayed(name)

    assert report.problems == 0
    assert sum(count.unanswerable for count in report.gates.values()) == 0
    assert report.retries == 0


@pytest.mark.parametrize("name", NAMES)
def test_the_gates_answer_what_the_recording_says_they_must(name):
    report = replayed(name)

    answered = {gate: {**count.accepted, **count.refused} for gate, count in report.gates.items()}
    assert answered == PINNED[name]


@pytest.mark.parametrize("name", NAMES)
def test_the_pinned_answers_follow_from_the_raw_lines_alone(name):
    worked_out = expected(TRACES / f"{name}.jsonl")

    assert {gate: found["outcomes"] for gate, found in worked_out.items()} == PINNED[name]


@pytest.mark.parametrize("name", NAMES)
def test_accepted_events_are_delivered_or_wait(name):
    flow = replayed(name).events

    assert flow == FLOWS.get(name, EventFlow(fired=0, accepted=0, delivered=0, waiting=0))
    assert flow.accepted == flow.delivered + flow.waiting


@pytest.mark.parametrize("name", NAMES)
def test_the_naive_client_disagrees_as_often_as_pinned(name):
    counts = {found.key: found.count for found in replayed(name).disagreements if found.count}

    assert counts == DISAGREEMENTS[name]


@pytest.mark.parametrize("name", NAMES)
def test_the_disagreements_follow_from_the_raw_lines_alone(name):
    worked_out = expected(TRACES / f"{name}.jsonl")
    counts = {found.key: found.count for found in replayed(name).disagreements}

    for gate, keys in {
        "transitions": ("from_differs", "wrong_state_shown", "final_state_differs"),
        "parameters": ("final_value_differs",),
        "graphs": ("final_graph_differs",),
    }.items():
        assert {key: counts[key] for key in keys} == {key: worked_out[gate][key] for key in keys}
    assert replayed(name).events.delivered == worked_out["events"]["delivered"]
    assert replayed(name).events.waiting == worked_out["events"]["waiting"]


def test_the_same_recording_plays_to_the_same_end_twice():
    name = "panda3d-hit-interrupt"
    first = replayed(name)
    replayed.cache_clear()
    second = replayed(name)

    assert (first.gates, first.events, first.disagreements) == (second.gates, second.events, second.disagreements)
