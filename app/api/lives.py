"""Lives: rigs are declared, characters spawned and despawned, scenes closed."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import ValidationError
from starlette.responses import Response

from app.api import decode
from app.api.answers import answer_response, decided
from app.api.bodies import DespawnBody, RigBody, SpawnBody
from app.api.contract import KEYED, refuses, takes
from app.api.deps import (
    ActorDep,
    CurrentDep,
    RegistryDep,
    RigName,
    SceneName,
    key_of,
    members_of,
    settings_of,
    submit,
    submitted,
)
from app.api.problems import ProblemError
from app.api.security import GuardedRoute
from app.api.views import CharacterView, character_view
from app.gates.decision import Refused
from app.gates.identity import NUMBER_MAX
from app.gates.lives import CloseScene, DeclareRig, Despawn, Despawned, RigDeclared, Spawn, Spawned
from app.gates.tally import NOTHING
from app.sequencing.mailbox import Addressed

router = APIRouter(route_class=GuardedRoute, prefix="/v1/scenes/{scene}", tags=["lives"])


@router.put("/rigs/{rig}", status_code=201, openapi_extra=takes(RigBody), responses={200: {"description": "Equal."}})
async def declare_rig(request: Request, scene: SceneName, rig: RigName) -> Response:
    """Declare or redeclare a rig of the scene; refused while living characters use another of that name."""
    fields = await members_of(request)
    decode.check_extent(fields)
    try:
        body = RigBody.model_validate(fields)
    except ValidationError as error:
        raise decode.invalid(error, fields, settings_of(request)) from error
    command = DeclareRig(name=rig, rig=body.to_rig())
    [result] = await submit(request, scene, [Addressed(None, command, key_of(request))])
    fact = decided(result).record.answer
    created = isinstance(fact, RigDeclared) and fact.created
    return Response(
        body.model_dump_json(by_alias=True), status_code=201 if created else 200, media_type="application/json"
    )


@router.put(
    "/characters/{character}",
    status_code=201,
    response_model=CharacterView,
    openapi_extra=takes(SpawnBody),
    responses={200: refuses(Spawn, "Alive already, spawned alike; or `stale_life`.", instead=CharacterView)},
)
async def spawn(request: Request, actor: ActorDep, registry: RegistryDep) -> Response:
    """Start a life; the same spawn again changes nothing. The scene is made on first use."""
    command = decode.command("spawn", await members_of(request), settings_of(request))
    done = decided(await submitted(request, actor, command))
    fact = done.record.answer
    if isinstance(fact, Refused):
        return answer_response(done)
    assert isinstance(fact, Spawned)
    opened = await registry.opened(actor.scene)
    present = None if opened is None else opened.scene.roster.get(actor.character)
    character = fact.character or present
    if character is None or opened is None:
        # An equal spawn that is retried after its life ended: only the decision itself is left to show.
        return answer_response(done)
    tally = NOTHING if fact.created else opened.tally(actor.character)
    view = character_view(actor.scene, actor.character, character, done.sequence, tally)
    return Response(view.model_dump_json(), status_code=201 if fact.created else 200, media_type="application/json")


@router.delete(
    "/characters/{character}",
    status_code=204,
    openapi_extra=KEYED,
    responses={200: refuses(Despawn, "Another life was named: refused, `stale_life`.")},
)
async def despawn(
    request: Request, actor: ActorDep, life: Annotated[int | None, Query(ge=0, le=NUMBER_MAX)] = None
) -> Response:
    """End a life, or only the one that is named."""
    unknown = [name for name, _ in request.query_params.multi_items() if name != "life"]
    if unknown or len(request.query_params.multi_items()) > 1:
        raise ProblemError("invalid", "a despawn takes `life`, once, and nothing else", at=(unknown or ["life"])[0])
    result = await submitted(request, actor, DespawnBody(life=life).to_command())
    accepted = isinstance(decided(result).record.answer, Despawned)
    return Response(status_code=204) if accepted else answer_response(result)


@router.delete("", status_code=204)
async def close_scene(request: Request, scene: SceneName, opened: CurrentDep) -> Response:
    """Close the scene for good: only the floors of its numbers remain."""
    [result] = await submit(request, scene, [Addressed(None, CloseScene())])
    decided(result)
    return Response(status_code=204)
