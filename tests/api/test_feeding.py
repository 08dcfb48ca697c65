"""Feeding: whatever a reader misses it reads in the journal, and what is gone is said, not passed over."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api import feeding as feeding_module
from app.api import packing as packing_module
from app.api.answers import shown_in_steps
from app.api.feeding import Feeding
from app.api.problems import ProblemError
from app.api.wanted import EVERYTHING, Wanted
from app.gates.lives import CloseScene
from app.gates.scene import Record
from app.gates.transition import Begin
from app.journal.memory import MemoryJournal
from app.journal.port import CommitUnknown, JournalDamaged, JournalUnavailable
from app.sequencing.mailbox import Addressed
from app.sequencing.registry import Draining, Registry
from app.settings import Settings
from tests.support.journal_fakes import Fault, FaultyJournal
from tests.support.sequenced import RUN, SPAWN, ask, idle, served
from tests.support.wire import until

WAIT_S_MAX = 20.0


class Lines:
    """Packs each message as a line of JSON."""

    name = "lines"

    def decisions(self, decisions: list[bytes], *, last: int) -> bytes:
        """Pack decisions."""
        return b'{"decisions":[%b],"last":%d}\n' % (b",".join(decisions), last)

    def place(self, sequence: int) -> bytes:
        """Pack a place."""
        return b'{"place":%d}\n' % sequence

    def portrait(self, kind: str, body: bytes, *, last: int | None) -> bytes:
        """Pack a piece of a snapshot or reset."""
        return b'{"%b":%b}\n' % (kind.encode(), body)

    def end(self, body: bytes) -> bytes:
        """Pack the end."""
        return b'{"end":%b}\n' % body

    def beat(self) -> bytes:
        """Pack a beat."""
        return b'{"beat":true}\n'


class Reader:
    """Asks a feeding for what comes next, message by message."""

    def __init__(self, feeding: Feeding) -> None:
        self.feeding = feeding
        self._lines: list[bytes] = []

    async def message(self) -> dict[str, Any]:
        """Give the next message; empty at the end."""
        while not self._lines:
            try:
                async with asyncio.timeout(WAIT_S_MAX):
                    self._lines = (await anext(self.feeding)).splitlines()
            except StopAsyncIteration:
                return {}
        message: dict[str, Any] = json.loads(self._lines.pop(0))
        return message

    async def decisions(self, count: int) -> list[list[int]]:
        """Read so many decisions; give their sequences, message by message."""
        read: list[list[int]] = []
        while sum(map(len, read)) < count:
            message = await self.message()
            assert "decisions" in message, (message, read)
            read.append([decision["sequence"] for decision in message["decisions"]])
        return read


def anybody() -> None:
    """Admit whoever reads."""


@asynccontextmanager
async def reading(
    registry: Registry,
    *,
    wanted: Wanted = EVERYTHING,
    admitted: Callable[[], object] = anybody,
    after: int | None = None,
    snapshot: bool = False,
    beat_ms: int = 60_000,
) -> AsyncIterator[Reader]:
    """Read the room."""
    feeding = await Feeding.begun(
        registry,
        Settings(watch_beat_ms=beat_ms),
        "room",
        wanted=wanted,
        packing=Lines(),
        after=after,
        snapshot=snapshot,
        admitted=admitted,
    )
    try:
        yield Reader(feeding)
    finally:
        feeding.close()


async def run(registry: Registry, count: int = 1, character: str = "hero") -> None:
    """Have `count` transitions begun in one turn."""
    await registry.submit("room", [Addressed(character, RUN)] * count)


async def test_a_turn_is_a_message_and_a_reader_from_the_start_gets_them_all():
    async with served(MemoryJournal()) as registry:
        await ask(registry, SPAWN)
        await run(registry, 3)
        async with reading(registry, after=0) as reader:
            await run(registry, 2)

            assert await reader.decisions(6) == [[1], [2, 3, 4], [5, 6]]


async def test_without_a_place_it_begins_now():
    async with served(MemoryJournal()) as registry:
        await ask(registry, SPAWN)
        async with reading(registry) as reader:
            await run(registry)

            assert await reader.decisions(1) == [[2]]


@pytest.mark.parametrize("held", [1, 4, 1_000])
async def test_a_reader_gets_the_same_whatever_is_still_held_of_what_it_reads(held: int):
    async with served(MemoryJournal(), feed_decisions_max=held) as registry:
        await ask(registry, SPAWN)
        async with reading(registry, after=0) as reader:
            turns = [[1]]
            for number in range(40):
                size = number % 7 + 1
                turns.append(list(range(turns[-1][-1] + 1, turns[-1][-1] + 1 + size)))
                await run(registry, size)
                if number % 5 == 0:
                    assert [turns.pop(0)] == await reader.decisions(1)

            assert await reader.decisions(sum(map(len, turns))) == turns


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.integers(1, 8)),
        st.tuples(st.just("run"), st.just(1)),
        st.tuples(st.just("read"), st.integers(1, 8)),
        st.tuples(st.just("leave memory"), st.just(0)),
        st.tuples(st.just("resume"), st.just(0)),
    ),
    min_size=10,
    max_size=40,
)


@given(STEPS, st.integers(1, 8), st.sampled_from([1, 1_500, 4_000, 65_536]))
@settings(max_examples=100, deadline=None)
def test_whatever_comes_between_every_decision_is_told_once_and_in_order(
    steps: list[tuple[str, int]], held: int, together: int
):
    """A ring that is too small, turns in parts, a reader that lags and catches up, resumes, and a scene that sleeps."""

    async def play(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(packing_module, "MESSAGE_BYTES", max(together, 1_500))
        monkeypatch.setattr(feeding_module, "PIECE_BYTES", together)
        read, last = list[int](), 1
        async with served(MemoryJournal(), feed_decisions_max=held) as registry, AsyncExitStack() as stack:
            await ask(registry, SPAWN)
            reader = await stack.enter_async_context(reading(registry, after=0))
            for step, number in steps:
                if step == "run":
                    await run(registry, number)
                    last += number
                elif step == "leave memory" and "room" in registry._tasks:
                    await idle(registry)
                elif step == "resume":
                    reader.feeding.close()
                    reader = await stack.enter_async_context(reading(registry, after=read[-1] if read else 0))
                for _ in range(number if step == "read" else 0):
                    if len(read) < last:
                        read += (await reader.decisions(1))[0]
            while len(read) < last:
                read += (await reader.decisions(1))[0]
        assert read == list(range(1, last + 1))

    with pytest.MonkeyPatch.context() as monkeypatch:
        asyncio.run(play(monkeypatch))


class Way:
    """A way past the task, open or not as a test says; what goes it and what the task gives lie in one list."""

    def __init__(self) -> None:
        self.is_open = True
        self.given: list[bytes] = []
        self.straight = 0

    def write(self, piece: bytes) -> None:
        """Take a piece."""
        self.given.append(piece)
        self.straight += 1

    async def follow(self, feeding: Feeding) -> None:
        """Take what the task gives."""
        async for piece in feeding:
            self.given.append(piece)
            await asyncio.sleep(0)

    @property
    def sequences(self) -> list[int]:
        """The decisions that were told, in order."""
        messages = [json.loads(line) for line in b"".join(self.given).splitlines()]
        return [decision["sequence"] for message in messages for decision in message.get("decisions", ())]


async def followed(steps: list[tuple[str, int]], held: int) -> tuple[Way, int]:
    """Follow the room while it is played as the steps say; give what was told, and the last decision."""
    way, last = Way(), 1
    async with served(MemoryJournal(), feed_decisions_max=held) as registry:
        await ask(registry, SPAWN)
        async with reading(registry, after=0) as reader:
            reader.feeding.straight = way
            task = asyncio.ensure_future(way.follow(reader.feeding))
            for step, number in steps:
                if step == "run":
                    await run(registry, number)
                    last += number
                elif step == "read":
                    for _ in range(number):
                        await asyncio.sleep(0)
                else:
                    way.is_open = not way.is_open
            feeding = reader.feeding
            await until(lambda: feeding.place >= last)
            registry.drain()
            await asyncio.wait_for(task, WAIT_S_MAX)
    return way, last


@given(STEPS, st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_whichever_way_it_goes_every_decision_is_told_once_and_in_order(steps: list[tuple[str, int]], held: int):
    way, last = asyncio.run(followed(steps, held))

    assert way.sequences == list(range(1, last + 1))


async def test_what_is_ready_goes_straight_and_what_takes_longer_does_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(packing_module, "AT_ONCE_DECISIONS", 5)
    small, _ = await followed([("read", 9), ("run", 1), ("read", 9), ("run", 5), ("read", 9)], 1_000)
    large, _ = await followed([("read", 9), ("run", 6), ("read", 40)], 1_000)
    shut, _ = await followed([("shut", 0), ("read", 9), ("run", 1), ("read", 9)], 1_000)

    assert (small.straight, large.straight, shut.straight) == (2, 0, 0)


async def test_a_place_within_a_turn_is_followed_by_the_rest_of_it():
    async with served(MemoryJournal()) as registry:
        await ask(registry, SPAWN)
        await run(registry, 4)
        async with reading(registry, after=3) as reader:
            assert await reader.decisions(2) == [[4, 5]]


@pytest.mark.parametrize("held", [1, 1_000])
async def test_a_turn_beyond_a_message_comes_in_several(monkeypatch: pytest.MonkeyPatch, held: int):
    monkeypatch.setattr(packing_module, "MESSAGE_BYTES", 2_000)
    async with served(MemoryJournal(), feed_decisions_max=held) as registry:
        await ask(registry, SPAWN)
        async with reading(registry) as reader, reading(registry) as another:
            await run(registry, 20)
            await run(registry)

            messages = await reader.decisions(21)
            again = await another.decisions(21)

    assert [sequence for message in messages for sequence in message] == list(range(2, 23))
    assert len(messages) > 4
    assert messages == again


async def test_what_is_not_wanted_is_left_out_and_the_place_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feeding_module, "PROGRESS_DECISIONS", 10)
    async with served(MemoryJournal()) as registry:
        await ask(registry, SPAWN)
        await registry.submit("room", [Addressed("other", SPAWN)])
        wanted = Wanted(character="other")
        async with reading(registry, wanted=wanted, after=0) as reader:
            first = await reader.decisions(1)
            await run(registry, 30)
            place = await reader.message()
            await run(registry, 2, "other")

            assert first == [[2]]
            assert place == {"place": 32}
            assert await reader.decisions(2) == [[33, 34]]


async def test_a_beat_tells_the_place_when_it_was_not_told():
    async with served(MemoryJournal()) as registry:
        await ask(registry, SPAWN)
        async with reading(registry, wanted=Wanted(character="other"), beat_ms=20) as reader:
            await run(registry, 3)
            messages = [await reader.message() for _ in range(2)]

    assert messages == [{"place": 4}, {"beat": True}]


@pytest.mark.parametrize("after", [0, 3, 4])
async def test_what_retention_has_trimmed_is_said_and_the_scene_shown_instead(after: int):
    async with served(MemoryJournal(), history_decisions_max=4, checkpoint_decisions=5) as registry:
        await ask(registry, SPAWN)
        for _ in range(9):
            await run(registry)
        async with reading(registry, after=after) as reader:
            reset = (await reader.message())["reset"]
            await run(registry)

            assert (reset["sequence"], reset["reason"], reset["more"]) == (10, "gone", False)
            assert reset["scene"]["sequence"] == 10
            assert [each["character"] for each in reset["characters"]] == ["hero"]
            assert await reader.decisions(1) == [[11]]


async def test_what_is_trimmed_while_a_reader_is_behind_is_said_too():
    bounds: dict[str, Any] = {"history_decisions_max": 2, "checkpoint_decisions": 10, "feed_decisions_max": 1}
    async with served(MemoryJournal(), **bounds) as registry:
        await ask(registry, SPAWN)
        async with reading(registry) as reader:
            for _ in range(25):
                await run(registry)

            reset = (await reader.message())["reset"]
            await run(registry)

            assert (reset["reason"], reset["sequence"]) == ("gone", 26)
            assert await reader.decisions(1) == [[27]]


async def test_a_place_that_the_scene_has_not_reached_is_no_place():
    async with served(MemoryJournal()) as registry:
        await ask(registry, SPAWN)
        async with reading(registry, after=99) as reader:
            reset = (await reader.message())["reset"]
            await run(registry)

            assert (reset["reason"], reset["sequence"]) == ("ahead", 1)
            assert await reader.decisions(1) == [[2]]


async def test_a_snapshot_shows_one_sequence_while_turns_go_on_and_decisions_follow_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.api.portrait.PIECE_BYTES", 2_000)
    names = [f"hero-{number}" for number in range(20)]
    async with served(MemoryJournal(), hot_characters_max=3) as registry:
        await registry.submit("room", [Addressed(name, SPAWN) for name in names])
        async with reading(registry, snapshot=True) as reader:
            pieces = [(await reader.message())["snapshot"]]
            while pieces[-1]["more"]:
                await registry.submit("room", [Addressed(name, RUN) for name in names])
                pieces.append((await reader.message())["snapshot"])
            turns = await reader.decisions(20 * (len(pieces) - 1))

    shown = [character for piece in pieces for character in piece["characters"]]
    assert {piece["sequence"] for piece in pieces} == {20}
    assert {(each["sequence"], each["layers"]["base"]["generation"]) for each in shown} == {(20, 0)}
    assert sorted(each["character"] for each in shown) == sorted(names)
    assert len(pieces) > 4
    assert ["scene" in piece for piece in pieces] == [True] + [False] * (len(pieces) - 1)
    assert turns[0] == list(range(21, 41))


async def test_a_snapshot_of_one_character_shows_that_one():
    async with served(MemoryJournal()) as registry:
        await registry.submit("room", [Addressed(name, SPAWN) for name in ("hero", "other")])
        async with reading(registry, snapshot=True, wanted=Wanted(character="other")) as reader:
            shown = (await reader.message())["snapshot"]
        async with reading(registry, snapshot=True, wanted=Wanted(character="nobody")) as reader:
            nobody = (await reader.message())["snapshot"]

    assert [each["character"] for each in shown["characters"]] == ["other"]
    assert (nobody["characters"], nobody["more"], nobody["scene"]["characters"]) == ([], False, 2)


async def test_the_last_decision_of_a_scene_is_followed_by_the_end():
    async with served(MemoryJournal()) as registry:
        await ask(registry, SPAWN)
        async with reading(registry) as reader, reading(registry, wanted=Wanted(gate="event")) as narrow:
            await ask(registry, CloseScene())

            last, end, over = [await reader.message() for _ in range(3)]
            assert [decision["command"] for decision in last["decisions"]] == ["close-scene"]
            assert (end, over) == ({"end": {"reason": "closed", "sequence": 2}}, {})
            assert await narrow.message() == {"end": {"reason": "closed", "sequence": 2}}
        assert registry.feeds.watchers == 0


@pytest.mark.parametrize("is_trimmed", [True, False])
async def test_an_end_that_nobody_knew_to_be_durable_is_told_when_it_is_known(is_trimmed: bool):
    """It is read and told although the history of a closed scene goes with its checkpoint right after."""
    journal = FaultyJournal(MemoryJournal())
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        async with reading(registry) as reader:
            journal.next(Fault.UNKNOWN_WRITTEN)
            journal.failing.update(() if is_trimmed else {"checkpoint"})
            with pytest.raises(CommitUnknown):
                await ask(registry, CloseScene())
            assert await ask(registry, CloseScene()) == "unknown-scene"

            told, end = await reader.message(), await reader.message()
            assert [decision["sequence"] for decision in told["decisions"]] == [2]
            assert end == {"end": {"reason": "closed", "sequence": 2}}


async def test_who_was_behind_when_the_scene_was_closed_is_told_that_there_is_a_gap_and_an_end():
    async with served(MemoryJournal(), feed_decisions_max=1) as registry:
        await ask(registry, SPAWN)
        async with reading(registry) as reader:
            await run(registry)
            await ask(registry, CloseScene())
            await asyncio.sleep(0)

            reset, end = (await reader.message())["reset"], await reader.message()

    assert (reset["reason"], reset["sequence"], reset["scene"], reset["characters"]) == ("gone", 3, None, [])
    assert end == {"end": {"reason": "closed", "sequence": 3}}


async def test_a_scene_that_begins_again_is_read_on_behind_the_end_of_its_former_life():
    async with served(MemoryJournal()) as registry:
        await ask(registry, SPAWN)
        await ask(registry, CloseScene())
        await ask(registry, SPAWN)
        async with reading(registry, after=2) as resumed, reading(registry, after=1) as late:
            assert await resumed.decisions(1) == [[3]]
            assert (await late.message())["reset"]["reason"] == "gone"


async def test_a_scene_that_leaves_memory_and_comes_back_is_read_on():
    async with served(MemoryJournal()) as registry:
        await ask(registry, SPAWN)
        async with reading(registry) as reader:
            await run(registry)
            await idle(registry)
            await run(registry)

            assert await reader.decisions(2) == [[2], [3]]


@pytest.mark.parametrize("fault", [Fault.UNKNOWN_WRITTEN, Fault.UNKNOWN_LOST, Fault.UNAVAILABLE])
async def test_what_nobody_knew_to_be_durable_is_told_once_when_it_is_known(fault: Fault):
    journal = FaultyJournal(MemoryJournal())
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        async with reading(registry) as reader:
            journal.next(fault)
            with pytest.raises(Exception, match=r"disk is full|connection broke"):
                await run(registry)
            await run(registry)
            written = 3 if fault is Fault.UNKNOWN_WRITTEN else 2

            assert await reader.decisions(written - 1) == [[sequence] for sequence in range(2, written + 1)]


async def test_the_end_of_the_service_ends_every_reading_and_begins_none():
    async with served(MemoryJournal()) as registry:
        await ask(registry, SPAWN)
        async with reading(registry) as reader, reading(registry) as another:
            waiting = asyncio.ensure_future(reader.message())
            await asyncio.sleep(0.01)
            registry.drain()
            ends = [(await waiting)["end"], (await another.message())["end"]]

            for end in ends:
                assert (end["reason"], end["sequence"], end["problem"]["type"]) == ("draining", 1, "/problems/draining")
            with pytest.raises(Draining):
                await registry.watch("room", after=None, wake=lambda: None)


async def test_who_may_read_no_longer_is_told_so_at_the_next_beat():
    revoked = False

    def admitted() -> None:
        if revoked:
            raise ProblemError("unauthenticated", "no key in force is this one")

    async with served(MemoryJournal()) as registry:
        await ask(registry, SPAWN)
        async with reading(registry, admitted=admitted, beat_ms=20) as reader:
            beat = await reader.message()
            revoked = True
            end, over = await reader.message(), await reader.message()

    assert beat == {"beat": True}
    assert (end["end"]["reason"], end["end"]["problem"]["status"], over) == ("unauthenticated", 401, {})


async def test_a_journal_that_cannot_be_read_ends_the_reading_with_its_problem():
    journal = FaultyJournal(MemoryJournal())
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        await run(registry)
        async with reading(registry, after=0) as reader:
            journal.failing.add("read")
            end = (await reader.message())["end"]

    assert (end["reason"], end["sequence"], end["problem"]["retryable"]) == ("journal-unavailable", 0, True)


async def test_what_was_read_before_the_journal_failed_is_told_before_that():
    journal = FaultyJournal(MemoryJournal())
    async with served(journal) as registry:
        await ask(registry, SPAWN)
        await run(registry)
        async with reading(registry, after=0) as reader:
            journal.failing.add("tail")
            told, end = await reader.decisions(1), (await reader.message())["end"]

    assert told == [[1]]
    assert (end["reason"], end["sequence"]) == ("journal-unavailable", 1)


async def test_a_scene_that_is_found_damaged_ends_the_reading():
    async with served(MemoryJournal()) as registry:
        await ask(registry, SPAWN)
        async with reading(registry, beat_ms=20) as reader:
            registry.damages.note("room", JournalDamaged("a flipped bit"))
            end = (await reader.message())["end"]

    assert end["reason"] == "journal-damaged"


async def test_a_scene_that_is_not_there_cannot_be_watched():
    async with served(MemoryJournal()) as registry:
        with pytest.raises(ProblemError) as refused:
            async with reading(registry):
                pass

    assert refused.value.name == "unknown-scene"


async def test_one_too_many_is_told_and_a_place_is_free_again_when_one_leaves():
    async with served(MemoryJournal(), scene_watchers_max=1) as registry:
        await ask(registry, SPAWN)
        async with reading(registry):
            with pytest.raises(ProblemError) as refused:
                async with reading(registry):
                    pass
        async with reading(registry):
            assert registry.feeds.watchers == 1

    assert (refused.value.name, refused.value.limit) == ("too-many-watchers", 1)


async def test_a_snapshot_that_cannot_be_made_leaves_no_watcher(monkeypatch: pytest.MonkeyPatch):
    async with served(MemoryJournal()) as registry:
        await ask(registry, SPAWN)

        async def unreadable(scene: str) -> None:
            raise JournalUnavailable(f"{scene} cannot be read")

        monkeypatch.setattr(registry, "present", unreadable)
        with pytest.raises(JournalUnavailable):
            async with reading(registry, snapshot=True):
                pass

        assert registry.feeds.watchers == 0


async def test_decisions_are_made_ready_once_for_all_who_want_the_same(monkeypatch: pytest.MonkeyPatch):
    made: list[int] = []

    def counted(sequence: int, at: int, record: Record) -> Generator[None, None, dict[str, Any]]:
        made.append(sequence)
        return (yield from shown_in_steps(sequence, at, record))

    monkeypatch.setattr(packing_module, "shown_in_steps", counted)
    async with served(MemoryJournal(), feed_decisions_max=3) as registry:
        await ask(registry, SPAWN)
        async with reading(registry, after=0) as one, reading(registry, after=0) as two, reading(registry) as three:
            await run(registry, 2)
            for reader, count in ((one, 3), (two, 3), (three, 2)):
                await reader.decisions(count)

    assert sorted(made) == [1, 2, 3]


async def test_others_run_while_much_is_read_for_those_who_are_behind(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feeding_module, "PAST_WORK_S", 0.0)
    async with served(MemoryJournal(), feed_decisions_max=1) as registry:
        await ask(registry, SPAWN)
        await run(registry, 100)
        async with reading(registry, after=0) as reader:
            steps = 0
            asked = asyncio.ensure_future(reader.decisions(101))
            while not asked.done():
                steps += 1
                await asyncio.sleep(0)

    assert steps > 100


async def test_begins_on_other_layers_are_left_out():
    async with served(MemoryJournal()) as registry:
        await ask(registry, SPAWN)
        async with reading(registry, wanted=Wanted(layer="base", accepted=True)) as reader:
            await ask(registry, Begin(layer="face", target="Smile"))
            await run(registry)

            assert await reader.decisions(1) == [[3]]
