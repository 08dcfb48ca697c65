"""The adapter: maps the numbers and handles of a recording to those of the gate, and its lines to commands."""

from typing import Any, Literal, assert_never

from msgspec import Struct

from app.replay.trace import (
    AnyLine,
    BeginLine,
    CommitLoopLine,
    CompleteLine,
    EventLine,
    GraphCandidateLine,
    GraphRequestLine,
    MetaLine,
    NoteLine,
    ParametersLine,
    PlayLine,
    Trace,
)

Gate = Literal["transitions", "parameters", "events", "graphs"]
GATES: tuple[Gate, ...] = ("transitions", "parameters", "events", "graphs")

Played = (
    BeginLine
    | CompleteLine
    | PlayLine
    | EventLine
    | CommitLoopLine
    | ParametersLine
    | GraphRequestLine
    | GraphCandidateLine
)
"""The lines that stand for a command."""

Body = dict[str, Any]
"""A JSON object of the wire."""


class Ask(Struct, frozen=True):
    """A command for the gate, as it stands in a batch."""

    command: Body


class Unanswerable(Struct, frozen=True):
    """The line names something that the gate never gave out, so there is nothing to ask it."""

    why: str


class NotYet(Struct, frozen=True):
    """The line needs what an unanswered command will get. Send what waits, then come back with the line."""


Step = Ask | Unanswerable | NotYet


def gate_of(line: Played) -> Gate:
    """Give the gate that decides a line."""
    match line:
        case BeginLine() | CompleteLine():
            return "transitions"
        case ParametersLine():
            return "parameters"
        case PlayLine() | EventLine() | CommitLoopLine():
            return "events"
        case GraphRequestLine() | GraphCandidateLine():
            return "graphs"
        case _ as never:
            assert_never(never)


def played(trace: Trace) -> list[Played]:
    """Give the lines of a trace that stand for commands, in order."""
    return [line for line in trace.lines if not isinstance(line, MetaLine | NoteLine)]


def initial_states(lines: list[Played]) -> dict[str, dict[str, str | None]]:
    """Give, by character and layer, the state a recording starts from; None where it never says.

    A layer counts as seen by a transition or a clip on it. Graphs are no layers, though recorders write `layer: graph`.
    """
    layers: dict[str, dict[str, str | None]] = {}
    for line in lines:
        mine = layers.setdefault(line.character, {})
        if isinstance(line, BeginLine) and mine.get(line.layer) is None:
            mine[line.layer] = line.believed
        elif isinstance(line, CompleteLine | PlayLine):
            mine.setdefault(line.layer, None)
    return layers


def spawns(lines: list[Played]) -> list[Body]:
    """Give a `spawn` command for each character of a recording, with a rig that fits what it does there.

    Parameters stay undeclared and sparse and any event kind is taken, as engines know neither. Graph `main` drives
    every layer.
    """
    commands: list[Body] = []
    for character, layers in initial_states(lines).items():
        rig: Body = {"parameters": {"mode": "sparse"}}
        if layers:
            rig["layers"] = {name: {} if state is None else {"initial": state} for name, state in layers.items()}
            rig["graphs"] = {"main": {"layers": list(layers)}}
        commands.append({"command": "spawn", "character": character, "rig": rig})
    return commands


class Adapter:
    """What a recording's handles and request numbers became at the gate.

    `step` gives what to do for a line; `learn` takes the answer to an `Ask`, in the order of the steps. Clip instance
    numbers need no map: a host may bring its own, and a recorder uses each number once in a recording.
    """

    def __init__(self) -> None:
        self._tokens: dict[str, Body] = {}
        self._newest: dict[tuple[str, str, str], Body] = {}
        self._begun: set[str] = set()
        self._unanswered: dict[str, tuple[str, str, str]] = {}
        self._requests: dict[tuple[str, int], int] = {}
        self._requested: set[tuple[str, int]] = set()
        self._unanswered_requests: set[tuple[str, int]] = set()

    def step(self, line: Played) -> Step:
        """Give what to do for a line. After `NotYet` nothing has changed: the line can be given again."""
        match line:
            case BeginLine():
                self._begun.add(line.handle)
                self._tokens.pop(line.handle, None)
                self._unanswered[line.handle] = (line.character, line.layer, line.target)
                return _ask("begin", line, layer=line.layer, target=line.target)
            case CompleteLine():
                return self._complete(line)
            case PlayLine():
                return _ask("play", line, clip=line.clip, layer=line.layer, clip_instance=line.clip_instance)
            case EventLine():
                place = {"clip_instance": line.clip_instance, "loop": line.loop, "frame": line.frame}
                return _ask("enqueue", line, **place, kind=line.kind)
            case CommitLoopLine():
                return _ask("commit-loop", line, clip_instance=line.clip_instance, loop=line.loop)
            case ParametersLine():
                values = [{"name": name, "value": value} for name, value in line.values]
                return _ask("commit-parameters", line, values=values)
            case GraphRequestLine():
                self._requested.add((line.character, line.request))
                self._unanswered_requests.add((line.character, line.request))
                return _ask("request-graph", line, name=line.name)
            case GraphCandidateLine():
                return self._candidate(line)
            case _ as never:
                assert_never(never)

    def _complete(self, line: CompleteLine) -> Step:
        """Find the token a completion is about: that of its handle, or else the newest with its target."""
        handle = line.request
        if handle is not None and handle in self._begun:
            if handle in self._unanswered:
                return NotYet()
            token = self._tokens.get(handle)
            missing = f"the begin of {handle} was granted no token"
        else:
            place = (line.character, line.layer, line.target)
            if place in self._unanswered.values():
                return NotYet()
            token = self._newest.get(place)
            missing = f"no token towards {line.target} was ever granted on {line.character}/{line.layer}"
        return Unanswerable(missing) if token is None else _ask("complete", line, token=token)

    def _candidate(self, line: GraphCandidateLine) -> Step:
        place = (line.character, line.request)
        if place in self._unanswered_requests:
            return NotYet()
        request = self._requests.get(place)
        if request is None:
            asked = place in self._requested
            return Unanswerable(f"request {line.request} was {'given no number' if asked else 'never made'}")
        evaluation: Body = {"succeeded": line.evaluated}
        if line.pose is not None:
            evaluation["pose"] = line.pose
        given = {"request": request, "name": line.name, "outputs": line.outputs}
        return _ask("submit-candidate", line, **given, evaluation=evaluation)

    def learn(self, line: AnyLine, answer: Body) -> None:
        """Take what the gate answered to a line, be it an acceptance, a refusal or a problem."""
        if isinstance(line, BeginLine):
            self._unanswered.pop(line.handle, None)
            token = answer.get("token")
            if token is not None:
                self._tokens[line.handle] = token
                self._newest[line.character, line.layer, line.target] = token
        elif isinstance(line, GraphRequestLine):
            self._unanswered_requests.discard((line.character, line.request))
            request = answer.get("request")
            if request is not None:
                self._requests[line.character, line.request] = request


def _ask(command: str, line: Played, **fields: Any) -> Ask:
    return Ask({"command": command, "character": line.character, **fields})
