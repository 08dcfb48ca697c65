"""Entries on JetStream: appended behind the scene's last, read from any copy, the end asked of the leader."""

import asyncio
import os
from zlib import crc32

from app.journal.jetstream_api import Conflict, Jetstream
from app.journal.jetstream_forms import Linked, packed_entry, token_of, unpacked_entry
from app.journal.jetstream_heads import Heads
from app.journal.jetstream_known import Knowledge
from app.journal.jetstream_streams import Streams
from app.journal.port import START, CommitUnknown, JournalDamaged, JournalUnavailable, NotTheWriter, StoredEntry

READ_ENTRIES_MAX = 1_000
READ_BYTES = 2 * 1024 * 1024
"""What one read asks for at most; one entry is given however large it is."""

LOOKS_MAX = 10
LOOK_PAUSE_S = 0.02
"""How often a copy that is behind is asked again, and the first pause before, seconds; it grows."""

HINT_LOOKS = 2
"""How often it is looked again for an entry that only a hint tells of."""


class Entries:
    """The entries of all scenes."""

    def __init__(self, jetstream: Jetstream, streams: Streams, knowledge: Knowledge, heads: Heads) -> None:
        self._jetstream = jetstream
        self._streams = streams
        self._knowledge = knowledge
        self._heads = heads
        self._node = os.urandom(9).hex()
        self._appends = 0

    async def append(self, scene: str, *, after: int, first: int, last: int, blob: bytes) -> int:
        """Append one entry. Raises as `Journal.append`."""
        payload = packed_entry(after, first, last) + blob
        # Unique for each append: two nodes may well decide turns of equal bytes, and only one of them may count.
        self._appends += 1
        key = f"{self._node}-{self._appends}-{crc32(payload):08x}"
        known = self._knowledge.of(scene)
        for look in range(LOOKS_MAX):
            if look:
                await asyncio.sleep(LOOK_PAUSE_S * look)
            try:
                position = await self._jetstream.publish(
                    self._streams.entry(token_of(scene)), payload, after=after, key=key
                )
            except Conflict as conflict:
                if conflict.last is not None:
                    known.reaches(conflict.last)
                own = await self._own(scene, after, key) if conflict.is_of_second_copy else None
                if own is not None:
                    position = own
                elif await self._may_pass(scene, after, conflict):
                    continue
                else:
                    raise NotTheWriter(f"{scene} does not end at position {after}") from None
            break
        else:
            raise NotTheWriter(f"{scene} does not end at position {after}, as who leads it says")
        known.note(Linked(after, StoredEntry(position, first, last, b"")))
        known.appended = max(known.appended, position)
        return position

    async def _may_pass(self, scene: str, after: int, conflict: Conflict) -> bool:
        """Say whether a conflict is none of another's entry, so that the same append may well be taken in a moment.

        Who has just begun to lead may have less of the scene than was acknowledged; and what is still being stored
        stands in the way whether or not it will be stored.
        """
        if conflict.last is not None:
            return conflict.last < after <= self._knowledge.of(scene).end
        newest = await self._newest(scene)
        return (START if newest is None else newest.entry.position) <= after

    async def _own(self, scene: str, after: int, key: str) -> int | None:
        """Give where the append with `key` lies, the only place where it can; None when another lies there.

        Raises:
            CommitUnknown: It cannot be seen now.
        """
        try:
            found = await self._jetstream.next(self._streams.entries, self._streams.entry(token_of(scene)), after + 1)
        except JournalUnavailable as error:
            raise CommitUnknown(str(error)) from None
        if found is None:
            raise CommitUnknown("who answered has less of the scene than who refused")
        return found.sequence if found.key == key else None

    async def read(self, scene: str, *, after: int, limit: int) -> list[StoredEntry]:
        """Give entries above `after`, which is START, or the position of an entry. Raises as `Journal.read`.

        An empty answer is the leader's word. Damage is proven by what a scene's last entry, which is never deleted,
        must lie at: not below a checkpoint, and behind the entry that was there before.
        """
        if limit < 1:
            return []
        known = self._knowledge.of(scene)
        start = after
        if after == START or after < known.floor:
            start = max(after, await self._floor(scene))
        is_gap = is_short = False
        for look in range(LOOKS_MAX):
            await asyncio.sleep(LOOK_PAUSE_S * look)
            if max(known.end, known.hinted) > start or known.end == START:
                entries = await self._batch(scene, start, limit)
                is_gap = bool(entries) and entries[0].after > start
                if is_gap:
                    # What lies between is gone: trimmed by another node, which says so in the head before it purges.
                    start = max(start, await self._floor(scene))
                    continue
                if entries:
                    return self._seen(scene, start, entries)
            covered = known.covered
            newest = await self._newest(scene)
            reached = START if newest is None else newest.entry.position
            is_short = reached < covered
            if newest is not None and newest.after <= start < reached:
                return self._seen(scene, start, [newest])
            if known.hinted > reached and look < HINT_LOOKS:
                continue
            known.hinted = START  # Whoever gave that hint was wrong, or somebody else.
            if known.end <= start and not is_short:
                return []
        if is_gap:
            raise _gone(scene, f"entries behind position {start} are gone")
        if is_short:
            raise _gone(scene, "its last entries are gone, its checkpoint is later than what is left")
        raise JournalUnavailable(f"scene {scene!r}: the copy that answers is behind; it will catch up")

    async def seek(self, scene: str, *, sequence: int) -> int:
        """Give the position to read after for a decision. Raises as `Journal.seek`."""
        known = self._knowledge.of(scene)
        after = known.after(sequence)
        if after is not None and after >= known.floor:
            return after
        best = await self._newest(scene)
        if best is None:
            return START
        if best.entry.last < sequence:
            return best.entry.position
        low = floor = await self._floor(scene)
        # Whatever is at `low` or below ends too early; `best` is the lowest entry known that ends late enough.
        while best.entry.first > sequence and best.after > low:
            middle = (low + best.after) // 2 + 1
            linked = await self._at_least(scene, middle)
            if linked is None or linked.entry.position > best.after:
                break  # The others were trimmed meanwhile.
            if linked.entry.last >= sequence:
                best = linked
            else:
                low = linked.entry.position
        return max(best.after, floor)

    async def purge(self, scene: str, before: int) -> None:
        """Delete entries up to and including `before`, but never the last: without it nobody could append behind it.

        Raises:
            JournalUnavailable, CommitUnknown: Some may be deleted already; no gap is left.
        """
        known = self._knowledge.of(scene)
        if known.end <= before:
            await self._newest(scene)
        below = min(before + 1, known.end)
        await self._jetstream.purge(self._streams.entries, self._streams.entry(token_of(scene)), below=below)

    async def _floor(self, scene: str) -> int:
        """Give up to where the scene's entries are forgotten, as its head says now."""
        held = await self._heads.newest(scene)
        return START if held is None else held.head.floor

    async def _newest(self, scene: str) -> Linked | None:
        """Give the scene's last entry as the leader has it."""
        found = await self._jetstream.last(self._streams.entries, self._streams.entry(token_of(scene)))
        if found is None:
            return None
        self._knowledge.of(scene).reaches(found.sequence)
        return unpacked_entry(scene, found.sequence, found.payload)

    async def _at_least(self, scene: str, position: int) -> Linked | None:
        """Give the scene's first entry at `position` or above as the leader has it."""
        found = await self._jetstream.next(self._streams.entries, self._streams.entry(token_of(scene)), position)
        return None if found is None else unpacked_entry(scene, found.sequence, found.payload)

    async def _batch(self, scene: str, after: int, limit: int) -> list[Linked]:
        """Give entries above `after` as some copy has them."""
        batch = await self._jetstream.batch(
            self._streams.entries,
            self._streams.entry(token_of(scene)),
            sequence=after + 1,
            limit=min(limit, READ_ENTRIES_MAX),
            bytes_max=READ_BYTES,
        )
        return [unpacked_entry(scene, found.sequence, found.payload) for found in batch.messages]

    def _seen(self, scene: str, start: int, entries: list[Linked]) -> list[StoredEntry]:
        """Note entries, and give them up to the first that does not lie behind the one before: a trim went through.

        Raises:
            JournalDamaged: The first lies behind an earlier one than `start`, which a node was told of all the same.
        """
        known = self._knowledge.of(scene)
        # What is trimmed need not end with an entry; where it does not, the first entry behind names one within it.
        if entries[0].after < start and start > known.floor:
            raise _gone(scene, f"what follows entry {start} was written behind entry {entries[0].after}")
        seen: list[StoredEntry] = []
        for linked in entries:
            if seen and linked.after != seen[-1].position:
                break
            known.note(linked)
            seen.append(linked.entry)
        return seen


def _gone(scene: str, what: str) -> JournalDamaged:
    return JournalDamaged(f"scene {scene!r}: {what}; restore the streams from a back-up")
