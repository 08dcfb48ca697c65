"""One character: its four gates joined, and what each command of a caller means to them."""

from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Struct

from app.gates.decision import Command, Fact, LifeRefusal, Problem, Refused, Undecided
from app.gates.event import EventGate
from app.gates.event_commands import Acknowledge, CommitLoop, Covered, Enqueue, EventRefusal, Play, Retire
from app.gates.graph import (
    Graph,
    GraphCommitted,
    GraphRefusal,
    GraphSlot,
    RequestGraph,
    SubmitCandidate,
    WithdrawGraph,
)
from app.gates.identity import Sealer, Token
from app.gates.moment import STILL, Moment
from app.gates.parameter import CommitParameters, ParametersCommitted, Snapshot
from app.gates.rig import MAIN, Rig
from app.gates.transition import (
    Begin,
    Cancel,
    Complete,
    Fail,
    TransitionArbiter,
    TransitionCancelled,
    TransitionCommitted,
    TransitionFailed,
    TransitionKept,
    TransitionRefusal,
)

PARAMETERS_MAX = 4096
"""How many parameters a character may hold whose rig declares none: it bounds what one caller can make it keep."""

Answer = Fact | Refused
"""What a gate decided: a fact, or a refusal that changed nothing."""


class Place(Struct, frozen=True, gc=False):
    """Where and when a command is decided.

    The character's id and rig, the seals of its scene and what may `hold` there, where its ticks stand, and the link
    that a granted token joins.
    """

    character: str
    rig: Rig
    sealer: Sealer
    holds: Callable[[Token], bool] | None = None
    moment: Moment = STILL
    link: int | None = None


class Carried(Struct, frozen=True, array_like=True, gc=False):
    """Numbers of former lives that a later life must go on from, and that the present one has no gate to hold."""

    epoch: int = 0
    request: int = 0
    triggers: dict[str, int] = {}


class Character(Struct, frozen=True, array_like=True, gc=False):
    """Everything a living character is. It never changes: a command that is accepted makes another.

    `rig` names the scene's rig that it was spawned with; `declared` is a digest of the spawn, defaults filled in.
    `carried` is there when that rig lacks layers, graphs or triggers that a former life had.
    """

    life: int
    rig: str
    declared: bytes
    revision: int
    layers: dict[str, TransitionArbiter]
    parameters: Snapshot
    events: EventGate
    graphs: dict[str, GraphSlot]
    carried: Carried | None = None

    def decide(self, command: Command, place: Place) -> Answer | Undecided:
        """Decide one command on this value; it stays as it is whatever the answer."""
        if command.life is not UNSET and command.life != self.life:
            release = "candidate" if type(command) is SubmitCandidate else UNSET
            return Refused(LifeRefusal.STALE_LIFE, at="life", by={"life": self.life}, release=release)
        if command.holder is not UNSET and not (place.holds is not None and place.holds(command.holder)):
            release = "candidate" if type(command) is SubmitCandidate else UNSET
            return Refused(LifeRefusal.HOLDER_LOST, at="holder", release=release)
        return _DECIDE[type(command)](self, command, place)

    def evolve(self, command: Command, fact: Fact, rig: Rig, *, at: int) -> "Character":
        """Apply what was decided at time `at` (ms since 1970). Asks no rule and cannot refuse."""
        return _EVOLVE[type(command)](self, command, fact, rig, at)

    def epoch(self, layer: str | None) -> int:
        """Give the epoch of a layer, or that of graph `main` for None; 0 where the rig has no such graph."""
        if layer is not None:
            return self.layers[layer].epoch
        main = self.graphs.get(MAIN)
        return 0 if main is None else main.epoch

    def restored(self, before: "Character", events: EventGate, rig: Rig) -> "Character":
        """Go back to what an earlier value of the same life was, `events` restored already; graphs and numbers go on.

        Source: contract, section 8, "Rollback".
        """
        return Character(
            self.life,
            self.rig,
            self.declared,
            self.revision + 1,
            {layer: arbiter.restored(before.layers[layer]) for layer, arbiter in self.layers.items()},
            self.parameters.restored(before.parameters, rig),
            events,
            self.graphs,
            self.carried,
        )

    def with_layer(self, layer: str, arbiter: TransitionArbiter) -> "Character":
        """Put one layer's arbiter in its place."""
        layers = self.layers.copy()
        layers[layer] = arbiter
        revision, parameters, events = self.revision + 1, self.parameters, self.events
        return Character(
            self.life, self.rig, self.declared, revision, layers, parameters, events, self.graphs, self.carried
        )

    def with_parameters(self, parameters: Snapshot) -> "Character":
        """Put the next snapshot in its place."""
        revision, layers, events = self.revision + 1, self.layers, self.events
        return Character(
            self.life, self.rig, self.declared, revision, layers, parameters, events, self.graphs, self.carried
        )

    def with_events(self, events: EventGate) -> "Character":
        """Put the next value of the event gate in its place."""
        revision, layers, parameters = self.revision + 1, self.layers, self.parameters
        return Character(
            self.life, self.rig, self.declared, revision, layers, parameters, events, self.graphs, self.carried
        )


def _decide_begin(self: Character, command: Begin, place: Place) -> Answer:
    arbiter = self.layers.get(command.layer)
    if arbiter is None:
        return Refused(TransitionRefusal.UNKNOWN_LAYER, at="layer")
    states = place.rig.layers[command.layer].states
    return arbiter.decide_begin(
        command,
        character=place.character,
        life=self.life,
        states=states,
        sealer=place.sealer,
        tick=place.moment.tick,
        link=place.link,
    )


def _refusal_of_token(self: Character, token: Token, place: Place) -> Refused | None:
    arbiter = self.layers.get(token.layer)
    if token.character != place.character:
        now = UNSET if arbiter is None else arbiter.now()
        return Refused(TransitionRefusal.UNKNOWN_TOKEN, at="token", layer=now)
    if arbiter is not None:
        return arbiter.refusal(token, life=self.life, sealer=place.sealer)
    granted_in = place.sealer.life_of(token)
    if granted_in is not None and granted_in < self.life:
        return Refused(TransitionRefusal.STALE_EPOCH, at="token", by={"life": self.life})
    return Refused(TransitionRefusal.UNKNOWN_TOKEN, at="token")


def _decide_complete(self: Character, command: Complete, place: Place) -> Answer:
    refused = _refusal_of_token(self, command.token, place)
    if refused is not None:
        return refused
    arbiter = self.layers[command.token.layer]
    if arbiter.pending is not None and arbiter.pending.not_before > place.moment.tick:
        not_before = {"tick": arbiter.pending.not_before}
        return Refused(TransitionRefusal.TOO_EARLY, at="token", by=not_before, layer=arbiter.now())
    return TransitionCommitted(command.token.to)


def _decide_cancel(self: Character, command: Cancel, place: Place) -> Answer:
    refused = _refusal_of_token(self, command.token, place)
    return refused or TransitionCancelled(self.layers[command.token.layer].current)


def _decide_fail(self: Character, command: Fail, place: Place) -> Answer:
    refused = _refusal_of_token(self, command.token, place)
    return refused or TransitionFailed(self.layers[command.token.layer].current)


def _decide_parameters(self: Character, command: CommitParameters, place: Place) -> Answer | Undecided:
    answer = self.parameters.decide(command, place.rig)
    held = 0 if place.rig.mode == "full" else len(self.parameters.values)
    if held + len(command.values) > PARAMETERS_MAX and type(answer) is ParametersCommitted:
        names = {item.name for item in command.values if item.name is not UNSET}
        added = len(names) if place.rig.mode == "full" else len(names - self.parameters.values.keys())
        if held + added > PARAMETERS_MAX:
            return Undecided(Problem.TOO_LARGE, f"a character holds at most {PARAMETERS_MAX} parameters", at="values")
    return answer


def _decide_play(self: Character, command: Play, place: Place) -> Answer:
    if command.layer is not UNSET and command.layer not in self.layers:
        return Refused(EventRefusal.UNKNOWN_LAYER, at="layer")
    return self.events.decide_play(command, place.rig)


def _decide_enqueue(self: Character, command: Enqueue, place: Place) -> Answer:
    return self.events.decide_enqueue(command, place.rig, self.epoch, place.moment)


def _decide_covered(self: Character, command: Covered, place: Place) -> Answer:
    return self.events.decide_covered(command, place.rig, self.epoch, place.moment)


def _decide_commit_loop(self: Character, command: CommitLoop, place: Place) -> Answer:
    return self.events.decide_commit_loop(command, place.rig, place.moment)


def _decide_retire(self: Character, command: Retire, place: Place) -> Answer:
    return self.events.decide_retire(command, place.rig)


def _decide_acknowledge(self: Character, command: Acknowledge, place: Place) -> Answer:
    return self.events.decide_acknowledge(command)


def _decide_request(self: Character, command: RequestGraph, place: Place) -> Answer:
    slot = self.graphs.get(command.graph)
    return Refused(GraphRefusal.UNKNOWN_GRAPH, at="graph") if slot is None else slot.decide_request()


def _decide_withdraw(self: Character, command: WithdrawGraph, place: Place) -> Answer:
    slot = self.graphs.get(command.graph)
    return Refused(GraphRefusal.UNKNOWN_GRAPH, at="graph") if slot is None else slot.decide_withdraw(command)


def _decide_candidate(self: Character, command: SubmitCandidate, place: Place) -> Answer:
    refused = _refusal_of_candidate(self, command, place)
    if refused is not None:
        return Refused(refused.outcome, at=refused.at, by=refused.by, missing=refused.missing, release="candidate")
    slot = self.graphs[command.graph]
    driven = place.rig.graphs[command.graph].layers
    pose: Any = command.evaluation.pose
    ended = [self.layers[layer].pending_token(place.character, layer) for layer in driven]
    return GraphCommitted(
        Graph(command.name, command.request, pose, command.outputs),
        slot.active,
        {layer: self.layers[layer].epoch + 1 for layer in driven},
        [token for token in ended if token is not None],
    )


def _refusal_of_candidate(self: Character, command: SubmitCandidate, place: Place) -> Refused | None:
    slot = self.graphs.get(command.graph)
    if slot is None:
        return Refused(GraphRefusal.UNKNOWN_GRAPH, at="graph")
    rule = place.rig.graphs[command.graph]
    refused = slot.refusal_of_candidate(command, rule)
    if refused is not None:
        return refused
    if command.if_idle:
        for layer in rule.layers:
            if self.layers[layer].pending is not None:
                return Refused(GraphRefusal.LAYER_BUSY, at=layer)
    return None


def _evolve_transition(self: Character, command: Any, fact: Any, rig: Rig, at: int) -> Character:
    if type(fact) is TransitionKept:
        return self
    layer = command.layer if type(command) is Begin else command.token.layer
    return self.with_layer(layer, self.layers[layer].evolve(command, fact, at=at))


def _evolve_parameters(self: Character, command: CommitParameters, fact: Any, rig: Rig, at: int) -> Character:
    parameters = self.parameters.evolve(command, fact, rig)
    return self if parameters is self.parameters else self.with_parameters(parameters)


def _evolve_enqueue(self: Character, command: Enqueue, fact: Any, rig: Rig, at: int) -> Character:
    return self.with_events(
        self.events.evolve_enqueue(command, fact, rig, self.epoch, at=at, touched=self.revision + 1)
    )


def _evolve_events(self: Character, command: Any, fact: Any, rig: Rig, at: int) -> Character:
    revision = self.revision if type(command) is Acknowledge else self.revision + 1
    events = self.events.evolve(command, fact, rig, self.epoch, at=at, touched=revision)
    layers, parameters = self.layers, self.parameters
    return Character(
        self.life, self.rig, self.declared, revision, layers, parameters, events, self.graphs, self.carried
    )


def _evolve_graphs(self: Character, command: Any, fact: Any, rig: Rig, at: int) -> Character:
    graphs = {**self.graphs, command.graph: self.graphs[command.graph].evolve(command, fact)}
    layers = self.layers
    if type(fact) is GraphCommitted:
        layers = {name: arbiter.next_epoch() if name in fact.epochs else arbiter for name, arbiter in layers.items()}
    revision, parameters, events = self.revision + 1, self.parameters, self.events
    return Character(self.life, self.rig, self.declared, revision, layers, parameters, events, graphs, self.carried)


_DECIDE: dict[type[Command], Callable[[Character, Any, Place], Answer | Undecided]] = {
    Begin: _decide_begin,
    Complete: _decide_complete,
    Cancel: _decide_cancel,
    Fail: _decide_fail,
    CommitParameters: _decide_parameters,
    Play: _decide_play,
    Enqueue: _decide_enqueue,
    Covered: _decide_covered,
    CommitLoop: _decide_commit_loop,
    Retire: _decide_retire,
    Acknowledge: _decide_acknowledge,
    RequestGraph: _decide_request,
    SubmitCandidate: _decide_candidate,
    WithdrawGraph: _decide_withdraw,
}
_EVOLVE: dict[type[Command], Callable[[Character, Any, Any, Rig, int], Character]] = {
    **dict.fromkeys((Begin, Complete, Cancel, Fail), _evolve_transition),
    CommitParameters: _evolve_parameters,
    Enqueue: _evolve_enqueue,
    **dict.fromkeys((Play, Covered, CommitLoop, Retire, Acknowledge), _evolve_events),
    **dict.fromkeys((RequestGraph, SubmitCandidate, WithdrawGraph), _evolve_graphs),
}
