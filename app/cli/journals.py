"""`posegate verify` and `posegate repair`: what is said of a journal, and made of it, without serving it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import msgspec
import typer

from app.cli.frame import FAILED, MISUSED, JsonOption, cli, fail, run, settings_from
from app.journal import connect_journal, open_salvage, shown_url
from app.journal.port import CommitUnknown, JournalDamaged, JournalUnavailable
from app.sequencing.repair import Finding
from app.sequencing.repair import repair as repair_scenes
from app.sequencing.verify import DAMAGE, SceneReport
from app.sequencing.verify import verify as verify_scenes

JOURNAL = "The journal, as sqlite:PATH or nats://HOST/NAME."


@cli.command(
    epilog="""Examples:

    posegate verify sqlite:var/posegate.db

    posegate verify --json sqlite:var/posegate.db > verified.json

    POSEGATE_JOURNAL=nats://posegate:secret@127.0.0.1/posegate posegate verify

Exit codes: 0 nothing differs, 1 something does or the journal is damaged, 2 the journal cannot be read."""
)
def verify(
    journal: Annotated[str, typer.Argument(envvar="POSEGATE_JOURNAL", help=JOURNAL)],
    as_json_object: JsonOption = False,
) -> None:
    """Replay a journal, decide every command again, and report every difference.

    A difference is a changed rule or damage. The journal is only read, and may be in use. Deleted scenes are left out;
    on JetStream they are told when they are damaged.
    """
    try:
        reports = run(lambda: _verified(journal))
    except JournalUnavailable as error:
        fail(f"{error}. Nothing was changed; verify it again when it can be read.", MISUSED)
    except JournalDamaged as error:
        fail(f"{error}. {_ways_out(journal)}", FAILED)
    found = sum(report.found for report in reports)
    if as_json_object:
        typer.echo(msgspec.json.format(msgspec.json.encode({"found": found, "scenes": reports}), indent=2).decode())
    else:
        for report in reports:
            _tell(report)
        typer.echo(_summary(reports))
    if found:
        fail(f"the journal does not come out as it is recorded. {_next_step(journal, reports)}", FAILED)


@contextmanager
def _opening(url: str) -> Iterator[None]:
    """Open a journal in the block. What stands in its way says itself what to do about it."""
    try:
        yield
    except (ValueError, JournalUnavailable) as error:
        fail(f"{error}.", MISUSED)
    except JournalDamaged as error:
        fail(f"journal {shown_url(url)} is damaged: {error}.", FAILED)


async def _verified(url: str) -> list[SceneReport]:
    with _opening(url):
        journal = await connect_journal(url, read_only=True)
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
    except ValueError as error:
        fail(f"journal {shown_url(journal)}: {error}.", MISUSED)
    except (JournalUnavailable, CommitUnknown) as error:
        fail(f"journal {journal} was not repaired: {error}. It is as it was.", FAILED)
    except JournalDamaged as error:
        fail(f"journal {journal} cannot be repaired: {error}. It is as it was; restore a back-up of it.", FAILED)
    if as_json_object:
        told = {"scenes": findings, "repaired": former is not None, "former": former}
        typer.echo(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())
    else:
        for finding in findings:
            typer.echo(_cost(finding, is_paid=former is not None))
    if not findings:
        typer.echo("nothing is damaged", err=as_json_object)
    elif former is None:
        fail("nothing was changed. To repair at this price, give --accept-loss.", FAILED)
    else:
        typer.echo(f"repaired; the former database is {former}: delete it when you need it no more", err=as_json_object)


async def _repaired(url: str, scene: str | None, *, accepts_loss: bool) -> tuple[list[Finding], str | None]:
    """Give what is damaged and, when it was repaired, where the former database lies."""
    with _opening(url):
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


def _cost(finding: Finding, *, is_paid: bool) -> str:
    """Say in a line what is wrong with a scene, and what its repair has cost or would cost."""
    costs = []
    if finding.lost_until > finding.kept:
        one = finding.lost_until == finding.kept + 1
        lost = f"sequence {finding.lost_until}" if one else f"sequences {finding.kept + 1} to {finding.lost_until}"
        costs.append(f"{lost} {('is' if one else 'are') if is_paid else 'would be'} lost")
    if finding.has_new_secret:
        become = "are" if is_paid else "would be"
        costs.append(f"tokens granted after sequence {finding.kept} {become} unknown from now on")
    if finding.forgotten_until:
        is_forgotten = "is" if is_paid else "would be"
        costs.append(f"history up to sequence {finding.forgotten_until} {is_forgotten} forgotten")
    cost = "; ".join(costs) or ("nothing is lost" if is_paid else "nothing would be lost")
    scene = f"{finding.scene} (deleted)" if finding.is_deleted else finding.scene
    return f"{scene}: {finding.damage}. {'Repaired' if is_paid else 'With --accept-loss'}: {cost}"


def _summary(reports: Sequence[SceneReport]) -> str:
    """Say how much was read and decided again, and how much of that does not come out as it is recorded."""
    read = f"{sum(report.decisions for report in reports):,} decisions in {_scenes(len(reports))} read"
    again = f"{sum(report.decided_again for report in reports):,} decided again"
    differing = f"{sum(report.differing for report in reports):,} differ"
    cut_short = sum(report.is_cut_short for report in reports)
    unread = f"; {_scenes(cut_short)} damaged, and not read from the damage on" if cut_short else ""
    return f"{read}, {again}, {differing}{unread}"


def _scenes(count: int) -> str:
    return "1 scene" if count == 1 else f"{count:,} scenes"


def _next_step(journal: str, reports: Sequence[SceneReport]) -> str:
    """Say what can be done about what was found."""
    if any(report.is_cut_short for report in reports):
        return _ways_out(journal)
    if any(each.meaning == DAMAGE for report in reports for each in report.differences):
        return "Nothing of it can be repaired, for it was written so: restore a back-up that verifies."
    return "Other rules decided then: verify it with the version that wrote it."


def _ways_out(journal: str) -> str:
    if not journal.startswith("sqlite:"):
        return "Restore a back-up of it; only a journal in a file can be repaired."
    return f"Stop the server and run `posegate repair {journal}`, which says what would be lost, or restore a back-up."


def _tell(report: SceneReport) -> None:
    """Say what differs in a scene, a line each; nothing where nothing does."""
    for difference in report.differences:
        where = "as a whole" if difference.sequence is None else f"sequence {difference.sequence}"
        typer.echo(f"{report.scene}, {where}: {difference.meaning}: {difference.detail}")
    if report.found > len(report.differences):
        typer.echo(f"{report.scene}: {report.found - len(report.differences):,} more")
