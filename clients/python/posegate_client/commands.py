"""Commands: what can be asked of a scene, each a value that any door takes: alone, in a batch or bundle, on a channel.

What is left out is not sent. Every command may name the `life` it is for and a `holder`, a token that must still have
its right; `key` is its idempotency key, which is made when it is sent where none is given.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from msgspec import UNSET, Struct

from posegate_client.answers import (
    Bundled,
    BundleRefused,
    DeliveriesAcknowledged,
    Despawned,
    EventAccepted,
    Granted,
    GraphCommitted,
    GraphRequested,
    GraphWithdrawn,
    InstanceOpened,
    InstanceRetired,
    Kept,
    LoopDelivered,
    ParametersCommitted,
    Refused,
    SpanCovered,
    Spawned,
    TickAnswer,
    TransitionCancelled,
    TransitionCommitted,
    TransitionFailed,
)
from posegate_client.command import Command, Ref, made, unkeyed
from posegate_client.rigs import Rig
from posegate_client.values import ActiveGraph, Evaluation, ParameterValue, Token


class Request(Struct, frozen=True):
    """A command that is to be applied in a tick; of a tick the highest `priority` has the last word.

    `source` and `number` are what it is known by: the same twice is a duplicate. It takes no key.
    """

    tick: int
    source: str
    number: int
    command: Command[Any]
    priority: int = 0

    def members(self) -> dict[str, Any]:
        """Give it as it stands in a tick."""
        known = {"tick": self.tick, "source": self.source, "number": self.number, "priority": self.priority}
        return {**unkeyed(self.command, "a request"), **known}


def begin(
    character: str,
    layer: str,
    target: str,
    *,
    if_same: Literal["restart", "keep"] | None = None,
    if_generation: int | None = None,
    data: Any = UNSET,
    min_ticks: int | None = None,
    deadline_ticks: int | None = None,
    life: int | None = None,
    holder: Token | Ref | None = None,
    key: str | None = None,
) -> Command[Granted | Kept | Refused]:
    """Take a layer's commit right; every earlier token of this layer becomes stale."""
    return made(
        "begin",
        character,
        layer=layer,
        target=target,
        if_same=if_same,
        if_generation=if_generation,
        data=data,
        min_ticks=min_ticks,
        deadline_ticks=deadline_ticks,
        life=life,
        holder=holder,
        key=key,
    )


def complete(
    character: str,
    token: Token | Ref,
    *,
    life: int | None = None,
    holder: Token | Ref | None = None,
    key: str | None = None,
) -> Command[TransitionCommitted | Refused]:
    """Report that the target has taken over."""
    return made("complete", character, token=token, life=life, holder=holder, key=key)


def cancel(
    character: str,
    token: Token | Ref,
    *,
    life: int | None = None,
    holder: Token | Ref | None = None,
    key: str | None = None,
) -> Command[TransitionCancelled | Refused]:
    """Give a token back because the transition was stopped."""
    return made("cancel", character, token=token, life=life, holder=holder, key=key)


def fail(
    character: str,
    token: Token | Ref,
    why: str,
    *,
    life: int | None = None,
    holder: Token | Ref | None = None,
    key: str | None = None,
) -> Command[TransitionFailed | Refused]:
    """Give a token back because the transition could not run."""
    return made("fail", character, token=token, why=why, life=life, holder=holder, key=key)


def commit_parameters(
    character: str,
    values: Mapping[str, int | float | bool | str | None] | Iterable[ParameterValue],
    *,
    base_version: int | None = None,
    life: int | None = None,
    holder: Token | Ref | None = None,
    key: str | None = None,
) -> Command[ParametersCommitted | Refused]:
    """Make a batch of values one snapshot, or nothing. NaN and infinity are refused by the gate, as answers."""
    if isinstance(values, Mapping):
        rows = [ParameterValue(value, name) for name, value in values.items()]
    else:
        rows = list(values)
    return made(
        "commit-parameters", character, values=rows, base_version=base_version, life=life, holder=holder, key=key
    )


def play(
    character: str,
    clip: str,
    *,
    layer: str | None = None,
    clip_instance: int | None = None,
    data: Any = UNSET,
    life: int | None = None,
    holder: Token | Ref | None = None,
    key: str | None = None,
) -> Command[InstanceOpened | Refused]:
    """Open a clip instance."""
    return made(
        "play",
        character,
        clip=clip,
        layer=layer,
        clip_instance=clip_instance,
        data=data,
        life=life,
        holder=holder,
        key=key,
    )


def enqueue(
    character: str,
    clip_instance: int | Ref,
    loop: int,
    frame: int,
    kind: str,
    *,
    payload: Any = UNSET,
    group: str | None = None,
    mark: str | None = None,
    tick: int | None = None,
    life: int | None = None,
    holder: Token | Ref | None = None,
    key: str | None = None,
) -> Command[EventAccepted | Refused]:
    """Report that a clip reached an event."""
    return made(
        "enqueue",
        character,
        clip_instance=clip_instance,
        loop=loop,
        frame=frame,
        kind=kind,
        payload=payload,
        group=group,
        mark=mark,
        tick=tick,
        life=life,
        holder=holder,
        key=key,
    )


def covered(
    character: str,
    clip_instance: int | Ref,
    loop: int,
    from_frame: int,
    to_frame: int,
    *,
    group: str | None = None,
    tick: int | None = None,
    life: int | None = None,
    holder: Token | Ref | None = None,
    key: str | None = None,
) -> Command[SpanCovered | Refused]:
    """Report the frames that a clip crossed, both ends inclusive; the rig says which events those are."""
    return made(
        "covered",
        character,
        clip_instance=clip_instance,
        loop=loop,
        from_frame=from_frame,
        to_frame=to_frame,
        group=group,
        tick=tick,
        life=life,
        holder=holder,
        key=key,
    )


def commit_loop(
    character: str,
    clip_instance: int | Ref,
    loop: int,
    *,
    life: int | None = None,
    holder: Token | Ref | None = None,
    key: str | None = None,
) -> Command[LoopDelivered | Refused]:
    """Deliver what waits up to a loop."""
    return made("commit-loop", character, clip_instance=clip_instance, loop=loop, life=life, holder=holder, key=key)


def retire(
    character: str,
    clip_instance: int | Ref,
    *,
    life: int | None = None,
    holder: Token | Ref | None = None,
    key: str | None = None,
) -> Command[InstanceRetired | Refused]:
    """Close a clip instance for good."""
    return made("retire", character, clip_instance=clip_instance, life=life, holder=holder, key=key)


def ack(
    character: str,
    through: int,
    *,
    life: int | None = None,
    holder: Token | Ref | None = None,
    key: str | None = None,
) -> Command[DeliveriesAcknowledged | Refused]:
    """Let go of kept deliveries up to a number."""
    return made("ack", character, through=through, life=life, holder=holder, key=key)


def request_graph(
    character: str,
    name: str,
    *,
    graph: str | None = None,
    life: int | None = None,
    holder: Token | Ref | None = None,
    key: str | None = None,
) -> Command[GraphRequested | Refused]:
    """Ask that another graph be built; every older request has lost."""
    return made("request-graph", character, name=name, graph=graph, life=life, holder=holder, key=key)


def submit_candidate(
    character: str,
    request: int | Ref,
    name: str,
    outputs: Iterable[str],
    evaluation: Evaluation,
    *,
    graph: str | None = None,
    if_idle: bool | None = None,
    life: int | None = None,
    holder: Token | Ref | None = None,
    key: str | None = None,
) -> Command[GraphCommitted | Refused]:
    """Offer a built and evaluated graph: it becomes visible in one swap, or the old one stays."""
    return made(
        "submit-candidate",
        character,
        request=request,
        name=name,
        outputs=list(outputs),
        evaluation=evaluation,
        graph=graph,
        if_idle=if_idle,
        life=life,
        holder=holder,
        key=key,
    )


def withdraw_graph(
    character: str,
    request: int | Ref,
    *,
    graph: str | None = None,
    life: int | None = None,
    holder: Token | Ref | None = None,
    key: str | None = None,
) -> Command[GraphWithdrawn | Refused]:
    """Close the open request: what is active is what is wanted."""
    return made("withdraw-graph", character, request=request, graph=graph, life=life, holder=holder, key=key)


def spawn(
    character: str,
    *,
    rig: str | Rig | Mapping[str, Any] | None = None,
    graphs: Mapping[str, ActiveGraph] | None = None,
    life: int | None = None,
    holder: Token | Ref | None = None,
    key: str | None = None,
) -> Command[Spawned | Refused]:
    """Start a life with a rig that was declared, one of its own, or the default; the same again changes nothing."""
    started = None if graphs is None else dict(graphs)
    return made("spawn", character, rig=rig, graphs=started, life=life, holder=holder, key=key)


def despawn(
    character: str,
    *,
    life: int | None = None,
    holder: Token | Ref | None = None,
    key: str | None = None,
) -> Command[Despawned | Refused]:
    """End a life, or only the one that is named."""
    return made("despawn", character, life=life, holder=holder, key=key)


def bundle(
    commands: Iterable[Command[Any]],
    *,
    link: bool | None = None,
    holder: Token | None = None,
    key: str | None = None,
) -> Command[Bundled | BundleRefused | Refused]:
    """Decide commands over several characters as one: all are accepted, or nothing is applied.

    Raises:
        ValueError: One of them has a key: a bundle has one, its own.
    """
    members = [unkeyed(command, "a command of a bundle") for command in commands]
    return made("bundle", None, commands=members, link=link, holder=holder, key=key)


def tick(
    *,
    rollback: int | None = None,
    requests: Iterable[Request] | None = None,
    seal: int | None = None,
    confirm: int | None = None,
    holder: Token | None = None,
    key: str | None = None,
) -> Command[TickAnswer | Refused]:
    """Roll back, hold requests, seal and confirm, whichever are given, in this order, as one decision.

    Raises:
        ValueError: A request's command has a key.
    """
    held = None if requests is None else [request.members() for request in requests]
    return made("tick", None, rollback=rollback, requests=held, seal=seal, confirm=confirm, holder=holder, key=key)
