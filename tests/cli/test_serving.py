import asyncio
import json
import signal
import socket
import subprocess
import sys

import pytest

from app.cli import serving
from app.journal import open_journal
from app.settings import Settings
from app.telemetry.log import log
from tests.support.lines import is_one_line


def test_serve_takes_options_before_variables_before_defaults(call, served, monkeypatch):
    monkeypatch.setenv("POSEGATE_HOST", "127.0.0.2")
    monkeypatch.setenv("POSEGATE_PORT", "1")

    code, _, _ = call("serve", "--port", "0", "--journal", "memory:")

    assert code == 0
    [settings] = served
    assert (settings.host, settings.port, settings.journal) == ("127.0.0.2", 0, "memory:")
    assert settings.batch_commands_max == Settings.model_fields["batch_commands_max"].default


def test_a_setting_that_cannot_be_is_named_with_its_variable(call, served, monkeypatch):
    monkeypatch.setenv("POSEGATE_BATCH_COMMANDS_MAX", "0")

    code, _, told = call("serve", "--journal", "memory:")

    assert code == 2
    assert "POSEGATE_BATCH_COMMANDS_MAX is '0'" in told
    assert is_one_line(told)
    assert not served


def test_a_port_that_is_taken_is_told_before_anything_is_served(call, served):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, told = call("serve", "--port", port, "--journal", "memory:")

    assert code == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in told
    assert is_one_line(told)
    assert not served


def test_a_file_that_is_no_journal_is_told_before_anything_is_served(call, served, tmp_path):
    path = tmp_path / "notes.db"
    path.write_text("these are notes, not a journal\n" * 100)

    code, _, told = call("serve", "--journal", f"sqlite:{path}")

    assert code == 1
    assert str(path) in told
    assert is_one_line(told)
    assert path.read_text().startswith("these are notes")
    assert not served


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3"])
def test_without_keys_no_other_address_than_the_loopback_is_bound(call, served, host):
    code, _, told = call("serve", "--host", host, "--port", "0", "--journal", "memory:")

    assert code == 2
    assert "without API keys" in told
    assert is_one_line(told)
    assert not served


def test_with_keys_any_address_is_served(call, served, monkeypatch, tmp_path):
    path = tmp_path / "keys.json"
    path.write_text('{"keys": []}')
    monkeypatch.setenv("POSEGATE_KEYS_FILE", str(path))

    code, _, _ = call("serve", "--host", "0.0.0.0", "--port", "0", "--journal", "memory:")

    assert (code, len(served)) == (0, 1)


def test_the_address_that_help_shows_for_others_can_be_served(call, served, monkeypatch, tmp_path):
    _, shown, _ = call("serve", "--help")
    [example] = [line.split() for line in shown.splitlines() if "POSEGATE_HOST=" in line and "posegate serve" in line]
    monkeypatch.chdir(tmp_path)
    for variable in example[: example.index("posegate")]:
        monkeypatch.setenv(*variable.split("="))
    call("key", "ops", "--role", "ops", "--add", "keys.json")

    code, _, told = call("serve", "--port", "0", "--journal", "memory:")

    assert (code, told, len(served)) == (0, "", 1)


def test_a_journal_that_another_process_serves_is_told_with_one_advice(call, served, tmp_path):
    url = f"sqlite:{tmp_path}/served.db"
    serving = open_journal(url)

    code, _, told = call("serve", "--port", "0", "--journal", url)
    asyncio.run(serving.close())

    assert code == 1
    assert told.lower().count("stop ") == 1
    assert is_one_line(told)
    assert not served


def test_keys_that_cannot_be_read_are_told_before_anything_is_served(call, served, monkeypatch, tmp_path):
    monkeypatch.setenv("POSEGATE_KEYS_FILE", str(tmp_path / "absent.json"))

    code, _, told = call("serve", "--port", "0", "--journal", "memory:")

    assert code == 2
    assert "absent.json" in told
    assert is_one_line(told)
    assert not served


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_told_to_stop_while_it_waits_for_the_journal_it_ends_well_and_its_log_is_of_json_lines(told):
    """Somebody listens where NATS should, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"nats://posegate:hidden@127.0.0.1:{silent.getsockname()[1]}/posegate"
        command = [sys.executable, "-m", "app.cli", "serve", "--port", "0", "--journal", url]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        silent.settimeout(20)
        try:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(told)
                shown, said = process.communicate(timeout=20)
        finally:
            process.kill()

    assert (process.returncode, shown) == (0, "")
    assert all(json.loads(line)["event"] for line in said.splitlines())


def test_what_opening_the_journal_logs_is_json_lines_of_the_level_that_is_set(call, served, monkeypatch):
    async def connected(url):
        log.info("nats-connected")
        log.warning("nats-unreachable")
        return open_journal("memory:")

    monkeypatch.setattr(serving, "connect_journal", connected)
    monkeypatch.setenv("POSEGATE_LOG_LEVEL", "warning")

    code, _, told = call("serve", "--port", "0", "--journal", "memory:")

    assert (code, len(served)) == (0, 1)
    assert [json.loads(line)["event"] for line in told.splitlines()] == ["nats-unreachable"]
