"""The sync channel: one connection with many commands under way, and a feed; whichever thread waits reads for all."""

import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from posegate_client.answers import Answer
from posegate_client.channel_address import Address, end_of, refusal_of
from posegate_client.command import Command
from posegate_client.course import Pauses
from posegate_client.exchange import Asked, ChannelItem, Exchange, answer_in, failed_by, value_in
from posegate_client.feed import Wanted
from posegate_client.problems import PosegateError, Problem, Unanswered, error_of

T = TypeVar("T")
AnswerT = TypeVar("AnswerT")


class Pending(Generic[AnswerT]):
    """A command under way: ask `answer` for its answer, once or often."""

    def __init__(self, channel: "Channel", asked: Asked[AnswerT]) -> None:
        self._channel = channel
        self.asked = asked

    @property
    def command(self) -> Command[AnswerT]:
        """The command as it was sent, with its key."""
        return self.asked.command

    def answer(self) -> AnswerT:
        """Wait for the answer.

        Raises:
            ProblemError: No gate decided. It is not asked again: what was sent behind it may be decided by now.
            Unanswered, ChannelEnded, NotPosegate: There is no answer.
        """
        return self._channel.answer_of(self.asked)


class Channel:
    """A channel of one scene. Use it in `with`; many threads may share it. Its library reads in a thread of its own.

    A lost connection is made again by whoever waits, and what has no answer is asked again with the same keys, so that
    each command is decided once. While nobody waits, nothing is taken.
    """

    def __init__(self, address: Address, scene: str) -> None:
        self.scene = scene
        self.connections = 0
        self._address = address
        self._limits = address.limits
        self._exchange = Exchange(address.limits)
        # Guards the exchange and what is below; a message that came wakes whoever waits.
        self._changed = threading.Condition(threading.RLock())
        # Keeps messages in order; taken before the other where both are.
        self._sending = threading.RLock()
        self._is_read = False
        self._wire: ClientConnection | None = None
        self._over: PosegateError | None = None

    def __enter__(self) -> Self:
        """Connect.

        Raises:
            ProblemError: The channel is refused.
            Unanswered: Nobody is there.
        """
        self._until(lambda: self._wire is not None, self._deadline())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close it. What is under way may be decided; whoever waits for it hears `Unanswered`. The feed just ends."""
        with self._changed:
            self._end(Unanswered("the channel was closed here", may_be_decided=True))
            self._exchange.close()
            wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    # Commands.

    def send(self, command: Command[AnswerT]) -> Pending[AnswerT]:
        """Send a command and give what waits for its answer; while `under_way_max` are under way, wait first.

        Commands are decided in the order in which they were sent.
        """
        exchange, deadline = self._exchange, self._deadline()
        asked: Asked[AnswerT] | None = None
        while asked is None:
            self._until(lambda: self._wire is not None and not exchange.is_full, deadline)
            with self._changed:
                if not exchange.is_full:
                    asked = exchange.ask(command)
        self._flush()
        return Pending(self, asked)

    def ask(self, command: Command[AnswerT]) -> AnswerT:
        """Ask one command. Where no gate decided and asking again may help, it is asked again, with the same key.

        Raises:
            ProblemError: No gate decided.
            Unanswered, ChannelEnded, NotPosegate: There is no answer.
        """
        keyed, pauses, until = command.keyed(), Pauses(self._limits), self._deadline()
        for attempt in range(1, self._limits.attempts_max + 1):
            asked = self.send(keyed).asked
            self._answered(asked, until)
            if not isinstance(asked.answer, Problem) or not asked.answer.retryable:
                break
            pause = pauses.next(asked.answer.retry_after)
            if attempt == self._limits.attempts_max or time.monotonic() + pause >= until:
                break
            time.sleep(pause)
        return value_in(asked)

    def ask_all(self, commands: Iterable[Command[Any]]) -> tuple[Answer | Problem, ...]:
        """Ask many, each decided on its own, in order, as many under way as may be; problems stand at their places."""
        pending = [self.send(command).asked for command in commands]
        for asked in pending:
            self._answered(asked, self._deadline())
        return tuple(answer_in(asked) for asked in pending)

    def answer_of(self, asked: Asked[AnswerT]) -> AnswerT:
        """Wait for the answer of a command that was sent."""
        self._answered(asked, self._deadline())
        return value_in(asked)

    # The feed.

    def watch(self, wanted: Wanted | None = None, *, after: int | None = None) -> None:
        """Have the feed tell what is decided behind `after`, or from now on, in place of what was watched before."""
        self._until(lambda: self._wire is not None, self._deadline())
        with self._changed:
            self._exchange.watch(wanted or Wanted(), after)
        self._flush()

    def unwatch(self) -> None:
        """Watch no more. What came is still given, and answers of requests go on."""
        with self._changed:
            self._exchange.unwatch()
        self._flush()

    @property
    def place(self) -> int | None:
        """The sequence up to which everything that is watched was given."""
        return self._exchange.given

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ChannelItem:
        """Give the next item of the feed: what is watched, and answers of requests whose tick was sealed.

        It ends when nothing more can come: the scene was closed, or nothing is watched and no request waits.
        """
        self._until(self._exchange.has_item, None)
        with self._changed:
            item = self._exchange.take()
        self._flush()
        if item is None:
            raise StopIteration
        return item

    # Waiting and reading.

    def _deadline(self) -> float:
        return time.monotonic() + self._limits.deadline_s

    def _answered(self, asked: Asked[Any], until: float) -> None:
        try:
            self._until(lambda: asked.is_done, until)
        except Unanswered as error:
            with self._changed:
                if asked.is_done:
                    return
                self._exchange.abandon(asked)
            raise Unanswered(str(error), may_be_decided=asked.was_sent, command=asked.command) from error

    def _until(self, is_so: Callable[[], bool], until: float | None) -> None:
        """Read, or let another thread read, until something is so.

        Raises:
            Unanswered: It was not so at the deadline.
            PosegateError: It never will be.
        """
        while self._must_read(is_so, until):
            try:
                self._read(until)
            finally:
                with self._changed:
                    self._is_read = False
                    self._changed.notify_all()

    def _must_read(self, is_so: Callable[[], bool], until: float | None) -> bool:
        """Wait until something is so, or until it is this thread's turn to read: then give True."""
        with self._changed:
            while not is_so():
                if self._over is not None:
                    raise self._over
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    detail = f"channel of {self.scene}: no answer within {self._limits.deadline_s:g} s"
                    raise Unanswered(detail, may_be_decided=True)
                if not self._is_read:
                    self._is_read = True
                    return True
                self._changed.wait(left)
        return False

    def _read(self, until: float | None) -> None:
        """Connect, where there is no connection; else read one message for all who wait, or none until the deadline."""
        wire = self._wire
        if wire is None:
            self._connect(until)
            return
        try:
            data = wire.recv(None if until is None else max(until - time.monotonic(), 0.001))
        except TimeoutError:
            return
        except ConnectionClosed as error:
            self._lost(wire, end_of(error))
            return
        with self._changed:
            try:
                self._exchange.received(data)
            except PosegateError as error:
                self._end(error)
                raise
            must_reconnect = self._exchange.must_reconnect
        if must_reconnect:
            self._lost(wire, None)
            wire.close()

    def _flush(self) -> None:
        """Send what is not sent. What a lost connection swallows is sent again on the next."""
        with self._sending:
            while (wire := self._wire) is not None:
                with self._changed:
                    text = self._exchange.next_unsent()
                if text is None:
                    return
                try:
                    wire.send(text)
                except ConnectionClosed as error:
                    self._lost(wire, end_of(error))

    def _connect(self, until: float | None) -> None:
        """Connect, and say again what has no answer; try for as long as may be, and not beyond the deadline.

        Raises:
            ProblemError: The channel is refused.
            Unanswered: It could not be made.
        """
        pauses, give_up = Pauses(self._limits), time.monotonic() + self._limits.resume_s_max
        while True:
            after: float | None = None
            left = self._limits.attempt_s if until is None else until - time.monotonic()
            if left <= 0 or self._over is not None:
                return
            try:
                attempt_s = min(left, self._limits.attempt_s)
                # Entered at once: the wire outlives this frame, and `close` is its end.
                wire = connect(self._address.of(self.scene), **self._address.options(attempt_s)).__enter__()
                break
            except InvalidStatus as error:
                problem, after = refusal_of(error)
                said = f"{problem.status} {problem.name}"
                if not problem.retryable:
                    raise self._end(error_of(problem)) from error
            except (OSError, TimeoutError, InvalidHandshake) as error:
                said = str(error) or type(error).__name__
            pause = pauses.next(after)
            if time.monotonic() + pause > give_up:
                detail = f"channel of {self.scene}: not there after {self._limits.resume_s_max:g} s ({said})"
                raise self._end(Unanswered(detail, may_be_decided=True))
            time.sleep(pause)
        self._connected(wire)

    def _connected(self, wire: ClientConnection) -> None:
        with self._sending:
            with self._changed:
                is_over = self._over is not None
                if not is_over:
                    self.connections += 1
                    self._exchange.resumed()
                    self._wire = wire
            self._flush()
        if is_over:
            wire.close()

    def _lost(self, wire: ClientConnection, end: PosegateError | None) -> None:
        with self._changed:
            if self._wire is wire:
                self._wire = None
            if end is not None:
                self._end(end)

    def _end(self, error: PosegateError) -> PosegateError:
        """End the channel: whoever waits hears why."""
        with self._changed:
            if self._over is None:
                self._over = error
                for asked in self._exchange.fail(error):
                    asked.error = failed_by(error, asked)
            self._changed.notify_all()
        return error
