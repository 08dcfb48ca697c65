"""A running posegate, over HTTP: what a client asks, and how it asks again when that is safe."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx
import msgspec
from msgspec import Struct

ATTEMPTS_MAX = 8
"""How often one request is sent before the replay gives up."""

WAIT_S_MAX = 5.0
"""The longest pause before a request is sent again, whatever `Retry-After` says."""

TIMEOUT_S_MAX = 30.0
"""The longest wait for one answer."""

_REACH_ATTEMPTS_MAX = 2

AnswerT = TypeVar("AnswerT")


class ServiceError(Exception):
    """The service cannot be reached, or answers what posegate never would. The text says what to do next."""


class BatchAnswer(Struct):
    """The answer to a batch: one object a command, in order."""

    answers: list[dict[str, Any]]


_ADVICE: dict[int, str] = {
    httpx.codes.UNAUTHORIZED: " The API key that is sent is the one in --key or POSEGATE_KEY.",
    httpx.codes.FORBIDDEN: " A key of role server may play where the scene's name starts with one of its prefixes;"
    " --scene sets that name, and --key (POSEGATE_KEY) the key.",
}

_LATER = (httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.TOO_MANY_REQUESTS)


class Service:
    """One posegate at a base URL.

    Every command of a batch must carry a `key`: a batch is sent again, as it is, after a lost connection and after a
    503 or 429, at most `ATTEMPTS_MAX` times; what was decided the first time is then answered the same.
    """

    def __init__(self, client: httpx.AsyncClient, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._client = client
        self._pause = pause
        self.requests = 0
        self.retries = 0

    async def reach(self) -> None:
        """Return once the service says that it takes commands.

        Raises:
            ServiceError: Nothing answers there, or something that is not ready.
        """
        await self._answered("GET", "/readyz", attempts_max=_REACH_ATTEMPTS_MAX)

    async def batch(self, scene: str, commands: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Have commands decided in order; give their answers in the same order.

        Raises:
            ServiceError: The batch as a whole got no answer. Some of it may have been decided.
        """
        body = msgspec.json.encode({"commands": commands})
        path = f"/v1/scenes/{scene}/batch"
        for attempt in range(1, ATTEMPTS_MAX + 1):
            response = await self._answered("POST", path, body)
            answers = self._typed(response, BatchAnswer).answers
            if len(answers) != len(commands):
                raise ServiceError(f"{self._client.base_url} gave {len(answers)} answers to {len(commands)} commands")
            if attempt == ATTEMPTS_MAX or not all(_may_succeed_later(answer) for answer in answers):
                break
            self.retries += 1
            await self._pause(_wait_s(answers[0]["problem"].get("retry_after"), attempt))
        return answers

    async def character(self, scene: str, character: str) -> dict[str, Any]:
        """Give a character as the gates hold it."""
        response = await self._answered("GET", f"/v1/scenes/{scene}/characters/{character}")
        return self._typed(response, dict[str, Any])

    async def _answered(
        self, method: str, path: str, body: bytes | None = None, *, attempts_max: int = ATTEMPTS_MAX
    ) -> httpx.Response:
        """Send a request until it is answered with something else than 503 or 429: those say to come again."""
        headers = {} if body is None else {"Content-Type": "application/json"}
        said = ""
        for attempt in range(1, attempts_max + 1):
            self.requests += 1
            after: object = None
            try:
                response = await self._client.request(method, path, content=body, headers=headers)
            except httpx.TransportError as error:
                said = f"no answer ({str(error) or type(error).__name__})"
            else:
                if response.status_code not in _LATER:
                    return self._checked(response)
                said = f"{response.status_code}, {_told(response)}"
                after = response.headers.get("Retry-After")
            if attempt < attempts_max:
                self.retries += 1
                await self._pause(_wait_s(after, attempt))
        raise ServiceError(
            f"{self._client.base_url}: {said}, {attempts_max} times; is posegate running there? "
            "Start it with `posegate serve`, or leave --url away."
        )

    def _checked(self, response: httpx.Response) -> httpx.Response:
        if response.is_success:
            return response
        where = f"{response.request.method} {response.request.url}"
        said = f"{where} was answered with {response.status_code}, {_told(response).removesuffix('.')}."
        raise ServiceError(f"{said}{_ADVICE.get(response.status_code, '')}")

    def _typed(self, response: httpx.Response, kind: type[AnswerT]) -> AnswerT:
        try:
            return msgspec.json.decode(response.content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ServiceError(
                f"{self._client.base_url} does not answer as posegate does ({error}); check --url"
            ) from error


def _may_succeed_later(answer: dict[str, Any]) -> bool:
    problem = answer.get("problem")
    return isinstance(problem, dict) and problem.get("retryable") is True


def _wait_s(after: object, attempt: int) -> float:
    """Give the pause before the next attempt: what the service asked for, or twice the pause before, bounded."""
    try:
        wait = float(str(after))
    except ValueError:
        wait = 0.05 * 2.0**attempt
    return min(max(wait, 0.0), WAIT_S_MAX)


def _told(response: httpx.Response) -> str:
    """Give what a problem says, or the start of whatever came in its place."""
    try:
        problem = msgspec.json.decode(response.content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return response.text[:80].strip() or "without a body"
    return str(problem.get("detail") or problem.get("title") or problem)[:200]
