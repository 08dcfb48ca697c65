"""`posegate replay`: plays recorded engine traces through a service, and reports what was decided."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from app.cli.frame import FAILED, MISUSED, JsonOption, cli, fail, run

if TYPE_CHECKING:
    from app.replay.report import Report
    from app.replay.run import Advance
    from app.replay.trace import Trace

PIPED_COLUMNS = 100
"""How wide tables are where there is no terminal to ask."""


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
KeyOption = Annotated[
    str | None,
    typer.Option(
        envvar="POSEGATE_KEY", help="An API key of that service, where it has keys.", show_default="none is sent"
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

    posegate replay tests/traces/godot3-hit-interrupt.jsonl --url http://127.0.0.1:8080 --scene match-7

    posegate replay tests/traces/godot3-hit-interrupt.jsonl --keep sqlite:var/replayed.db

Exit codes: 0 every command was decided, 1 one was not or the service was lost, 2 a trace or option cannot be used.""",
)
def replay_command(
    traces: TracesArgument,
    url: UrlOption = None,
    key: KeyOption = None,
    scene: SceneOption = None,
    keep: KeepOption = None,
    as_json_object: JsonOption = False,
) -> None:
    """Play recorded engine traces through a service, and say what a client without it would have shown.

    Each trace plays in a scene of its own, a batch for each tick of the engine.

    The report counts what each gate was asked, what it accepted, and what it refused as which outcome.

    It also counts where a client that believes every callback would differ from what was committed.
    """
    # What plays traces is imported when one is played, so that a service that starts does not wait for it.
    from app.replay.adapter import played  # noqa: PLC0415
    from app.replay.player import SceneTaken  # noqa: PLC0415
    from app.replay.report import as_json, as_table  # noqa: PLC0415
    from app.replay.run import replay  # noqa: PLC0415
    from app.replay.service import ServiceError  # noqa: PLC0415
    from app.replay.trace import TraceError, read_trace  # noqa: PLC0415

    if url is not None and keep is not None:
        fail("--keep is the journal of a service of its own; with --url there is none. Leave one away.", MISUSED)
    try:
        recorded = [read_trace(path) for path in traces]
    except TraceError as error:
        fail(f"{error}. Give a trace as the recorders write it.", MISUSED)
    progress = _progress(shown=not as_json_object)
    # A service of its own has no keys, and refuses whoever comes with one.
    sent = None if url is None else key

    def started(trace: "Trace") -> "Advance":
        task = progress.add_task(trace.name, total=len(played(trace)))
        return lambda lines: progress.advance(task, lines)

    async def replayed() -> "list[Report]":
        with progress:
            return await replay(recorded, url=url, key=sent, scene=scene, journal=keep, started=started)

    try:
        reports = run(replayed)
    except (ServiceError, SceneTaken) as error:
        fail(str(error), FAILED)
    if as_json_object:
        typer.echo(as_json(reports))
    else:
        console = Console(width=None if sys.stdout.isatty() else PIPED_COLUMNS, highlight=False)
        for report in reports:
            console.print(as_table(report))
    if any(report.problems for report in reports):
        fail("some commands were not decided; the column `problems` counts them.", FAILED)


def _progress(*, shown: bool) -> Progress:
    """Give a progress bar for standard error, where somebody can see it."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal))
