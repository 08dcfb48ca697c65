"""The exchange: what a channel asked and was told, over all of its connections; sending and waiting are others'."""

from collections import deque
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from posegate_client.answers import Applied, Queued, TickAnswer
from posegate_client.command import Command
from posegate_client.feed import FeedItem, Place, Reset, SceneSnapshot, Wanted, given_by
from posegate_client.limits import Limits
from posegate_client.problems import PosegateError, Problem, Unanswered, error_of
from posegate_client.reading import answer_of, applied_of, read

T = TypeVar("T")

_Present = Raw | UnsetType
_RequestKey = tuple[int, str, int]


class AppliedRequests(Struct, frozen=True):
    """Answers to requests that this channel queued: their tick was sealed, by whoever. Again behind a rollback."""

    rows: tuple[Applied, ...]


class Missed(Struct, frozen=True):
    """Answers of requests of these ticks found no room in the feed: `tick_answers` gives them again."""

    ticks: tuple[int, ...]


ChannelItem = FeedItem | AppliedRequests | Missed


class _Incoming(Struct, frozen=True):
    id: int | None = None
    answer: _Present = UNSET
    problem: _Present = UNSET
    applied: _Present = UNSET
    decisions: _Present = UNSET
    last: int | None = None
    snapshot: _Present = UNSET
    reset: _Present = UNSET
    end: _Present = UNSET
    watching: _Present = UNSET


class _Watching(Struct, frozen=True):
    after: int


class Asked(Generic[T]):
    """One command on its way: `answer` is None until it has one, or `error` says why there will be none."""

    __slots__ = ("answer", "command", "error", "is_abandoned", "was_sent")

    def __init__(self, command: Command[T]) -> None:
        self.command = command
        self.answer: T | Problem | None = None
        self.error: PosegateError | None = None
        self.is_abandoned = False
        self.was_sent = False

    @property
    def is_done(self) -> bool:
        """Say whether there is nothing more to wait for."""
        return self.answer is not None or self.error is not None


class Exchange:
    """One channel's words.

    Bound:     `under_way_max` commands without an answer (`is_full` says so, and who asks must wait); `feed_items_max`
               items of the feed, as many answers of requests, and as many ticks whose requests wait to be applied.
    When full: the feed is left, and asked for again behind what was taken; answers of requests are told as `Missed`.
    Order:     commands are sent in the order they were asked, and again in that order on the next connection.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._numbers = 0
        self._unanswered: dict[int, Asked[Any]] = {}
        self._unsent: deque[tuple[int, bytes]] = deque()
        self._waiting: dict[int, set[_RequestKey]] = {}
        self._feed: deque[FeedItem | AppliedRequests] = deque()
        self._applied = 0
        self._missed: set[int] = set()
        self._wanted: Wanted | None = None
        self._place = Place()
        self._watch_number = 0
        self._is_fed = self._is_left = False
        self._feed_error: PosegateError | None = None
        self.given: int | None = None
        self.must_reconnect = False

    # What is asked.

    @property
    def is_full(self) -> bool:
        """Say whether as many commands are under way as may be."""
        return len(self._unanswered) >= self._limits.under_way_max

    def ask(self, command: Command[T]) -> Asked[T]:
        """Ask a command, with its key or a new one."""
        asked = Asked(command.keyed())
        self._unanswered[self._queue(asked.command.members())] = asked
        return asked

    def watch(self, wanted: Wanted, after: int | None) -> None:
        """Ask for the feed, in place of what was watched before."""
        self._wanted, self._place, self.given = wanted, Place(after), after
        self._feed_error = None
        self._feed = deque(item for item in self._feed if isinstance(item, AppliedRequests))
        self._watch()

    def unwatch(self) -> None:
        """Ask for no feed any more. What came is still given."""
        if self._wanted is not None:
            self._leave()
        self._wanted, self._is_left = None, False

    def _watch(self) -> None:
        assert self._wanted is not None
        self._is_fed = self._is_left = False
        self._watch_number = self._queue({"watch": self._wanted.members(self._place.after)})

    def _leave(self) -> None:
        """Stop the feed: what still comes of it is not taken."""
        self._is_fed = False
        self._watch_number = 0
        self._queue({"unwatch": True})

    def _queue(self, members: dict[str, Any]) -> int:
        self._numbers += 1
        self._unsent.append((self._numbers, msgspec.json.encode({"id": self._numbers, **members})))
        return self._numbers

    def next_unsent(self) -> str | None:
        """Give the next message that the present connection has not sent; None when there is none."""
        if not self._unsent:
            return None
        number, text = self._unsent.popleft()
        asked = self._unanswered.get(number)
        if asked is not None:
            asked.was_sent = True
        return text.decode()

    def abandon(self, asked: Asked[Any]) -> None:
        """Let go of a command that nobody waits for any more. It was sent, and may be decided."""
        asked.is_abandoned = True

    def resumed(self) -> None:
        """Begin on a new connection: ask again, in order and with the same keys, what has no answer, and the feed.

        What waits for its tick is not: it was answered, and its key may be forgotten by now. It is told as `Missed`.
        """
        unanswered = [asked for asked in self._unanswered.values() if not asked.is_abandoned]
        self._missed |= self._waiting.keys()
        self._unanswered, self._waiting = {}, {}
        self._unsent.clear()
        self.must_reconnect = False
        if self._wanted is not None and not self._place.is_over and not self._is_left:
            self._watch()
        for asked in unanswered:
            self._unanswered[self._queue(asked.command.members())] = asked

    def fail(self, error: PosegateError) -> list[Asked[Any]]:
        """End it: give what has no answer and will get none."""
        failed, self._unanswered = list(self._unanswered.values()), {}
        self._feed_error = self._feed_error or error
        self._unsent.clear()
        return failed

    def close(self) -> None:
        """Let the feed end behind what came."""
        self._wanted, self._feed_error, self._waiting = None, None, {}

    # What is told.

    def received(self, data: str | bytes) -> None:
        """Take one message. Those that a newer service adds say nothing.

        Raises:
            NotPosegate: It is none of posegate's.
        """
        message = read(data.encode() if isinstance(data, str) else data, _Incoming)
        if message.answer is not UNSET or message.problem is not UNSET:
            self._answered(message)
        elif message.applied is not UNSET:
            self._reminded(message.applied)
        elif message.watching is not UNSET:
            if message.id == self._watch_number:
                self._is_fed = True
                self._place.reached(read(message.watching, _Watching).after if not self._shows_scene else None)
        elif self._is_fed:
            self._fed(message)

    @property
    def _shows_scene(self) -> bool:
        """Say whether the feed begins with the scene: then the place is that of its last part, not the one before."""
        return self._wanted is not None and self._wanted.snapshot and self._place.after is None

    def _answered(self, message: _Incoming) -> None:
        problem = None if message.problem is UNSET else read(message.problem, Problem)
        if message.id is not None and message.id == self._watch_number:
            if problem is not None:
                self._unfed(problem)
            return
        asked = self._unanswered.pop(message.id, None) if message.id is not None else None
        if asked is None:
            return
        if problem is None:
            assert message.answer is not UNSET
            asked.answer = answer_of(message.answer)
            self._remember(asked)
        else:
            asked.answer = problem

    def _unfed(self, problem: Problem) -> None:
        """Take that there is no feed: for now, or for good."""
        self._is_fed = False
        if not problem.retryable:
            self._wanted, self._feed_error = None, error_of(problem)
        elif problem.name != "draining":
            # Of a service that stops, the connection ends by itself, behind what is still answered.
            self.must_reconnect = True

    def _fed(self, message: _Incoming) -> None:
        place = self._place
        if message.decisions is not UNSET:
            if self._has_room():
                self._feed.extend(place.decided(b'{"decisions":' + bytes(message.decisions) + b"}", message.last))
        elif message.snapshot is not UNSET:
            if self._has_room():
                self._feed.extend(place.shown(message.snapshot, SceneSnapshot))
        elif message.reset is not UNSET:
            if self._has_room():
                self._feed.extend(place.shown(message.reset, Reset))
        elif message.end is not UNSET:
            end = read(message.end, _End)
            if end.problem is None:
                self._feed.extend(place.ended(message.end))
                self._wanted, self._is_fed = None, False
            else:
                self._unfed(end.problem)
        else:
            place.reached(message.last)

    def _has_room(self) -> bool:
        """Say whether an item may come in; else leave the feed, to be asked for again when there is room."""
        if len(self._feed) - self._applied < self._limits.feed_items_max:
            return True
        self._leave()
        self._is_left = True
        return False

    # What is given.

    def has_item(self) -> bool:
        """Say whether there is an item of the feed, or a reason why there will be none."""
        return bool(self._feed or self._missed) or self._feed_error is not None or self.is_over

    @property
    def is_over(self) -> bool:
        """Say whether nothing more can come: nothing is watched, and no request waits for its tick."""
        return self._wanted is None and not self._waiting and not self._feed and not self._missed

    def take(self) -> ChannelItem | None:
        """Give the next item; None when nothing more can come.

        Raises:
            PosegateError: The feed ended, and not because the scene was closed. It is raised once.
        """
        if self._feed:
            item = self._feed.popleft()
            if isinstance(item, AppliedRequests):
                self._applied -= 1
            else:
                self.given = given_by(item, self.given)
            if self._is_left and self._wanted is not None and not self._feed:
                self._watch()
            return item
        if self._missed:
            missed, self._missed = tuple(sorted(self._missed)), set()
            return Missed(missed)
        error, self._feed_error = self._feed_error, None
        if error is not None:
            raise error
        return None

    # Requests that wait for their ticks.

    def _remember(self, asked: Asked[Any]) -> None:
        """Take note of requests that were queued: their answers are still to be told."""
        answer, requests = asked.answer, asked.command.fields.get("requests")
        if not isinstance(answer, TickAnswer) or answer.requests is None or not requests:
            return
        for request, part in zip(requests, answer.requests, strict=False):
            if isinstance(part, Queued):
                known = (request["tick"], request["source"], request["number"])
                self._waiting.setdefault(request["tick"], set()).add(known)
        while len(self._waiting) > self._limits.feed_items_max:
            earliest = min(self._waiting)
            del self._waiting[earliest]
            self._missed.add(earliest)

    def _reminded(self, rows: Raw) -> None:
        """Take answers of requests."""
        told = tuple(applied_of(row) for row in read(rows, list[Raw]))
        for row in told:
            waiting = self._waiting.get(row.tick, set())
            waiting.discard((row.tick, row.source, row.number))
            if not waiting:
                self._waiting.pop(row.tick, None)
        if self._applied < self._limits.feed_items_max:
            self._applied += 1
            self._feed.append(AppliedRequests(told))
        else:
            self._missed |= {row.tick for row in told}


class _End(Struct, frozen=True):
    problem: Problem | None = None


def failed_by(error: PosegateError, asked: Asked[Any]) -> PosegateError:
    """Give what one command's caller hears of a channel that ended."""
    if isinstance(error, Unanswered):
        return Unanswered(str(error), may_be_decided=asked.was_sent, command=asked.command)
    return error


def answer_in(asked: Asked[T]) -> T | Problem:
    """Give the answer of a command that is done, or the problem in its place.

    Raises:
        PosegateError: There is none.
    """
    if asked.error is not None:
        raise asked.error
    assert asked.answer is not None, "whoever waits until it is done has an answer"
    return asked.answer


def value_in(asked: Asked[T]) -> T:
    """Give the answer of a command that is done.

    Raises:
        PosegateError: There is none, or a problem.
    """
    answer = answer_in(asked)
    if isinstance(answer, Problem):
        raise error_of(answer, asked.command)
    return answer
