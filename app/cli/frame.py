"""The frame of the command line: the program, what its commands share, and how they end."""

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from pydantic import ValidationError

from app import __version__
from app.settings import Settings

FAILED = 1
"""The exit code when what was asked for did not work out."""

MISUSED = 2
"""The exit code when the call itself cannot be carried out: an option, a setting, a file to read."""

TERMINATED = 128 + signal.SIGTERM
"""The exit code when the process was told to stop."""

ResultT = TypeVar("ResultT")

cli = typer.Typer(
    name="posegate",
    help="The one place that owns the right to commit animation state.",
    epilog="Every option can be given as the variable named beside it. Exit codes: 0 done, 1 failed, 2 called wrongly.",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line, and leave with its exit code; what goes wrong is one line on standard error."""
    try:
        code = typer.main.get_command(cli).main(prog_name="posegate", standalone_mode=False)
    except typer.TyperException as error:
        said = " ".join(error.format_message().split())
        context = getattr(error, "ctx", None)
        command = "posegate" if context is None else context.command_path
        typer.echo(f"posegate: {said}{'' if said.endswith(('.', '?')) else '.'} See `{command} --help`.", err=True)
        code = MISUSED
    except typer.Abort:
        code = FAILED
    sys.exit(code if isinstance(code, int) else 0)


def fail(said: str, code: int) -> NoReturn:
    """Say in one line what went wrong and what to do, and leave with `code`."""
    typer.echo(f"posegate: {said}", err=True)
    raise typer.Exit(code)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"posegate {__version__}")
        raise typer.Exit


@cli.callback(invoke_without_command=True)
def _posegate(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(MISUSED)


def default_of(setting: str) -> str:
    """Give a setting's default as a help text shows it."""
    return str(Settings.model_fields[setting].default)


JsonOption = Annotated[bool, typer.Option("--json", envvar="POSEGATE_JSON", help="Print one JSON object instead.")]


def settings_from(**given: str | int | None) -> Settings:
    """Give the settings: options first, then the environment, then the defaults."""
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
        # pydantic checks them
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "settings"
        fail(f"POSEGATE_{name.upper()} is {first['input']!r}: {first['msg']}. Set it otherwise.", MISUSED)


def run(work: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
    """Run to the end, or until SIGTERM: what was started is stopped then too."""

    async def watched() -> ResultT:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work()

    try:
        return asyncio.run(watched())
    except asyncio.CancelledError:
        raise typer.Exit(TERMINATED) from None
