"""Inspection: scenes, characters, snapshots and deliveries, read at one sequence and never in between."""

from bisect import bisect_right
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from app.api.answers import iso
from app.api.callers import Caller, Role
from app.api.deps import CharacterName, OpenedDep, RegistryDep, SceneName, settings_of
from app.api.problems import ProblemError
from app.api.security import GuardedRoute, caller_in
from app.api.views import CharacterView, ParametersView, character_view, parameters_view, rig_shown
from app.gates.character import Character
from app.gates.identity import NAME_LENGTH_MAX, NUMBER_MAX
from app.gates.scene import Scene
from app.sequencing.present import Opened, Present
from app.sequencing.registry import Registry

router = APIRouter(route_class=GuardedRoute, prefix="/v1/scenes", tags=["inspection"])

Cursor = Annotated[str, Query(max_length=128, description="Names after this one: `next` of the page before.")]
Limit = Annotated[int | None, Query(ge=1, le=1_000_000, description="Most items; the service has a limit of its own.")]
After = Annotated[int, Query(ge=0, le=NUMBER_MAX)]


class ScenesPage(BaseModel):
    """Names of scenes, ascending; `next` is null at the end."""

    scenes: list[str]
    next: str | None


class TicksView(BaseModel):
    """The ticks of a scene: `requests` are held for ticks to come, `rollback_from` is the lowest it can go back to.

    Commands outside ticks belong to the one that is `open`.
    """

    open: int
    sealed: int
    confirmed: int
    timeline: int
    rollback_from: int
    requests: int
    digest: str
    tick_hz: int


class SceneView(BaseModel):
    """One scene."""

    scene: str
    sequence: int
    at: str
    characters: int
    rigs: list[str]
    ticks: TicksView


class CharacterRow(BaseModel):
    """One character of a list."""

    character: str
    life: int
    rig: str | None
    revision: int


class CharactersPage(BaseModel):
    """Living characters by id, ascending; `next` is null at the end."""

    characters: list[CharacterRow]
    next: str | None


class DeliveriesPage(BaseModel):
    """Kept deliveries, ascending."""

    deliveries: list[Any]


def page_size(request: Request, limit: int | None) -> int:
    """Give how many items one page holds."""
    most = settings_of(request).page_items_max
    return most if limit is None else min(limit, most)


def alive(opened: Opened, name: str) -> Character:
    """Give a living character.

    Raises:
        ProblemError: `unknown-character`.
    """
    character = opened.scene.roster.get(name)
    if character is None:
        raise ProblemError("unknown-character", f"no character {name!r} is alive in this scene")
    return character


@router.get("")
async def scenes(request: Request, registry: RegistryDep, cursor: Cursor = "", limit: Limit = None) -> ScenesPage:
    """List the scenes that the caller sees, by name."""
    most = page_size(request, limit)
    names = await seen_scenes(registry, caller_in(request), after=cursor, limit=most + 1)
    return ScenesPage(scenes=names[:most], next=names[most - 1] if len(names) > most else None)


async def seen_scenes(registry: Registry, caller: Caller, *, after: str, limit: int) -> list[str]:
    """Give at most `limit` names of scenes above `after` that a caller sees, ascending; walk over no others."""
    if caller.role is not Role.SERVER:
        return await registry.scenes(after=after, limit=limit)
    seen: list[str] = []
    for prefix in sorted(caller.prefixes):
        below = max(after, _below(prefix), seen[-1] if seen else "")
        names = await registry.scenes(after=below, limit=limit - len(seen)) if len(seen) < limit else []
        seen += [name for name in names if name.startswith(prefix)]
    return seen


def _below(prefix: str) -> str:
    """Give a text that lies below every scene whose name starts with `prefix`, and above every shorter one's."""
    return prefix[:-1] + chr(ord(prefix[-1]) - 1) + "~" * NAME_LENGTH_MAX if prefix else ""


@router.get("/{scene}")
async def scene(request: Request, opened: OpenedDep) -> SceneView:
    """Show one scene."""
    return scene_view(opened.scene, tick_hz=settings_of(request).tick_hz)


def scene_view(held: Scene | Present, *, tick_hz: int) -> SceneView:
    """Show a scene as it is, or as it was kept still."""
    rigs = sorted(name for name in held.state.rigs if name and not name.startswith("#"))
    return SceneView(
        scene=held.name,
        sequence=held.sequence,
        at=iso(held.state.at),
        characters=len(held.roster),
        rigs=rigs,
        ticks=TicksView(
            open=held.ticks.sealed + 1,
            sealed=held.ticks.sealed,
            confirmed=held.ticks.confirmed,
            timeline=held.ticks.timeline,
            rollback_from=held.ticks.floor,
            requests=sum(map(len, held.ticks.held.values())),
            digest=held.ticks.digest.hex(),
            tick_hz=tick_hz,
        ),
    )


@router.get("/{scene}/characters")
async def characters(request: Request, opened: OpenedDep, cursor: Cursor = "", limit: Limit = None) -> CharactersPage:
    """List a scene's living characters by id."""
    most, roster = page_size(request, limit), opened.scene.roster
    names = roster.names()
    start = bisect_right(names, cursor)
    rows = [_row(name, alive(opened, name)) for name in names[start : start + most]]
    return CharactersPage(characters=rows, next=rows[-1].character if start + most < len(names) else None)


def _row(name: str, character: Character) -> CharacterRow:
    return CharacterRow(character=name, life=character.life, rig=rig_shown(character), revision=character.revision)


@router.get("/{scene}/characters/{character}")
async def character(opened: OpenedDep, scene: SceneName, character: CharacterName) -> CharacterView:
    """Show a whole character at one sequence."""
    held = alive(opened, character)
    return character_view(scene, character, held, opened.scene.sequence, opened.tally(character))


@router.get(
    "/{scene}/characters/{character}/parameters",
    response_model=ParametersView,
    responses={304: {"description": "The snapshot is the one that `If-None-Match` names."}},
)
async def parameters(request: Request, opened: OpenedDep, character: CharacterName) -> Response:
    """Show one snapshot with its version; `ETag` is made of life and version."""
    held = alive(opened, character)
    etag = f'"{held.life}-{held.parameters.version}"'
    asked = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if etag in asked or "*" in asked:
        return Response(status_code=304, headers={"ETag": etag})
    content = parameters_view(held.parameters).model_dump_json()
    return Response(content, headers={"ETag": etag}, media_type="application/json")


@router.get("/{scene}/characters/{character}/deliveries", response_model=DeliveriesPage)
async def deliveries(opened: OpenedDep, character: CharacterName, after: After = 0) -> Response:
    """Read kept deliveries again, so that a lost answer loses no event."""
    held = alive(opened, character).events
    kept = [{"delivery": delivery.delivery, "events": delivery.events} for delivery in held.given.readable(after)]
    return Response(msgspec.json.encode({"deliveries": kept}), media_type="application/json")
