"""The names of a journal's scenes: those that are listed, and those that are known of besides."""

from typing import Protocol, runtime_checkable

from app.journal.port import Journal

NAMES_READ_MAX = 1_000


@runtime_checkable
class Naming(Protocol):
    """A journal that knows of its scenes by more than what lists them."""

    async def everything(self) -> list[str]:
        """Give the names of all scenes that are known of, unlisted ones too, ascending."""
        ...


async def listed(journal: Journal) -> set[str]:
    """Give the names of all scenes that a journal lists. Raises as `Journal.scenes`."""
    names: set[str] = set()
    after = ""
    while page := await journal.scenes(after=after, limit=NAMES_READ_MAX):
        names.update(page)
        after = page[-1]
    return names


async def known(journal: Journal) -> set[str]:
    """Give the names of all scenes that a journal knows of, listed or not; none where it cannot tell them.

    Raises as `Journal.scenes`.
    """
    return set(await journal.everything()) if isinstance(journal, Naming) else set()
