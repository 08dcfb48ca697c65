import asyncio
import json
import os
import signal
import socket

import httpx
import pytest
import typer
from typer.core import TyperGroup

from app import __version__
from app import cli as command_line
from app.cli import cli, main
from app.journal import open_journal
from app.main import build
from app.replay.ledger import EventFlow, GateCount
from app.replay.player import Player
from app.replay.report import Report
from app.replay.service import Service, ServiceError
from app.replay.trace import read_trace
from app.sequencing.verify import Difference, SceneReport
from app.settings import Settings
from tests.support.recorded import TRACES

HIT = TRACES / "panda3d-hit-interrupt.jsonl"


@pytest.fixture
def call(monkeypatch, capsys):
    """Call the command line as a shell does: gives the exit code, standard output and standard error."""

    def called(*arguments):
        monkeypatch.setattr("sys.argv", ["posegate", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        output = capsys.readouterr()
        return left.value.code, output.out, output.err

    return called


@pytest.fixture
def served(monkeypatch):
    """The settings that `serve` would serve with; nothing is served."""
    taken: list[Settings] = []
    monkeypatch.setattr(command_line, "serve_until_told", taken.append)
    return taken


def is_one_line(text):
    return text.startswith("posegate: ") and text.count("\n") == 1 and text.endswith(".\n")


@pytest.mark.parametrize("name", ["serve", "replay", "verify", "openapi"])
def test_help_shows_examples(call, name):
    code, shown, _ = call(name, "--help")

    assert code == 0
    assert "Examples:" in shown
    assert f"posegate {name} " in shown


def test_every_option_has_its_variable():
    group = typer.main.get_command(cli)
    assert isinstance(group, TyperGroup)
    commands = group.commands
    named = {
        f"{name} {option.name}": option.envvar
        for name, command in commands.items()
        for option in command.params
        if option.name not in ("help", "traces")
    }

    assert set(commands) == {"serve", "replay", "verify", "openapi"}
    assert named
    assert all(str(variable).startswith("POSEGATE_") for variable in named.values()), named


def test_without_a_command_the_help_is_shown(call):
    code, shown, _ = call()

    assert code == 2
    assert all(name in shown for name in ("serve", "replay", "verify", "openapi"))


def test_the_version_is_shown(call):
    assert call("--version") == (0, f"posegate {__version__}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("fly",),
        ("serve", "--port", "high"),
        ("serve", "--port", "70000"),
        ("serve", "--journal", "nowhere:"),
        ("replay",),
        ("replay", "absent.jsonl"),
        ("replay", HIT, "--url", "127.0.0.1:8080"),
        ("replay", HIT, "--scene", "../match"),
        ("replay", HIT, "--url", "http://127.0.0.1:8080", "--keep", "memory:"),
        ("verify", "memory:"),
        ("verify", "sqlite:absent.db"),
        ("openapi", "--write", "a", "--check", "a"),
        ("openapi", "--check", "absent.json"),
    ],
)
def test_a_wrong_call_is_told_in_one_line_and_leaves_with_2(call, served, arguments):
    code, shown, told = call(*arguments)

    assert (code, shown) == (2, "")
    assert is_one_line(told)
    assert not served


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


def test_replay_fails_where_a_command_was_not_decided(call, monkeypatch):
    async def undecided(traces, **given):
        return [undecided_report(trace) for trace in traces]

    monkeypatch.setattr(command_line, "replay", undecided)

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


def test_what_runs_is_let_finish_its_business_when_the_process_is_told_to_stop():
    finished = []

    async def business():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            finished.append(True)

    with pytest.raises(typer.Exit) as left:
        command_line._run(business)

    assert left.value.exit_code == 128 + signal.SIGTERM
    assert finished == [True]


@pytest.fixture
def journal(tmp_path):
    """A journal in which a recording was played."""
    url = f"sqlite:{tmp_path}/played.db"

    async def played():
        app = build(Settings(journal=url))
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://posegate.test") as client:
                await Player(Service(client), read_trace(HIT), scene="match-7", run="verify-me").play()

    asyncio.run(played())
    return url


def test_verify_decides_a_journal_again_and_finds_nothing(call, journal):
    code, shown, told = call("verify", journal)

    assert (code, told) == (0, "")
    assert shown == "200 decisions in 1 scene read, 200 decided again, 0 differ\n"


def test_verify_prints_an_object_for_machines(call, journal):
    code, shown, _ = call("verify", "--json", journal)

    assert code == 0
    [scene] = json.loads(shown)["scenes"]
    assert (scene["scene"], scene["decisions"], scene["found"]) == ("match-7", 200, 0)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_verify_tells_every_difference_and_fails(call, journal, monkeypatch, options):
    async def differing(opened, settings):
        differences = [Difference(41, "changed-rule", "Begin of 'hero'"), Difference(None, "damage", "the checkpoint")]
        yield SceneReport("match-7", entries=3, decisions=50, decided_again=50, found=5, differences=differences)

    monkeypatch.setattr(command_line, "verify_scenes", differing)

    code, shown, told = call("verify", journal, *options)

    assert code == 1
    assert is_one_line(told)
    if options:
        assert json.loads(shown)["found"] == 5
    else:
        assert shown.splitlines() == [
            "match-7, sequence 41: changed-rule: Begin of 'hero'",
            "match-7, as a whole: damage: the checkpoint",
            "match-7: 3 more",
            "50 decisions in 1 scene read, 50 decided again, 5 differ",
        ]


def test_verify_names_a_damaged_file(call, tmp_path):
    path = tmp_path / "notes.db"
    path.write_text("these are notes, not a journal\n" * 100)

    code, _, told = call("verify", f"sqlite:{path}")

    assert code == 1
    assert is_one_line(told)


def test_verify_leaves_a_journal_as_it_was(call, journal):
    async def scenes():
        opened = open_journal(journal, read_only=True)
        try:
            return await opened.scenes(after="", limit=10)
        finally:
            await opened.close()

    call("verify", journal)

    assert asyncio.run(scenes()) == ["match-7"]


def test_the_openapi_document_is_the_same_each_time(call):
    first, second = call("openapi"), call("openapi")

    assert first == second
    assert first[0] == 0
    assert json.loads(first[1])["openapi"].startswith("3.1")
    assert first[1].endswith("}\n")


def test_the_openapi_document_is_written_and_checked(call, tmp_path):
    path = tmp_path / "v1.json"

    assert call("openapi", "--write", path) == (0, "", "")
    assert call("openapi", "--check", path) == (0, "", "")
    assert path.read_text() == call("openapi")[1]


def test_a_document_that_drifted_fails_with_what_to_do(call, tmp_path):
    path = tmp_path / "v1.json"
    path.write_text("{}\n")

    code, _, told = call("openapi", "--check", path)

    assert code == 1
    assert f"posegate openapi --write {path}" in told
    assert is_one_line(told)


def test_a_lost_service_is_a_failure(call, monkeypatch):
    async def lost(traces, **given):
        raise ServiceError("http://posegate.test: no answer (reset), 8 times.")

    monkeypatch.setattr(command_line, "replay", lost)

    assert call("replay", HIT) == (1, "", "posegate: http://posegate.test: no answer (reset), 8 times.\n")
