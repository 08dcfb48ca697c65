"""Many commands of one scene in one request: each decided on its own, in order, all in one turn."""

from typing import Any

import msgspec
from fastapi import APIRouter, Request
from msgspec import structs
from starlette.responses import Response

from app.api import decode
from app.api.answers import answer_of
from app.api.callers import Caller
from app.api.deps import members_of, scene_in, settings_of, submit
from app.api.envelope import addressed
from app.api.problems import ProblemError
from app.api.scene_contract import BATCH
from app.api.security import GuardedRoute, allowed, caller_in, security_of
from app.sequencing.mailbox import Addressed
from app.sequencing.pace import Pace
from app.settings import Settings

router = APIRouter(route_class=GuardedRoute, prefix="/v1/scenes/{scene}", tags=["commands"])

PACED = 64
"""After how many answers of a batch their rendering looks whether others should run."""

Place = Addressed | ProblemError
"""What stands at one place of a batch: a command to decide, or why it cannot be one."""


@router.post("/batch", openapi_extra=BATCH)
async def batch(request: Request) -> Response:
    """Decide many commands, each on its own; an answer stands where its command stood."""
    settings, scene = settings_of(request), scene_in(request)
    caller, body = caller_in(request), await members_of(request)
    asked = body.get("commands")
    if type(asked) is list and len(asked) > 1:
        # Those that turn out to be none, or forbidden, cost time too.
        security_of(request.scope).quota.take(caller, len(asked) - 1)
    places = await decoded(body, settings, caller)
    commands = [place for place in places if not isinstance(place, ProblemError)]
    results = iter(await submit(request, scene, commands))
    retry_after = settings.retry_after_s
    answers, pace = list[bytes](), Pace()
    for number, place in enumerate(places, 1):
        if number % PACED == 0 and pace.is_due:
            await pace.pause()
        if isinstance(place, ProblemError):
            answers.append(msgspec.json.encode({"problem": place.body(retry_after=retry_after)}))
        else:
            answers.append(answer_of(next(results), retry_after=retry_after))
    return Response(b'{"answers":[' + b",".join(answers) + b"]}", media_type="application/json")


async def decoded(body: dict[str, Any], settings: Settings, caller: Caller) -> list[Place]:
    """Give what stands at each place of a batch: a command that its caller may give, or why it is none.

    Raises:
        ProblemError: The body is no batch, or one of too many commands.
    """
    commands = body.pop("commands", None)
    if body:
        unknown = next(iter(body))
        raise decode.misfit(body, f"Object contains unknown field `{unknown}`", settings, at=unknown)
    if type(commands) is not list:
        raise decode.misfit(commands, "a batch is `commands`, a list", settings, at="commands")
    limit = settings.batch_commands_max
    if len(commands) > limit:
        raise ProblemError("too-large", f"the batch has {len(commands)} commands", at="commands", limit=limit)
    places, pace = list[Place](), Pace()
    numbers: list[int | None] = []
    decided = 0
    for index, item in enumerate(commands):
        if pace.is_due:
            await pace.pause()
        try:
            place = allowed(caller, addressed(item, settings, index=index))
            places.append(_renumbered(place, numbers) if place.references else place)
        except ProblemError as problem:
            # Without the frames it came through, which would all be kept as long as the batch is.
            places.append(problem.with_traceback(None))
            numbers.append(None)
        else:
            numbers.append(decided)
            decided += 1
    return places


def _renumbered(place: Addressed, numbers: list[int | None]) -> Addressed:
    """Let references count the commands that reach a gate, as their answers will be counted.

    Raises:
        ProblemError: A command that is referred to is none.
    """
    references: dict[str, int] = {}
    for field, index in place.references.items():
        number = numbers[index]
        if number is None:
            raise ProblemError("invalid", f"command {index}, which this one refers to, was not decided", at=field)
        references[field] = number
    return structs.replace(place, references=references)
