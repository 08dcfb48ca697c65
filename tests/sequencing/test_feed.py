"""The feed: turns that were just adopted, held once for all who watch, and places that cost nothing."""

import asyncio
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gates.scene import Record
from app.gates.transition import Begin, TransitionKept
from app.journal.codec import encode_entry
from app.journal.port import JournalDamaged, StoredEntry
from app.sequencing.feed import TAKEN_BYTES, WAKEN_TOGETHER, Feed, Feeds, Shelf, Turn, Watcher, WatchersFull
from app.settings import Settings
from tests.support.steps import taken

RECORD = Record("hero", Begin(layer="base", target="Run"), TransitionKept(token=None), 1)


def turn(first: int, last: int | None = None, *, size: int = 100, closes: bool = False) -> Turn:
    last = first if last is None else last
    return Turn(first, last, [RECORD] * (last - first + 1), at=1_000, size=size, closes=closes)


def feeds_of(**settings: int) -> Feeds:
    return Feeds(Settings.model_validate(settings))


def feed_of(feeds: Feeds, scene: str = "room") -> Feed:
    feed = feeds.get(scene)
    assert feed is not None
    return feed


class Reader:
    """Reads as the doors do: what is held from the feed, what is not from a journal that holds every turn."""

    def __init__(self, feeds: Feeds, journal: list[Turn], after: int | None, last: int) -> None:
        self.journal = journal
        self.woken = 0
        self.watcher: Watcher = feeds.watch("room", last=last, after=after, wake=self._wake)
        self.began = self.watcher.place
        self.read: list[int] = []
        self.is_resting = False

    def _wake(self) -> None:
        self.woken += 1
        self.is_resting = False

    def step(self, decisions: int) -> bool:
        """Read at most so many decisions, from a turn or from the journal; False when there were none."""
        watcher = self.watcher
        if watcher.is_behind:
            turns = [next(turn for turn in self.journal if turn.last > watcher.place)]
        else:
            turns = list(watcher.take())
            self.is_resting = not turns
        for given_turn in turns:
            for sequence in range(max(given_turn.first, watcher.place + 1), given_turn.last + 1):
                if not decisions:
                    return True
                decisions -= 1
                self.read.append(sequence)
                watcher.place = sequence
        return bool(turns)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 6)),
        st.tuples(st.just("reopen"), st.integers(1, 3)),
        st.tuples(st.just("read"), st.integers(0, 2), st.integers(1, 9)),
        st.tuples(st.just("watch"), st.integers(0, 40)),
        st.tuples(st.just("leave"), st.integers(0, 2)),
        st.tuples(st.just("wait")),
    ),
    max_size=60,
)


@given(STEPS, st.integers(1, 20))
def test_whatever_comes_between_a_reader_gets_every_decision_once_and_in_order(
    steps: list[tuple[str, int, int]], held: int
):
    """Turns of all sizes, a shelf that is too small, a scene that is read again, readers that come and go."""

    async def play() -> None:
        feeds, journal, last = feeds_of(feed_decisions_max=held), list[Turn](), 0
        readers = [Reader(feeds, journal, None, last)]
        for step, *numbers in steps:
            if step in ("publish", "reopen"):
                made = turn(last + 1, last + numbers[0])
                journal.append(made)
                last = made.last
                feed = feeds.get("room")
                if feed is not None and step == "publish":
                    feed.publish(made)
                elif feed is not None:
                    feed.reached(last, exists=True)
            elif step == "read":
                readers[numbers[0] % len(readers)].step(numbers[1])
            elif step == "watch":
                readers.append(Reader(feeds, journal, min(numbers[0], last), last))
            elif step == "leave":
                readers[numbers[0] % len(readers)].watcher.close()
                readers[numbers[0] % len(readers)] = Reader(feeds, journal, None, last)
            else:
                await asyncio.sleep(0)
        for _ in range(1 + len(readers)):
            await asyncio.sleep(0)
        for reader in readers:
            assert not (reader.is_resting and reader.watcher.place < last), "nobody rests on what it has not read"
            while reader.step(9):
                pass
            assert reader.read == list(range(reader.began + 1, last + 1))

    asyncio.run(play())


async def test_a_reader_without_anything_to_read_is_woken_once_by_what_comes_next():
    feeds, journal = feeds_of(), list[Turn]()
    reader = Reader(feeds, journal, None, 0)
    assert not reader.step(9)

    for first in range(1, 4):
        feed_of(feeds).publish(turn(first))
    for _ in range(3):
        await asyncio.sleep(0)

    assert reader.woken == 1
    assert reader.step(9)
    assert reader.read == [1, 2, 3]


async def test_a_reader_that_has_something_to_read_is_not_woken():
    feeds = feeds_of()
    reader = Reader(feeds, [], None, 0)

    feed_of(feeds).publish(turn(1))
    await asyncio.sleep(0)

    assert reader.woken == 0


async def test_many_are_woken_some_at_a_time_and_others_run_in_between():
    feeds = feeds_of()
    readers = [Reader(feeds, [], None, 0) for _ in range(3 * WAKEN_TOGETHER + 1)]
    for reader in readers:
        reader.step(1)

    feed_of(feeds).publish(turn(1))
    seen = []
    for _ in range(6):
        seen.append(sum(reader.woken for reader in readers))
        await asyncio.sleep(0)

    assert seen == [0, 16, 32, 48, 49, 49]


async def test_who_has_left_is_not_woken():
    feeds = feeds_of()
    stays, leaves = Reader(feeds, [], None, 0), Reader(feeds, [], None, 0)
    stays.step(1)
    leaves.step(1)

    feed_of(feeds).publish(turn(1))
    leaves.watcher.close()
    leaves.watcher.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert (stays.woken, leaves.woken, feeds.watchers) == (1, 0, 1)


async def test_at_the_end_of_the_service_everybody_is_woken_who_rests_or_comes_to():
    feeds = feeds_of()
    rests, reads = Reader(feeds, [], None, 0), Reader(feeds, [], None, 0)
    rests.step(1)

    feeds.end()
    await asyncio.sleep(0)
    reads.step(1)
    for _ in range(2):
        await asyncio.sleep(0)

    assert (rests.woken, reads.woken) == (1, 1)


async def test_what_nobody_watches_is_not_held():
    feeds, gone = feeds_of(), list[str]()
    feeds.unwatched = gone.append
    reader, other = Reader(feeds, [], None, 0), Reader(feeds, [], None, 0)
    feed_of(feeds).publish(turn(1))

    reader.watcher.close()
    was_held = (len(feeds.shelf), feeds.shelf.decisions, feeds.shelf.bytes, gone[:])
    other.watcher.close()

    assert was_held == (1, 1, 100, [])
    assert (len(feeds.shelf), feeds.shelf.decisions, feeds.shelf.bytes, gone) == (0, 0, 0, ["room"])
    assert feeds.get("room") is None
    assert feeds.watchers == 0


async def test_slow_readers_hold_nothing_and_turns_are_held_up_to_the_bound():
    feeds = feeds_of(feed_decisions_max=10, feed_bytes_max=1_000)
    readers = [Reader(feeds, [], None, 0) for _ in range(500)]

    for first in range(1, 1_001):
        feed_of(feeds).publish(turn(first, size=200))

    assert (feeds.shelf.decisions, feeds.shelf.bytes) == (5, 1_000)
    assert all(reader.watcher.is_behind for reader in readers)
    assert feed_of(feeds).held_after == 995


async def test_the_newest_turn_is_held_whatever_its_size():
    feeds = feeds_of(feed_decisions_max=10)
    reader = Reader(feeds, [], None, 0)

    feed_of(feeds).publish(turn(1))
    feed_of(feeds).publish(turn(2, 500))

    assert reader.watcher.is_behind
    reader.watcher.place = 1
    assert [given.last for given in reader.watcher.take()] == [500]


async def test_scenes_share_one_bound_and_the_turns_that_were_held_longest_go():
    feeds = feeds_of(feed_decisions_max=3)
    quiet = feeds.watch("quiet", last=0, after=None, wake=lambda: None)
    busy = feeds.watch("busy", last=0, after=None, wake=lambda: None)

    feed_of(feeds, "quiet").publish(turn(1))
    for first in range(1, 4):
        feed_of(feeds, "busy").publish(turn(first))

    assert (quiet.is_behind, busy.is_behind) == (True, False)
    assert [given.first for given in busy.take()] == [1, 2, 3]


async def test_what_was_made_of_a_turn_counts_as_long_as_it_is_held():
    feeds = feeds_of(feed_bytes_max=1_000)
    watcher = feeds.watch("room", last=0, after=None, wake=lambda: None)
    first, second = turn(1), turn(2)
    feed_of(feeds).publish(first)
    feed_of(feeds).publish(second)

    second.keep("made", b"...", 850)
    first.keep("made", b"...", 5_000)

    assert feeds.shelf.bytes == 950
    assert watcher.is_behind
    assert second.made == {"made": b"..."}


async def test_a_take_gives_some_turns_and_never_none_that_are_there():
    feeds = feeds_of()
    watcher = feeds.watch("room", last=0, after=None, wake=lambda: None)
    for first in range(1, 11):
        feed_of(feeds).publish(turn(first, size=TAKEN_BYTES // 4))
    feed_of(feeds).publish(turn(11, size=2 * TAKEN_BYTES))

    taken = []
    while turns := watcher.take():
        taken.append(len(turns))
        watcher.place = turns[-1].last

    assert taken == [4, 4, 3]


async def test_a_place_within_a_turn_gives_that_turn():
    feeds = feeds_of()
    watcher = feeds.watch("room", last=0, after=None, wake=lambda: None)
    feed_of(feeds).publish(turn(1, 5))
    feed_of(feeds).publish(turn(6, 7))

    watcher.place = 3

    assert [given.first for given in watcher.take()] == [1, 6]


async def test_there_is_a_bound_to_who_watches_a_scene_and_in_all():
    feeds = feeds_of(scene_watchers_max=2, watchers_max=3)
    first = feeds.watch("room", last=0, after=None, wake=lambda: None)
    feeds.watch("room", last=0, after=None, wake=lambda: None)

    with pytest.raises(WatchersFull) as of_the_scene:
        feeds.watch("room", last=0, after=None, wake=lambda: None)
    feeds.watch("other", last=0, after=None, wake=lambda: None)
    with pytest.raises(WatchersFull) as of_all:
        feeds.watch("third", last=0, after=None, wake=lambda: None)
    first.close()
    feeds.watch("room", last=0, after=None, wake=lambda: None)

    assert (of_the_scene.value.limit, of_all.value.limit) == (2, 3)
    assert feeds.get("third") is None
    assert feeds.watchers == 3


async def test_the_end_of_a_scene_is_known_until_it_begins_again():
    feeds = feeds_of()
    watcher = feeds.watch("room", last=0, after=None, wake=lambda: None)
    feed_of(feeds).publish(turn(1, closes=True))

    before, watcher.place = watcher.is_at_the_end, 1
    after = watcher.is_at_the_end
    feed_of(feeds).publish(turn(2))

    assert (before, after, watcher.is_at_the_end) == (False, True, False)


def test_a_shelf_forgets_what_is_taken_from_it():
    shelf, gone = Shelf(decisions_max=3, bytes_max=1_000), list[int]()
    turns = [turn(first) for first in range(1, 6)]
    for number, each in zip(count(), turns, strict=False):
        shelf.put(each, lambda number=number: gone.append(number))  # type: ignore[misc]  # its own number

    shelf.remove(turns[3])

    assert gone == [0, 1]
    assert (len(shelf), shelf.decisions, shelf.bytes) == (2, 2, 200)


def test_a_stored_turn_is_read_when_it_is_asked_for_and_says_before_whom_it_may_concern():
    blob = encode_entry(at=7_000, first=4, records=[RECORD, RECORD], traced=[])
    stored = Turn.stored(StoredEntry(9, 4, 5, blob))
    size = stored.size

    concerns = (stored.may_concern("hero"), stored.may_concern("other"))

    assert concerns == (True, False)
    assert (stored.first, stored.last, stored.at, stored.size) == (4, 5, 7_000, size)
    assert [record.character for record in stored.records] == ["hero", "hero"]
    assert stored.size > size
    assert stored.may_concern("other"), "what was read is looked at decision by decision"


def test_a_stored_turn_that_is_none_is_damage():
    with pytest.raises(JournalDamaged):
        Turn.stored(StoredEntry(9, 4, 5, b"\x00"))


def test_a_long_stored_turn_is_read_in_steps_and_only_once():
    blob = encode_entry(at=1_000, first=5, records=[RECORD] * 1_000)
    held = Turn.stored(StoredEntry(1, 5, 1_004, blob))
    one, other = held.records_in_steps(), held.records_in_steps()
    next(one)

    records, steps = taken(other)

    assert records == [RECORD] * 1_000
    assert steps >= 15
    assert taken(one)[0] is held.records is records
    assert taken(held.records_in_steps()) == (records, 0)
