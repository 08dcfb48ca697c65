"""Security: the one place that decides who may do what, for every door there is and will be."""

from collections.abc import Callable, Coroutine, Mapping
from enum import StrEnum
from ipaddress import ip_address
from typing import Any, assert_never

from fastapi import Request, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute
from msgspec import UNSET, structs
from starlette.responses import Response
from starlette.types import Scope

from app.api.callers import ANYBODY, Caller, Role
from app.api.guard import require_known_queries
from app.api.keys import Keyring
from app.api.problems import ProblemError
from app.api.quota import Quota
from app.api.sessions import Minter, NoSession, Sessions
from app.gates.bundle import Bundle, Member
from app.gates.decision import Command, name_of
from app.gates.tick import Tick
from app.gates.transition import Begin
from app.sequencing.mailbox import Addressed


class Door(StrEnum):
    """What a path is for. Who may pass which is in `admit`."""

    PUBLIC = "public"
    """What every service of the network may ask: whether it lives, and what its problems mean."""
    ABOUT = "about"
    """What the service is: its version and limits."""
    METRICS = "metrics"
    SCENES = "scenes"
    """The list of scenes, of which each caller gets those it sees."""
    READ = "read"
    """One scene, read, without any seal."""
    ANSWERS = "answers"
    """The answers of a sealed tick, with the seals of the tokens that were granted in it."""
    COMMAND = "command"
    """One command of one character."""
    COMMANDS = "commands"
    """Many commands, each of which is looked at by itself too."""
    CHANNEL = "channel"
    """Many commands and what is decided, on one connection; each is looked at by itself too."""
    RULE = "rule"
    """What only the scene's game server does: rigs, lives, ticks, sessions, the end of the scene."""


_SCENE = "/v1/scenes/{scene}"
_CHARACTER = f"{_SCENE}/characters/{{character}}"
_COMMAND_NAMES = (
    *("begin", "complete", "cancel", "fail", "commit-parameters", "play", "enqueue", "covered", "commit-loop"),
    *("retire", "ack", "request-graph", "submit-candidate", "withdraw-graph"),
)

DOORS: Mapping[str, Door] = {
    "GET /livez": Door.PUBLIC,
    "GET /readyz": Door.PUBLIC,
    "GET /problems/{name}": Door.PUBLIC,
    "GET /v1/info": Door.ABOUT,
    "GET /metrics": Door.METRICS,
    "GET /v1/scenes": Door.SCENES,
    f"GET {_SCENE}": Door.READ,
    f"GET {_SCENE}/characters": Door.READ,
    f"GET {_SCENE}/history": Door.READ,
    f"GET {_SCENE}/watch": Door.READ,
    f"GET {_CHARACTER}": Door.READ,
    f"GET {_CHARACTER}/parameters": Door.READ,
    f"GET {_CHARACTER}/deliveries": Door.READ,
    f"GET {_SCENE}/ticks/{{tick}}/answers": Door.ANSWERS,
    **{f"POST {_CHARACTER}/{name}": Door.COMMAND for name in _COMMAND_NAMES},
    f"POST {_SCENE}/batch": Door.COMMANDS,
    f"POST {_SCENE}/bundle": Door.COMMANDS,
    f"GET {_SCENE}/channel": Door.CHANNEL,
    f"POST {_SCENE}/tick": Door.RULE,
    f"POST {_SCENE}/sessions": Door.RULE,
    f"PUT {_SCENE}/rigs/{{rig}}": Door.RULE,
    f"PUT {_CHARACTER}": Door.RULE,
    f"DELETE {_CHARACTER}": Door.RULE,
    f"DELETE {_SCENE}": Door.RULE,
}
"""Every route there is. One that is missing here cannot be built."""

_READS = (Door.ABOUT, Door.METRICS, Door.SCENES, Door.READ)
_HELD = "posegate.caller"


class Security:
    """Who asks, and what they may: keys, sessions, and the budgets of both."""

    def __init__(self, keyring: Keyring, sessions: Sessions, quota: Quota) -> None:
        self.sessions = sessions
        self.quota = quota
        self._keyring = keyring

    def caller(self, authorization: str | None = None, *more: str) -> Caller:
        """Give the caller that an `Authorization` header names. Of more than one, none counts.

        Raises:
            ProblemError: `unauthenticated`. It says what is wrong with the header, never what would be right.
        """
        if authorization is None:
            if self._keyring.is_configured:
                raise ProblemError("unauthenticated", "send `Authorization: Bearer` with a key or a session token")
            return ANYBODY
        if more:
            raise ProblemError("unauthenticated", "send one Authorization header")
        scheme, _, credential = authorization.strip().partition(" ")
        credential = credential.strip()
        if scheme.lower() != "bearer" or not credential:
            raise ProblemError("unauthenticated", "the Authorization header is not `Bearer` and a credential")
        caller = self._keyring.find(credential)
        if caller is not None:
            return caller
        try:
            minter, caller = self.sessions.read(credential)
        except NoSession as error:
            if not self._keyring.is_configured:
                raise ProblemError("unauthenticated", f"this service has no keys, and {error}; send none") from error
            raise ProblemError("unauthenticated", f"no key in force is this one, and {error}") from error
        if not self._stands_behind(minter, caller.scene):
            raise ProblemError("unauthenticated", "the key that minted this session no longer may")
        return caller

    def _stands_behind(self, minter: Minter, scene: str) -> bool:
        """Say whether the key that minted a session could mint it now: the same key, a server's, of that scene."""
        if not minter.name:
            return not self._keyring.is_configured
        key = self._keyring.named(minter.name)
        return key is not None and key.digest == minter.digest and key.role is Role.SERVER and key.sees(scene)


def admit(caller: Caller, door: Door, *, scene: str | None, character: str | None, command: str = "") -> None:
    """Let a caller through a door, or not; `command` is the one that a door of single commands is for.

    Raises:
        ProblemError: `forbidden`, in the same words whether or not there is such a scene or character.
    """
    if caller.role is Role.OPEN or door is Door.PUBLIC:
        return
    if scene is not None and not caller.sees(scene):
        raise _forbidden("this scene is not the caller's")
    match caller.role:
        case Role.SERVER:
            passes, why = door is not Door.METRICS, "only operations read the metrics"
        case Role.OPS:
            passes, why = door in _READS or door is Door.CHANNEL, "operations read, and see no seal"
        case Role.SESSION:
            passes, why = door in (Door.COMMANDS, Door.CHANNEL), "a session sends callbacks, and nothing else"
            if door is Door.COMMAND and character not in caller.characters:
                why = "this character is not the session's"
            elif door is Door.COMMAND:
                passes = command in caller.commands or (command == "begin" and bool(caller.begin_layers))
                why = f"the session may not give `{command}`"
        case _:
            assert_never(caller.role)
    if not passes:
        raise _forbidden(why)


def allowed(caller: Caller, addressed: Addressed) -> Addressed:
    """Give a command as its caller may have it decided: a session's speaks for the life that the session is for.

    Raises:
        ProblemError: `forbidden`. The caller may not give this command, or not to this character.
    """
    if caller.role is not Role.SESSION:
        return addressed
    command = addressed.command
    if type(command) is Bundle:
        members = [_member_allowed(caller, member) for member in command.commands]
        return structs.replace(addressed, command=structs.replace(command, commands=members), asked=command)
    return structs.replace(addressed, command=_command_allowed(caller, addressed.character, command), asked=command)


def _member_allowed(caller: Caller, member: Member) -> Member:
    return structs.replace(member, command=_command_allowed(caller, member.character, member.command))


def _command_allowed(caller: Caller, character: str | None, command: Command) -> Command:
    life = None if character is None else caller.characters.get(character)
    if life is None or type(command) is Tick:
        raise _forbidden("this character is not the session's")
    if type(command) is Begin:
        if command.layer not in caller.begin_layers:
            raise _forbidden("the session may not begin on this layer")
    elif name_of(type(command)) not in caller.commands:
        raise _forbidden(f"the session may not give `{name_of(type(command))}`")
    if command.life is not UNSET and command.life != life:
        raise _forbidden("the session is for another life of this character")
    return structs.replace(command, life=life)


def _forbidden(detail: str) -> ProblemError:
    return ProblemError("forbidden", detail)


def security_of(scope: Scope) -> Security:
    """Give the service's security."""
    security: Security = scope["app"].state.security
    return security


def caller_in(request: Request) -> Caller:
    """Give the caller of a request that came through its door."""
    caller: Caller = request.scope[_HELD]
    return caller


class GuardedRoute(APIRoute):
    """A route that first asks who comes, counts the request, and lets through whom its door is for."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Give the route's handler behind its door. A route without a door fails here, when the service is built."""
        handle = super().get_route_handler()
        queries = frozenset(
            each.alias for each in get_flat_params(self.dependant) if isinstance(each.field_info, params.Query)
        )
        command = self.path.rpartition("/")[2]
        [door] = {DOORS[f"{method} {self.path}"] for method in self.methods or ()}

        async def guarded(request: Request) -> Response:
            if door is not Door.PUBLIC:
                security, path = security_of(request.scope), request.path_params
                caller = security.caller(*request.headers.getlist("authorization"))
                request.scope[_HELD] = caller
                admit(caller, door, scene=path.get("scene"), character=path.get("character"), command=command)
                security.quota.take(caller, 1)
            if request.scope["query_string"]:
                require_known_queries(request.query_params, queries)
            return await handle(request)

        return guarded


def is_loopback(host: str) -> bool:
    """Say whether an address to listen on is reached from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
