"""The async channel: one connection with many commands under way, and a feed. It has no task: whoever waits reads."""

import asyncio
import time
from collections.abc import Callable, Generator, Iterable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from posegate_client.answers import Answer
from posegate_client.channel_address import Address, end_of, refusal_of
from posegate_client.command import Command
from posegate_client.course import Pauses
from posegate_client.exchange import Asked, ChannelItem, Exchange, answer_in, failed_by, value_in
from posegate_client.feed import Wanted
from posegate_client.problems import (
    PosegateError,
    Problem,
    Unanswered,
    error_of,
)

T = TypeVar("T")
AnswerT = TypeVar("AnswerT")


class AsyncPending(Generic[AnswerT]):
    """A command under way: await it for its answer, once or often."""

    def __init__(self, channel: "AsyncChannel", asked: Asked[AnswerT]) -> None:
        self._channel = channel
        self.asked = asked

    @property
    def command(self) -> Command[AnswerT]:
        """The command as it was sent, with its key."""
        return self.asked.command

    def __await__(self) -> Generator[Any, None, AnswerT]:
        """Wait for the answer.

        Raises:
            ProblemError: No gate decided. It is not asked again: what was sent behind it may be decided by now.
            Unanswered, ChannelEnded, NotPosegate: There is no answer.
        """
        return self._channel.answer_of(self.asked).__await__()


class AsyncChannel:
    """A channel of one scene. Use it in `async with`; many tasks may share it.

    A lost connection is made again by whoever waits, and what has no answer is asked again with the same keys, so that
    each command is decided once. While nobody waits, nothing is read.
    """

    def __init__(self, address: Address, scene: str) -> None:
        self.scene = scene
        self.connections = 0
        self._address = address
        self._limits = address.limits
        self._exchange = Exchange(address.limits)
        self._reading = asyncio.Lock()
        self._wire: ClientConnection | None = None
        self._over: PosegateError | None = None

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            ProblemError: The channel is refused.
            Unanswered: Nobody is there.
        """
        await self._until(lambda: self._wire is not None, self._deadline())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close it. What is under way may be decided; whoever waits for it hears `Unanswered`. The feed just ends."""
        self._end(Unanswered("the channel was closed here", may_be_decided=True))
        self._exchange.close()
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()

    # Commands.

    async def send(self, command: Command[AnswerT]) -> AsyncPending[AnswerT]:
        """Send a command and give what waits for its answer; while `under_way_max` are under way, wait first.

        Commands are decided in the order in which they were sent.
        """
        exchange, deadline = self._exchange, self._deadline()
        await self._until(lambda: self._wire is not None and not exchange.is_full, deadline)
        asked = exchange.ask(command)
        await self._flush()
        return AsyncPending(self, asked)

    async def ask(self, command: Command[AnswerT]) -> AnswerT:
        """Ask one command. Where no gate decided and asking again may help, it is asked again, with the same key.

        Raises:
            ProblemError: No gate decided.
            Unanswered, ChannelEnded, NotPosegate: There is no answer.
        """
        keyed, pauses, until = command.keyed(), Pauses(self._limits), self._deadline()
        for attempt in range(1, self._limits.attempts_max + 1):
            asked = (await self.send(keyed)).asked
            await self._answered(asked, until)
            if not isinstance(asked.answer, Problem) or not asked.answer.retryable:
                break
            pause = pauses.next(asked.answer.retry_after)
            if attempt == self._limits.attempts_max or time.monotonic() + pause >= until:
                break
            await asyncio.sleep(pause)
        return value_in(asked)

    async def ask_all(self, commands: Iterable[Command[Any]]) -> tuple[Answer | Problem, ...]:
        """Ask many, each decided on its own, in order, as many under way as may be; problems stand at their places."""
        pending = [(await self.send(command)).asked for command in commands]
        for asked in pending:
            await self._answered(asked, self._deadline())
        return tuple(answer_in(asked) for asked in pending)

    async def answer_of(self, asked: Asked[AnswerT]) -> AnswerT:
        """Wait for the answer of a command that was sent."""
        await self._answered(asked, self._deadline())
        return value_in(asked)

    # The feed.

    async def watch(self, wanted: Wanted | None = None, *, after: int | None = None) -> None:
        """Have the feed tell what is decided behind `after`, or from now on, in place of what was watched before."""
        await self._until(lambda: self._wire is not None, self._deadline())
        self._exchange.watch(wanted or Wanted(), after)
        await self._flush()

    async def unwatch(self) -> None:
        """Watch no more. What came is still given, and answers of requests go on."""
        self._exchange.unwatch()
        await self._flush()

    @property
    def place(self) -> int | None:
        """The sequence up to which everything that is watched was given."""
        return self._exchange.given

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChannelItem:
        """Give the next item of the feed: what is watched, and answers of requests whose tick was sealed.

        It ends when nothing more can come: the scene was closed, or nothing is watched and no request waits.
        """
        await self._until(self._exchange.has_item, None)
        item = self._exchange.take()
        await self._flush()
        if item is None:
            raise StopAsyncIteration
        return item

    # Waiting and reading.

    def _deadline(self) -> float:
        return time.monotonic() + self._limits.deadline_s

    async def _answered(self, asked: Asked[Any], until: float) -> None:
        try:
            await self._until(lambda: asked.is_done, until)
        except Unanswered as error:
            if asked.is_done:
                return
            self._exchange.abandon(asked)
            raise Unanswered(str(error), may_be_decided=asked.was_sent, command=asked.command) from error

    async def _until(self, is_so: Callable[[], bool], until: float | None) -> None:
        """Read, or let another read, until something is so.

        Raises:
            Unanswered: It was not so at the deadline.
            PosegateError: It never will be.
        """
        if is_so():
            return
        try:
            async with asyncio.timeout(None if until is None else max(until - time.monotonic(), 0.001)):
                while not is_so():
                    async with self._reading:
                        if is_so():
                            return
                        if self._over is not None:
                            raise self._over
                        await self._read()
        except TimeoutError as error:
            detail = f"channel of {self.scene}: no answer within {self._limits.deadline_s:g} s"
            raise Unanswered(detail, may_be_decided=True) from error

    async def _read(self) -> None:
        """Connect, where there is no connection; else read one message for all who wait."""
        wire = self._wire
        if wire is None:
            await self._connect()
            return
        try:
            self._exchange.received(await wire.recv())
        except ConnectionClosed as error:
            self._lost(wire, end_of(error))
        except PosegateError as error:
            self._end(error)
            raise
        if self._exchange.must_reconnect:
            self._lost(wire, None)
            await wire.close()

    async def _flush(self) -> None:
        """Send what is not sent. What a lost connection swallows is sent again on the next."""
        wire = self._wire
        while wire is not None and (text := self._exchange.next_unsent()) is not None:
            try:
                await wire.send(text)
            except ConnectionClosed as error:
                self._lost(wire, end_of(error))
                return

    async def _connect(self) -> None:
        """Connect, and say again what has no answer; try for as long as may be.

        Raises:
            ProblemError: The channel is refused.
            Unanswered: It could not be made.
        """
        pauses, until = Pauses(self._limits), time.monotonic() + self._limits.resume_s_max
        while True:
            after: float | None = None
            try:
                wire = await connect(self._address.of(self.scene), **self._address.options(self._limits.attempt_s))
                break
            except InvalidStatus as error:
                problem, after = refusal_of(error)
                said = f"{problem.status} {problem.name}"
                if not problem.retryable:
                    raise self._end(error_of(problem)) from error
            except (OSError, TimeoutError, InvalidHandshake) as error:
                said = str(error) or type(error).__name__
            pause = pauses.next(after)
            if time.monotonic() + pause > until:
                detail = f"channel of {self.scene}: not there after {self._limits.resume_s_max:g} s ({said})"
                raise self._end(Unanswered(detail, may_be_decided=True))
            await asyncio.sleep(pause)
        if self._over is not None:
            await wire.close()
            return
        self.connections += 1
        self._exchange.resumed()
        self._wire = wire
        await self._flush()

    def _lost(self, wire: ClientConnection, end: PosegateError | None) -> None:
        if self._wire is wire:
            self._wire = None
        if end is not None:
            self._end(end)

    def _end(self, error: PosegateError) -> PosegateError:
        """End the channel: whoever waits hears why."""
        if self._over is None:
            self._over = error
            for asked in self._exchange.fail(error):
                asked.error = failed_by(error, asked)
        return error
