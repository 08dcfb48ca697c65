"""The guard before every route: paths whose identifiers could be mistaken for more of the path."""

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import ProblemError, problem_response


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
