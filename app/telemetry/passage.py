"""The passage: which request is being answered here, for whoever logs meanwhile."""

from contextvars import ContextVar, Token

from starlette.types import Scope

FAILED = 500
"""The lowest status of an answer that is a failure of the service, and that of a fault."""


class Passage:
    """One request on its way through: what its log lines and its answer say of it.

    `id` is 1 to 128 visible ASCII characters; `trace_id` is the trace that its caller named, or None. `status` is what
    a failure before the answer becomes, until an answer begins; `problem` names the problem it was answered with.
    """

    __slots__ = ("id", "problem", "status", "trace_id")

    def __init__(self, id: bytes, trace_id: str | None) -> None:  # noqa: A002  # there is no better word for it
        self.id = id
        self.trace_id = trace_id
        self.status = FAILED
        self.problem: str | None = None


_present: ContextVar[Passage | None] = ContextVar("posegate_passage", default=None)


def entered(passage: Passage) -> Token[Passage | None]:
    """Say that a request is being answered in this context, until `left` gets the token."""
    return _present.set(passage)


def left(token: Token[Passage | None]) -> None:
    """Say that it no longer is."""
    _present.reset(token)


def present() -> Passage | None:
    """Give the request that is being answered here; None outside of one."""
    return _present.get()


def note_problem(name: str) -> None:
    """Note that the request being answered here, if one is, is answered with a problem."""
    passage = _present.get()
    if passage is not None:
        passage.problem = name


def request_id(scope: Scope) -> str | None:
    """Give the id of a scope's request, after its passage too; None for one that has none."""
    passage = scope.get("posegate.passage")
    return passage.id.decode("ascii") if isinstance(passage, Passage) else None
