"""Log lines are JSON, one each, at the level that was asked for."""

import json

import pytest
import structlog

from app.telemetry import log as telemetry


@pytest.fixture(autouse=True)
def _as_before():
    yield
    structlog.reset_defaults()


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

    assert capsys.readouterr().err == ""


def test_a_level_that_is_none_is_info(capsys: pytest.CaptureFixture[str]):
    telemetry.configure("chatty")

    telemetry.log.debug("hidden")
    telemetry.log.info("shown")

    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["shown"]


def test_an_exception_is_in_its_line(capsys: pytest.CaptureFixture[str]):
    telemetry.configure("info")

    telemetry.log.error("fault", exc_info=ValueError("broken"))

    [line] = capsys.readouterr().err.splitlines()
    assert "ValueError: broken" in json.loads(line)["exception"]
