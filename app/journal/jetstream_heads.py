"""Checkpoints on JetStream: pieces first, then one head that names them, put in the place of the head read before.

Whoever loses that race reads the newer head and begins again, so a head never names what another node has purged: a
purge takes pieces below the first that the newest head names, and later heads name none below it.
"""

import asyncio
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from app.journal.covering import require_checkpoint_between, require_covered
from app.journal.jetstream_api import HEADERS_BYTES_MAX, Conflict, Jetstream
from app.journal.jetstream_forms import (
    FORMAT,
    Change,
    Head,
    Merged,
    pieces_of,
    token_of,
    unpacked_head,
    unpacked_piece,
)
from app.journal.jetstream_known import Held, Knowledge, Known
from app.journal.jetstream_streams import Streams
from app.journal.port import START, Checkpoint, CommitUnknown, JournalDamaged, JournalUnavailable, SealSecret
from app.telemetry.log import log

PIECE_BYTES_MAX = 1024 * 1024
"""The largest piece, where the servers take that much."""

CHANGES_MAX = 16
"""How many changes a head names before the checkpoint is written whole again."""

SPARE_BYTES = 16 * 1024
"""How many superseded bytes are kept besides as many as the last whole checkpoint had."""

PIECES_READ_MAX = 64
PIECES_READ_BYTES = 4 * 1024 * 1024

RACES_MAX = 32
"""How often a checkpoint begins again because another node's head came first."""

LOOKS_MAX = 8
LOOK_PAUSE_S = 0.05
"""How often pieces that a copy does not have yet are looked for, and the first pause before, seconds; it grows."""


class Heads:
    """The heads of all scenes, and the pieces below them."""

    def __init__(self, jetstream: Jetstream, streams: Streams, knowledge: Knowledge) -> None:
        self._jetstream = jetstream
        self._streams = streams
        self._knowledge = knowledge

    async def newest(self, scene: str) -> Held | None:
        """Give the scene's head as the leader has it; None when it has none."""
        found = await self._jetstream.last(self._streams.heads, self._streams.head(token_of(scene)))
        if found is None:
            return None
        held = Held(found.sequence, unpacked_head(scene, found.payload))
        self._knowledge.of(scene).hold(held)
        return held

    async def load(self, scene: str) -> Checkpoint | None:
        """Give the newest checkpoint, whichever node wrote it."""
        held = await self.newest(scene)
        for look in range(LOOKS_MAX):
            if held is None:
                return None
            merged = await self._merged(scene, held.head)
            if merged is not None:
                return merged.checkpoint(held.head.position)
            # Either another node wrote the checkpoint anew and purged, or the copy that answered is behind.
            newer = await self.newest(scene)
            if newer == held:
                await asyncio.sleep(LOOK_PAUSE_S * (look + 1))
            held = newer
        if held is not None:
            await self._require_pieces(scene, held.head)
        raise JournalUnavailable(f"scene {scene!r}: the copies of its checkpoint are behind")

    async def checkpoint(
        self, scene: str, *, position: int, header: bytes, changed: Mapping[str, bytes | None], listed: bool
    ) -> None:
        """Put a checkpoint on top of the newest. Raises as `Journal.checkpoint`."""
        known = self._knowledge.of(scene)
        held = known.held or await self.newest(scene)
        for _ in range(RACES_MAX):
            await self._require_between(scene, position, held, known)
            head = Head(FORMAT, position, START if held is None else held.head.floor, listed, [])
            if held is None or not held.head.changes:
                present = {name: content for name, content in changed.items() if content is not None}
                change = await self._write(scene, header, present, ())
                is_placed = await self._placed(scene, replace(head, changes=[change]), held)
            elif _is_due(held.head, listed=listed):
                merged = await self._merged(scene, held.head)
                if merged is None:
                    held = await self._newer(scene, held)
                    continue
                present = {
                    name: content for name, content in {**merged.characters, **changed}.items() if content is not None
                }
                change = await self._write(scene, header, present, merged.secrets)
                is_placed = await self._placed(scene, replace(head, changes=[change]), held)
            else:
                change = await self._write(scene, header, changed, None)
                is_placed = await self._placed(scene, replace(head, changes=[*held.head.changes, change]), held)
            if is_placed:
                return
            held = await self.newest(scene)
        raise JournalUnavailable(f"scene {scene!r}: other nodes' checkpoints came first {RACES_MAX} times")

    async def place(self, scene: str, checkpoint: Checkpoint, *, listed: bool) -> None:
        """Make a whole checkpoint the scene's. Raises as `Journal.checkpoint`."""
        known = self._knowledge.of(scene)
        for _ in range(RACES_MAX):
            held = await self.newest(scene)
            await self._require_between(scene, checkpoint.position, held, known)
            change = await self._write(scene, checkpoint.header, checkpoint.characters, checkpoint.secrets)
            floor = START if held is None else held.head.floor
            if await self._placed(scene, Head(FORMAT, checkpoint.position, floor, listed, [change]), held):
                return
        raise JournalUnavailable(f"scene {scene!r}: other nodes' checkpoints came first {RACES_MAX} times")

    async def raise_floor(self, scene: str, before: int) -> bool:
        """Say in the head that entries up to `before` are forgotten; False when it says so already.

        Raises:
            Misuse: No checkpoint covers `before`. Nothing was changed.
            JournalUnavailable, CommitUnknown: As `append`.
        """
        known = self._knowledge.of(scene)
        held = known.held
        if held is None or held.head.position < before:
            held = await self.newest(scene)
        for _ in range(RACES_MAX):
            require_covered(scene, before, checkpoint=None if held is None else held.head.position)
            if held is None or before <= held.head.floor:
                return False
            if await self._placed(scene, replace(held.head, floor=before), held):
                return True
            held = await self.newest(scene)
        raise JournalUnavailable(f"scene {scene!r}: other nodes' checkpoints came first {RACES_MAX} times")

    async def _require_between(self, scene: str, position: int, held: Held | None, known: Known) -> None:
        """See that a checkpoint may be at `position`; asks where the scene ends only when that is not known."""
        if known.end < position:
            found = await self._jetstream.last(self._streams.entries, self._streams.entry(token_of(scene)))
            if found is not None:
                known.reaches(found.sequence)
        lowest = None if held is None else held.head.position
        require_checkpoint_between(scene, position, lowest=lowest, last=known.end)

    async def _write(
        self, scene: str, header: bytes, characters: Mapping[str, bytes | None], secrets: tuple[SealSecret, ...] | None
    ) -> Change:
        """Write pieces, which nothing names yet.

        Raises:
            JournalUnavailable: The checkpoint is what it was.
        """
        subject = self._streams.piece(token_of(scene))
        bytes_max = min(PIECE_BYTES_MAX, self._jetstream.wire.payload_bytes_max - HEADERS_BYTES_MAX)
        sequences, size = list[int](), 0
        try:
            for piece in pieces_of(header, characters, secrets, bytes_max=bytes_max):
                sequences.append(await self._jetstream.publish(subject, piece, after=None))
                size += len(piece)
        except CommitUnknown as error:
            raise JournalUnavailable(f"a piece of the checkpoint was not acknowledged: {error}") from None
        return Change(sequences, size)

    async def _placed(self, scene: str, head: Head, held: Held | None) -> bool:
        """Put a head in the place of `held`, and purge what it does not name; False when another came first."""
        token = token_of(scene)
        after = 0 if held is None else held.sequence
        try:
            sequence = await self._jetstream.publish(
                self._streams.head(token), msgspec.msgpack.encode(head), after=after
            )
        except Conflict:
            return False
        self._knowledge.of(scene).hold(Held(sequence, head))
        first = head.first_piece
        if held is not None and first is not None and held.head.first_piece != first:
            try:
                await self._jetstream.purge(self._streams.pieces, self._streams.piece(token), below=first)
            except (JournalUnavailable, CommitUnknown) as error:
                # They are in nobody's way, and the next purge takes them too.
                log.warning("purge-failed", scene=scene, error=str(error))
        return True

    async def _newer(self, scene: str, held: Held) -> Held | None:
        """Give the head that took the place of one whose pieces are gone."""
        for look in range(LOOKS_MAX):
            newer = await self.newest(scene)
            if newer != held:
                return newer
            await asyncio.sleep(LOOK_PAUSE_S * (look + 1))
            if await self._merged(scene, held.head) is not None:
                return held
        await self._require_pieces(scene, held.head)
        raise JournalUnavailable(f"scene {scene!r}: the copies of its checkpoint are behind")

    async def _merged(self, scene: str, head: Head) -> Merged | None:
        """Read the pieces that a head names and put them together; None when some are not there."""
        wanted = [sequence for change in head.changes for sequence in change.pieces]
        merged, subject, index = Merged(), self._streams.piece(token_of(scene)), 0
        while index < len(wanted):
            batch = await self._jetstream.batch(
                self._streams.pieces,
                subject,
                sequence=wanted[index],
                limit=PIECES_READ_MAX,
                bytes_max=PIECES_READ_BYTES,
            )
            before = index
            for sequence, _, payload, _ in batch.messages:
                if index < len(wanted) and sequence == wanted[index]:
                    merged.add(unpacked_piece(scene, sequence, payload))
                    index += 1
            if index == before:
                return None
        return merged

    async def _require_pieces(self, scene: str, head: Head) -> None:
        """See that the leader has every piece that a head names.

        Raises:
            JournalDamaged: It does not, though nobody may have purged them.
        """
        for sequence in (sequence for change in head.changes for sequence in change.pieces):
            found = await self._jetstream.next(self._streams.pieces, self._streams.piece(token_of(scene)), sequence)
            if found is None or found.sequence != sequence:
                raise JournalDamaged(
                    f"scene {scene!r}: piece {sequence} of its checkpoint is gone; restore the streams from a back-up"
                )


def _is_due(head: Head, *, listed: bool) -> bool:
    """Say whether the next checkpoint is written whole: what is superseded outgrew what is not, or the scene ended."""
    total, whole = sum(change.size for change in head.changes), head.changes[0].size
    return not listed or len(head.changes) >= CHANGES_MAX or total > 2 * whole + SPARE_BYTES
