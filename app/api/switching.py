"""Switching: how a connection becomes a channel: the route that agrees to it, and the hand-over."""

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.asking import require_share
from app.api.channel import Channel
from app.api.deps import RegistryDep, SceneName, settings_of
from app.api.formats import JSON, MSGPACK, Format
from app.api.framing import Framing, NotAKey
from app.api.problems import ProblemError
from app.api.security import GuardedRoute, caller_in, security_of
from app.api.talk import Service, Talk
from app.sequencing.registry import Draining

SWITCHES = "posegate.switches"
"""The extension of a request that asks for a WebSocket: `capacity` is its connection's, `to` what is to take over."""

SWITCHING = 101

SUB_PROTOCOLS: dict[str, Format] = {"posegate.json.v1": JSON, "posegate.msgpack.v1": MSGPACK}
"""The sub-protocols, and the format of each. Without any offered it is JSON."""

_VERSION = "13"
_DESCRIBED: dict[int | str, dict[str, Any]] = {
    101: {"description": "The connection is a WebSocket from here on. What is said on it: `channel.json`."},
    426: {"description": "The request asked for no WebSocket."},
}

router = APIRouter(route_class=GuardedRoute, prefix="/v1/scenes/{scene}", tags=["commands"])


@router.get("/channel", status_code=SWITCHING, response_class=Response, responses=_DESCRIBED)
async def channel(request: Request, scene: SceneName, registry: RegistryDep) -> Response:
    """Open a channel: a WebSocket for many commands under way, their answers, and what is decided in the scene."""
    asked: dict[str, Any] | None = request.scope.get("extensions", {}).get(SWITCHES)
    if asked is None:
        raise ProblemError("upgrade-required", "a channel is a WebSocket: send `Upgrade: websocket`")
    _require_own_origin(request)
    form, agreed = _sub_protocol(request.headers.getlist("sec-websocket-protocol"))
    settings, security, caller = settings_of(request), security_of(request.scope), caller_in(request)
    framing = _framing(request, settings.body_bytes_max, settings.body_items_max)
    if registry.is_draining:
        raise Draining("the service is stopping; open a channel at another node, or again when it is back")
    await require_share(security.quota, registry, caller, scene, ())
    service = Service(registry, security, settings, request.app.state.metrics, request.app.state.contained)
    talk = Talk(service, scene=scene, caller=caller, authorization=request.headers.getlist("authorization"), form=form)
    asked["to"] = Channel(talk, framing, asked["capacity"])
    fields = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": framing.accept}
    return Response(status_code=SWITCHING, headers=fields | agreed)


def _require_own_origin(request: Request) -> None:
    """See that no page of another origin opens the channel: for a WebSocket, a browser asks nobody first.

    Raises:
        ProblemError: `forbidden`.
    """
    origins, host = request.headers.getlist("origin"), request.headers.get("host", "")
    if any(urlsplit(origin).netloc.lower() != host.lower() for origin in origins):
        raise ProblemError("forbidden", "a page of another origin opens no channel")


def _sub_protocol(offers: Sequence[str]) -> tuple[Format, dict[str, str]]:
    """Choose the first sub-protocol that is known, and give its format and what the answer says of it.

    Raises:
        ProblemError: `invalid`, when none of those offered is known.
    """
    offered = [name.strip() for offer in offers for name in offer.split(",") if name.strip()]
    if not offered:
        return JSON, {}
    known = next((name for name in offered if name in SUB_PROTOCOLS), None)
    if known is None:
        raise ProblemError("invalid", f"the sub-protocols are {', '.join(SUB_PROTOCOLS)}", at="sec-websocket-protocol")
    return SUB_PROTOCOLS[known], {"Sec-WebSocket-Protocol": known}


def _framing(request: Request, message_bytes_max: int, fragments_max: int) -> Framing:
    """Begin the framing that a handshake asks for.

    Raises:
        ProblemError: `upgrade-required` for another version, `invalid` for a handshake that is none.
    """
    headers = request.headers
    if headers.getlist("sec-websocket-version") != [_VERSION] or request.scope["http_version"] != "1.1":
        raise ProblemError("upgrade-required", f"send `Sec-WebSocket-Version: {_VERSION}`, in HTTP/1.1")
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise ProblemError("invalid", "a handshake has no body", at="content-length")
    [key, *more] = headers.getlist("sec-websocket-key") or [""]
    try:
        framing = Framing(key, message_bytes_max=message_bytes_max, fragments_max=fragments_max)
    except NotAKey:
        framing = None
    if framing is None or more:
        raise ProblemError("invalid", "a handshake has one key: 16 bytes in base64", at="sec-websocket-key")
    return framing


def switching(app: ASGIApp, switched: Callable[[Channel, list[tuple[bytes, bytes]]], None]) -> ASGIApp:
    """Give an application like `app`, but for its answer 101: `switched` hears who takes over, and its fields."""

    async def switch(scope: Scope, receive: Receive, send: Send) -> None:
        fields: list[tuple[bytes, bytes]] | None = None

        async def answer(message: Message) -> None:
            nonlocal fields
            if message["type"] == "http.response.start" and message["status"] == SWITCHING:
                fields = message["headers"]
            elif fields is None:
                await send(message)

        await app(scope, receive, answer)
        if fields is not None:
            switched(scope["extensions"][SWITCHES]["to"], fields)

    return switch
