import json
import re
from pathlib import Path

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


def test_a_key_that_is_none_is_said_and_not_shown(call):
    code, shown, told = call("replay", HIT, "--url", "http://127.0.0.1:9", "--key", "not a key")

    assert (code, shown) == (1, "")
    assert "--key" in told
    assert "not a key" not in told
