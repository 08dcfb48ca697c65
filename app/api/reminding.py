"""Reminding: the requests for ticks whose answers a channel's client waits for, told as the ticks are sealed."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec
from msgspec import UNSET
from picows import WSMsgType

from app.api.answers import applied_rows
from app.api.asking import FAILURES, problem_of_failure
from app.api.framing import framed
from app.api.line import Line
from app.api.problems import ProblemError
from app.api.talk import Said, Talk
from app.gates.tick import Tick, Ticked, TickSealed
from app.sequencing.feed import Turn, Watcher, WatchersFull
from app.sequencing.mailbox import Addressed, Decided, Result

_TICKS = "ticks"
_TICK_BYTES = 128
"""About what it costs to keep that a turn holds a tick."""

_encode = msgspec.json.Encoder().encode


class Awaited:
    """One request whose answers a client waits for: the message that asked, and up to which sequence was looked."""

    __slots__ = ("number", "seen")

    def __init__(self, number: int | None, seen: int) -> None:
        self.number = number
        self.seen = seen


class Reminding:
    """The requests that one channel queued, each until its tick is confirmed or can no longer be rolled back.

    Bound:     `channel_requests_max` requests; beyond, those of the earliest tick are forgotten.
    Order:     of the seals. An answer is told once for each time that its request is applied: again behind a rollback.
    """

    def __init__(self, line: Line, talk: Talk, kind: WSMsgType) -> None:
        self._line = line
        self._talk = talk
        self._kind = kind
        self._ticks: dict[int, dict[tuple[str, int], Awaited]] = {}
        self._count = 0
        self._place = 0
        self._watcher: Watcher | None = None
        self._woken = asyncio.Event()
        self._stop: Callable[[], object] | None = None

    def answered(self, said: Sequence[Said], results: Sequence[Result]) -> None:
        """Remember the requests that were queued by messages which have these results, one each command."""
        commands = [each for each in said if type(each.what) is Addressed]
        for each, result in zip(commands, results, strict=True):
            if type(result) is Decided and type(result.record.command) is Tick:
                self._queued(each.number, result, result.record.command)

    def _queued(self, number: int | None, decided: Decided, command: Tick) -> None:
        answer = decided.record.answer
        if type(answer) is not Ticked or answer.requests is UNSET or command.requests is UNSET:
            return
        for request, refused in zip(command.requests, answer.requests, strict=True):
            if refused is None:
                held = self._ticks.setdefault(request.tick, {})
                self._count += (request.source, request.number) not in held
                held[request.source, request.number] = Awaited(number, decided.sequence - 1)
        while self._count > self._talk.service.settings.channel_requests_max:
            self._forget(min(self._ticks))
        if self._ticks:
            self._look_from(decided.sequence - 1)

    def _look_from(self, place: int) -> None:
        """Look at what was decided behind a place, and go on from there."""
        if self._stop is None:
            self._place = place
            self._stop = self._talk.service.registry.attend(f"channel reminds {self._talk.scene}", self._run())
        elif self._watcher is None:
            self._place = min(self._place, place)
        elif place < self._watcher.place:
            self._watcher.place = place
            self._woken.set()

    def close(self) -> None:
        """Forget everything."""
        self._ticks, self._count = {}, 0
        if self._stop is not None:
            self._stop()

    async def _run(self) -> None:
        """Tell answers as long as some are awaited."""
        registry, scene = self._talk.service.registry, self._talk.scene
        try:
            self._watcher = await registry.watch(scene, after=self._place, wake=self._woken.set)
            if self._watcher is not None:
                self._watcher.place = self._place
                while self._ticks and not registry.feeds.is_ending:
                    await self._look(self._watcher)
        except WatchersFull as error:
            self._give_up(ProblemError("too-many-watchers", str(error), limit=error.limit))
        except tuple(FAILURES) as error:
            self._give_up(problem_of_failure(error))
        finally:
            if self._watcher is not None:
                self._watcher.close()
            self._watcher = self._stop = None

    async def _look(self, watcher: Watcher) -> None:
        """Look at what was decided behind the watcher's place, or wait for it."""
        registry = self._talk.service.registry
        turns: Sequence[Turn]
        if watcher.is_behind:
            async with registry.feeds.reading:
                place = watcher.place
                turn = await registry.turn_after(self._talk.scene, place)
            if watcher.place < place:
                # Somebody remembered what was decided before, while this was read.
                return
            turns = [] if turn is None else [turn]
            watcher.place = watcher.place if turn else watcher.last
        else:
            self._woken.clear()
            turns = watcher.take()
            if not turns and watcher.is_at_the_end:
                self._ticks, self._count = {}, 0
            elif not turns:
                await self._woken.wait()
        for turn in turns:
            frames = b"".join([self._frame(message) for message in self._told_of(turn)])
            watcher.place = turn.last
            await self._line.sent(frames)
            if watcher.place < turn.last:
                # Somebody remembered what was decided before.
                return

    def _told_of(self, turn: Turn) -> list[bytes]:
        """Give what is to be told of a turn, and forget what nothing more can be told of."""
        messages: list[bytes] = []
        for sequence, ticked in _ticks_of(turn):
            if ticked.seal is not UNSET:
                messages += self._applied(sequence, ticked.seal)
                self._forget_up_to(ticked.seal.tick - self._talk.service.settings.rollback_ticks)
            if ticked.confirm is not UNSET:
                self._forget_up_to(ticked.confirm.tick)
        return messages

    def _applied(self, sequence: int, sealed: TickSealed) -> list[bytes]:
        """Give a message for each that asked for some of what a seal applied, with the answers of its requests."""
        rows: dict[int | None, list[msgspec.Raw]] = {}
        for tick in sealed.ticks:
            held = self._ticks.get(tick.tick, {})
            for applied in tick.applied if held else ():
                awaited = held.get((applied.source, applied.number))
                if awaited is not None and awaited.seen < sequence:
                    awaited.seen = sequence
                    rows.setdefault(awaited.number, []).extend(applied_rows(sequence, tick.tick, [applied]))
        return [_encode({"id": number, "applied": applied}) for number, applied in rows.items()]

    def _forget_up_to(self, tick: int) -> None:
        for each in [each for each in self._ticks if each <= tick]:
            self._forget(each)

    def _forget(self, tick: int) -> None:
        self._count -= len(self._ticks.pop(tick))

    def _give_up(self, problem: ProblemError) -> None:
        """Tell whoever waits for answers that none will be told; they can be read."""
        numbers = {awaited.number for held in self._ticks.values() for awaited in held.values()}
        self._ticks, self._count = {}, 0
        self._line.send(b"".join([self._frame(self._talk.problem(number, problem)) for number in numbers]))

    def _frame(self, message: bytes) -> bytes:
        return framed(self._kind, self._talk.form.of_json(message))


def _ticks_of(turn: Turn) -> list[tuple[int, Ticked]]:
    """Give the ticks of a turn, each with its sequence; found once for all who ask."""
    found: list[tuple[int, Ticked]] | None = turn.made.get(_TICKS)
    if found is None:
        found = [
            (sequence, record.answer)
            for sequence, record in enumerate(turn.records, turn.first)
            if type(record.answer) is Ticked
        ]
        turn.keep(_TICKS, found, _TICK_BYTES * (1 + len(found)))
    return found
