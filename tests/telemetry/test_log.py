"""Log lines are JSON, one each, at the level that was asked for, and never quote a request."""

import json
import logging
import re
from pathlib import Path

import pytest

from app.telemetry import log as telemetry
from app.telemetry.passage import Passage, entered, left
from tests.telemetry.conftest import Written


def test_a_line_is_one_json_object_with_its_level_time_and_fields(capsys: pytest.CaptureFixture[str]):
    telemetry.configure("info")

    telemetry.log.warning("turn-dropped", scene="match-7", commands=3)

    out, err = capsys.readouterr()
    line = json.loads(err)
    assert out == ""
    assert line.pop("timestamp").endswith("Z")
    assert line == {"level": "warning", "event": "turn-dropped", "scene": "match-7", "commands": 3}


def test_lines_below_the_level_are_not_written(capsys: pytest.CaptureFixture[str]):
    telemetry.configure("error")

    telemetry.log.warning("turn-dropped")
    logging.getLogger("library").warning("something")

    assert capsys.readouterr().err == ""
    assert not telemetry.is_debugging()


def test_a_level_that_is_none_is_info(capsys: pytest.CaptureFixture[str]):
    telemetry.configure("chatty")

    telemetry.log.debug("hidden")
    telemetry.log.info("shown")

    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["shown"]


def test_a_line_says_which_request_and_trace_it_belongs_to(written: Written):
    token = entered(Passage(b"r-1", "4bf92f3577b34da6a3ce929d0e0e4736"))
    telemetry.log.info("inside")
    left(token)
    telemetry.log.info("outside")

    inside, outside = written()
    assert (inside["request_id"], inside["trace_id"]) == ("r-1", "4bf92f3577b34da6a3ce929d0e0e4736")
    assert not {"request_id", "trace_id"} & outside.keys()


def test_a_failure_is_told_by_what_it_was_and_where_it_came_from_not_by_its_message(written: Written):
    """The message of a failure may quote a body, a token or a key."""

    def inner() -> None:
        raise KeyError("hunter2")

    try:
        try:
            inner()
        except KeyError as error:
            raise ValueError("hunter3") from error
    except ValueError as error:
        telemetry.log.error("fault", exc_info=error)

    [line] = written()
    told = line["exception"].splitlines()
    assert told[-1] == "ValueError"
    assert "KeyError" in told
    assert any(frame.endswith(" inner") and "test_log.py:" in frame for frame in told)
    assert "hunter" not in json.dumps(line)


def test_a_group_of_failures_names_each(written: Written):
    telemetry.log.error("fault", exc_info=ExceptionGroup("hunter2", [TypeError("hunter3"), OSError("hunter4")]))

    [line] = written()
    assert line["exception"].splitlines() == ["ExceptionGroup", "| TypeError", "| OSError"]


def test_the_failure_being_handled_can_be_asked_for_by_true(written: Written):
    try:
        raise OSError("hunter2")
    except OSError:
        telemetry.log.error("fault", exc_info=True)

    assert written()[0]["exception"].splitlines()[-1] == "OSError"


def test_failures_that_cause_each_other_are_each_told_once(written: Written):
    one, other = ValueError("one"), TypeError("other")
    one.__cause__, other.__cause__ = other, one

    telemetry.log.error("fault", exc_info=one)

    assert written()[0]["exception"].splitlines() == ["TypeError", "ValueError"]


def test_what_a_library_logs_is_a_line_of_ours_with_the_first_line_of_its_text(written: Written):
    """The asyncio module writes the whole task and its failure into the text."""
    try:
        raise RuntimeError("hunter2")
    except RuntimeError:
        logging.getLogger("asyncio").exception("Task exception was %s retrieved\nfuture: <hunter3>", "never")
    logging.getLogger("asyncio").info("not worth a line")

    [line] = written()
    assert line["event"] == "library"
    assert (line["level"], line["logger"]) == ("error", "asyncio")
    assert line["text"] == "Task exception was never retrieved"
    assert line["exception"].splitlines()[-1] == "RuntimeError"
    assert "hunter" not in json.dumps(line)


def test_configuring_twice_writes_each_library_line_once(written: Written):
    telemetry.configure("info")

    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")

    assert [line["text"] for line in written()] == ["Invalid HTTP request received."]


def test_every_event_has_its_line_in_the_operations_page():
    root = Path(__file__).parents[2]
    page = (root / "docs/operations.md").read_text(encoding="utf-8")
    code = "\n".join(path.read_text(encoding="utf-8") for path in sorted((root / "app").rglob("*.py")))
    events = set(re.findall(r'\blog\.(?:debug|info|warning|error)\(\s*"([a-z-]+)"', code))
    events |= set(re.findall(r'_line\(log\.\w+, "([a-z-]+)"', code)) | set(re.findall(r'write\("([a-z-]+)"', code))

    assert {"fault", "turn-dropped", "request", "request-failed", "library"} <= events
    assert sorted(event for event in events if f"| `{event}` |" not in page) == []
