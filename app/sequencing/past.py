"""The past: decisions as they are read from the journal, for the history, for retried keys and for who watches."""

from collections.abc import AsyncIterator, Callable

from app.gates.scene import Record
from app.journal.codec import Entry, decode_entry_in_steps, decode_head
from app.journal.port import CommitUnknown, Journal, JournalDamaged, JournalUnavailable, StoredEntry
from app.sequencing.feed import Shelf, Turn
from app.sequencing.mailbox import Decided, Earlier, Result
from app.sequencing.pace import Pace
from app.sequencing.scrubbing import Damages
from app.sequencing.store import entry_of
from app.settings import Settings

HISTORY_ENTRIES_READ = 32
"""How many entries one read of the history asks for."""


async def decisions(
    journal: Journal, scene: str, *, after: int, character: str | None
) -> AsyncIterator[tuple[int, int, Record | None]]:
    """Read decisions as `Registry.history` promises.

    Raises:
        JournalUnavailable, JournalDamaged: The history cannot be read.
    """
    position, pace = await journal.seek(scene, sequence=after + 1), Pace()
    while entries := await journal.read(scene, after=position, limit=HISTORY_ENTRIES_READ):
        for stored in entries:
            position = stored.position
            head = decode_head(stored.blob)
            if character is not None and character not in head.characters:
                yield stored.last, head.at, None
                continue
            entry = await pace.through(decode_entry_in_steps(stored.blob))
            for sequence, record in enumerate(entry.records, start=stored.first):
                if sequence > after:
                    yield sequence, head.at, record


async def recalled(journal: Journal, scene: str, results: list[Result | Earlier]) -> list[Result]:
    """Read the answers of retried keys, each entry that holds some of them once.

    Raises:
        JournalUnavailable, JournalDamaged: They cannot be read, or are no longer kept.
    """
    earlier: dict[int, Decided] = {}
    entry: Entry | None = None
    for sequence in sorted({result.sequence for result in results if isinstance(result, Earlier)}):
        if entry is None or sequence > entry.last:
            entry = await entry_of(journal, scene, sequence)
        earlier[sequence] = Decided(sequence, entry.at, entry.records[sequence - entry.first])
    return [earlier[result.sequence] if isinstance(result, Earlier) else result for result in results]


class Past:
    """What readers need of the journal, damage noted; and the turns that watchers read because they are behind.

    Such a turn is read once for all who are at about the same place.

    Bound:   `feed_decisions_max` decisions and `feed_bytes_max` bytes over all scenes; beyond, the longest held go.
    """

    def __init__(self, journal: Journal, settings: Settings, damages: Damages) -> None:
        self._journal = journal
        self._damages = damages
        self._held: dict[str, dict[int, Turn]] = {}
        self.shelf = Shelf(decisions_max=settings.feed_decisions_max, bytes_max=settings.feed_bytes_max)

    async def decisions(
        self, scene: str, *, after: int, character: str | None
    ) -> AsyncIterator[tuple[int, int, Record | None]]:
        """Read decisions as `Registry.history` promises."""
        try:
            async for decision in decisions(self._journal, scene, after=after, character=character):
                yield decision
        except JournalDamaged as error:
            self._damages.note(scene, error)
            raise

    async def recall(
        self, scene: str, results: list[Result | Earlier], reply: Callable[[list[Result] | Exception], None]
    ) -> None:
        """Reply with results once the answers of retried keys among them were read, or why they could not be."""
        try:
            told = await recalled(self._journal, scene, results)
        except (JournalUnavailable, JournalDamaged) as error:
            if isinstance(error, JournalDamaged):
                self._damages.note(scene, error)
            if any(type(result) is Decided for result in results):
                # What was decided beside the retried keys is durable, so nobody may hear that nothing was.
                reply(CommitUnknown(f"decided, but the answers cannot all be read; {error}"))
            else:
                reply(error)
        else:
            reply(told)

    async def turn_after(self, scene: str, place: int) -> Turn | None:
        """Give the turn that holds the decision after a place; where that is gone, the next there is, or None.

        Raises:
            JournalUnavailable, JournalDamaged: It cannot be read.
        """
        held = self._held.get(scene, {}).get(place)
        if held is not None:
            return held
        try:
            position = await self._journal.seek(scene, sequence=place + 1)
            entries = await self._journal.read(scene, after=position, limit=HISTORY_ENTRIES_READ)
            turns = [self._turn(scene, entry) for entry in entries]
        except JournalDamaged as error:
            self._damages.note(scene, error)
            raise
        return turns[0] if turns else None

    def forget(self, scene: str) -> None:
        """Let go of what is held of a scene that nobody watches any more, or that was closed."""
        for turn in self._held.pop(scene, {}).values():
            self.shelf.remove(turn)

    def _turn(self, scene: str, entry: StoredEntry) -> Turn:
        """Give the turn of an entry, as it is held for all."""
        held = self._held.setdefault(scene, {})
        place = entry.first - 1
        if place not in held:
            held[place] = Turn.stored(entry)
            self.shelf.put(held[place], lambda: self._drop(scene, place))
        return held[place]

    def _drop(self, scene: str, place: int) -> None:
        """Hold a turn no longer, whose place others need."""
        held = self._held[scene]
        del held[place]
        if not held:
            del self._held[scene]
