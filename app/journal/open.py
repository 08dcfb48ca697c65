"""The one way to a concrete journal: a URL in, a journal out."""

from app.journal.moving import require_finished
from app.journal.port import Committed, Journal, JournalUnavailable, Moving, Salvage, unwatched

ACCEPTED = "`memory:` (forgets with the process) or `sqlite:PATH` (a file, made when it is missing)"


def open_journal(url: str, *, read_only: bool = False, committed: Committed = unwatched) -> Journal:
    """Open the journal that `url` names. Blocks for the few milliseconds that opening files takes.

    `read_only` is for tools that look at a journal while a server may be using it: no lock is taken, and every call
    that would write raises JournalUnavailable. A journal belongs to the event loop that calls it. `committed` is told
    of each commit to disk, on the thread that made it.

    Raises:
        ValueError: `url` names no journal known here, or a memory journal is to be only read.
        JournalUnavailable: The file cannot be opened, or another process serves it. Nothing was changed.
        JournalDamaged: The file is there but is no journal of a format known here. Nothing was changed.
    """
    kind, separator, rest = url.partition(":")
    # Each journal is imported when it is chosen, so that a process pays only for the one it uses.
    if separator and kind == "sqlite" and _is_path(rest):
        from app.journal.sqlite import SqliteJournal  # noqa: PLC0415

        return SqliteJournal(rest, read_only=read_only, committed=committed)
    if url == "memory:":
        if read_only:
            raise ValueError(
                "a memory journal is new and empty, so there is nothing to open; accepted is `sqlite:PATH`"
            )
        from app.journal.memory import MemoryJournal  # noqa: PLC0415

        return MemoryJournal()
    if is_remote(url):
        raise ValueError(f"a journal on NATS cannot be opened here, where nobody waits for it; accepted are {ACCEPTED}")
    accepted = "is `sqlite:PATH`" if read_only else f"are {ACCEPTED}"
    raise ValueError(f"{shown_url(url)!r} names no journal; accepted {accepted}")


async def connect_journal(url: str, *, read_only: bool = False, committed: Committed = unwatched) -> Journal:
    """Open the journal that `url` names, be it one that must be connected to first.

    `committed` is told of each commit, on whichever thread made it.

    Raises as `open_journal`, and JournalUnavailable when a move into the journal is not finished.
    """
    journal = await _connected(url, read_only=read_only, committed=committed)
    try:
        await require_finished(journal)
    except JournalUnavailable:
        await journal.close()
        raise
    return journal


async def open_moving(url: str, *, read_only: bool) -> Moving:
    """Open one side of a move: what is `read_only` is moved from. Blocks as `open_journal`.

    Nobody else may use it meanwhile; a file is locked, and of a journal in a file nobody can.

    Raises as `connect_journal`, but that a move into the journal may be unfinished.
    """
    kind, _, rest = url.partition(":")
    if kind == "sqlite" and _is_path(rest):
        from app.journal.sqlite_moving import SqliteMoving  # noqa: PLC0415

        return SqliteMoving(rest, read_only=read_only)
    if is_remote(url):
        from app.journal.jetstream import connect  # noqa: PLC0415

        return await connect(url, read_only=read_only)
    raise ValueError("such a journal cannot be moved; accepted are `sqlite:PATH` and `nats://HOST/NAME`")


async def _connected(url: str, *, read_only: bool, committed: Committed) -> Journal:
    """Open a journal whatever is in it."""
    if is_remote(url):
        from app.journal.jetstream import connect  # noqa: PLC0415

        return await connect(url, read_only=read_only, committed=committed)
    return open_journal(url, read_only=read_only, committed=committed)


def open_salvage(url: str) -> Salvage:
    """Open a copy of a damaged journal, to be mended. Takes the journal's lock; blocks for as long as copying takes.

    Raises:
        ValueError: `url` names no journal in a file.
        JournalUnavailable: The file cannot be copied, or a process serves it. Nothing was changed.
        JournalDamaged: Not even its secret can be read: there is nothing to be mended. Nothing was changed.
    """
    kind, separator, rest = url.partition(":")
    if is_remote(url):
        raise ValueError("a journal on JetStream is not repaired: restore a back-up of it")
    if not (separator and kind == "sqlite" and _is_path(rest)):
        raise ValueError(f"{shown_url(url)!r} names no journal in a file; accepted is `sqlite:PATH`")
    from app.journal.sqlite_salvage import SqliteSalvage  # noqa: PLC0415

    return SqliteSalvage(rest)


def shown_url(url: str) -> str:
    """Give a journal's URL as it may be shown to anybody: without user, password and files."""
    if url.startswith("sqlite:") or not (is_remote(url) or "@" in url):
        return url
    kind, _, rest = url.partition(":")
    return f"{kind}://{rest.removeprefix('//').rpartition('@')[2].partition('?')[0]}"


def _is_path(rest: str) -> bool:
    """Tell whether `rest` is a file's path. `//data/x.db` is not: it reads as a host and would become `/data/x.db`."""
    return rest != "" and "\0" not in rest and (not rest.startswith("//") or rest.startswith("///"))


def is_remote(url: str) -> bool:
    """Tell whether `url` is meant for a journal on NATS, which says itself what is wrong with it."""
    return url.startswith(("nats://", "tls://"))
