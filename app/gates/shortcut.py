"""Shortcuts: the hottest commands decided and applied in one step, where nothing about them is out of the ordinary.

A shortcut gives the answer and the next value that `Character.decide` and `evolve` would give, and None wherever they
might refuse, or where more may follow: then these decide. Tests hold the two against each other.
"""

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from app.gates.character import PARAMETERS_MAX, Character
from app.gates.decision import Command, Fact
from app.gates.event import ACCEPTED
from app.gates.event_commands import CommitLoop, Enqueue, LoopDelivered
from app.gates.identity import Sealer, Token
from app.gates.ordinary import is_bare, surely_fits
from app.gates.parameter import CommitParameters, ParametersCommitted, surely_taken
from app.gates.rig import Rig
from app.gates.transition import Begin, Complete, TransitionCommitted, TransitionGranted, TransitionKept

Shortcut = Callable[[Any, str, Character, Rig, Sealer, int], tuple[Fact, Character] | None]
"""Takes a command without `life` and `holder`, the character's id and value, its rig, the sealer and the time."""


def _begin(
    command: Begin, name: str, before: Character, rig: Rig, sealer: Sealer, at: int
) -> tuple[Fact, Character] | None:
    layer, target = command.layer, command.target
    arbiter = before.layers.get(layer)
    if arbiter is None or arbiter.holds:
        return None
    if command.if_generation is not UNSET or command.data is not UNSET:
        return None
    if command.min_ticks is not UNSET or command.deadline_ticks is not UNSET:
        return None
    states = rig.layers[layer].states
    if states is not None and target not in states:
        return None
    current, epoch, generation = arbiter.current, arbiter.epoch, arbiter.generation + 1
    if command.if_same is not UNSET:
        pending = arbiter.pending
        if pending is not None and pending.to == target:
            held = Token(name, layer, epoch, pending.generation, pending.from_, target, pending.seal)
            return TransitionKept(held), before
        if pending is None and current == target:
            return TransitionKept(None), before
    seal = sealer.seal(before.life, name, layer, epoch, generation, current, target)
    token = Token(name, layer, epoch, generation, current, target, seal)
    fact = TransitionGranted(token, arbiter.pending_token(name, layer))
    return fact, before.with_layer(layer, arbiter.granted(fact, UNSET, at))


def _complete(
    command: Complete, name: str, before: Character, rig: Rig, sealer: Sealer, at: int
) -> tuple[Fact, Character] | None:
    token = command.token
    layer = token.layer
    arbiter = before.layers.get(layer)
    if arbiter is None or token.character != name or not arbiter.is_pending(token):
        return None
    pending = arbiter.pending
    if pending is None or pending.not_before:
        return None
    return TransitionCommitted(pending.to), before.with_layer(layer, arbiter.committed_by(at))


def _commit_parameters(
    command: CommitParameters, name: str, before: Character, rig: Rig, sealer: Sealer, at: int
) -> tuple[Fact, Character] | None:
    values, snapshot = command.values, before.parameters
    if rig.mode == "full" or command.base_version is not UNSET or not values:
        return None
    if len(snapshot.values) + len(values) > PARAMETERS_MAX or not surely_taken(values, rig):
        return None
    fact = ParametersCommitted(snapshot.version + 1)
    return fact, before.with_parameters(snapshot.evolve(command, fact, rig))


def _enqueue(
    command: Enqueue, name: str, before: Character, rig: Rig, sealer: Sealer, at: int
) -> tuple[Fact, Character] | None:
    events, number = before.events, command.clip_instance
    held = events.instances.get(number)
    if held is None or not is_bare(command, rig) or not surely_fits(command, held, rig, before.epoch):
        return None
    key = command.frame, command.kind
    waiting = held.with_waiting(command.loop, key, None, before.revision + 1)
    return ACCEPTED, before.with_events(events.with_held(number, waiting, events.given))


def _commit_loop(
    command: CommitLoop, name: str, before: Character, rig: Rig, sealer: Sealer, at: int
) -> tuple[Fact, Character] | None:
    events, number, loop = before.events, command.clip_instance, command.loop
    held = events.instances.get(number)
    if held is None or rig.kinds is not None or events.waiting_bytes or (rig.clips and held.clip is not None):
        return None
    if held.committed_loop is not None and loop < held.committed_loop:
        return None
    leaving, given = held.events(number, loop), events.given
    delivery = given.last + 1 if leaving else None
    fact = LoopDelivered(leaving, delivery, held.pending - len(leaving))
    if leaving:
        given = given.with_events(leaving, kept=rig.deliveries_kept)
    committed = held.with_committed(loop, before.revision + 1)
    return fact, before.with_events(events.with_held(number, committed, given))


SHORTCUTS: dict[type[Command], Shortcut] = {
    Begin: _begin,
    Complete: _complete,
    CommitParameters: _commit_parameters,
    Enqueue: _enqueue,
    CommitLoop: _commit_loop,
}
