"""`posegate migrate`: everything that one journal holds, brought into another."""

import time
from collections.abc import Callable
from typing import Annotated

import msgspec
import typer

from app.cli.frame import FAILED, MISUSED, JsonOption, cli, fail, run, settings_from
from app.journal import is_remote, open_moving
from app.journal.port import CommitUnknown, JournalDamaged, JournalUnavailable, Moving
from app.sequencing.migrate import PAUSES_S, CannotMove, Moved, MoveFailed, Progress, move

TELL_S = 2.0
"""How often progress is told, seconds; so of short work nothing is."""

SERVE = "from now on serve only the new one: set POSEGATE_JOURNAL to it, then start the server"
SERVE_NODES = (
    "from now on serve only the new one: set POSEGATE_JOURNAL to it at every node, then start them; restart every node"
    " that ran on the new one meanwhile: it holds the secret that was there before"
)
"""What to do when all is moved, into a file and onto JetStream."""

AGAIN = "The journal to move into is not to be served yet. Make the same move again: it goes on from there"


@cli.command(
    epilog="""Examples:

    posegate migrate sqlite:var/posegate.db nats://127.0.0.1:4222/posegate

    posegate migrate nats://127.0.0.1:4222/posegate sqlite:backup/posegate.db --json

Exit codes: 0 moved and compared, 1 begun but not finished, 2 it cannot be begun and nothing was written."""
)
def migrate(
    source: Annotated[
        str, typer.Argument(metavar="FROM", envvar="POSEGATE_MIGRATE_FROM", help="The journal to move from.")
    ],
    target: Annotated[
        str,
        typer.Argument(metavar="TO", envvar="POSEGATE_MIGRATE_TO", help="The journal to move into: an empty one."),
    ],
    as_json_object: JsonOption = False,
) -> None:
    """Bring everything that a journal holds into another, read both again and compare them.

    Scenes, deleted ones too, with history, characters, keys and secrets: tokens and sessions hold. No server may use
    either journal meanwhile. The first one is only read. An interrupted move goes on when it is made again.
    """
    started = time.monotonic()
    try:
        moved = run(lambda: _moved(source, target))
    except CannotMove as error:
        fail(f"nothing was moved: {error}.", MISUSED)
    except MoveFailed as error:
        fail(f"{error}. The journal to move into is not to be served.", FAILED)
    except (JournalUnavailable, CommitUnknown) as error:
        fail(f"the move is not finished: {error}. {AGAIN}.", FAILED)
    then = SERVE_NODES if is_remote(target) else SERVE
    if as_json_object:
        told = {**msgspec.structs.asdict(moved), "seconds": round(time.monotonic() - started, 3), "next": then}
        typer.echo(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())
        return
    deleted = moved.scenes - moved.listed
    also = f" and {deleted:,} that {'was' if deleted == 1 else 'were'} deleted" if deleted else ""
    typer.echo(
        f"moved {_counted(moved.listed, 'scene')}{also}: {_counted(moved.characters, 'character')} in checkpoints,"
        f" {_counted(moved.decisions, 'decision')} in {moved.bytes:,} bytes of entries"
    )
    typer.echo("both journals were read again and are the same, and every scene opens")
    typer.echo(then)


async def _moved(source_url: str, target_url: str) -> Moved:
    """Open both journals, move, and close them whatever comes of it."""
    if source_url == target_url:
        raise CannotMove("both names are the same journal's")
    source = await _opened(source_url, "from", read_only=True)
    try:
        target = await _opened(target_url, "into", read_only=False)
        try:
            settings = settings_from(journal="memory:")
            return await move(source, target, settings, told=_teller(), pauses_s=PAUSES_S)
        finally:
            await target.close()
    finally:
        await source.close()


async def _opened(url: str, which: str, *, read_only: bool) -> Moving:
    try:
        return await open_moving(url, read_only=read_only)
    except (ValueError, JournalUnavailable, JournalDamaged) as error:
        raise CannotMove(f"the journal to move {which} cannot be opened: {error}") from error


def _teller(clock: Callable[[], float] = time.monotonic) -> Callable[[Progress], None]:
    """Give what tells progress on standard error, now and then, with what was done since it last told."""
    told_at, entries_told, doing = clock(), 0, ""

    def tell(progress: Progress) -> None:
        nonlocal told_at, entries_told, doing
        if progress.doing != doing:
            doing, entries_told = progress.doing, 0
        now = clock()
        if now - told_at < TELL_S:
            return
        rate = (progress.entries - entries_told) / (now - told_at)
        told_at, entries_told = now, progress.entries
        typer.echo(
            f"{progress.doing} {progress.scenes:,} of {_counted(progress.of_scenes, 'scene')},"
            f" {progress.entries:,} entries, {rate:,.0f} a second",
            err=True,
        )

    return tell


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
