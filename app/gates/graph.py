"""The graph gate: a candidate replaces the active graph in one swap, or the old pose stays visible.

Source: the PlayableGraph swap article; contract, sections 7 and 10.
"""

from enum import StrEnum
from math import sqrt
from typing import Annotated, Any, assert_never, final

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from app.gates.decision import MISSING_NAMED, Command, Fact, Refused
from app.gates.identity import Name, Number, Token, has_control_characters
from app.gates.parameter import is_non_finite
from app.gates.rig import MAIN, GraphRule

UNIT_TOLERANCE = 1e-3
"""How far a bone's quaternion may be from unit length."""

Bones = dict[str, list[int | float]]
Pose = str | Bones | None


class GraphRefusal(StrEnum):
    """Why a request or a candidate was refused, in the order of the checks: the first that applies.

    The order is part of the contract: stale work is never bound or evaluated, incomplete work never evaluated.
    """

    UNKNOWN_GRAPH = "unknown_graph"
    UNKNOWN_REQUEST = "unknown_request"
    STALE_REQUEST = "stale_request"
    ALREADY_COMMITTED = "already_committed"
    MISSING_OUTPUT = "missing_output"
    EVALUATION_FAILED = "evaluation_failed"
    LAYER_BUSY = "layer_busy"


class RequestState(StrEnum):
    """What became of the newest request of a graph."""

    NONE = ""
    OPEN = "open"
    COMMITTED = "committed"
    WITHDRAWN = "withdrawn"
    ENDED = "ended"


class Evaluation(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The first frame evaluated aside: whether it worked, and the pose as evidence.

    A pose is a name or digest, or bones as `[tx,ty,tz,qx,qy,qz,qw,…]`.
    """

    succeeded: bool
    pose: str | dict[Name, Annotated[list[int | float | bool | str | None], Meta(min_length=7)]] | None = None


class RequestGraph(Command, frozen=True, tag="request-graph"):
    """Ask that another graph be built. Answers: GraphRequested, or a GraphRefusal."""

    name: Name
    graph: Name = MAIN

    def __post_init__(self) -> None:
        _share_main(self)
        if has_control_characters(self.name + self.graph):
            raise ValueError("`name` and `graph` take no control characters")


class SubmitCandidate(Command, frozen=True, tag="submit-candidate"):
    """Offer a built and evaluated graph. Answers: GraphCommitted, or a GraphRefusal.

    With `if_idle` a graph whose layers have a pending transition is not swapped.
    """

    request: Number
    name: Name
    outputs: Annotated[list[Name], Meta(max_length=256)]
    evaluation: Evaluation
    graph: Name = MAIN
    if_idle: bool = False

    def __post_init__(self) -> None:
        _share_main(self)
        if has_control_characters("".join((self.name, self.graph, *self.outputs))):
            raise ValueError("`name`, `graph` and `outputs` take no control characters")


class WithdrawGraph(Command, frozen=True, tag="withdraw-graph"):
    """Close the open request: what is active is what is wanted. Answers: GraphWithdrawn, or a GraphRefusal."""

    request: Number
    graph: Name = MAIN

    def __post_init__(self) -> None:
        _share_main(self)
        if has_control_characters(self.graph):
            raise ValueError("`graph` takes no control characters")


class Graph(Struct, frozen=True, gc=False):
    """A graph that is or was active, and the request it answered (0 when the spawn brought it)."""

    name: str
    request: int
    pose: Pose
    outputs: list[str]


@final
class GraphRequested(Fact, frozen=True, tag="requested"):
    """The new request's number, and the open one that lost to it."""

    request: int
    superseded: int | None


@final
class GraphCommitted(Fact, frozen=True, tag="committed"):
    """One swap: what is visible now, what to release, the layers' new epochs, and the tokens that ended."""

    active: Graph
    retire: Graph | None
    epochs: dict[str, int]
    ended: list[Token]


@final
class GraphWithdrawn(Fact, frozen=True, tag="withdrawn"):
    """No request is open; the active graph stays."""


GraphCommand = RequestGraph | SubmitCandidate | WithdrawGraph
GraphFact = GraphRequested | GraphCommitted | GraphWithdrawn


class GraphSlot(Struct, frozen=True, array_like=True, gc=False):
    """One graph slot: what is active, and what is wanted. `epoch` counts the swaps from 1."""

    active: Graph | None = None
    epoch: int = 1
    latest_request: int = 0
    latest_name: str = ""
    state: RequestState = RequestState.NONE

    def refusal_of_request(self, request: int) -> Refused | None:
        """Say why a request number is not the open one; None when it is."""
        if request == 0 or request > self.latest_request:
            return Refused(GraphRefusal.UNKNOWN_REQUEST, at="request")
        newest: dict[str, Any] = {"request": self.latest_request, "name": self.latest_name}
        if request < self.latest_request or self.state in {RequestState.WITHDRAWN, RequestState.ENDED}:
            return Refused(GraphRefusal.STALE_REQUEST, at="request", by=newest)
        if self.state is RequestState.COMMITTED:
            return Refused(GraphRefusal.ALREADY_COMMITTED, at="request", by=newest)
        return None

    def decide_request(self) -> GraphRequested:
        """Allot the next request number; every older one has lost."""
        return GraphRequested(self.latest_request + 1, self.latest_request if self.state is RequestState.OPEN else None)

    def decide_withdraw(self, command: WithdrawGraph) -> GraphWithdrawn | Refused:
        """Close the open request without a swap."""
        return self.refusal_of_request(command.request) or GraphWithdrawn()

    def refusal_of_candidate(self, command: SubmitCandidate, rule: GraphRule) -> Refused | None:
        """Say why a candidate may not become visible, apart from busy layers; None when it may."""
        refused = self.refusal_of_request(command.request)
        if refused is not None:
            return refused
        missing = [output for output in rule.required_outputs if output not in command.outputs]
        if missing:
            return Refused(GraphRefusal.MISSING_OUTPUT, at=missing[0], missing=missing[:MISSING_NAMED])
        fault = evaluation_fault(command.evaluation, rule)
        return None if fault is None else Refused(GraphRefusal.EVALUATION_FAILED, at=fault)

    def evolve(self, command: GraphCommand, fact: GraphFact) -> "GraphSlot":
        """Apply what was decided. Cannot refuse."""
        latest, name = self.latest_request, self.latest_name
        if type(fact) is GraphRequested:
            assert type(command) is RequestGraph
            return GraphSlot(self.active, self.epoch, fact.request, command.name, RequestState.OPEN)
        if type(fact) is GraphCommitted:
            return GraphSlot(fact.active, self.epoch + 1, latest, name, RequestState.COMMITTED)
        if type(fact) is GraphWithdrawn:
            return GraphSlot(self.active, self.epoch, latest, name, RequestState.WITHDRAWN)
        assert_never(fact)


def evaluation_fault(evaluation: Evaluation, rule: GraphRule) -> str | None:
    """Name what shows that no first frame was evaluated: `evaluation`, `pose` or a bone; None when nothing does."""
    if not evaluation.succeeded:
        return "evaluation"
    pose = evaluation.pose
    if isinstance(pose, dict):
        for bone, values in pose.items():
            if not _is_sound(values):
                return bone
    if pose is not None and rule.bind_pose is not None and pose == rule.bind_pose:
        return "pose"
    return None


def _is_sound(values: list[Any]) -> bool:
    """Say whether a bone holds finite numbers only and a quaternion of unit length."""
    if any(is_non_finite(value) or type(value) not in (int, float) for value in values):
        return False
    return abs(sqrt(sum(float(value) ** 2 for value in values[3:7])) - 1.0) <= UNIT_TOLERANCE


def _share_main(command: "GraphCommand") -> None:
    """Let a spelled-out `main` be the default itself, so that both spellings are the same command under a key."""
    if command.graph == MAIN:
        force_setattr(command, "graph", MAIN)
