"""The catalogue: every command, the gate that decides it, and the facts and refusals it may be answered with."""

from enum import StrEnum

from msgspec import Struct

from app.gates import bundle, graph, lives, parameter, tick, transition
from app.gates import event_commands as event
from app.gates.decision import Command, Fact, LifeRefusal, Refused
from app.gates.event_commands import EventRefusal as E
from app.gates.graph import GraphRefusal as G
from app.gates.parameter import ParameterRefusal as P
from app.gates.transition import TransitionRefusal as T


class Entry(Struct, frozen=True):
    """One command: its gate's name, its facts, and its refusals in the order of the checks."""

    gate: str
    facts: tuple[type[Fact], ...]
    refusals: tuple[StrEnum, ...]


_TOKEN = (
    T.UNKNOWN_TOKEN,
    T.STALE_EPOCH,
    T.ALREADY_COMPLETED,
    T.ALREADY_CANCELLED,
    T.ALREADY_FAILED,
    T.EXPIRED,
    T.ROLLED_BACK,
    T.STALE_GENERATION,
)
_REQUEST = (G.UNKNOWN_GRAPH, G.UNKNOWN_REQUEST, G.STALE_REQUEST, G.ALREADY_COMMITTED)
_OPENING = (E.RETIRED_INSTANCE, E.INSTANCE_OUT_OF_RANGE)


def _entry(gate: str, facts: tuple[type[Fact], ...], *refusals: StrEnum) -> Entry:
    return Entry(gate, facts, (*LifeRefusal, *refusals))


COMMANDS: dict[type[Command], Entry] = {
    transition.Begin: _entry(
        "transition",
        (transition.TransitionGranted, transition.TransitionKept),
        T.UNKNOWN_LAYER,
        T.UNKNOWN_STATE,
        T.GENERATION_CONFLICT,
    ),
    transition.Complete: _entry("transition", (transition.TransitionCommitted,), *_TOKEN, T.TOO_EARLY),
    transition.Cancel: _entry("transition", (transition.TransitionCancelled,), *_TOKEN),
    transition.Fail: _entry("transition", (transition.TransitionFailed,), *_TOKEN),
    parameter.CommitParameters: _entry("parameter", (parameter.ParametersCommitted,), *P),
    event.Play: _entry("event", (event.InstanceOpened,), E.UNKNOWN_LAYER, *_OPENING, E.INSTANCE_OPEN, E.INSTANCES_FULL),
    event.Enqueue: _entry(
        "event",
        (event.EventAccepted,),
        E.UNKNOWN_KIND,
        *_OPENING,
        E.INSTANCES_FULL,
        E.STALE_EPOCH,
        E.LATE_LOOP,
        E.BEYOND_WINDOW,
        E.LATE_TICK,
        E.DUPLICATE,
        E.QUEUE_FULL,
    ),
    event.Covered: _entry(
        "event",
        (event.SpanCovered,),
        E.UNKNOWN_INSTANCE,
        E.RETIRED_INSTANCE,
        E.UNKNOWN_CLIP,
        E.SPAN_OUT_OF_RANGE,
        E.STALE_EPOCH,
        E.LATE_LOOP,
        E.BEYOND_WINDOW,
        E.LATE_TICK,
        E.QUEUE_FULL,
    ),
    event.CommitLoop: _entry(
        "event", (event.LoopDelivered,), *_OPENING, E.INSTANCES_FULL, E.LOOP_ROLLBACK, E.DELIVERY_BACKLOG
    ),
    event.Retire: _entry("event", (event.InstanceRetired,), E.UNKNOWN_INSTANCE, E.RETIRED_INSTANCE),
    event.Acknowledge: _entry("event", (event.DeliveriesAcknowledged,), E.UNKNOWN_DELIVERY),
    graph.RequestGraph: _entry("graph", (graph.GraphRequested,), G.UNKNOWN_GRAPH),
    graph.SubmitCandidate: _entry(
        "graph", (graph.GraphCommitted,), *_REQUEST, G.MISSING_OUTPUT, G.EVALUATION_FAILED, G.LAYER_BUSY
    ),
    graph.WithdrawGraph: _entry("graph", (graph.GraphWithdrawn,), *_REQUEST),
    lives.Spawn: _entry("life", (lives.Spawned,)),
    lives.Despawn: _entry("life", (lives.Despawned,)),
    lives.DeclareRig: Entry("life", (lives.RigDeclared,), ()),
    lives.CloseScene: Entry("life", (lives.SceneClosed,), ()),
    bundle.Bundle: Entry("bundle", (bundle.Bundled,), (LifeRefusal.HOLDER_LOST, *bundle.BundleRefusal)),
    tick.Tick: Entry("tick", (tick.Ticked,), (LifeRefusal.HOLDER_LOST, *tick.TickRefusal)),
}
"""Every command there is. The journal's codec, the HTTP schema and the metrics all read this one table."""


def word_of(fact: type[Fact]) -> str:
    """Give the word that a fact is answered with."""
    tag = fact.__struct_config__.tag
    assert isinstance(tag, str)
    return tag


def refusal_of(answer: Fact | Refused) -> Refused | None:
    """Give why an answer is no acceptance; of a tick with no part accepted, its first refusal. None for a fact."""
    if type(answer) is tick.Ticked:
        return answer.refusal()
    return answer if type(answer) is Refused else None


def outcome_of(answer: Fact | Refused) -> str:
    """Give the word of an answer, accepted or refused; of a tick with no part accepted, its first refusal's."""
    refused = refusal_of(answer)
    return str(refused.outcome) if refused is not None else word_of(type(answer))  # type: ignore[arg-type]  # a fact
