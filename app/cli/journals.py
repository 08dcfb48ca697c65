"""`posegate verify` and `posegate repair`: what is said of a journal, and made of it, without serving it."""

from typing import Annotated

import msgspec
import typer

from app.cli.frame import FAILED, MISUSED, JsonOption, cli, fail, run, settings_from
from app.journal import open_journal, open_salvage
from app.journal.port import CommitUnknown, JournalDamaged, JournalUnavailable
from app.sequencing.repair import Finding
from app.sequencing.repair import repair as repair_scenes
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


@cli.command(
    epilog="""Examples:

    posegate repair sqlite:var/posegate.db

    posegate repair sqlite:var/posegate.db --accept-loss --scene match-7

Exit codes: 0 nothing is damaged or all was repaired, 1 something is damaged, 2 the journal cannot be opened."""
)
def repair(
    journal: Annotated[str, typer.Argument(envvar="POSEGATE_JOURNAL", help="The journal, as sqlite:PATH.")],
    accepts_loss: Annotated[
        bool,
        typer.Option("--accept-loss", envvar="POSEGATE_ACCEPT_LOSS", help="Repair, and lose what is said to be lost."),
    ] = False,
    scene: Annotated[
        str | None,
        typer.Option(envvar="POSEGATE_SCENE", help="Repair only this scene.", show_default="every damaged one"),
    ] = None,
    as_json_object: JsonOption = False,
) -> None:
    """Say what of a damaged journal would be lost, and with --accept-loss repair it at that price.

    The server must be stopped. The journal is copied, so there must be room for it twice; the former one is kept.
    """
    try:
        findings, former = run(lambda: _repaired(journal, scene, accepts_loss=accepts_loss))
    except (ValueError, JournalUnavailable) as error:
        fail(f"journal {journal} cannot be repaired: {error}. Stop the server, and name it as sqlite:PATH.", MISUSED)
    except (JournalDamaged, CommitUnknown) as error:
        fail(f"journal {journal} cannot be repaired: {error}. Bring back a copy of it.", FAILED)
    if as_json_object:
        told = {"scenes": findings, "repaired": former is not None, "former": former}
        typer.echo(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())
    else:
        for finding in findings:
            typer.echo(_cost(finding))
    if not findings:
        typer.echo("nothing is damaged", err=as_json_object)
    elif former is None:
        fail("nothing was changed. To repair at this price, give --accept-loss.", FAILED)
    else:
        typer.echo(f"repaired; the former database is {former}: delete it when you need it no more", err=as_json_object)


async def _repaired(url: str, scene: str | None, *, accepts_loss: bool) -> tuple[list[Finding], str | None]:
    """Give what is damaged and, when it was repaired, where the former database lies."""
    journal = open_salvage(url)
    is_done = False
    try:
        found = [
            finding
            async for finding in repair_scenes(
                journal, settings_from(journal=url), only=scene, accepts_loss=accepts_loss
            )
        ]
        is_done = accepts_loss and bool(found)
    finally:
        if not is_done:
            await journal.discard()
    return found, await journal.adopt() if is_done else None


def _cost(finding: Finding) -> str:
    """Say in a line what is wrong with a scene and what its repair costs."""
    costs = []
    if finding.lost_until > finding.kept:
        costs.append(f"sequences {finding.kept + 1} to {finding.lost_until} are lost")
    if finding.has_new_secret:
        costs.append(f"tokens granted after sequence {finding.kept} become unknown")
    if finding.forgotten_until:
        costs.append(f"history up to sequence {finding.forgotten_until} is forgotten")
    return f"{finding.scene}: {finding.damage}. Repaired: {'; '.join(costs) or 'nothing is lost'}"


def _tell(report: SceneReport) -> None:
    """Say what differs in a scene, a line each; nothing where nothing does."""
    for difference in report.differences:
        where = "as a whole" if difference.sequence is None else f"sequence {difference.sequence}"
        typer.echo(f"{report.scene}, {where}: {difference.meaning}: {difference.detail}")
    if report.found > len(report.differences):
        typer.echo(f"{report.scene}: {report.found - len(report.differences):,} more")
