"""Watching: what a watch knows between its connections, and what it does next; waiting and sending are others'."""

import random
from collections import deque
from collections.abc import Callable

from posegate_client.call import Reply
from posegate_client.calls import scene_path
from posegate_client.course import Pauses
from posegate_client.feed import FeedItem, Place, Wanted, given_by, queries_of
from posegate_client.limits import Limits
from posegate_client.problems import NotPosegate, Unanswered, error_of
from posegate_client.sse import EventStream


class Watching:
    """One watch of a scene. Whoever drives it tells what came, and when; times are seconds of one steady clock.

    Bound: the items of one piece of the stream are held, and at most one event that is not whole.
    """

    def __init__(
        self,
        limits: Limits,
        scene: str,
        wanted: Wanted,
        after: int | None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.place = Place(after)
        self.given = after
        self.path = scene_path(scene, "watch")
        self.items: deque[FeedItem] = deque()
        self._limits = limits
        self._wanted = wanted
        self._pauses = Pauses(limits, chance)
        self._lost_at: float | None = None
        self._stream = EventStream(event_bytes_max=limits.event_bytes_max)

    @property
    def needs_place(self) -> bool:
        """Say whether the present sequence must be asked for first: `from now on` must stay the same now, once lost."""
        return self.place.after is None and not self._wanted.snapshot

    def queries(self) -> dict[str, str]:
        """Begin a connection; give what it asks."""
        self._stream = EventStream(event_bytes_max=self._limits.event_bytes_max)
        return queries_of(self._wanted, self.place)

    def opened(self, reply: Reply, now: float) -> float | None:
        """Take the head of an answer, with its content unless it is a stream; give a pause, or None to read on.

        Raises:
            ProblemError: It may not be watched.
            NotPosegate: What came is no stream of events.
            Unanswered: It was tried for too long.
        """
        if reply.status == 200 and reply.headers.get("content-type", "").startswith("text/event-stream"):
            return None
        if reply.status < 400:
            raise NotPosegate(f"GET {self.path} was answered with {reply.status}, and not with events")
        problem = reply.problem()
        if not problem.retryable:
            raise error_of(problem)
        after = problem.retry_after if problem.retry_after is not None else reply.after_s
        return self._pause(problem.detail or problem.title, after, now)

    def came(self, chunk: bytes) -> None:
        """Take a piece of the stream.

        Raises:
            ProblemError: The service ended it, and it may not be watched any more.
            NotPosegate: It is none.
        """
        self._lost_at = None
        self._pauses.reset()
        for message in self._stream.taken(chunk):
            self.items.extend(self.place.taken(message))

    def take(self) -> FeedItem:
        """Give the next item there is; everything up to its end is then `given`."""
        item = self.items.popleft()
        self.given = given_by(item, self.given)
        return item

    def lost(self, said: str, now: float) -> float:
        """Take that the connection ended; give the pause before the next.

        Raises:
            Unanswered: It was tried for too long.
        """
        asked, self.place.pause_s = self.place.pause_s, None
        return self._pause(said, asked, now)

    def _pause(self, said: str, asked_s: float | None, now: float) -> float:
        if self._lost_at is None:
            self._lost_at = now
        if now - self._lost_at > self._limits.resume_s_max:
            detail = f"GET {self.path}: not there again after {self._limits.resume_s_max:g} s ({said})"
            raise Unanswered(detail, may_be_decided=False)
        return self._pauses.next(asked_s)
