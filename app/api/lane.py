"""The fast lane: commands of one character, answered within the parser's callbacks, without task or application."""

import asyncio
from collections.abc import Callable
from functools import lru_cache
from time import perf_counter
from typing import TYPE_CHECKING, cast

from uvicorn._types import HTTPScope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from app.api import decode
from app.api.answers import answer_bytes
from app.api.asking import FAILURES, MISTAKE, note_refusals, problem_of_failure, require_share_now
from app.api.callers import Caller, Role
from app.api.heads import Head, Heads, Target
from app.api.outlet import wire_bytes
from app.api.problems import KINDS, ProblemError, problem_of, written
from app.api.security import DOORS, Door, Security, admit, allowed
from app.gates.decision import Undecided
from app.gates.identity import is_identifier
from app.sequencing.mailbox import Addressed, Result
from app.sequencing.registry import Registry
from app.settings import Settings
from app.telemetry.log import is_debugging, log
from app.telemetry.metrics import Metrics
from app.telemetry.passage import Passage, entered, left
from app.telemetry.requests import id_of, passed

if TYPE_CHECKING:
    from app.api.connection import Connection

Contained = Callable[..., Exception | None]
"""Does work with what else it is given, lets nothing come out of it, and gives what would have."""

TARGET_BYTES_MAX = 300
"""Longer than any target of the lane."""

TARGETS_KEPT = 8_192
"""How many targets are remembered as taken apart, the latest."""

OK, GONE = 200, 400
"""What the requests that the lane answers are counted as, and those whose client left in the middle of the body."""

_ROUTES = {
    route.rpartition("/")[2]: route.removeprefix("POST ") for route, door in DOORS.items() if door is Door.COMMAND
}
_PLACES = 7
_ODD = frozenset({b"expect", b"transfer-encoding", b"upgrade", b"traceparent"})
"""Fields that ask for more than the lane knows."""

_FAILURES = tuple(FAILURES)
_JSON, _KEY = b"application/json", b"idempotency-key"
_POST = cast("HTTPScope", {"method": "POST"})
_NOBODY_WAITS = asyncio.Event()
_NOTHING = bytearray()


@lru_cache(TARGETS_KEPT)
def target_of(url: bytes) -> Target | None:
    """Take a target apart; None for one that is not the lane's, as is each with a query, an escape or no identifier."""
    places = url.split(b"/")
    if len(places) != _PLACES or places[:3] != [b"", b"v1", b"scenes"] or places[4] != b"characters":
        return None
    scene, character, command = (place.decode("latin-1") for place in (places[3], places[5], places[6]))
    if command not in _ROUTES or not is_identifier(scene) or not is_identifier(character):
        return None
    return Target(scene, character, command, _ROUTES[command])


class _Ordinary(Exception):
    """The application is to answer: it can wait for what is needed first."""


class Lane:
    """Takes the requests that it can answer like the application does, from all connections of one server.

    What is out of the ordinary it leaves to the application, until the moment a command is sent to its scene. Nothing
    is taken before `open` and after `close`.
    """

    def __init__(self, settings: Settings, metrics: Metrics, contained: Contained) -> None:
        self.settings = settings
        self.metrics = metrics
        self.contained = contained
        self.registry: Registry
        self.security: Security
        self._heads = Heads()
        self._is_open = False
        self._dated: object = None
        self._start = b""

    def open(self, registry: Registry, security: Security) -> None:
        """Begin to take requests."""
        self.registry, self.security, self._is_open = registry, security, True

    def close(self) -> None:
        """Take no more."""
        self._is_open = False

    def take(self, connection: "Connection") -> "LaneRequest | None":
        """Take the request whose head a connection has read; None for one that is the application's to answer."""
        url, fields, parser = connection.url, connection.headers, connection.parser
        target = target_of(url) if self._is_open and len(url) < TARGET_BYTES_MAX else None
        if target is None or parser.get_method() != b"POST":
            return None
        held = dict(fields)
        if len(held) < len(fields) or not _ODD.isdisjoint(held) or not _is_json(held.get(b"content-type", b"")):
            return None
        is_kept = parser.should_keep_alive()
        if (not is_kept or b"connection" in held) and parser.get_http_version() != "1.1":
            return None
        named = held.get(b"authorization")
        authorization = None if named is None else named.decode("latin-1")
        head = Head(target, url, fields, authorization, held.get(b"x-request-id"), is_kept)
        return self._admitted(connection, head, held.get(_KEY))

    def take_again(self, connection: "Connection", data: bytes) -> "LaneRequest | None":
        """Take the request that `data` is, whole and alone, when its head was read before; else None."""
        found = self._heads.find(data) if self._is_open else None
        if found is None:
            return None
        head, key, body = found
        request = self._admitted(connection, head, key)
        if request is not None:
            request.body, request.more_body = body, False  # type: ignore[assignment]  # nothing comes behind it
        return request

    def learn(self, request: "LaneRequest", data: bytes) -> None:
        """Remember the head of a request, which was taken from `data` and had its connection kept."""
        if request.keep_alive:
            self._heads.learn(data, request.head, request.key)

    def _admitted(self, connection: "Connection", head: Head, key: bytes | None) -> "LaneRequest | None":
        """Let a request's caller through its door, or leave it to the application to say why not."""
        target = head.target
        try:
            caller = self.security.caller(head.authorization)
            admit(caller, Door.COMMAND, scene=target.scene, character=target.character, command=target.command)
        except ProblemError:
            return None
        return LaneRequest(self, connection, caller, head, key)

    def start(self, default: list[tuple[bytes, bytes]]) -> bytes:
        """Give how every answer begins, up to the length of its body. The server dates it anew each second."""
        if default is not self._dated:
            self._dated = default
            self._start = STATUS_LINE[OK] + b"".join(b"%b: %b\r\n" % line for line in default) + b"content-length: "
        return self._start


def _is_json(media_type: bytes) -> bool:
    return media_type == _JSON or media_type.partition(b";")[0].strip().lower() == _JSON


class LaneRequest(RequestResponseCycle):
    """One request of the lane. It stands in its connection's order like any other, and waits there for its answer.

    It has of a cycle what the order needs, and nothing that only an application asks for.
    """

    scope = _POST
    message_event = _NOBODY_WAITS
    more_body = True
    disconnected = False
    response_started = False
    response_complete = False
    _started: float | None = None
    _id = b""
    _unsent: tuple[bytes, int, str | None] | None = None

    def __init__(self, lane: Lane, connection: "Connection", caller: Caller, head: Head, key: bytes | None) -> None:
        self.head = head
        self.key = key
        self.keep_alive = head.is_kept
        self.body = bytearray()
        self._lane = lane
        self._connection = connection
        self._caller = caller

    # Its turn.

    def begin(self) -> None:
        """Be the one that its connection answers now: when the body is whole, ask."""
        self._started = perf_counter()
        if not self.more_body:
            self._ask()

    def complete(self) -> None:
        """Have the whole body; when it is this request's turn, ask."""
        self.more_body = False
        if self._started is not None:
            self._ask()

    def ordinary(self) -> RequestResponseCycle:
        """Give the same request as the application takes it, with what there is of its body."""
        connection = self._connection
        fields = [field for field in self.head.fields if field[0] != _KEY]
        scope = connection.scope_of(fields if self.key is None else [*fields, (_KEY, self.key)])
        path = connection.root_path + self.head.url.decode("ascii")
        scope |= {"method": "POST", "path": path, "raw_path": path.encode("ascii"), "query_string": b""}
        cycle = RequestResponseCycle(
            scope=scope,
            transport=connection.transport,
            flow=connection.flow,
            logger=connection.logger,
            access_logger=connection.access_logger,
            access_log=connection.access_log,
            default_headers=connection.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=self.keep_alive,
            on_response=connection.on_response_complete,
        )
        cycle.body, cycle.more_body, cycle.disconnected = bytearray(self.body), self.more_body, self.disconnected
        cycle.message_event.set()
        return cycle

    def _ask(self) -> None:
        """Ask, or leave it to the application: whatever went wrong, nothing was sent then."""
        if self.disconnected:
            return
        error = self._lane.contained(self._send)
        if error is None:
            return
        if type(error) is not _Ordinary:
            self._log(error)
        if not self.response_started:
            self._connection.hand_over(self)

    def _send(self) -> None:
        """Send the command to its scene, or tell why not.

        Raises:
            _Ordinary: The scene must be opened first, to know whether the caller's session still counts.
        """
        lane, caller, target, key = self._lane, self._caller, self.head.target, self.key
        if caller.role is Role.SESSION and lane.registry.in_memory(target.scene) is None:
            raise _Ordinary
        try:
            lane.security.quota.take(caller, 1)
            fields = decode.members(decode.parse_one(bytes(self.body), lane.settings), lane.settings)
            command = decode.command(target.command, fields, lane.settings)
            named = None if key is None else decode.key(key.decode("latin-1"))
            commands = [allowed(caller, Addressed(target.character, command, named))]
            if not require_share_now(lane.security.quota, lane.registry, caller, target.scene, commands):
                raise _Ordinary
            lane.registry.send(target.scene, commands, self._hear, caller=caller.name)
            self.body = _NOTHING
        except ProblemError as problem:
            self._tell(problem)
        except _FAILURES as error:
            self._tell(problem_of_failure(error))

    def _hear(self, results: list[Result] | Exception) -> None:
        """Answer with what became of the command. Nothing comes out: it is the scene's turn that says so."""
        error = self._lane.contained(self._answer, results)
        if error is not None:
            self._log(error)
            if not self.response_started:
                self._lane.contained(self._tell, MISTAKE)

    def _answer(self, results: list[Result] | Exception) -> None:
        if isinstance(results, Exception):
            self._tell(problem_of_failure(results))
            return
        [result] = results
        note_refusals(self._lane.security.quota, self._caller, results)
        if type(result) is Undecided:
            self._tell(problem_of(result))
            return
        body = answer_bytes(result.sequence, result.record)
        start = self._lane.start(self._connection.server_state.default_headers)
        is_last = b"" if self.keep_alive else b"connection: close\r\n"
        self._put(
            b"%b%d\r\ncontent-type: application/json\r\nx-request-id: %b\r\n%b\r\n%b"
            % (start, len(body), self._named(), is_last, body),
            OK,
        )

    def _tell(self, problem: ProblemError) -> None:
        """Answer with a problem."""
        response = written(problem, retry_after=self._lane.settings.retry_after_s)
        default = self._connection.server_state.default_headers
        lines = [*default, *response.raw_headers, (b"x-request-id", self._named())]
        if not self.keep_alive:
            lines.append((b"connection", b"close"))
        self._put(wire_bytes(response, lines), KINDS[problem.name].status, problem.name)

    def _log(self, error: Exception) -> None:
        log.error("fault", request_id=self._named().decode("ascii"), exc_info=error)

    def _named(self) -> bytes:
        if not self._id:
            self._id = id_of(self.head.named)
        return self._id

    # Its answer.

    def _put(self, answer: bytes, status: int, problem: str | None = None) -> None:
        """Have the answer sent, as soon as the client reads."""
        self.body = _NOTHING
        if self._connection.flow.write_paused and not self.disconnected:
            self._unsent = answer, status, problem
            return
        self._pass(status, problem)
        self._connection.answer(self, answer)

    def resume(self) -> None:
        """Have sent what waited until the client reads."""
        if self._unsent is not None:
            unsent, self._unsent = self._unsent, None
            self._put(*unsent)

    def leave(self) -> None:
        """Be left by the client: of a body that never came whole nothing comes, and an answer that waits is lost."""
        self.disconnected = True
        if self.more_body:
            self._pass(GONE, None)
        elif self._unsent is not None:
            self._pass(*self._unsent[1:])

    def _pass(self, status: int, problem: str | None) -> None:
        """Count the request, and log it where its level asks for that."""
        metrics, route = self._lane.metrics, self.head.target.route
        seconds = 0.0 if self._started is None else perf_counter() - self._started
        if status == OK and not is_debugging():
            metrics.request(route, "POST", status, seconds)
            return
        passage = Passage(self._named(), None)
        passage.status, passage.problem = status, problem
        token = entered(passage)
        passed(metrics, passage, route, "POST", seconds)
        left(token)
