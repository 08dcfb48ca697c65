"""Guards before every route: against paths that could be mistaken for others, and queries that nobody reads."""

from collections.abc import Iterable, Set

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import ProblemError, problem_response


def require_known_queries(given: Iterable[str], known: Set[str]) -> None:
    """See that every name in a query is one that the route reads: a misspelt filter would give everything.

    Raises:
        ProblemError: `invalid`.
    """
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        taken = ", ".join(sorted(known)) or "nothing"
        raise ProblemError("invalid", f"the query takes {taken}", at=unknown[:128])


class PathGuard:
    """Refuses a percent-encoded slash as `invalid`: decoded, it would name another resource than the one asked for.

    Source: contract, section 2: identifiers take no percent-encoded slashes.
    """

    def __init__(self, app: ASGIApp, *, retry_after: int) -> None:
        self._app = app
        self._retry_after = retry_after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or answer that its path cannot be one."""
        if scope["type"] == "http" and b"%2f" in scope.get("raw_path", b"").lower():
            problem = ProblemError("invalid", "a path takes no percent-encoded slash", at="path")
            await problem_response(problem, retry_after=self._retry_after)(scope, receive, send)
            return
        await self._app(scope, receive, send)
