import asyncio
import os
import signal

import pytest
import typer
from typer.core import TyperGroup

from app import __version__
from app.cli import cli, frame
from tests.support.lines import is_one_line
from tests.support.recorded import TRACES

HIT = TRACES / "panda3d-hit-interrupt.jsonl"


@pytest.mark.parametrize("name", ["serve", "key", "replay", "verify", "repair", "migrate", "openapi"])
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

    assert set(commands) == {"serve", "key", "replay", "verify", "repair", "migrate", "openapi"}
    assert named
    assert all(str(variable).startswith("POSEGATE_") for variable in named.values()), named


def test_without_a_command_the_help_is_shown(call):
    code, shown, _ = call()

    assert code == 2
    assert all(name in shown for name in ("serve", "key", "replay", "verify", "repair", "migrate", "openapi"))


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
        ("repair", "memory:"),
        ("repair", "sqlite:absent.db"),
        ("migrate", "sqlite:absent.db", "sqlite:new.db"),
        ("migrate", "memory:", "sqlite:new.db"),
        ("migrate", "sqlite:absent.db"),
        ("openapi", "--write", "a", "--check", "a"),
        ("openapi", "--check", "absent.json"),
    ],
)
def test_a_wrong_call_is_told_in_one_line_and_leaves_with_2(call, served, arguments):
    code, shown, told = call(*arguments)

    assert (code, shown) == (2, "")
    assert is_one_line(told)
    assert not served


@pytest.mark.parametrize(
    ("arguments", "end"),
    [
        (("srve",), "No such command 'srve'. Did you mean 'serve'? See `posegate --help`."),
        (("key",), "Missing argument 'name'. See `posegate key --help`."),
        (("serve", "--prot", "1"), "See `posegate serve --help`."),
        (("replay", HIT, "--scene", "../match"), "See `posegate replay --help`."),
    ],
)
def test_a_wrong_call_is_led_to_the_help_of_its_own_command(call, served, arguments, end):
    _, _, told = call(*arguments)

    assert told.endswith(f"{end}\n")
    assert "?." not in told


def test_what_runs_is_let_finish_its_business_when_the_process_is_told_to_stop():
    finished = []

    async def business():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            finished.append(True)

    with pytest.raises(typer.Exit) as left:
        frame.run(business)

    assert left.value.exit_code == 128 + signal.SIGTERM
    assert finished == [True]
