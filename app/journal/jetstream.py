"""The journal on NATS JetStream: many nodes write the same scenes, and the store itself says who came first."""

import asyncio
from collections.abc import Callable

from app.journal.jetstream_api import HEADERS_BYTES_MAX, Conflict, Jetstream
from app.journal.jetstream_entries import Entries
from app.journal.jetstream_following import Following
from app.journal.jetstream_forms import PREFIX_BYTES
from app.journal.jetstream_heads import Heads
from app.journal.jetstream_known import Knowledge
from app.journal.jetstream_names import Names
from app.journal.jetstream_streams import SECRET_BYTES, Streams, prepare
from app.journal.nats_address import parse_address
from app.journal.nats_wire import NatsWire, Wire
from app.journal.port import (
    START,
    Checkpoint,
    Committed,
    JournalUnavailable,
    Moved,
    StoredEntry,
    unwatched,
)

CONNECT_S_MAX = 30.0
"""How long servers that do not answer, or have no leader yet, are waited for at the start, seconds."""


async def connect(url: str, *, read_only: bool = False, committed: Committed = unwatched) -> "JetstreamJournal":
    """Connect to the journal that `url` names, and make its streams when they are missing and not only to be read.

    Raises:
        ValueError: `url` names no journal on NATS.
        JournalUnavailable: It could not be reached, or is not there, or its streams are not as they must be.
        JournalDamaged: What is there is no journal of a format known here.
    """
    address = parse_address(url)
    wire = NatsWire(address)
    until = asyncio.get_running_loop().time() + CONNECT_S_MAX
    journal: JetstreamJournal | None = None
    try:
        try:
            async with asyncio.timeout_at(until):
                await wire.connect()
        except TimeoutError:
            raise JournalUnavailable(f"no server of {address} could be connected to; {wire.reason}") from None
        streams = Streams(address.name)
        secret = await prepare(Jetstream(wire), streams, address, until=until, read_only=read_only)
        journal = JetstreamJournal(wire, streams, secret, read_only=read_only, committed=committed)
    finally:
        if journal is None:
            await wire.close()
    wire.on_return(journal.returned)
    return journal


class JetstreamJournal:
    """A journal over one wire.

    Bound:       the wire's; besides, what `Knowledge` and `Names` keep, and one subscription a followed scene.
    Thread-safe: no; it belongs to one event loop.
    """

    def __init__(
        self, wire: Wire, streams: Streams, secret: bytes, *, read_only: bool = False, committed: Committed = unwatched
    ) -> None:
        jetstream = Jetstream(wire)
        knowledge = Knowledge()
        self._wire = wire
        self._streams = streams
        self._jetstream = jetstream
        self._secret = secret
        self._is_read_only = read_only
        self._committed = committed
        self._heads = Heads(jetstream, streams, knowledge)
        self._entries = Entries(jetstream, streams, knowledge, self._heads)
        self._names = Names(jetstream, streams, knowledge)
        self._following = Following(wire, streams, knowledge)
        self._calls = _Calls()

    @property
    def secret(self) -> bytes:
        """32 random bytes that every node reads from the streams; they stay readable after `close`."""
        return self._secret

    @property
    def is_reachable(self) -> bool:
        """Say whether a server is connected."""
        return self._wire.is_connected

    @property
    def entry_bytes_max(self) -> int:
        """What the servers' `max_payload` leaves after headers and what stands before the blob."""
        return max(0, self._wire.payload_bytes_max - HEADERS_BYTES_MAX - PREFIX_BYTES)

    async def append(self, scene: str, *, after: int, first: int, last: int, blob: bytes) -> int:
        """Publish one entry behind `after`; it is durable on as many servers as the stream has copies (their majority).

        Raises:
            NotTheWriter: `after` is not the scene's last position. Nothing was written.
            JournalUnavailable: Nothing was written: not connected, nobody leads, no room, or too large.
            CommitUnknown: No answer came. The entry may be there, or still come: later appends find out.
        """
        with self._calls:
            self._require_writable()
            if len(blob) > self.entry_bytes_max:
                raise JournalUnavailable(
                    f"an entry of {len(blob)} bytes is larger than the {self.entry_bytes_max} that the servers take"
                )
            loop = asyncio.get_running_loop()
            since = loop.time()
            followed = self._following.begin_append(scene)
            try:
                position = await self._entries.append(scene, after=after, first=first, last=last, blob=blob)
            finally:
                if followed is not None:
                    self._following.end_append(scene, followed)
            if after == START:
                self._names.forget()
            self._committed(1, loop.time() - since)
            return position

    async def read(self, scene: str, *, after: int, limit: int) -> list[StoredEntry]:
        """Give at most `limit` entries of positions above `after`, ascending, from whichever server answers.

        An empty answer is the leader's word: the end, as it was when it was asked.
        """
        with self._calls:
            return await self._entries.read(scene, after=after, limit=limit)

    async def seek(self, scene: str, *, sequence: int) -> int:
        """Give the position to read after for a decision: known for recent ones, else found by halving."""
        with self._calls:
            return await self._entries.seek(scene, sequence=sequence)

    async def checkpoint(
        self, scene: str, *, position: int, header: bytes, changed: dict[str, bytes | None], listed: bool
    ) -> None:
        """Put a checkpoint on top of the newest there is, whichever node wrote that.

        Raises:
            Superseded: `position` is below the newest's. Nothing was changed.
            Misuse: `position` is above the last entry's. Nothing was changed.
            JournalUnavailable: The checkpoint is what it was.
            CommitUnknown: It may be this one. The same again, on top of it, is right either way.
        """
        with self._calls:
            self._require_writable()
            loop = asyncio.get_running_loop()
            since = loop.time()
            await self._heads.checkpoint(scene, position=position, header=header, changed=changed, listed=listed)
            self._committed(0, loop.time() - since)

    async def load(self, scene: str) -> Checkpoint | None:
        """Give the newest checkpoint, with a dictionary of its own for the caller."""
        with self._calls:
            return await self._heads.load(scene)

    async def scenes(self, *, after: str, limit: int) -> list[str]:
        """Give at most `limit` listed names above `after`; pages that follow within seconds share one listing."""
        with self._calls:
            return await self._names.scenes(after=after, limit=limit)

    async def trim(self, scene: str, *, before: int) -> None:
        """Forget the entries up to and including `before`. The last entry stays in the stream, and is not given.

        Raises:
            Misuse: No checkpoint covers `before`. Nothing was changed.
            JournalUnavailable, CommitUnknown: Some or all may be forgotten already; no gap is left.
        """
        with self._calls:
            self._require_writable()
            if await self._heads.raise_floor(scene, before):
                await self._entries.purge(scene, before)

    def follow(self, scene: str, moved: Moved) -> Callable[[], None]:
        """Have `moved` called once JetStream stored an entry of the scene that another journal appended."""
        return self._following.follow(scene, moved)

    def returned(self) -> None:
        """Tell all who follow that a lost connection is back: what was missed meanwhile nobody knows."""
        self._following.tell_all()

    async def everything(self) -> list[str]:
        """Give the names of all scenes that have an entry or a checkpoint, ascending."""
        with self._calls:
            return await self._names.everything()

    async def adopt_secret(self, secret: bytes) -> None:
        """Make `secret` this journal's own. Raises as `Moving.adopt_secret`."""
        with self._calls:
            self._require_writable()
            if len(secret) != SECRET_BYTES:
                raise ValueError(f"a secret has {SECRET_BYTES} bytes")
            if await self._names.everything():
                raise ValueError("the journal holds scenes already, whose seals are of its own secret")
            found = await self._jetstream.last(self._streams.heads, self._streams.secret)
            try:
                after = 0 if found is None else found.sequence
                await self._jetstream.publish(self._streams.secret, secret, after=after)
            except Conflict:
                raise JournalUnavailable("another took the secret's place meanwhile") from None
            self._secret = secret

    async def place(self, scene: str, checkpoint: Checkpoint, *, listed: bool) -> None:
        """Make a whole checkpoint the scene's. Raises as `checkpoint`."""
        with self._calls:
            self._require_writable()
            await self._heads.place(scene, checkpoint, listed=listed)

    async def close(self) -> None:
        """Refuse further calls, wait for those under way (each ends within seconds), and let go of the connection."""
        await self._calls.close()
        self._following.stop()
        await self._wire.close()

    def _require_writable(self) -> None:
        if self._is_read_only:
            raise JournalUnavailable("the journal was opened to be read only")


class _Calls:
    """The calls under way, each within a `with`: no further one begins once the journal is closed."""

    def __init__(self) -> None:
        self._running = 0
        self._is_closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    def __enter__(self) -> None:
        if self._is_closed:
            raise JournalUnavailable("the journal is closed")
        self._running += 1
        if self._running == 1:
            self._idle.clear()

    def __exit__(self, *_: object) -> None:
        self._running -= 1
        if self._running == 0:
            self._idle.set()

    async def close(self) -> None:
        """Let no further call begin, and wait for those under way."""
        self._is_closed = True
        await self._idle.wait()
