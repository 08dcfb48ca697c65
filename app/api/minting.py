"""Minting: a game server gets a session token for one of its players' engine clients."""

from fastapi import APIRouter, Request
from pydantic import ValidationError
from starlette.responses import Response

from app.api import decode
from app.api.answers import iso
from app.api.contract import takes
from app.api.deps import CurrentDep, members_of, settings_of
from app.api.problems import ProblemError
from app.api.security import GuardedRoute, caller_in, security_of
from app.api.sessions import CALLBACKS, SessionBody, SessionView
from app.sequencing.present import Opened

_EXAMPLE = {"sub": "player-7", "characters": {"hero": 1}, "begin_layers": ["face"], "ttl_s": 600}

router = APIRouter(route_class=GuardedRoute, prefix="/v1/scenes/{scene}", tags=["sessions"])


@router.post(
    "/sessions",
    status_code=201,
    response_model=SessionView,
    openapi_extra=takes(SessionBody, keyed=False, example=_EXAMPLE),
)
async def mint(request: Request, opened: CurrentDep) -> Response:
    """Mint a session: its token opens the callbacks of the named characters in the named lives, for a while."""
    fields, settings = await members_of(request), settings_of(request)
    decode.check_extent(fields)
    try:
        body = SessionBody.model_validate(fields)
    except ValidationError as error:
        raise decode.invalid(error, fields, settings) from error
    if body.ttl_s > settings.session_s_max:
        raise ProblemError("too-large", f"a session lasts at most {settings.session_s_max} s", at="ttl_s")
    _require_callbacks(body)
    _require_alive(body, opened)
    sessions = security_of(request.scope).sessions
    token, expires = sessions.mint(
        body, scene=opened.scene.name, under=opened.scene.sealer.fingerprint, minter=caller_in(request)
    )
    view = SessionView(token=token, expires_at=iso(expires * 1000))
    return Response(view.model_dump_json(), 201, {"Cache-Control": "no-store"}, "application/json")


def _require_callbacks(body: SessionBody) -> None:
    unknown = next((name for name in body.commands if name not in CALLBACKS), None)
    if unknown is not None:
        raise ProblemError("invalid", f"{unknown!r} is no callback that a session may send", at="commands")


def _require_alive(body: SessionBody, opened: Opened) -> None:
    for name, life in body.characters.items():
        character = opened.scene.roster.get(name)
        if character is None:
            raise ProblemError("unknown-character", f"no character {name!r} is alive in this scene", at="characters")
        if character.life != life:
            raise ProblemError("invalid", f"{name!r} is alive in life {character.life}", at=f"characters.{name}")
