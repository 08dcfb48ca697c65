"""The one way to a concrete journal: a URL in, a journal out."""

from app.journal.port import Committed, Journal, Salvage, unwatched

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
    raise ValueError(f"{url!r} names no journal; accepted {'is `sqlite:PATH`' if read_only else f'are {ACCEPTED}'}")


async def connect_journal(url: str, *, read_only: bool = False, committed: Committed = unwatched) -> Journal:
    """Open the journal that `url` names, be it one that must be connected to first.

    `committed` is told of each commit, on whichever thread made it.

    Raises as `open_journal`.
    """
    return open_journal(url, read_only=read_only, committed=committed)


def open_salvage(url: str) -> Salvage:
    """Open a copy of a damaged journal, to be mended. Takes the journal's lock; blocks for as long as copying takes.

    Raises:
        ValueError: `url` names no journal in a file.
        JournalUnavailable: The file cannot be copied, or a process serves it. Nothing was changed.
        JournalDamaged: Not even its secret can be read: there is nothing to be mended. Nothing was changed.
    """
    kind, separator, rest = url.partition(":")
    if not (separator and kind == "sqlite" and _is_path(rest)):
        raise ValueError(f"{url!r} names no journal in a file; accepted is `sqlite:PATH`")
    from app.journal.sqlite_salvage import SqliteSalvage  # noqa: PLC0415

    return SqliteSalvage(rest)


def _is_path(rest: str) -> bool:
    """Tell whether `rest` is a file's path. `//data/x.db` is not: it reads as a host and would become `/data/x.db`."""
    return rest != "" and "\0" not in rest and (not rest.startswith("//") or rest.startswith("///"))
