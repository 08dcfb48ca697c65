"""The mailbox: whole submissions that wait for one scene's sequencer, each with one reply."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from msgspec import Struct
from opentelemetry.trace import Span

from app.gates.bundle import References
from app.gates.decision import Command, Undecided
from app.gates.lives import CloseScene
from app.gates.scene import Record
from app.journal.port import CommitUnknown


class Addressed(Struct, frozen=True, gc=False):
    """One command, the character it is for (None: the scene), and its idempotency key where it has one.

    `references` are the fields whose values the answers of earlier commands of the same submission give. `asked` is the
    command as its caller sent it, where the service added to it: it is what a key stands for.
    """

    character: str | None
    command: Command
    key: str | None = None
    references: References = {}
    asked: Command | None = None


class Decided(Struct, frozen=True, gc=False):
    """A durable decision: its sequence, its time (ms since 1970), and its record."""

    sequence: int
    at: int
    record: Record


class Earlier(Struct, frozen=True, gc=False):
    """A retried key: its answer is the decision of this sequence, in an earlier entry."""

    sequence: int


Result = Decided | Undecided
"""What became of one command."""


Reply = Callable[[list[Result | Earlier] | Exception], None]
"""Hears once what became of a submission: a result for each command, or why nothing was decided. It must not raise."""


class Submission:
    """Commands that came in one request, in order, and the one reply they share.

    `since` is when it came (seconds of `perf_counter`), `span` the request's, where the request is traced. One that is
    too large for one entry is decided in parts: `decided` holds the results of its commands that are settled, from the
    first on, and the present turn decides those behind them that stand before `until`.
    """

    __slots__ = ("_is_answered", "_reply", "caller", "commands", "decided", "since", "span", "until")

    def __init__(self, commands: Sequence[Addressed], caller: str, reply: Reply, span: Span | None = None) -> None:
        self.commands = commands
        self.caller = caller
        self.since = perf_counter()
        self.span = span
        self.decided: list[Result | Earlier] = []
        self.until = len(commands)
        self._reply = reply
        self._is_answered = False

    @property
    def part(self) -> Sequence[Addressed]:
        """Give the commands that the present turn decides."""
        whole = self.until == len(self.commands) and not self.decided
        return self.commands if whole else self.commands[len(self.decided) : self.until]

    @property
    def waiting(self) -> int:
        """Count the commands that are not settled."""
        return len(self.commands) - len(self.decided)

    def answer(self, results: list[Result | Earlier]) -> None:
        """Reply, unless that was done."""
        if not self._is_answered:
            self._is_answered = True
            self._reply(results)

    def settle(self, results: list[Result | Earlier]) -> bool:
        """Reply when all was decided; False when only a part was, which is durable by now: the rest waits."""
        if len(results) == len(self.commands):
            self.answer(results)
            return True
        self.decided, self.until = results, len(self.commands)
        return False

    def refuse(self, error: Exception) -> None:
        """Reply that nothing was decided, or that nobody can say, unless there was a reply.

        Where a part is durable already, nobody hears that nothing was decided.
        """
        if any(type(result) is Decided for result in self.decided) and not isinstance(error, CommitUnknown):
            error = CommitUnknown(f"the first commands are decided; the same keys settle the others: {error}")
        if not self._is_answered:
            self._is_answered = True
            self._reply(error)


def awaited() -> tuple[asyncio.Future[Any], Callable[[list[Any] | Exception], None]]:
    """Give what can be waited for, and the reply that ends the wait, unless whoever waited has gone."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def reply(results: list[Any] | Exception) -> None:
        if future.done():
            return
        if isinstance(results, Exception):
            future.set_exception(results)
        else:
            future.set_result(results)

    return future, reply


class Mailbox:
    """Submissions waiting for one scene's sequencer.

    Bound:     `limit` commands (settings.mailbox_commands_max).
    When full: the newest is turned away; `put` returns False and the caller is told. What a turn puts back fits always.
    Order:     arrival.
    Senders:   many.  Receivers: one.  Thread-safe: no.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[Submission] = deque()
        self._commands = 0
        self._woken = asyncio.Event()

    def __len__(self) -> int:
        return self._commands

    @property
    def has_waiting(self) -> bool:
        """Say whether a submission waits, be it an empty one."""
        return bool(self._waiting)

    def put(self, submission: Submission) -> bool:
        """Let a submission wait; False when its commands do not fit. An empty mailbox takes one of any size."""
        if self._commands and self._commands + len(submission.commands) > self._limit:
            return False
        self._waiting.append(submission)
        self._commands += len(submission.commands)
        self._woken.set()
        return True

    def put_back(self, submissions: Sequence[Submission]) -> None:
        """Let submissions that were taken wait again, before all others, in order, whatever the bound says."""
        self._waiting.extendleft(reversed(submissions))
        self._commands += sum([submission.waiting for submission in submissions])
        self._woken.set()

    def take(self, commands_max: int) -> list[Submission]:
        """Take what waits, in order, up to about `commands_max` commands: whole submissions, at least one.

        The closing of a scene is the last of its turn, so that its entry can be forgotten whole.
        """
        taken: list[Submission] = []
        count = 0
        while self._waiting and (not taken or count + self._waiting[0].waiting <= commands_max):
            submission = self._waiting.popleft()
            count += submission.waiting
            taken.append(submission)
            if any(type(addressed.command) is CloseScene for addressed in submission.commands[-1:]):
                break
        self._commands -= count
        return taken

    def drain(self) -> list[Submission]:
        """Take everything."""
        taken = list(self._waiting)
        self._waiting.clear()
        self._commands = 0
        return taken

    async def wait(self) -> None:
        """Return when something waits, or when `wake` was called."""
        if not self._waiting:
            self._woken.clear()
            await self._woken.wait()

    def wake(self) -> None:
        """Let `wait` return although nothing waits."""
        self._woken.set()
