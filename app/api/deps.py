"""Dependencies: what a route is handed instead of digging for it in the request."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from starlette.responses import Response

from app.api import decode, formats
from app.api.answers import answer_response
from app.api.asking import note_refusals, require_share
from app.api.bodies import IDENTIFIER_PATTERN
from app.api.formats import Format
from app.api.problems import ProblemError
from app.api.security import allowed, caller_in, security_of
from app.gates.decision import Command
from app.gates.identity import NUMBER_MAX, is_identifier
from app.sequencing.actor import Actor
from app.sequencing.mailbox import Addressed, Result
from app.sequencing.present import Opened
from app.sequencing.registry import Registry
from app.settings import Settings


def settings_of(request: Request) -> Settings:
    """Give the service's settings."""
    settings: Settings = request.app.state.settings
    return settings


def registry_of(request: Request) -> Registry:
    """Give the service's registry."""
    registry: Registry = request.app.state.registry
    return registry


def _identifier(name: str, at: str) -> str:
    if not is_identifier(name):
        detail = "an identifier is 1 to 128 of A-Z a-z 0-9 . _ ~ - and starts with a letter or digit"
        raise ProblemError("invalid", detail, at=at)
    return name


def _in_path(description: str) -> Any:
    return Path(description=description, json_schema_extra={"pattern": IDENTIFIER_PATTERN})


async def scene_name(scene: Annotated[str, _in_path("The scene's id.")]) -> str:
    """Give the scene in the path."""
    return _identifier(scene, "scene")


async def character_name(character: Annotated[str, _in_path("The character's id.")]) -> str:
    """Give the character in the path."""
    return _identifier(character, "character")


async def rig_name(rig: Annotated[str, _in_path("The rig's name.")]) -> str:
    """Give the rig in the path."""
    return _identifier(rig, "rig")


SceneName = Annotated[str, Depends(scene_name)]
CharacterName = Annotated[str, Depends(character_name)]
RigName = Annotated[str, Depends(rig_name)]
RegistryDep = Annotated[Registry, Depends(registry_of)]


MinSequence = Annotated[
    int,
    Query(ge=0, le=NUMBER_MAX, description="A decision that must be visible; a node that is behind catches up first."),
]


def _there(scene: str, opened: Opened | None) -> Opened:
    if opened is None:
        raise ProblemError("unknown-scene", f"there is no scene {scene!r}; a spawn makes one")
    return opened


async def opened_scene(request: Request, scene: SceneName, min_sequence: MinSequence = 0) -> Opened:
    """Give the scene in the path, to be read.

    Raises:
        ProblemError: `unknown-scene`.
        SequenceAhead: It has not come to `min_sequence`, as far as is known here.
    """
    return _there(scene, await registry_of(request).opened(scene, at_least=min_sequence))


async def current_scene(request: Request, scene: SceneName) -> Opened:
    """Give the scene in the path as the journal has it now: for what is decided by it without a turn.

    Raises:
        ProblemError: `unknown-scene`.
    """
    return _there(scene, await registry_of(request).opened(scene, is_current=True))


OpenedDep = Annotated[Opened, Depends(opened_scene)]
CurrentDep = Annotated[Opened, Depends(current_scene)]


async def actor_of(request: Request, scene: SceneName, character: CharacterName) -> Actor:
    """Give the actor of the character in the path."""
    return registry_of(request).actor(scene, character)


_JSON_ONLY = {formats.JSON.media_type: formats.JSON}

ActorDep = Annotated[Actor, Depends(actor_of)]


def format_of(request: Request, formats: Mapping[str, Format]) -> Format:
    """Give the format of the body, one of `formats` by media type.

    Raises:
        ProblemError: `unsupported-media-type`.
    """
    found = formats.get(request.headers.get("content-type", "").partition(";")[0].strip().lower())
    if found is None:
        raise ProblemError("unsupported-media-type", f"send Content-Type: {' or '.join(formats)}")
    return found


async def body_of(request: Request) -> bytes:
    """Read the body, up to the limit.

    Raises:
        ProblemError: `too-large`, as soon as that is known.
    """
    limit = settings_of(request).body_bytes_max
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > limit:
        raise ProblemError("too-large", f"the body is {declared[:20]} bytes", limit=limit)
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise ProblemError("too-large", f"the body is larger than {limit} bytes", limit=limit)
        chunks.append(chunk)
    return b"".join(chunks)


async def json_of(request: Request) -> bytes:
    """Read the body, which must be said to be JSON."""
    format_of(request, _JSON_ONLY)
    return await body_of(request)


async def members_of(request: Request) -> dict[str, Any]:
    """Read the body as one JSON object."""
    settings = settings_of(request)
    return decode.members(decode.parse_one(await json_of(request), settings), settings)


def key_of(request: Request) -> str | None:
    """Give the request's idempotency key, where it has one."""
    headers = request.headers.getlist("idempotency-key")
    if len(headers) > 1:
        raise ProblemError("invalid", "a request has one idempotency key", at="key")
    return decode.key(headers[0]) if headers else None


def actor_in(request: Request) -> Actor:
    """Give the actor of the character in the path, without the cost of a dependency: commands are hot."""
    path = request.path_params
    return registry_of(request).actor(_identifier(path["scene"], "scene"), _identifier(path["character"], "character"))


def scene_in(request: Request) -> str:
    """Give the scene in the path, without the cost of a dependency."""
    return _identifier(request.path_params["scene"], "scene")


async def decided_by(name: str, request: Request) -> Response:
    """Decode the body as the command `name`, have the character in the path decide it, and answer."""
    actor = actor_in(request)
    command: Command = decode.command(name, await members_of(request), settings_of(request))
    return answer_response(await submitted(request, actor, command))


async def submitted(request: Request, actor: Actor, command: Command) -> Result:
    """Have a character decide a command that its caller may give, under the request's key.

    Raises:
        ProblemError: `forbidden`, `too-many-requests`, or an `invalid` key. Nothing was decided.
    """
    given = allowed(caller_in(request), Addressed(actor.character, command, key_of(request)))
    [result] = await submit(request, actor.scene, [given])
    return result


async def submit(request: Request, scene: str, commands: list[Addressed]) -> list[Result]:
    """Have commands that were allowed decided for the caller of a request, within what it may have recorded.

    Raises:
        ProblemError: `too-many-requests`. Nothing was decided.
    """
    caller, registry, quota = caller_in(request), registry_of(request), security_of(request.scope).quota
    await require_share(quota, registry, caller, scene, commands)
    results = await registry.submit(scene, commands, caller=caller.name)
    note_refusals(quota, caller, results)
    return results
