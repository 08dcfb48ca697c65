"""A running posegate, through its client: what a replay asks, and what it tells a person when that fails."""

from typing import Any, TypeVar

import httpx
import msgspec
from msgspec import Struct

from posegate_client import AsyncPosegate, Limits, NotPosegate, PosegateError, Problem, ProblemError
from posegate_client.call import Call, Reply
from posegate_client.calls import character, ready, scene_path
from posegate_client.reading import read

T = TypeVar("T")

LIMITS = Limits(deadline_s=120.0, attempt_s=30.0)
"""How long one batch may take with all its attempts, and how long each: a replay is in no hurry, and then gives up."""

_REACH_ATTEMPTS_MAX = 2


class ServiceError(Exception):
    """The service cannot be reached, or answers what posegate never would. The text says what to do next."""


class _Answers(Struct):
    answers: list[dict[str, Any]]


_ADVICE: dict[int, str] = {
    httpx.codes.UNAUTHORIZED: " The API key that is sent is the one in --key or POSEGATE_KEY.",
    httpx.codes.FORBIDDEN: " A key of role server may play where the scene's name starts with one of its prefixes;"
    " --scene sets that name, and --key (POSEGATE_KEY) the key.",
}


class Service:
    """One posegate. Answers are as they stand on the wire, since that is what a report counts.

    Every command of a batch must carry a `key`: the client sends a batch again, as it is, after a lost connection and
    after a 503 or 429; what was decided the first time is then answered the same.
    """

    def __init__(self, posegate: AsyncPosegate, limits: Limits = LIMITS) -> None:
        self._posegate = posegate
        self._limits = limits
        self._calls = 0

    @property
    def requests(self) -> int:
        """How many requests were sent."""
        return self._posegate.attempts

    @property
    def retries(self) -> int:
        """How many of them were sent again."""
        return self._posegate.attempts - self._calls

    async def reach(self) -> None:
        """Return once the service says that it takes commands.

        Raises:
            ServiceError: Nothing answers there, or something that is not ready.
        """
        # As an answer, 503 would say why it is not ready; as a problem, it is asked for once more.
        call = ready()
        soon = msgspec.structs.replace(self._limits, attempts_max=_REACH_ATTEMPTS_MAX)
        await self._answered(Call(call.method, call.path, call.read), soon)

    async def batch(self, scene: str, commands: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Have commands decided in order; give their answers in the same order.

        Raises:
            ServiceError: The batch as a whole got no answer. Some of it may have been decided.
        """

        def read_answers(reply: Reply) -> list[dict[str, Any]]:
            answers = read(reply.content, _Answers).answers
            if len(answers) != len(commands):
                raise NotPosegate(f"{len(answers)} answers came to {len(commands)} commands")
            return answers

        body = msgspec.json.encode({"commands": commands})
        return await self._answered(
            Call("POST", scene_path(scene, "batch"), read_answers, body=body, left=_left, commands=commands)
        )

    async def character(self, scene: str, name: str) -> dict[str, Any]:
        """Give a character as the gates hold it."""
        call = character(scene, name)
        return await self._answered(Call(call.method, call.path, lambda reply: read(reply.content, dict[str, Any])))

    async def _answered(self, call: Call[T], limits: Limits | None = None) -> T:
        url = self._posegate.url
        self._calls += 1
        try:
            return await self._posegate.send(call, limits=limits or self._limits)
        except ProblemError as error:
            problem = error.problem
            if problem.retryable:
                raise ServiceError(f"{url} is there, and could not answer {call.path}: {_told(problem)}.") from error
            advice = _ADVICE.get(problem.status, "")
            raise ServiceError(
                f"{call.method} {url}{call.path} was answered with {problem.status}, {_told(problem)}.{advice}"
            ) from error
        except NotPosegate as error:
            raise ServiceError(f"{url} does not answer as posegate does ({error}); check --url") from error
        except PosegateError as error:
            raise ServiceError(
                f"{url}: {error}; is posegate running there? Start it with `posegate serve`, or leave --url away."
            ) from error


def _left(answers: list[dict[str, Any]]) -> Problem | None:
    """Give why nothing of a batch was decided, where that may change; else it has its answers."""
    problems = [answer["problem"] for answer in answers if isinstance(answer.get("problem"), dict)]
    if not answers or len(problems) < len(answers) or not all(each.get("retryable") is True for each in problems):
        return None
    return msgspec.convert(problems[0], Problem)


def _told(problem: Problem) -> str:
    return (problem.detail or problem.title)[:200].removesuffix(".")
