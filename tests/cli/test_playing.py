import json

from app.cli import playing
from app.replay.ledger import EventFlow, GateCount
from app.replay.report import Report
from app.replay.service import ServiceError
from tests.support.recorded import TRACES

HIT = TRACES / "panda3d-hit-interrupt.jsonl"


def test_replay_fails_where_a_command_was_not_decided(call, monkeypatch):
    async def undecided(traces, **given):
        return [undecided_report(trace) for trace in traces]

    monkeypatch.setattr(playing, "replay", undecided)

    code, shown, told = call("replay", HIT, "--json")

    assert code == 1
    assert json.loads(shown)["problems"] == 1
    assert "not decided" in told


def undecided_report(trace):
    return Report(
        trace=trace.name,
        engine="",
        scenario="",
        scene="",
        characters=0,
        gates={"events": GateCount(asked=1, problems={"invalid": 1})},
        events=EventFlow(0, 0, 0, 0),
        disagreements=[],
        requests=1,
        retries=0,
        elapsed_s=1.0,
    )


def test_a_lost_service_is_a_failure(call, monkeypatch):
    async def lost(traces, **given):
        raise ServiceError("http://posegate.test: no answer (reset), 8 times.")

    monkeypatch.setattr(playing, "replay", lost)

    assert call("replay", HIT) == (1, "", "posegate: http://posegate.test: no answer (reset), 8 times.\n")
