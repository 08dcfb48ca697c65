"""What is decided for a scene as a whole: bundles and ticks, and the answers of sealed requests, read again."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from app.api import decode
from app.api.answers import answer_in_steps, applied_rows_in_steps, decided
from app.api.deps import OpenedDep, json_of, key_of, scene_in, settings_of, submit
from app.api.envelope import of_scene_in_steps
from app.api.plain import tick_of_json
from app.api.problems import ProblemError
from app.api.reading import parse_in_steps
from app.api.scene_contract import ANSWERS, BUNDLE, TICK
from app.api.security import GuardedRoute, allowed, caller_in
from app.gates.bundle import Bundle
from app.gates.identity import NUMBER_MAX
from app.gates.tick import Tick, TickAnswers
from app.sequencing.mailbox import Addressed
from app.sequencing.pace import Pace
from app.settings import Settings

router = APIRouter(route_class=GuardedRoute, prefix="/v1/scenes/{scene}", tags=["scenes"])


@router.post("/bundle", openapi_extra=BUNDLE)
async def bundle(request: Request) -> Response:
    """Decide commands over several characters as one: all are accepted, or nothing is applied."""
    scene, key = scene_in(request), key_of(request)
    command = await _read("bundle", await json_of(request), settings_of(request))
    return await _decided(request, scene, Addressed(None, command, key))


@router.post("/tick", openapi_extra=TICK)
async def tick(request: Request) -> Response:
    """Roll back, hold requests, seal and confirm, in this order, as one decision."""
    scene, key, settings = scene_in(request), key_of(request), settings_of(request)
    body = await json_of(request)
    command: Tick | Bundle | None = tick_of_json(body, settings)
    if command is None:
        command = await _read("tick", body, settings)
    return await _decided(request, scene, Addressed(None, command, key))


async def _read(name: str, body: bytes, settings: Settings) -> Bundle | Tick:
    """Read a bundle or a tick closely, others run in between."""
    pace = Pace()
    fields = decode.members(await pace.through(parse_in_steps(body, settings)), settings)
    return await pace.through(of_scene_in_steps(name, fields, settings))


async def _decided(request: Request, scene: str, given: Addressed) -> Response:
    [result] = await submit(request, scene, [allowed(caller_in(request), given)])
    done = decided(result)
    answer = await Pace().through(answer_in_steps(done.sequence, done.record))
    return Response(answer, media_type="application/json")


@router.get("/ticks/{tick}/answers", openapi_extra=ANSWERS)
async def answers(
    opened: OpenedDep,
    tick: Annotated[int, Path(ge=0, le=NUMBER_MAX)],
    source: Annotated[str | None, Query(max_length=128)] = None,
) -> Response:
    """Read the answers of a sealed tick's requests again, all or one source's, tokens with their seals."""
    ticks = opened.scene.ticks
    if tick > ticks.sealed:
        raise ProblemError("unknown-tick", f"tick {tick} is not sealed; the last sealed one is {ticks.sealed}")
    if tick <= ticks.sealed - opened.scene.bounds.rollback_ticks:
        raise ProblemError("unknown-tick", f"the answers of tick {tick} are no longer kept; the history has them")
    answered = ticks.answered.get(tick, TickAnswers(0, []))
    applied = [each for each in answered.applied if source is None or each.source == source]
    rows = await Pace().through(applied_rows_in_steps(answered.sequence, tick, applied))
    return Response(msgspec.json.encode({"tick": tick, "answers": rows}), media_type="application/json")
