"""The catalogue: every command, the gate that decides it, and the facts and refusals it may be answered with."""

from enum import StrEnum

from msgspec import Struct

from app.gates import event, graph, lives, parameter, transition
from app.gates.decision import Command, Fact, LifeRefusal, Refused
from app.gates.event import EventRefusal as E
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
    T.STALE_GENERATION,
)
_REQUEST = (G.UNKNOWN_GRAPH, G.UNKNOWN_REQUEST, G.STALE_REQUEST, G.ALREADY_COMMITTED)
_OPENING = (E.RETIRED_INSTANCE, E.INSTANCE_OUT_OF_RANGE)


def _entry(gate: str, facts: tuple[type[Fact], ...], *refusals: StrEnum) -> Entry:
    return Entry(gate, facts, (LifeRefusal.STALE_LIFE, *refusals))


COMMANDS: dict[type[Command], Entry] = {
    transition.Begin: _entry(
        "transition",
        (transition.TransitionGranted, transition.TransitionKept),
        T.UNKNOWN_LAYER,
        T.UNKNOWN_STATE,
        T.GENERATION_CONFLICT,
    ),
    transition.Complete: _entry("transition", (transition.TransitionCommitted,), *_TOKEN),
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
        E.DUPLICATE,
        E.QUEUE_FULL,
    ),
    event.CommitLoop: _entry("event", (event.LoopDelivered,), *_OPENING, E.INSTANCES_FULL, E.LOOP_ROLLBACK),
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
}
"""Every command there is. The journal's codec, the HTTP schema and the metrics all read this one table."""


def name_of(command: type[Command]) -> str:
    """Give a command's name on the wire."""
    tag = command.__struct_config__.tag
    assert isinstance(tag, str)
    return tag


def word_of(fact: type[Fact]) -> str:
    """Give the word that a fact is answered with."""
    tag = fact.__struct_config__.tag
    assert isinstance(tag, str)
    return tag


_WORDS: dict[type[Fact], str] = {fact: word_of(fact) for entry in COMMANDS.values() for fact in entry.facts}


def outcome_of(answer: Fact | Refused) -> str:
    """Give the word of an answer, accepted or refused."""
    return answer.outcome if type(answer) is Refused else _WORDS[type(answer)]
