"""Many commands of one scene in one request: each decided on its own, in order, all in one turn."""

from typing import Any

import msgspec
from fastapi import APIRouter, Request
from msgspec import structs
from starlette.responses import Response

from app.api import decode, plain
from app.api.answers import answer_in_steps, answer_of
from app.api.callers import Caller
from app.api.deps import body_of, format_of, scene_in, settings_of, submit
from app.api.envelope import addressed_in_steps
from app.api.formats import FORMATS, JSON, Format
from app.api.problems import ProblemError
from app.api.quota import Quota
from app.api.reading import parse_in_steps
from app.api.scene_contract import BATCH
from app.api.security import GuardedRoute, allowed, caller_in, security_of
from app.gates.tick import Tick
from app.sequencing.mailbox import Addressed, Decided, Result
from app.sequencing.pace import Pace
from app.settings import Settings

router = APIRouter(route_class=GuardedRoute, prefix="/v1/scenes/{scene}", tags=["commands"])

PACED = 64
"""After how many commands or answers of a batch it is looked whether others should run."""

Place = Addressed | ProblemError
"""What stands at one place of a batch: a command to decide, or why it cannot be one."""


@router.post("/batch", openapi_extra=BATCH)
async def batch(request: Request) -> Response:
    """Decide many commands, each on its own; an answer stands where its command stood."""
    settings, scene, caller = settings_of(request), scene_in(request), caller_in(request)
    sent = format_of(request, FORMATS)
    places = await places_of(await body_of(request), sent, settings, caller, security_of(request.scope).quota)
    commands = [place for place in places if type(place) is Addressed]
    results = await submit(request, scene, commands)
    return Response(await rendered(places, results, sent, settings), media_type=sent.media_type)


async def places_of(body: bytes, sent: Format, settings: Settings, caller: Caller, quota: Quota) -> list[Place]:
    """Give what stands at each place of a batch: a command that its caller may give, or why it is none.

    Every command behind the first is counted for its caller, those that turn out to be none, or forbidden, too.

    Raises:
        ProblemError: The body is no batch, or one of too many commands; or the caller asks too much.
    """
    wires = sent.wires(body, settings)
    if wires is not None and 0 < len(wires) <= settings.batch_commands_max:
        quota.take(caller, len(wires) - 1)
        places = await _plain_places(wires, settings, caller)
        if places is not None:
            return places
        return await decoded(decode.members(await _parsed(body, sent, settings), settings), settings, caller)
    members = decode.members(await _parsed(body, sent, settings), settings)
    asked = members.get("commands")
    if type(asked) is list and len(asked) > 1:
        quota.take(caller, len(asked) - 1)
    return await decoded(members, settings, caller)


async def _parsed(body: bytes, sent: Format, settings: Settings) -> Any:
    """Read the values of a body; of JSON, others run in between."""
    return await Pace().through(parse_in_steps(body, settings)) if sent is JSON else sent.parse(body, settings)


async def _plain_places(wires: list[plain.Wire], settings: Settings, caller: Caller) -> list[Place] | None:
    """Give the commands of a batch in which nothing is out of the ordinary; None for any other."""
    places, pace = list[Place](), Pace()
    for number, wire in enumerate(wires, 1):
        if number % PACED == 0 and pace.is_due:
            await pace.pause()
        place = plain.addressed(wire, settings)
        if place is None:
            return None
        try:
            places.append(allowed(caller, place))
        except ProblemError as problem:
            places.append(problem.with_traceback(None))
    return places


async def rendered(places: list[Place], results: list[Result], sent: Format, settings: Settings) -> bytes:
    """Give the answer of a batch: what stood at each place, answered there."""
    retry_after, following = settings.retry_after_s, iter(results)
    answers, pace = list[bytes](), Pace()
    for number, place in enumerate(places, 1):
        if number % PACED == 0 and pace.is_due:
            await pace.pause()
        if type(place) is Addressed:
            result = next(following)
            if type(result) is Decided and type(result.record.command) is Tick:
                answers.append(await pace.through(answer_in_steps(result.sequence, result.record)))
            else:
                answers.append(answer_of(result, retry_after=retry_after))
        else:
            assert isinstance(place, ProblemError)
            answers.append(msgspec.json.encode({"problem": place.body(retry_after=retry_after)}))
    return sent.of_json(b'{"answers":[' + b",".join(answers) + b"]}")


async def decoded(body: dict[str, Any], settings: Settings, caller: Caller) -> list[Place]:
    """Read closely what stands at each place of a batch.

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
            place = allowed(caller, await pace.through(addressed_in_steps(item, settings, index=index)))
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
