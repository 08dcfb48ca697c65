"""Playing: what `posegate replay` does, apart from its options, so that a service that starts need not import it."""

import sys
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from app.cli.frame import FAILED, MISUSED, fail, run
from app.replay.adapter import played
from app.replay.player import SceneTaken
from app.replay.report import Report, as_json, as_table
from app.replay.run import Advance, replay
from app.replay.service import ServiceError
from app.replay.trace import Trace, TraceError, read_trace

PIPED_COLUMNS = 100
"""How wide tables are where there is no terminal to ask."""


def play(
    traces: list[Path], *, url: str | None, key: str | None, scene: str | None, keep: str | None, as_json_object: bool
) -> None:
    """Play traces and print the report; leave with the exit code that says how it went."""
    if url is not None and keep is not None:
        fail("--keep is the journal of a service of its own; with --url there is none. Leave one away.", MISUSED)
    try:
        recorded = [read_trace(path) for path in traces]
    except TraceError as error:
        fail(f"{error}. Give a trace as the recorders write it.", MISUSED)
    progress = _progress(shown=not as_json_object)
    # A service of its own has no keys, and refuses whoever comes with one.
    sent = None if url is None else key

    def started(trace: Trace) -> Advance:
        task = progress.add_task(trace.name, total=len(played(trace)))
        return lambda lines: progress.advance(task, lines)

    async def replayed() -> list[Report]:
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
