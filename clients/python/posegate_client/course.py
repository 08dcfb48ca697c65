"""The course of a call: when it is sent again, how long is waited before, and when that ends. It waits for nothing."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NoReturn, TypeVar

from posegate_client.call import Call, Reply
from posegate_client.limits import Limits
from posegate_client.problems import PosegateError, Problem, Unanswered, error_of

T = TypeVar("T")


@dataclass(frozen=True)
class Done(Generic[T]):
    """The call has its answer."""

    value: T


@dataclass(frozen=True)
class Again:
    """The call is to be sent once more, after a pause."""

    pause_s: float


class Pauses:
    """The pauses between attempts: what the service asks for, or twice the one before; jittered, and never above a cap.

    Each is drawn, so that many clients that lost one service do not come back at the same moment.
    """

    def __init__(self, limits: Limits, chance: Callable[[], float] = random.random) -> None:
        self._limits = limits
        self._chance = chance
        self._base_s = limits.pause_s_first

    def next(self, asked_s: float | None = None) -> float:
        """Give the pause before the next attempt, seconds; `asked_s` is what the service asked for."""
        base, cap = self._base_s, self._limits.pause_s_max
        self._base_s = min(base * 2, cap)
        pause = base * (0.5 + self._chance() / 2) if asked_s is None else asked_s + base * self._chance() / 2
        return min(pause, cap)

    def reset(self) -> None:
        """Begin anew: something went well."""
        self._base_s = self._limits.pause_s_first


class Course(Generic[T]):
    """One call on its way. Whoever sends it tells what came, and when; times are seconds of one steady clock."""

    def __init__(
        self, call: Call[T], limits: Limits, *, now: float, chance: Callable[[], float] = random.random
    ) -> None:
        self._call = call
        self._limits = limits
        self._until = now + limits.deadline_s
        self._pauses = Pauses(limits, chance)
        self._attempts = 0
        self._may_be_decided = False

    def attempt_s(self, now: float) -> float:
        """Begin an attempt; give how long it may take."""
        self._attempts += 1
        return max(min(self._limits.attempt_s, self._until - now), 0.001)

    def replied(self, reply: Reply, now: float) -> Done[T] | Again:
        """Take what came.

        Raises:
            ProblemError: No gate decided, and asking again would not help or has helped nothing.
            NotPosegate: What came is no answer of posegate.
        """
        value = self._call.value(reply)
        if isinstance(value, Problem):
            # What one attempt left unknown, the answer to the next one with the same key settles.
            is_settled = not value.may_be_decided
            is_welcome = value.retryable and (is_settled or self._call.is_repeatable)
            asked = value.retry_after if value.retry_after is not None else reply.after_s
            pause = self._pause(asked, now) if is_welcome else None
            if pause is None:
                raise error_of(value, self._call.commands)
            return Again(pause)
        left = self._call.left(value)
        pause = None if left is None else self._pause(left.retry_after, now)
        return Done(value) if pause is None else Again(pause)

    def lost(self, said: str, *, was_sent: bool, now: float, cause: Exception) -> Again:
        """Take that no answer came; `was_sent` when any of the request may have arrived.

        Raises:
            Unanswered: It is not sent again.
        """
        is_read = self._call.commands is None and self._call.is_repeatable
        self._may_be_decided |= was_sent and not is_read
        pause = None if was_sent and not self._call.is_repeatable else self._pause(None, now)
        if pause is None:
            self._give_up(said, cause)
        return Again(pause)

    def _give_up(self, said: str, cause: PosegateError | Exception) -> NoReturn:
        times = "once" if self._attempts == 1 else f"{self._attempts} times"
        detail = f"{self._call.method} {self._call.path}: no answer ({said}), asked {times}"
        raise Unanswered(detail, may_be_decided=self._may_be_decided, command=self._call.commands) from cause

    def _pause(self, asked_s: float | None, now: float) -> float | None:
        """Give the pause before the next attempt; None when there is to be none."""
        if self._attempts >= self._limits.attempts_max:
            return None
        pause = self._pauses.next(asked_s)
        return pause if now + pause < self._until else None
