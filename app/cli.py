"""The command line: serve, replay, verify, openapi."""

import asyncio
import json
import re
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec
import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from app import __version__
from app.journal import open_journal
from app.journal.port import JournalDamaged, JournalUnavailable
from app.main import build
from app.main import serve as serve_until_told
from app.replay.adapter import played
from app.replay.player import SceneTaken
from app.replay.report import Report, as_json, as_table
from app.replay.run import Advance, replay
from app.replay.service import ServiceError
from app.replay.trace import Trace, TraceError, read_trace
from app.sequencing.verify import SceneReport
from app.sequencing.verify import verify as verify_scenes
from app.settings import Settings

FAILED = 1
"""The exit code when what was asked for did not work out."""

MISUSED = 2
"""The exit code when the call itself cannot be carried out: an option, a setting, a file to read."""

TERMINATED = 128 + signal.SIGTERM
"""The exit code when the process was told to stop."""

PIPED_COLUMNS = 100
"""How wide tables are where there is no terminal to ask."""

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
        said = " ".join(error.format_message().split()).removesuffix(".")
        typer.echo(f"posegate: {said}. See `posegate --help`.", err=True)
        code = MISUSED
    except typer.Abort:
        code = FAILED
    sys.exit(code if isinstance(code, int) else 0)


def _fail(said: str, code: int) -> NoReturn:
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


def _default(setting: str) -> str:
    return str(Settings.model_fields[setting].default)


HostOption = Annotated[
    str | None,
    typer.Option(envvar="POSEGATE_HOST", help="Address to listen on.", show_default=_default("host")),
]
PortOption = Annotated[
    int | None,
    typer.Option(
        envvar="POSEGATE_PORT",
        min=0,
        max=65535,
        help="Port to listen on; 0 takes a free one.",
        show_default=_default("port"),
    ),
]
JournalOption = Annotated[
    str | None,
    typer.Option(
        envvar="POSEGATE_JOURNAL",
        help="Where decisions are kept: sqlite:PATH, or memory: for trying.",
        show_default=_default("journal"),
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", envvar="POSEGATE_JSON", help="Print one JSON object instead.")]


@cli.command(
    epilog="""Examples:

    posegate serve

    posegate serve --port 0 --journal memory:

    POSEGATE_JOURNAL=sqlite:/srv/posegate.db POSEGATE_HOST=0.0.0.0 posegate serve"""
)
def serve(host: HostOption = None, port: PortOption = None, journal: JournalOption = None) -> None:
    """Serve until told to stop (SIGINT, SIGTERM). Prints the address it listens on when it is ready.

    Limits are settings too: each has a POSEGATE_ variable, and GET /v1/info shows them.
    """
    settings = _settings(host=host, port=port, journal=journal)
    _check_journal(settings.journal)
    _check_address(settings.host, settings.port)
    serve_until_told(settings)


def _settings(**given: str | int | None) -> Settings:
    """Give the settings: options first, then the environment, then the defaults."""
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
        # pydantic checks them
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "settings"
        _fail(f"POSEGATE_{name.upper()} is {first['input']!r}: {first['msg']}. Set it otherwise.", MISUSED)


def _check_journal(url: str) -> None:
    """Open and close the journal, so that what stands in its way is said in a line and not in a traceback."""

    async def opened_and_closed() -> None:
        await open_journal(url).close()

    try:
        asyncio.run(opened_and_closed())
    except ValueError as error:
        _fail(f"{error}. Give one of these as --journal or POSEGATE_JOURNAL.", MISUSED)
    except JournalUnavailable as error:
        _fail(f"journal {url} cannot be opened ({error}). Stop what uses it, or give another --journal.", FAILED)
    except JournalDamaged as error:
        _fail(f"journal {url} is damaged ({error}). Bring back a copy of it, or give another --journal.", FAILED)


def _check_address(host: str, port: int) -> None:
    """Listen for a moment, for the same reason."""
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            pass
    except OSError as error:
        said = error.strerror or str(error)
        advice = "Give another --host or --port (POSEGATE_HOST, POSEGATE_PORT)."
        _fail(f"cannot listen on {host} port {port} ({said}). {advice}", FAILED)


def _url(given: str | None) -> str | None:
    if given is not None and not given.startswith(("http://", "https://")):
        raise typer.BadParameter("an address starts with http:// or https://, as http://127.0.0.1:8080 does.")
    return given


def _scene(given: str | None) -> str | None:
    if given is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}", given):
        raise typer.BadParameter("a scene is 1 to 128 of A-Z a-z 0-9 . _ ~ - and starts with a letter or digit.")
    return given


TracesArgument = Annotated[list[Path], typer.Argument(metavar="TRACE...", help="Recorded traces, JSON Lines.")]
UrlOption = Annotated[
    str | None,
    typer.Option(
        envvar="POSEGATE_URL",
        callback=_url,
        help="The service to play through.",
        show_default="one of its own, on a free port",
    ),
]
SceneOption = Annotated[
    str | None,
    typer.Option(
        envvar="POSEGATE_SCENE",
        callback=_scene,
        help="The scene to play in; with several traces, the start of its name.",
        show_default="a new one for each trace",
    ),
]
KeepOption = Annotated[
    str | None,
    typer.Option(
        envvar="POSEGATE_KEEP",
        metavar="JOURNAL",
        help="The journal of a service of its own, to look at afterwards.",
        show_default="a temporary file",
    ),
]


@cli.command(
    name="replay",
    epilog="""Examples:

    posegate replay tests/traces/godot3-crowd-50x20s.jsonl

    posegate replay --json tests/traces/*.jsonl > report.json

    posegate replay TRACE.jsonl --url http://127.0.0.1:8080 --scene match-7

    posegate replay TRACE.jsonl --keep sqlite:var/replayed.db

Exit codes: 0 every command was decided, 1 one was not or the service was lost, 2 a trace or option cannot be used.""",
)
def replay_command(
    traces: TracesArgument,
    url: UrlOption = None,
    scene: SceneOption = None,
    keep: KeepOption = None,
    as_json_object: JsonOption = False,
) -> None:
    """Play recorded engine traces through a service, and say what a client without it would have shown.

    Each trace plays in a scene of its own, a batch for each tick of the engine.

    The report counts what each gate was asked, what it accepted, and what it refused as which outcome;

    and where a client that believes every callback would differ from what was committed.
    """
    if url is not None and keep is not None:
        _fail("--keep is the journal of a service of its own; with --url there is none. Leave one away.", MISUSED)
    try:
        recorded = [read_trace(path) for path in traces]
    except TraceError as error:
        _fail(f"{error}. Give a trace as the recorders write it.", MISUSED)
    progress = _progress(shown=not as_json_object)

    def started(trace: Trace) -> Advance:
        task = progress.add_task(trace.name, total=len(played(trace)))
        return lambda lines: progress.advance(task, lines)

    async def replayed() -> list[Report]:
        with progress:
            return await replay(recorded, url=url, scene=scene, journal=keep, started=started)

    try:
        reports = _run(replayed)
    except (ServiceError, SceneTaken) as error:
        _fail(str(error), FAILED)
    if as_json_object:
        typer.echo(as_json(reports))
    else:
        console = Console(width=None if sys.stdout.isatty() else PIPED_COLUMNS, highlight=False)
        for report in reports:
            console.print(as_table(report))
    if any(report.problems for report in reports):
        _fail("some commands were not decided; the column `problems` counts them.", FAILED)


def _progress(*, shown: bool) -> Progress:
    """Give a progress bar for standard error, where somebody can see it."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal))


def _run(work: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
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


@cli.command(
    epilog="""Examples:

    posegate verify sqlite:var/posegate.db

    posegate verify --json sqlite:var/posegate.db > verified.json

Exit codes: 0 nothing differs, 1 something does or the journal is damaged, 2 the journal cannot be read."""
)
def verify(
    journal: Annotated[str, typer.Argument(envvar="POSEGATE_JOURNAL", help="The journal, as sqlite:PATH.")],
    as_json_object: JsonOption = False,
) -> None:
    """Replay a journal, decide every command again, and report every difference.

    A difference is a changed rule or damage. The journal is only read, and may be in use.
    """
    try:
        reports = _run(lambda: _verified(journal))
    except (ValueError, JournalUnavailable) as error:
        _fail(f"journal {journal} cannot be read: {error}. Name one as sqlite:PATH.", MISUSED)
    except JournalDamaged as error:
        _fail(f"journal {journal} is damaged: {error}. Bring back a copy of it.", FAILED)
    found = sum(report.found for report in reports)
    if as_json_object:
        typer.echo(msgspec.json.format(msgspec.json.encode({"found": found, "scenes": reports}), indent=2).decode())
    else:
        for report in reports:
            _tell(report)
        decisions = sum(report.decisions for report in reports)
        again = sum(report.decided_again for report in reports)
        scenes = "1 scene" if len(reports) == 1 else f"{len(reports):,} scenes"
        typer.echo(f"{decisions:,} decisions in {scenes} read, {again:,} decided again, {found:,} differ")
    if found:
        _fail("the journal does not come out as it is recorded; the lines above say where.", FAILED)


async def _verified(url: str) -> list[SceneReport]:
    journal = open_journal(url, read_only=True)
    try:
        return [report async for report in verify_scenes(journal, _settings(journal=url))]
    finally:
        await journal.close()


def _tell(report: SceneReport) -> None:
    """Say what differs in a scene, a line each; nothing where nothing does."""
    for difference in report.differences:
        where = "as a whole" if difference.sequence is None else f"sequence {difference.sequence}"
        typer.echo(f"{report.scene}, {where}: {difference.meaning}: {difference.detail}")
    if report.found > len(report.differences):
        typer.echo(f"{report.scene}: {report.found - len(report.differences):,} more")


@cli.command(
    epilog="""Examples:

    posegate openapi | less

    posegate openapi --write openapi/v1.json

    posegate openapi --check openapi/v1.json"""
)
def openapi(
    write: Annotated[
        Path | None, typer.Option(envvar="POSEGATE_OPENAPI_WRITE", help="Write it to this file instead.")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(envvar="POSEGATE_OPENAPI_CHECK", help="Say whether this file equals it: 0 if so, 1 if not."),
    ] = None,
) -> None:
    """Print the OpenAPI document of the service: what it takes and answers at every path."""
    if write is not None and check is not None:
        _fail("--write and --check together would check what was just written. Leave one away.", MISUSED)
    text = json.dumps(build(_settings(journal="memory:")).openapi(), indent=2, ensure_ascii=False) + "\n"
    path = write or check
    if path is None:
        typer.echo(text, nl=False)
        return
    try:
        if write is not None:
            write.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            _fail(f"{path} is not what the code says. Run `posegate openapi --write {path}`, read the diff.", FAILED)
    except (OSError, UnicodeDecodeError) as error:
        _fail(f"{path}: {error}. Name a file that can be read or written.", MISUSED)


if __name__ == "__main__":
    main()
