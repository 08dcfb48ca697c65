import json
import re
from pathlib import Path

from app.cli import replaying
from app.replay.ledger import EventFlow, GateCount
from app.replay.report import Report
from app.replay.service import ServiceError
from tests.support.lines import is_one_line
from tests.support.recorded import TRACES

HIT = TRACES / "panda3d-hit-interrupt.jsonl"


def test_replay_prints_a_table_to_a_pipe(call):
    code, shown, told = call("replay", HIT)

    assert (code, told) == (0, "")
    assert "panda3d-hit-interrupt" in shown
    assert "stale_generation 16" in shown
    assert max(len(line) for line in shown.splitlines()) <= 100
    assert "\x1b" not in shown


def test_replay_prints_an_object_for_machines(call):
    code, shown, told = call("replay", HIT, "--json", "--keep", "memory:")

    assert (code, told) == (0, "")
    report = json.loads(shown)
    assert report["problems"] == 0
    assert report["traces"][0]["gates"]["transitions"]["refused"] == {"stale_generation": 16}


def test_replay_fails_where_nobody_serves(call):
    code, shown, told = call("replay", HIT, "--url", "http://127.0.0.1:9")

    assert (code, shown) == (1, "")
    assert "posegate serve" in told
    assert is_one_line(told)


def test_a_service_of_ones_own_takes_no_setting_or_key_from_the_callers_environment(call, monkeypatch):
    """With any one of these the service would not start, or would refuse what the replay asks."""
    for name, value in {
        "BATCH_COMMANDS_MAX": "1",
        "KEYS_FILE": "absent.json",
        "port": "none",
        "KEY": "posegate_x",
    }.items():
        monkeypatch.setenv(f"POSEGATE_{name}", value)

    code, shown, told = call("replay", HIT, "--json")

    assert (code, told) == (0, "")
    assert json.loads(shown)["problems"] == 0


def test_every_trace_that_help_names_is_there(call):
    _, shown, _ = call("replay", "--help")

    named = re.findall(r"\S+\.jsonl", shown)
    assert named
    assert all(list(Path(__file__).parents[2].glob(name)) for name in named), named


def test_replay_fails_where_a_command_was_not_decided(call, monkeypatch):
    async def undecided(traces, **given):
        return [undecided_report(trace) for trace in traces]

    monkeypatch.setattr(replaying, "replay", undecided)

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

    monkeypatch.setattr(replaying, "replay", lost)

    assert call("replay", HIT) == (1, "", "posegate: http://posegate.test: no answer (reset), 8 times.\n")


def test_a_key_that_is_none_is_said_and_not_shown(call):
    code, shown, told = call("replay", HIT, "--url", "http://127.0.0.1:9", "--key", "not a key")

    assert (code, shown) == (1, "")
    assert "--key" in told
    assert "not a key" not in told
