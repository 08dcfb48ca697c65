"""A call: one HTTP request and how its answer is read, as a value, so that who sends it need know nothing of either."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from posegate_client.problems import NotPosegate, Problem
from posegate_client.reading import read

T = TypeVar("T")

MEDIA_TYPE = "application/problem+json"

LATER = frozenset({429, 502, 503, 504})
"""Statuses that say to come again, where something in between answers for the service and says no more."""

DETAIL_LENGTH_MAX = 200


@dataclass(frozen=True)
class Reply:
    """What came back, whole. Names of headers are lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def problem(self) -> Problem:
        """Read it as a problem; what is none becomes one that says as much."""
        if self.headers.get("content-type", "").partition(";")[0] == MEDIA_TYPE:
            return read(self.content, Problem)
        detail = self.content[:DETAIL_LENGTH_MAX].decode("utf-8", "replace").strip() or "without a body"
        return Problem("about:blank", f"Status {self.status}", self.status, detail, self.status in LATER)

    @property
    def after_s(self) -> float | None:
        """The seconds that `Retry-After` names; None for a date, and where there is none."""
        said = self.headers.get("retry-after", "")
        return float(said) if said.isascii() and said.isdigit() else None


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request. Paths are whole, queries without values are not sent.

    `is_repeatable` says that it does no harm to send it twice: it reads, or all its commands have keys. `also` lists
    statuses from 300 on that are answers. `left` says of an answer that as a whole it is none yet: the problem why.
    """

    method: str
    path: str
    read: Callable[[Reply], T | Problem]
    queries: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    is_repeatable: bool = True
    also: frozenset[int] = frozenset()
    left: Callable[[T], Problem | None] = lambda value: None
    commands: Any = None

    def sent_queries(self) -> dict[str, str]:
        """Give the queries as they are sent."""
        given = {name: value for name, value in self.queries.items() if value is not None}
        return {name: str(value).lower() if type(value) is bool else str(value) for name, value in given.items()}

    def sent_headers(self) -> dict[str, str]:
        """Give the headers as they are sent."""
        return dict(self.headers) if self.body is None else {"Content-Type": "application/json", **self.headers}

    def value(self, reply: Reply) -> T | Problem:
        """Give the answer, or the problem that came in its place.

        Raises:
            NotPosegate: It is neither.
        """
        if 200 <= reply.status < 300 or reply.status in self.also:
            return self.read(reply)
        if reply.status < 400:
            raise NotPosegate(f"{self.method} {self.path} was answered with {reply.status}, which posegate never does")
        return reply.problem()
