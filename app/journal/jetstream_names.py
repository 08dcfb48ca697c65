"""The names of scenes on JetStream: which there are, and which of them are listed."""

import asyncio
from bisect import bisect_right

from app.journal.jetstream_api import Jetstream
from app.journal.jetstream_forms import Head, scene_of, token_of, unpacked_head
from app.journal.jetstream_known import Held, Knowledge
from app.journal.jetstream_streams import Streams
from app.journal.port import JournalDamaged, JournalUnavailable

KEPT_S = 5.0
"""How long a listing serves the pages that follow its first, seconds."""

HEADS_READ_MAX = 250
"""How many heads are looked at in one step."""


class Names:
    """A listing of all scenes, read anew for each first page and kept for those that follow.

    Bound: one listing, as large as there are scenes.
    """

    def __init__(self, jetstream: Jetstream, streams: Streams, knowledge: Knowledge) -> None:
        self._jetstream = jetstream
        self._streams = streams
        self._knowledge = knowledge
        self._counts: dict[str, int] = {}
        self._names: list[str] = []
        self._until = 0.0

    def forget(self) -> None:
        """Have the next page read anew: a scene came to be here, and whoever made it expects to find it."""
        self._until = 0.0

    async def scenes(self, *, after: str, limit: int) -> list[str]:
        """Give listed names above `after`, ascending. Raises as `Journal.scenes`."""
        now = asyncio.get_running_loop().time()
        if after == "" or now > self._until:
            counts = await self._counted(self._streams.entries, self._streams.all_entries)
            self._counts, self._names, self._until = counts, sorted(counts), now + KEPT_S
        names, counts = self._names, self._counts
        listed: list[str] = []
        index = bisect_right(names, after)
        while index < len(names) and len(listed) < limit:
            page = names[index : index + HEADS_READ_MAX]
            index += len(page)
            unlisted = await self._unlisted(page)
            listed += [
                name for name in page if name not in unlisted or await self._goes_on(name, unlisted[name], counts[name])
            ]
        return listed[:limit]

    async def everything(self) -> list[str]:
        """Give the names of all scenes that have an entry or a head, ascending."""
        entries = await self._counted(self._streams.entries, self._streams.all_entries)
        heads = await self._counted(self._streams.heads, self._streams.all_heads)
        return sorted({*entries, *heads})

    async def _counted(self, stream: str, subjects: str) -> dict[str, int]:
        """Give every scene that has a message in a stream, and how many."""
        counts: dict[str, int] = {}
        offset = 0
        while True:
            info = await self._jetstream.info(stream, subjects=subjects, offset=offset)
            if info is None:
                raise JournalUnavailable(f"there is no stream {stream}")
            counts.update((scene_of(self._streams.token(each)), count) for each, count in info.state.subjects.items())
            offset += len(info.state.subjects)
            if offset >= info.total or not info.state.subjects:
                return counts

    async def _unlisted(self, names: list[str]) -> dict[str, Head]:
        """Give the heads of those scenes that were unlisted when they were last stored.

        A head that cannot be read counts as listed: it is damage of its scene, and no other's listing ends with it.
        """
        subjects = [self._streams.head(token_of(name)) for name in names]
        heads: dict[str, Held] = {}
        unreadable: set[str] = set()
        for sequence, subject, payload, _ in (await self._jetstream.lasts(self._streams.heads, subjects)).messages:
            name = scene_of(self._streams.token(subject))
            try:
                heads[name] = Held(sequence, unpacked_head(name, payload))
            except JournalDamaged:
                unreadable.add(name)
        for name in names:
            if name in unreadable:
                continue
            # The copy that answered may be behind; what was seen here already is no older than it.
            known = self._knowledge.seen(name)
            held = None if known is None else known.held
            if held is not None and (name not in heads or heads[name].sequence < held.sequence):
                heads[name] = held
        return {name: held.head for name, held in heads.items() if not held.head.is_listed}

    async def _goes_on(self, name: str, head: Head, count: int) -> bool:
        """Say whether an unlisted scene has entries behind its last checkpoint."""
        known = self._knowledge.seen(name)
        if known is not None and known.end > head.position:
            return True
        if count == 1 and head.floor >= head.position:
            # All of it was trimmed but the last entry, which always stays: it lies below the floor.
            return False
        found = await self._jetstream.last(self._streams.entries, self._streams.entry(token_of(name)))
        return found is not None and found.sequence > head.position
