"""The feed: what was just decided in the scenes that somebody watches, and how far each watcher has read.

A watcher is only a place, a sequence: nothing waits for it. Turns that were just adopted are on one shelf for all; who
comes too late for the shelf reads the journal (`app/sequencing/past.py`). So a slow reader costs nothing.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Hashable, Sequence
from contextvars import Context
from typing import Any

from app.gates.candidate import finished
from app.gates.scene import Record
from app.journal.codec import decode_entry_in_steps, decode_head
from app.journal.port import StoredEntry
from app.settings import Settings

WAKEN_TOGETHER = 16
"""How many watchers are woken in one step of the event loop, so that others run in between."""

TAKEN_BYTES = 65_536
"""About how many bytes of turns one `take` gives, as `Turn.size` counts them."""

OBJECTS_BYTES = 5
"""About how many bytes decisions hold as objects for each byte that they have in the journal (measured: 4 to 5)."""


class WatchersFull(Exception):
    """As many watch as may, the scene or in all. Nothing was changed."""

    def __init__(self, said: str, *, limit: int) -> None:
        super().__init__(said)
        self.limit = limit


class Turn:
    """One adopted turn: the decisions `first` to `last` (sequences, inclusive) and whether the last closes the scene.

    `made` is what doors made of it, by a key of theirs: made once, by whoever reads first, and shared by all.
    """

    __slots__ = ("_blob", "_records", "at", "closes", "first", "last", "made", "shelf", "size")

    def __init__(
        self, first: int, last: int, records: list[Record] | None, *, at: int, size: int, closes: bool = False
    ) -> None:
        self.first = first
        self.last = last
        self.at = at
        self.size = size
        self.closes = closes
        self.made: dict[Hashable, Any] = {}
        self.shelf: Shelf | None = None
        self._records = records
        self._blob = b""

    @classmethod
    def stored(cls, entry: StoredEntry) -> "Turn":
        """Give the turn of an entry; its decisions are decoded when they are asked for."""
        turn = cls(entry.first, entry.last, None, at=decode_head(entry.blob).at, size=len(entry.blob))
        turn._blob = entry.blob
        return turn

    @property
    def records(self) -> list[Record]:
        """Give its decisions, the first with the sequence `first`.

        Raises:
            JournalDamaged: They cannot be read.
        """
        return finished(self.records_in_steps())

    def records_in_steps(self) -> Generator[None, None, list[Record]]:
        """Give its decisions as `records` does, with a step after every few that have to be read."""
        if self._records is None:
            read = (yield from decode_entry_in_steps(self._blob)).records
            if self._records is None:
                # Nobody else read them meanwhile.
                self._records = read
                self.grow(OBJECTS_BYTES * len(self._blob))
        return self._records

    def may_concern(self, character: str) -> bool:
        """Say whether a decision of it may concern a character, as far as that is known without reading them."""
        return self._records is not None or character in decode_head(self._blob).characters

    def keep(self, key: Hashable, made: Any, size: int) -> None:
        """Keep what was made of it, `size` bytes, for the next reader."""
        self.made[key] = made
        self.grow(size)

    def grow(self, size: int) -> None:
        """Count bytes more that are held because of it."""
        self.size += size
        if self.shelf is not None:
            self.shelf.grew(self, size)


class Shelf:
    """Turns that are held for readers.

    Bound:     `decisions_max` decisions and `bytes_max` bytes in all; the newest turn is held whatever its size.
    When full: the turns that have been held longest go, and whoever put them is told.
    Thread-safe: no.
    """

    def __init__(self, *, decisions_max: int, bytes_max: int) -> None:
        self._decisions_max = decisions_max
        self._bytes_max = bytes_max
        self._turns: OrderedDict[Turn, Callable[[], object]] = OrderedDict()
        self.decisions = 0
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._turns)

    def put(self, turn: Turn, gone: Callable[[], object]) -> None:
        """Hold a turn; `gone` is called when it is no longer held because others need its place."""
        turn.shelf = self
        self._turns[turn] = gone
        self.decisions += turn.last - turn.first + 1
        self.bytes += turn.size
        self._fit()

    def grew(self, turn: Turn, size: int) -> None:
        """Count bytes more for a turn that is held."""
        self.bytes += size
        self._fit()

    def remove(self, turn: Turn) -> None:
        """Hold a turn no longer."""
        del self._turns[turn]
        self._let_go(turn)

    def _fit(self) -> None:
        while len(self._turns) > 1 and (self.decisions > self._decisions_max or self.bytes > self._bytes_max):
            turn, gone = self._turns.popitem(last=False)
            self._let_go(turn)
            gone()

    def _let_go(self, turn: Turn) -> None:
        turn.shelf = None
        self.decisions -= turn.last - turn.first + 1
        self.bytes -= turn.size


class Watcher:
    """One reader's place in a scene's decisions. Make it with `Registry.watch`, and `close` it at the end.

    `place` is the sequence that was read last; whoever reads sets it, be it to the middle of a turn. How to read:

        if watcher.is_behind: read on in the journal (`Registry.turn_after`), until it is not
        turns = watcher.take(): decisions up to `place` may be in the first of them, and are to be left out
        no turns: nothing is there. `wake` is called once, when there is more, and may be called without need

    A watcher that was not told by an empty `take` that nothing is there is not woken: a slow reader costs nothing.

    `wake` runs in the event loop and must not raise; what it starts should be short.
    """

    __slots__ = ("feed", "place", "wake")

    def __init__(self, feed: "Feed", place: int, wake: Callable[[], None]) -> None:
        self.feed = feed
        self.place = place
        self.wake = wake

    @property
    def last(self) -> int:
        """Give the sequence of the last decision that is visible."""
        return self.feed.last

    @property
    def is_behind(self) -> bool:
        """Say whether what comes next is no longer held, so that it must be read in the journal."""
        return self.place < self.feed.held_after

    @property
    def is_at_the_end(self) -> bool:
        """Say whether the scene was closed, and everything read."""
        return self.feed.is_closed and self.place >= self.feed.last

    def take(self) -> Sequence[Turn]:
        """Give the turns that come next, in order, as far as they are held: about `TAKEN_BYTES`, at least one.

        Without any, `wake` is called once when there is more: a turn, the end of the service. It may be called at once.
        """
        assert not self.is_behind, "what comes next is in the journal"
        turns = self.feed.after(self.place)
        if not turns:
            self.feed.rest(self)
        return turns

    def close(self) -> None:
        """Read no more: `wake` is not called again. A second close does nothing."""
        self.feed.leave(self)


class Feed:
    """One scene's newest turns, as long as somebody watches it. `last` is the last decision that was adopted.

    All that was decided after `held_after` is held. Turns follow each other without a gap.
    """

    def __init__(self, feeds: "Feeds", scene: str, last: int) -> None:
        self.scene = scene
        self.last = self.held_after = last
        self.is_closed = False
        self._feeds = feeds
        self._turns: deque[Turn] = deque()
        self._watchers: set[Watcher] = set()
        self._resting: dict[Watcher, None] = {}

    def __len__(self) -> int:
        return len(self._watchers)

    def publish(self, turn: Turn) -> None:
        """Let watchers have a turn that was adopted."""
        if turn.first != self.last + 1:
            # The scene was read again from the journal, which had more: what lies between is read there.
            self._forget(turn.first - 1)
        self.last, self.is_closed = turn.last, turn.closes
        self._turns.append(turn)
        self._feeds.shelf.put(turn, self._dropped)
        self.wake()

    def reached(self, sequence: int, *, exists: bool) -> None:
        """Take note that the scene was read from the journal, which may hold more than was published."""
        if sequence > self.last:
            self._forget(sequence)
            self.last, self.is_closed = sequence, not exists
            self.wake()

    def wake(self) -> None:
        """Wake whoever rests, some at a time."""
        resting, self._resting = self._resting, {}
        self._feeds.wake(resting)

    def after(self, place: int) -> Sequence[Turn]:
        """Give the turns with decisions after a place: about `TAKEN_BYTES` of them."""
        turns = self._turns
        index = len(turns)
        while index and turns[index - 1].last > place:
            index -= 1
        taken: list[Turn] = []
        size = 0
        while index < len(turns) and size < TAKEN_BYTES:
            taken.append(turns[index])
            size += turns[index].size
            index += 1
        return taken

    def add(self, place: int, wake: Callable[[], None]) -> Watcher:
        """Add a watcher."""
        watcher = Watcher(self, place, wake)
        self._watchers.add(watcher)
        return watcher

    def rest(self, watcher: Watcher) -> None:
        """Wake a watcher once when there is more, or at once when the service is ending."""
        if watcher in self._watchers:
            self._resting[watcher] = None
            if self._feeds.is_ending:
                self.wake()

    def leave(self, watcher: Watcher) -> None:
        """Let a watcher go, and with the last one the feed."""
        if watcher not in self._watchers:
            return
        self._watchers.discard(watcher)
        self._resting.pop(watcher, None)
        self._feeds.left(self, watcher)
        if not self._watchers:
            self._forget(self.last)

    def _forget(self, held_after: int) -> None:
        for turn in self._turns:
            self._feeds.shelf.remove(turn)
        self._turns.clear()
        self.held_after = held_after

    def _dropped(self) -> None:
        """Go on without the oldest turn: the shelf needs its place."""
        self.held_after = self._turns.popleft().last


def _nothing(scene: str) -> None:
    """Do nothing about a scene that nobody watches any more."""


class Feeds:
    """The feeds of all scenes that are watched: a scene that nobody watches costs one look a turn.

    Bound:     `scene_watchers_max` watchers a scene, `watchers_max` in all; `feed_decisions_max` decisions and
               `feed_bytes_max` bytes of turns over all scenes, and as many again that were read in the journal.

    Whoever works for a reader who is behind holds `reading` meanwhile, so that all of them together keep the event loop
    no longer than one would. `unwatched` hears of a scene that nobody watches any more.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._feeds: dict[str, Feed] = {}
        self._waking: deque[Watcher] = deque()
        self._waking_members: set[Watcher] = set()
        self.shelf = Shelf(decisions_max=settings.feed_decisions_max, bytes_max=settings.feed_bytes_max)
        self.reading = asyncio.Semaphore(1)
        self.watchers = 0
        self.is_ending = False
        self.unwatched: Callable[[str], None] = _nothing

    def get(self, scene: str) -> Feed | None:
        """Give the feed of a scene that somebody watches."""
        return self._feeds.get(scene)

    def scenes(self) -> list[str]:
        """Name the scenes that somebody watches."""
        return list(self._feeds)

    def watch(self, scene: str, *, last: int, after: int | None, wake: Callable[[], None]) -> Watcher:
        """Begin to watch a scene whose last decision is `last`, from a place on; None is from now on.

        Raises:
            WatchersFull: Nothing was changed.
        """
        feed = self._feeds.get(scene)
        in_scene, in_all = self._settings.scene_watchers_max, self._settings.watchers_max
        if feed is not None and len(feed) >= in_scene:
            raise WatchersFull(f"{in_scene} watch this scene already", limit=in_scene)
        if self.watchers >= in_all:
            raise WatchersFull(f"{in_all} watch scenes of this service already", limit=in_all)
        if feed is None:
            feed = self._feeds[scene] = Feed(self, scene, last)
        self.watchers += 1
        return feed.add(feed.last if after is None else after, wake)

    def left(self, feed: Feed, watcher: Watcher) -> None:
        """Count a watcher no longer; a feed without any is let go."""
        self.watchers -= 1
        self._waking_members.discard(watcher)
        if not len(feed):
            del self._feeds[feed.scene]
            self.unwatched(feed.scene)

    def end(self) -> None:
        """Wake every watcher, now and whenever it rests: the service is ending."""
        self.is_ending = True
        for feed in self._feeds.values():
            feed.wake()

    def wake(self, watchers: dict[Watcher, None]) -> None:
        """Wake watchers, `WAKEN_TOGETHER` in one step of the event loop."""
        if not watchers:
            return
        if not self._waking:
            asyncio.get_running_loop().call_soon(self._wake_some, context=Context())
        self._waking.extend(watchers)
        self._waking_members.update(watchers)

    def _wake_some(self) -> None:
        together = [self._waking.popleft() for _ in range(min(WAKEN_TOGETHER, len(self._waking)))]
        if self._waking:
            asyncio.get_running_loop().call_soon(self._wake_some, context=Context())
        for watcher in together:
            if watcher in self._waking_members:
                self._waking_members.discard(watcher)
                watcher.wake()
