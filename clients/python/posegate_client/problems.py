"""Problems: what is answered to what no gate decided, and what this client raises."""

from typing import Any

from msgspec import Struct


class Problem(Struct, frozen=True, omit_defaults=True):
    """Why no gate decided (RFC 9457). A value; as the answer to one command it is raised as a `ProblemError`.

    `retryable` says whether the same request may succeed later, `retry_after` in how many seconds; `at` is the field
    at fault, `limit` the largest that is taken.
    """

    type: str
    title: str
    status: int
    detail: str = ""
    retryable: bool = False
    at: str | None = None
    limit: int | None = None
    retry_after: float | None = None

    @property
    def name(self) -> str:
        """The problem's name, as `unknown-scene`: the end of its type."""
        return self.type.rpartition("/")[2]

    @property
    def may_be_decided(self) -> bool:
        """Say whether a command that got this may have been decided all the same; the same key then settles it."""
        return self.name in ("commit-unknown", "internal-error") or self.status in (502, 504)


class PosegateError(Exception):
    """Whatever this client raises. A refusal is never raised: it is an answer."""


class ProblemError(PosegateError):
    """No gate decided. `problem` says why. Nothing was changed, unless `may_be_decided`.

    `command` is the command as it was sent, with its key; None where the call was none.
    """

    def __init__(self, problem: Problem, command: Any = None) -> None:
        place = "" if problem.at is None else f" (at {problem.at})"
        super().__init__(f"{problem.status} {problem.name}: {problem.detail or problem.title}{place}")
        self.problem = problem
        self.command = command

    @property
    def may_be_decided(self) -> bool:
        """Say whether it may have been decided all the same: ask `command` again, its key settles it."""
        return self.problem.may_be_decided


class Unauthenticated(ProblemError):
    """401: the key or session token is none, or no longer in force."""


class Forbidden(ProblemError):
    """403: the key or session may not do this."""


class NotThere(ProblemError):
    """404: no such scene, character, rig or tick."""


class Conflicting(ProblemError):
    """409: what is there was declared or spawned otherwise."""


class Invalid(ProblemError):
    """400, 405, 413 to 415, 422, 431: the request does not fit, and will not later."""


class Unavailable(ProblemError):
    """The service could not, then: busy, stopping, over a quota, or without its journal; asked until the bounds."""


class Unanswered(PosegateError):
    """No answer came: nobody there, the connection was lost, or the deadline passed.

    `may_be_decided` is False where nothing was sent. Else ask `command` again: it has its key, so it is decided once.
    """

    def __init__(self, detail: str, *, may_be_decided: bool, command: Any = None) -> None:
        super().__init__(detail)
        self.may_be_decided = may_be_decided
        self.command = command


class NotPosegate(PosegateError):
    """What answered does not speak as posegate does, or says more than the bounds take."""


class ChannelEnded(PosegateError):
    """The channel is over, and another connection would not help: `code` and `reason` say why."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the channel was closed with {code}: {reason or 'no reason given'}")
        self.code = code
        self.reason = reason


_BY_STATUS: dict[int, type[ProblemError]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotThere,
    409: Conflicting,
}


def error_of(problem: Problem, command: Any = None) -> ProblemError:
    """Give the exception for a problem."""
    kind = _BY_STATUS.get(problem.status, Invalid if problem.status < 500 else Unavailable)
    return (Unavailable if problem.retryable else kind)(problem, command)
