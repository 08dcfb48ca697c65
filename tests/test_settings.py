"""Settings: each has a variable, a unit, a bound and a sentence."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from app.settings import Settings

LIMITS_OF_THE_WIRE = {
    "body_bytes_max": 4 * 1024 * 1024,
    "json_depth_max": 64,
    "batch_commands_max": 10_000,
    "payload_bytes_max": 1024,
    "receipts_max": 10_000,
    "receipts_ms": 600_000,
}


@pytest.fixture(autouse=True)
def _without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"POSEGATE_{name.upper()}", raising=False)


def test_the_defaults_are_those_of_the_wire():
    settings = Settings()

    assert {name: getattr(settings, name) for name in LIMITS_OF_THE_WIRE} == LIMITS_OF_THE_WIRE
    assert (settings.host, settings.port, settings.journal) == ("127.0.0.1", 8080, "sqlite:var/posegate.db")


def test_every_setting_has_its_variable(monkeypatch: pytest.MonkeyPatch):
    for name, field in Settings.model_fields.items():
        text = {
            "log_level": "debug",
            "fast_lane": "off",
            "trace_sample_ratio": "0.5",
            "otlp_endpoint": "http://c:4318",
        }.get(name, "memory:")
        monkeypatch.setenv(f"POSEGATE_{name.upper()}", "7" if isinstance(field.default, int) else text)

    settings = Settings()

    assert set(map(str, settings.model_dump().values())) <= {"7", "memory:", "debug", "off", "0.5", "http://c:4318"}


def test_an_empty_variable_names_no_file(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("POSEGATE_KEYS_FILE", "")

    assert Settings().keys_file is None


def test_what_is_given_comes_before_the_variable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("POSEGATE_PORT", "7")

    assert Settings(port=8).port == 8


@pytest.mark.parametrize(
    "name", [name for name, field in Settings.model_fields.items() if isinstance(field.default, int)]
)
@pytest.mark.parametrize("value", ["-1", "many", "1.5", ""])
def test_a_limit_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str):
    monkeypatch.setenv(f"POSEGATE_{name.upper()}", value)

    with pytest.raises(ValidationError):
        Settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("trace_sample_ratio", value) for value in ("-0.1", "1.1", "nan", "some", "")),
        *(
            ("otlp_endpoint", value)
            for value in ("collector:4318", "ftp://collector", "http://", "http:///v1", "memory:")
        ),
    ],
)
def test_where_traces_go_and_how_many_is_refused_when_it_is_none(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
):
    monkeypatch.setenv(f"POSEGATE_{name.upper()}", value)

    with pytest.raises(ValidationError):
        Settings()


def test_the_name_of_a_limit_ends_in_its_unit_and_qualifier_and_each_says_what_it_is():
    numbers = {name: field for name, field in Settings.model_fields.items() if isinstance(field.default, int)}
    things = "commands|items|open|characters|remains|rigs|receipts|decisions|requests|deliveries|grants|watchers"
    units = rf"(bytes|levels|depth|{things}|ticks|hz|ms|s|minute)"

    odd = [name for name in numbers if not re.search(rf"{units}(_max)?$", name) and name != "port"]

    assert not odd
    assert all(field.description for field in Settings.model_fields.values())


def test_the_operations_page_lists_every_setting_as_it_is():
    page = (Path(__file__).parents[1] / "docs" / "operations.md").read_text(encoding="utf-8")

    for name, field in Settings.model_fields.items():
        default = "" if field.default is None else field.default
        assert f"| `POSEGATE_{name.upper()}` | {default} | {field.description} |" in page
