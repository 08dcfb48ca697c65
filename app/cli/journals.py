"""`posegate verify`: what is said of a journal without serving it."""

from typing import Annotated

import msgspec
import typer

from app.cli.frame import FAILED, MISUSED, JsonOption, cli, fail, run, settings_from
from app.journal import open_journal
from app.journal.port import JournalDamaged, JournalUnavailable
from app.sequencing.verify import SceneReport
from app.sequencing.verify import verify as verify_scenes


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
        reports = run(lambda: _verified(journal))
    except (ValueError, JournalUnavailable) as error:
        fail(f"journal {journal} cannot be read: {error}. Name one as sqlite:PATH.", MISUSED)
    except JournalDamaged as error:
        fail(f"journal {journal} is damaged: {error}. Bring back a copy of it.", FAILED)
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
        fail("the journal does not come out as it is recorded; the lines above say where.", FAILED)


async def _verified(url: str) -> list[SceneReport]:
    journal = open_journal(url, read_only=True)
    try:
        return [report async for report in verify_scenes(journal, settings_from(journal=url))]
    finally:
        await journal.close()


def _tell(report: SceneReport) -> None:
    """Say what differs in a scene, a line each; nothing where nothing does."""
    for difference in report.differences:
        where = "as a whole" if difference.sequence is None else f"sequence {difference.sequence}"
        typer.echo(f"{report.scene}, {where}: {difference.meaning}: {difference.detail}")
    if report.found > len(report.differences):
        typer.echo(f"{report.scene}: {report.found - len(report.differences):,} more")
