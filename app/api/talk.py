"""Talk: what is said on one channel, a message at a time: commands and wishes read, answers and problems written."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from app.api import decode
from app.api.answers import answer_bytes
from app.api.asking import FAILURES, MISTAKE, inside, problem_of_failure, require_share_now, take_inside
from app.api.callers import Caller
from app.api.capacity import STOPPING
from app.api.envelope import addressed
from app.api.formats import Format
from app.api.problems import ProblemError, problem_of
from app.api.security import Door, Security, admit, allowed
from app.gates.decision import Undecided
from app.gates.identity import NUMBER_MAX
from app.journal.port import JournalDamaged
from app.sequencing.mailbox import Addressed, Result
from app.sequencing.registry import Draining, MailboxFull, MemoryFull, Registry
from app.settings import Settings
from app.telemetry.metrics import Metrics

Outcome = list[Result] | Exception
"""What became of commands that were sent together: a result each, or why there is none."""

Contained = Callable[..., Exception | None]
"""Does work with what else it is given, lets nothing come out of it, and gives what would have."""

_encode = msgspec.json.Encoder().encode
_ANSWER = b'{"id":%d,"answer":%b}'
_PROBLEM = b'{"id":%d,"problem":%b}'
_NAMELESS = b'{"problem":%b}'


class Wish(NamedTuple):
    """What is asked of the channel itself, and of no gate: `watch` or `unwatch`, and what is asked with it."""

    name: str
    asked: Any


class Said(Struct, frozen=True, gc=False):
    """One message of a client: its number, if it has one, and what it asks, or why it asks nothing.

    `commands` is how many commands it is, with those inside of it, at least 1.
    """

    number: int | None
    what: Addressed | Wish | ProblemError
    commands: int = 1


class Service(NamedTuple):
    """What a channel needs of the service."""

    registry: Registry
    security: Security
    settings: Settings
    metrics: Metrics
    contained: Contained


class Talk:
    """One caller's words in one scene.

    `authorization` is what the caller said of itself at the handshake; it is read again as long as the channel is open.
    """

    def __init__(
        self, service: Service, *, scene: str, caller: Caller, authorization: Sequence[str], form: Format
    ) -> None:
        self.service = service
        self.scene = scene
        self.caller = caller
        self.form = form
        self._authorization = authorization
        self._counted = 0
        self._forbidden = self._refusal(Door.COMMANDS)

    def look_again(self) -> None:
        """See that the caller is still known and may be here; from now on it may what it may now.

        Raises:
            ProblemError: `unauthenticated` or `forbidden`.
        """
        caller = self.service.security.caller(*self._authorization)
        admit(caller, Door.CHANNEL, scene=self.scene, character=None)
        self.caller = caller
        self._forbidden = self._refusal(Door.COMMANDS)

    def require_reader(self) -> None:
        """See that the caller may read what is decided in the scene.

        Raises:
            ProblemError: `forbidden`.
        """
        admit(self.caller, Door.READ, scene=self.scene, character=None)

    def _refusal(self, door: Door) -> ProblemError | None:
        try:
            admit(self.caller, door, scene=self.scene, character=None)
        except ProblemError as problem:
            return problem.with_traceback(None)
        return None

    # What the client says.

    def expect(self, messages: int) -> None:
        """Count messages ahead, all at once; where that is too much at once, each is counted when it is heard."""
        if messages > self._counted:
            with suppress(ProblemError):
                self.service.security.quota.take(self.caller, messages - self._counted)
                self._counted = messages

    def heard(self, data: bytes) -> Said:
        """Read one message. It counts as one command of its caller, whatever it turns out to be.

        One beyond the rate is read for its number all the same: nobody could tell otherwise whose problem it is.
        """
        number, settings, beyond = None, self.service.settings, self._count()
        try:
            parsed = self.form.parse(data, settings)
            fields = parsed if type(parsed) is dict else decode.members(parsed, settings)
            given = fields.pop("id", None)
            number = given if type(given) is int and 0 <= given <= NUMBER_MAX else _number(given)
            if beyond is not None:
                raise beyond
            if "watch" in fields or "unwatch" in fields:
                return Said(number, _wish(fields))
            if number is None:
                raise ProblemError("invalid", "a command needs an `id`, a whole number of 0 to 2^53-1", at="id")
            place = self._command(fields)
            return Said(number, place) if place.character is not None else Said(number, place, 1 + inside(place))
        except ProblemError as problem:
            # Without the frames it came through, which would all be kept as long as the message is.
            return Said(number, (beyond or problem).with_traceback(None))

    def _count(self) -> ProblemError | None:
        """Count a message, unless it was counted ahead; give the problem of one that is beyond the rate."""
        if self._counted:
            self._counted -= 1
            return None
        try:
            self.service.security.quota.take(self.caller, 1)
        except ProblemError as problem:
            return problem
        return None

    def _command(self, fields: dict[str, Any]) -> Addressed:
        """Give the command of a message.

        Raises:
            ProblemError: It is none, its caller may not give it, or the service takes none any more.
        """
        service = self.service
        if self._forbidden is not None:
            raise self._forbidden
        place = allowed(self.caller, addressed(fields, service.settings, index=0))
        if service.registry.is_draining:
            raise ProblemError("draining", STOPPING)
        if place.character is None:
            take_inside(service.security.quota, self.caller, [place])
        return place

    # What becomes of it.

    def send(self, commands: Sequence[Addressed], replied: Callable[[Outcome], None]) -> ProblemError | None:
        """Have commands decided in order; `replied` hears once and must not raise, or it is given why none is."""
        service, caller = self.service, self.caller
        try:
            # Of a session it is looked at what is in memory: what is not, was looked at when the channel began.
            require_share_now(service.security.quota, service.registry, caller, self.scene, ())
            service.registry.send(self.scene, commands, replied, caller=caller.name)
        except ProblemError as problem:
            return problem.with_traceback(None)
        except (MailboxFull, MemoryFull, Draining, JournalDamaged) as error:
            return problem_of_failure(error)
        return None

    def answers(self, said: Sequence[Said], outcome: Outcome) -> Iterator[bytes]:
        """Give the answer, or the problem, of each message in turn, in the channel's format; wishes are passed over."""
        failed = failure(outcome) if isinstance(outcome, Exception) else None
        results = iter(()) if isinstance(outcome, Exception) else iter(outcome)
        of_json = self.form.of_json
        for each in said:
            what = each.what
            if type(what) is Addressed:
                yield of_json(self.problem(each.number, failed) if failed else self._answer(each.number, next(results)))
            elif isinstance(what, ProblemError):
                yield of_json(self.problem(each.number, what))

    def _answer(self, number: int | None, result: Result) -> bytes:
        if type(result) is Undecided:
            return self.problem(number, problem_of(result))
        return _ANSWER % (number, answer_bytes(result.sequence, result.record))

    def problem(self, number: int | None, problem: ProblemError) -> bytes:
        """Give a problem as a message in JSON, and count it."""
        self.service.metrics.problem(problem.name)
        body = _encode(problem.body(retry_after=self.service.settings.retry_after_s))
        return _NAMELESS % body if number is None else _PROBLEM % (number, body)


def failure(error: Exception) -> ProblemError:
    """Give the problem that tells why nothing is answered."""
    if isinstance(error, ProblemError):
        return error
    return problem_of_failure(error) if type(error) in FAILURES else MISTAKE


def _number(given: Any) -> int | None:
    """Give a message's number; None where none is given.

    Raises:
        ProblemError: `invalid`.
    """
    if type(given) is float and given.is_integer():
        given = int(given)
    if given is None or (type(given) is int and 0 <= given <= NUMBER_MAX):
        return given
    raise ProblemError("invalid", "an `id` is a whole number of 0 to 2^53-1", at="id")


def _wish(fields: dict[str, Any]) -> Wish:
    """Read the one thing that a message asks of the channel.

    Raises:
        ProblemError: `invalid`, for a message that asks for more.
    """
    name = "watch" if "watch" in fields else "unwatch"
    asked = fields.pop(name)
    if fields:
        at = next(iter(fields))[:128]
        raise ProblemError("invalid", f"a message that has `{name}` has nothing beside it but `id`", at=at)
    return Wish(name, asked)
