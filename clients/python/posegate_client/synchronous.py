"""The sync client: sends calls on the thread that asks; many threads may share it."""

import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from posegate_client import calls, commands
from posegate_client.answers import Answer
from posegate_client.call import Call, Reply
from posegate_client.channel_address import Address
from posegate_client.command import Command
from posegate_client.course import Again, Course
from posegate_client.feed import Wanted
from posegate_client.limits import Limits
from posegate_client.problems import Problem
from posegate_client.sending import (
    checked_url,
    garbled,
    headers_of,
    is_unsent,
    pool_of,
    request_of,
    said_by,
    too_large,
    watch_timeout,
)
from posegate_client.sync_channel import Channel
from posegate_client.sync_watch import Watch
from posegate_client.views import CharacterRow, Decision, Info, Ready
from posegate_client.watching import Watching

T = TypeVar("T")
AnswerT = TypeVar("AnswerT")
P = ParamSpec("P")


def _of_scene(
    build: Callable[Concatenate[str, P], Call[T]],
) -> Callable[Concatenate["Scene", P], T]:
    """Make a method of a scene out of a call."""

    @wraps(build)
    def sent(self: "Scene", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.posegate.send(build(self.name, *args, **kwargs))

    return sent


def _asked_of_scene(
    build: Callable[P, Command[T]],
) -> Callable[Concatenate["Scene", P], T]:
    """Make a method of a scene out of a command."""

    @wraps(build)
    def asked(self: "Scene", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.ask(build(*args, **kwargs))

    return asked


def _of_character(
    build: Callable[Concatenate[str, str, P], Call[T]],
) -> Callable[Concatenate["Character", P], T]:
    """Make a method of a character out of a call."""

    @wraps(build)
    def sent(self: "Character", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.scene.posegate.send(build(self.scene.name, self.name, *args, **kwargs))

    return sent


def _asked(
    build: Callable[Concatenate[str, P], Command[T]],
) -> Callable[Concatenate["Character", P], T]:
    """Make a method of a character out of a command."""

    @wraps(build)
    def asked(self: "Character", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.scene.ask(build(self.name, *args, **kwargs))

    return asked


class Posegate:
    """One posegate at a base URL, `http://127.0.0.1:8080`. `key` is an API key or a session's token.

    Close it, or use it in `with`. Calls may go on side by side. `verify` is as httpx has it, for the channel too;
    `transport` takes the place of the network in tests of calls.

    Raises:
        ValueError: The URL is none.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        limits: Limits | None = None,
        verify: ssl.SSLContext | bool = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = checked_url(url)
        self.limits = limits or Limits()
        self.headers = headers_of(key)
        self.verify = verify
        self.attempts = 0
        self._http = httpx.Client(
            base_url=self.url, headers=self.headers, limits=pool_of(self.limits), verify=verify, transport=transport
        )
        self.streams = httpx.Client(
            base_url=self.url,
            headers=self.headers,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            timeout=watch_timeout(self.limits),
            verify=verify,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections but those of channels, which are closed by themselves."""
        self._http.close()
        self.streams.close()

    def scene(self, name: str) -> "Scene":
        """Give a scene, whether it exists or not: a spawn makes it.

        Raises:
            ValueError: The name is no identifier.
        """
        return Scene(self, calls.identifier(name))

    def send(self, call: Call[T], *, limits: Limits | None = None) -> T:
        """Send a call until it has its answer, within the limits: the client's, or others for this call.

        Raises:
            ProblemError: No gate decided.
            Unanswered: No answer came.
            NotPosegate: What came is none.
        """
        course = Course(call, limits or self.limits, now=time.monotonic())
        while True:
            try:
                reply = self._sent(call, course.attempt_s(time.monotonic()))
            except httpx.DecodingError as error:
                raise garbled(error) from error
            except (httpx.TransportError, TimeoutError) as error:
                was_sent = not is_unsent(error)
                step: Any = course.lost(said_by(error), was_sent=was_sent, now=time.monotonic(), cause=error)
            else:
                step = course.replied(reply, time.monotonic())
            if not isinstance(step, Again):
                value: T = step.value
                return value
            time.sleep(step.pause_s)

    def _sent(self, call: Call[Any], attempt_s: float) -> Reply:
        """Send it once. `attempt_s` ends every silence, and an answer that comes in drops between two of them."""
        self.attempts += 1
        chunks, size, until = [], 0, time.monotonic() + attempt_s
        with self._http.stream(**request_of(call, attempt_s)) as response:
            for chunk in response.iter_bytes():
                size += len(chunk)
                if time.monotonic() > until:
                    raise TimeoutError(f"the answer was not whole after {attempt_s:.1f} s")
                if size > self.limits.answer_bytes_max:
                    raise too_large(self.limits)
                chunks.append(chunk)
        return Reply(response.status_code, response.headers, b"".join(chunks))

    def scenes(self) -> Iterator[str]:
        """Give the names of all scenes that the caller sees, ascending, read page by page."""
        cursor: str | None = None
        while True:
            page = self.send(calls.scenes(cursor=cursor))
            yield from page.scenes
            cursor = page.next
            if cursor is None:
                return

    def info(self) -> Info:
        """Say what the service is, and its limits."""
        return self.send(calls.info())

    def ready(self) -> Ready:
        """Say whether the service takes commands, and why not."""
        return self.send(calls.ready())

    def metrics(self) -> str:
        """Give what the service counts, in Prometheus' text format."""
        return self.send(calls.metrics())


class Scene:
    """One scene: the unit of order. What is decided in it has one sequence."""

    def __init__(self, posegate: Posegate, name: str) -> None:
        self.posegate = posegate
        self.name = name

    def character(self, name: str) -> "Character":
        """Give a character, alive or not.

        Raises:
            ValueError: The name is no identifier.
        """
        return Character(self, calls.identifier(name))

    def ask(self, command: Command[AnswerT]) -> AnswerT:
        """Ask one command."""
        return self.posegate.send(calls.command(self.name, command))

    def batch(self, asked: Iterable[Command[Any]]) -> tuple[Answer | Problem, ...]:
        """Ask many commands in one request, each decided on its own; a problem stands where an answer would."""
        return self.posegate.send(calls.batch(self.name, asked))

    bundle = _asked_of_scene(commands.bundle)
    tick = _asked_of_scene(commands.tick)
    declare_rig = _of_scene(calls.declare_rig)
    close = _of_scene(calls.close_scene)
    mint_session = _of_scene(calls.mint_session)
    inspect = _of_scene(calls.scene)
    characters_page = _of_scene(calls.characters)
    history_page = _of_scene(calls.history)
    tick_answers = _of_scene(calls.tick_answers)

    def characters(self, *, min_sequence: int | None = None) -> Iterator[CharacterRow]:
        """Give all living characters by id, ascending, read page by page."""
        cursor: str | None = None
        while True:
            page = self.characters_page(cursor=cursor, min_sequence=min_sequence)
            yield from page.characters
            cursor = page.next
            if cursor is None:
                return

    def history(
        self,
        *,
        after: int = 0,
        character: str | None = None,
        layer: str | None = None,
        command: str | None = None,
        outcome: str | None = None,
        refused: bool = False,
        min_sequence: int | None = None,
    ) -> Iterator[Decision]:
        """Give all decisions after a sequence, filtered, in order, read page by page up to the present."""
        place: int | None = after
        while place is not None:
            page = self.history_page(
                after=place,
                character=character,
                layer=layer,
                command=command,
                outcome=outcome,
                refused=refused,
                min_sequence=min_sequence,
            )
            yield from page.decisions
            place = page.next

    def watch(self, wanted: Wanted | None = None, *, after: int | None = None) -> Watch:
        """Give what is decided behind the sequence `after`, or from now on, turn by turn, without gap or repeat.

        A lost connection is made again where it was left. What cannot be given any more is said: a `Reset`.
        """
        state = Watching(self.posegate.limits, self.name, wanted or Wanted(), after)
        return Watch(self.posegate.streams, state, self._present)

    def _present(self) -> int:
        return self.inspect().sequence

    def channel(self) -> Channel:
        """Give a channel: one connection with many commands under way, and a feed."""
        posegate = self.posegate
        address = Address(posegate.url, posegate.headers, posegate.limits, posegate.verify)
        return Channel(address, self.name)


class Character:
    """One character of a scene."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.scene = scene
        self.name = name

    spawn = _asked(commands.spawn)
    despawn = _asked(commands.despawn)
    begin = _asked(commands.begin)
    complete = _asked(commands.complete)
    cancel = _asked(commands.cancel)
    fail = _asked(commands.fail)
    commit_parameters = _asked(commands.commit_parameters)
    play = _asked(commands.play)
    enqueue = _asked(commands.enqueue)
    covered = _asked(commands.covered)
    commit_loop = _asked(commands.commit_loop)
    retire = _asked(commands.retire)
    ack = _asked(commands.ack)
    request_graph = _asked(commands.request_graph)
    submit_candidate = _asked(commands.submit_candidate)
    withdraw_graph = _asked(commands.withdraw_graph)
    inspect = _of_character(calls.character)
    parameters = _of_character(calls.parameters)
    deliveries = _of_character(calls.deliveries)
