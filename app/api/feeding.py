"""Feeding: one reader's way through the decisions of a scene, the same at every door but for how it is packed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import msgspec

from app.api.alarm import Alarm
from app.api.asking import FAILURES, problem_of_failure
from app.api.packing import Packing, packed_at_once, packed_turn
from app.api.portrait import Portrait
from app.api.problems import ProblemError
from app.api.wanted import Wanted
from app.sequencing.feed import Turn, Watcher, WatchersFull
from app.sequencing.pace import Pace
from app.sequencing.registry import Registry
from app.settings import Settings

PIECE_BYTES = 65_536
"""How many bytes of messages are given together, when there are several: about so much a slow reader holds."""

PAST_WORK_S = 0.002
"""How long what is made for one reader alone keeps the event loop, seconds: for one of them at a time."""

PAST_DECISIONS = 4_096
"""How many decisions a reader who is behind passes over before another has its turn."""

PROGRESS_DECISIONS = 1_024
"""After how many decisions that it does not want a reader is told its place."""

_encode = msgspec.json.encode


class Straight(Protocol):
    """A way past the task that reads: what is ready is written in the step that wakes the reader."""

    @property
    def is_open(self) -> bool:
        """Say whether a piece may be written now: the client is there, and reads."""
        ...

    def write(self, piece: bytes) -> None:
        """Write a piece of at most about `PIECE_BYTES`. It must not raise."""
        ...


class Feeding(AsyncIterator[bytes]):
    """Packed messages for one reader, in order, as one or several together; made when they are asked for.

        feeding = await Feeding.begun(...)
        try:
            async for piece in feeding: write it, and wait for as long as the client does not read
        finally:
            feeding.close()

    Every decision behind the place where it began is told once, in order, unless it is not wanted. Where what comes
    next is no longer kept, a `reset` with the whole scene takes its place. It ends behind an `end`: when the scene was
    closed, the service stops, the reader may read no longer (`admitted` is asked at every beat), or the journal cannot
    be read.

    `straight` may be set by a door: while its task waits for the next piece, pieces may then go that way, in order.

    Bound:     of a piece: about `MESSAGE_BYTES`, or `PIECE_BYTES` where it is several messages. A reader that does not
               ask for the next piece holds that one and nothing else.
    """

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        scene: str,
        wanted: Wanted,
        packing: Packing,
        admitted: Callable[[], object],
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._scene = scene
        self._wanted = wanted
        self._packing = packing
        self._admitted = admitted
        self.straight: Straight | None = None
        self._woken = asyncio.Event()
        self._is_waiting = False
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm(self._loop, self._woken.set)
        self._beat_s = settings.watch_beat_ms / 1000
        self._beat_at = self._loop.time() + self._beat_s
        self._portrait: Portrait | None = None
        self._kind = "snapshot"
        self._is_over = False
        self._may_be_ahead = True
        self._watcher: Watcher
        self._turn_place = self._told = 0

    @classmethod
    async def begun(
        cls,
        registry: Registry,
        settings: Settings,
        scene: str,
        *,
        wanted: Wanted,
        packing: Packing,
        after: int | None = None,
        snapshot: bool = False,
        at_least: int = 0,
        admitted: Callable[[], object],
    ) -> "Feeding":
        """Begin behind the decision `after`, or from now on; with `snapshot`, with the whole scene as it is now.

        The decision `at_least` is visible before it begins.

        `admitted` raises ProblemError once the reader may read no longer.

        Raises:
            ProblemError: `unknown-scene`, or `too-many-watchers`. Nothing was begun.
            SequenceAhead, Draining, JournalUnavailable, JournalDamaged: The scene cannot be read, or not that far.
                Nothing was begun.
        """
        feeding = cls(registry, settings, scene, wanted, packing, admitted)
        try:
            watcher = await registry.watch(scene, after=after, wake=feeding._wake, at_least=at_least)
        except WatchersFull as error:
            raise ProblemError("too-many-watchers", str(error), limit=error.limit) from error
        if watcher is None:
            raise ProblemError("unknown-scene", f"there is no scene {scene!r}; a spawn makes one")
        feeding._watcher = watcher
        feeding._turn_place = feeding._told = watcher.place
        if snapshot:
            is_begun = False
            try:
                await feeding._portray("snapshot")
                is_begun = True
            finally:
                if not is_begun:
                    # Whatever failed, and when the reader went meanwhile: nobody else would.
                    watcher.close()
        return feeding

    @property
    def place(self) -> int:
        """Give the sequence that was read last, or behind which it began."""
        return self._watcher.place

    def close(self) -> None:
        """Read no more. A second close does nothing."""
        self._is_over = True
        self._watcher.close()
        self._alarm.stop()
        self._portrait = None
        self._woken.set()

    async def __anext__(self) -> bytes:
        """Give what comes next, and wait until there is something."""
        while not self._is_over:
            self._woken.clear()
            try:
                piece = await self._next()
            except ProblemError as error:
                return self._end(error.name, error)
            except tuple(FAILURES) as error:
                problem = problem_of_failure(error)
                return self._end(problem.name, problem)
            if piece:
                return piece
            if piece is None:
                self._alarm.set(self._beat_at - self._loop.time())
                self._is_waiting = True
                try:
                    await self._woken.wait()
                finally:
                    self._is_waiting = False
        raise StopAsyncIteration

    def _wake(self) -> None:
        """Go on: at once with what is ready when the client reads, else in the reader's own time."""
        straight = self.straight
        if not (self._is_waiting and straight is not None and straight.is_open and self._is_up_to_date()):
            self._woken.set()
            return
        pieces, size = list[bytes](), 0
        for turn in self._watcher.take():
            packed = packed_at_once(turn, self._watcher.place, self._wanted, self._packing)
            if packed is None or turn.closes or size + len(packed) > PIECE_BYTES:
                self._woken.set()
                break
            size += self._read(turn, turn.last, packed, pieces)
        if pieces:
            straight.write(b"".join(pieces))
        if not self._woken.is_set() and self._watcher.take():
            self._woken.set()

    def _is_up_to_date(self) -> bool:
        """Say whether nothing is due but what was decided lately."""
        return not (
            self._portrait is not None
            or self._may_be_ahead
            or self._watcher.is_behind
            or self._registry.feeds.is_ending
            or self._loop.time() >= self._beat_at
        )

    async def _next(self) -> bytes | None:
        """Give what comes next; nothing where more may come at once, None where it is to be waited for.

        Raises:
            ProblemError: The reader may read no longer.
            JournalUnavailable, JournalDamaged: It cannot be read.
        """
        if self._registry.feeds.is_ending:
            raise ProblemError("draining", "the service is stopping; resume at another node, or here when it is back")
        if self._loop.time() >= self._beat_at:
            return self._beat()
        if self._portrait is not None:
            return await self._piece(self._portrait)
        watcher = self._watcher
        if self._may_be_ahead and watcher.place > watcher.last:
            return await self._reset("ahead")
        self._may_be_ahead = False
        if watcher.is_behind:
            return await self._past()
        return await self._present()

    async def _present(self) -> bytes | None:
        """Give what was decided lately."""
        watcher, pace, pieces, size = self._watcher, Pace(), list[bytes](), 0
        turns = watcher.take()
        for turn in turns:
            size += await self._add(turn, pieces, pace)
            if watcher.place == turn.last and turn.closes:
                pieces.append(self._end("closed"))
                break
            if size >= PIECE_BYTES or watcher.place < turn.last:
                break
        if not turns and watcher.is_at_the_end:
            return self._end("closed")
        if not turns:
            return None
        return b"".join(pieces) if len(pieces) != 1 else pieces[0]

    async def _past(self) -> bytes:
        """Give what was decided before that, from the journal: one reader at a time, so that others are not kept."""
        watcher, pieces, size = self._watcher, list[bytes](), 0
        async with self._registry.feeds.reading:
            pace, since = Pace(PAST_WORK_S), watcher.place
            while watcher.is_behind and size < PIECE_BYTES and watcher.place - since < PAST_DECISIONS:
                try:
                    size += await self._past_turn(pieces, pace)
                except tuple(FAILURES):
                    if not pieces:
                        raise
                    # What was read before is told first; what failed is asked again, and then tells why.
                    break
                if self._portrait is not None or self._is_over:
                    break
                if pace.is_due:
                    await pace.pause()
        return b"".join(pieces)

    async def _past_turn(self, pieces: list[bytes], pace: Pace) -> int:
        """Add what comes next of the past, be it that it is gone; give its size."""
        watcher = self._watcher
        turn = await self._registry.turn_after(self._scene, self._turn_place)
        if turn is None or turn.first > watcher.place + 1:
            pieces.append(await self._reset("gone"))
            return len(pieces[-1])
        if self._wanted.character is None or turn.may_concern(self._wanted.character):
            return await self._add(turn, pieces, pace)
        watcher.place = self._turn_place = turn.last
        return 0

    async def _add(self, turn: Turn, pieces: list[bytes], pace: Pace) -> int:
        """Add what the reader gets of a turn, which is then read, or of its first part; give its size."""
        packed, place = await packed_turn(turn, self._watcher.place, self._wanted, self._packing, pace)
        return self._read(turn, place, packed, pieces)

    def _read(self, turn: Turn, place: int, packed: bytes, pieces: list[bytes]) -> int:
        """Be at a new place within a turn or behind it, and add what is told of that; give its size."""
        self._watcher.place = place
        self._turn_place = place if place == turn.last else turn.first - 1
        if packed:
            self._told = place
        elif place - self._told >= PROGRESS_DECISIONS:
            self._told = place
            packed = self._packing.place(place)
        if packed:
            pieces.append(packed)
        return len(packed)

    def _beat(self) -> bytes:
        """Look whether the reader may still read, and give a sign of life: its place, when it was not told that.

        Raises:
            ProblemError, JournalDamaged: It may not, or there is nothing to be read any more.
        """
        self._beat_at = self._loop.time() + self._beat_s
        self._admitted()
        self._registry.damages.require_whole(self._scene)
        if self._portrait is None and self._told < self._watcher.place <= self._watcher.last:
            self._told = self._watcher.place
            return self._packing.place(self._told)
        return self._packing.beat()

    async def _reset(self, reason: str) -> bytes:
        """Begin anew with the whole scene: what comes next is not to be had, or there is no such place."""
        self._may_be_ahead = False
        if await self._portray("reset", reason):
            return b""
        last = self._watcher.last
        nothing = {"sequence": last, "reason": reason, "scene": None, "characters": [], "more": False}
        self._watcher.place = last
        return self._packing.portrait("reset", _encode(nothing), last=last) + self._end("closed")

    async def _portray(self, kind: str, reason: str | None = None) -> bool:
        """Begin to show the whole scene; False when there is none any more."""
        present = await self._registry.present(self._scene)
        if present is None:
            return False
        self._kind = kind
        self._portrait = Portrait(
            present, tick_hz=self._settings.tick_hz, character=self._wanted.character, reason=reason
        )
        return True

    async def _piece(self, portrait: Portrait) -> bytes:
        """Give a piece of the whole scene; behind the last one, decisions go on after its sequence."""
        async with self._registry.feeds.reading:
            body = await portrait.piece(Pace(PAST_WORK_S))
        if portrait.has_more:
            return self._packing.portrait(self._kind, body, last=None)
        self._portrait = None
        self._watcher.place = self._turn_place = self._told = portrait.sequence
        return self._packing.portrait(self._kind, body, last=portrait.sequence)

    def _end(self, reason: str, problem: ProblemError | None = None) -> bytes:
        """Say why nothing more comes, and read no more."""
        body: dict[str, Any] = {"reason": reason, "sequence": self._watcher.place}
        if problem is not None:
            body["problem"] = problem.body(retry_after=self._settings.retry_after_s)
        self.close()
        return self._packing.end(_encode(body))
