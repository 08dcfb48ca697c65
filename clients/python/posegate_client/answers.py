"""Answers: what a gate decided, one frozen type for each fact and one for a refusal.

Members that a newer service adds are left out; a fact that it adds is a plain `Accepted`.
"""

from typing import Any, Literal

from msgspec import Struct

from posegate_client.problems import Problem
from posegate_client.values import (
    ClosedWindow,
    Delivered,
    Event,
    Graph,
    LayerNow,
    MissingEvent,
    Token,
    Withdrawn,
)


class Answer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every decision has. `sequence` is its place in the scene, `revision` the character's number after it."""

    accepted: bool
    outcome: str
    retryable: bool
    sequence: int
    revision: int


class Accepted(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """An acceptance. `ended` names tokens that it ended besides, `closed` windows, `retired` what made room."""

    accepted: Literal[True]
    ended: tuple[Token, ...] = ()
    closed: tuple[ClosedWindow, ...] = ()
    retired: tuple[int, ...] = ()


class Refused(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """A refusal: nothing was changed. `at` is what is at fault, `by` what beat it, `layer` what is true now."""

    accepted: Literal[False]
    at: str | None = None
    by: dict[str, Any] | None = None
    layer: LayerNow | None = None
    missing: tuple[str, ...] = ()
    clip_instance: int | None = None
    payload_differs: bool = False
    release: str | None = None


class Granted(Accepted, frozen=True, kw_only=True, omit_defaults=True):
    """A `begin`: the new token, and the one that lost its right to it.

    `not_before` and `deadline` are ticks; `link` joins the tokens that end together.
    """

    token: Token
    superseded: Token | None
    not_before: int | None = None
    deadline: int | None = None
    link: int | None = None


class Kept(Accepted, frozen=True, kw_only=True, omit_defaults=True):
    """A `begin` with `if_same="keep"`: the token that is pending already, or none when its target is current."""

    token: Token | None
    superseded: None


class TransitionCommitted(Accepted, frozen=True, kw_only=True, omit_defaults=True):
    """A `complete`: the target is the layer's state now."""

    current: str


class TransitionCancelled(Accepted, frozen=True, kw_only=True, omit_defaults=True):
    """A `cancel`: the token ended, the state stayed."""

    current: str


class TransitionFailed(Accepted, frozen=True, kw_only=True, omit_defaults=True):
    """A `fail`: the token ended as a failure, the state stayed."""

    current: str


class ParametersCommitted(Accepted, frozen=True, kw_only=True, omit_defaults=True):
    """A `commit-parameters`: the batch is visible as `version`."""

    version: int


class InstanceOpened(Accepted, frozen=True, kw_only=True, omit_defaults=True):
    """A `play`: the clip instance's number."""

    clip_instance: int


class EventAccepted(Accepted, frozen=True, kw_only=True, omit_defaults=True):
    """An `enqueue`: the event waits for its loop, a gameplay one for its `tick` too; an immediate one is delivered."""

    tick: int | None = None


class SpanCovered(Accepted, frozen=True, kw_only=True, omit_defaults=True):
    """A `covered`: the events of the span that were accepted, and how many had been before."""

    events: tuple[Event, ...]
    already: int


class LoopDelivered(Accepted, frozen=True, kw_only=True, omit_defaults=True):
    """A `commit-loop`: what was delivered, how many still wait, and what the clip lists and nobody reported."""

    events: tuple[Event, ...]
    delivery: int | None
    pending: int
    missing: tuple[MissingEvent, ...] = ()
    missing_count: int | None = None


class InstanceRetired(Accepted, frozen=True, kw_only=True, omit_defaults=True):
    """A `retire`: what the instance had accepted and never delivered."""

    undelivered: tuple[Event, ...]


class DeliveriesAcknowledged(Accepted, frozen=True, kw_only=True, omit_defaults=True):
    """An `ack`: kept deliveries up to the given number are gone."""


class GraphRequested(Accepted, frozen=True, kw_only=True, omit_defaults=True):
    """A `request-graph`: its number, and the one whose builder can be stopped."""

    request: int
    superseded: int | None


class GraphCommitted(Accepted, frozen=True, kw_only=True, omit_defaults=True):
    """A `submit-candidate`: what is active, what to release, the layers' new epochs, and the tokens that ended."""

    active: Graph
    retire: Graph | None
    epochs: dict[str, int]
    ended: tuple[Token, ...]


class GraphWithdrawn(Accepted, frozen=True, kw_only=True, omit_defaults=True):
    """A `withdraw-graph`: what is active is what is wanted."""


class Spawned(Accepted, frozen=True, kw_only=True, omit_defaults=True):
    """A `spawn`: the life, new or (with `created` false) the one that was there already."""

    life: int
    created: bool


class Despawned(Accepted, frozen=True, kw_only=True, omit_defaults=True):
    """A `despawn`: the life that ended."""

    life: int


class RigDeclared(Accepted, frozen=True, kw_only=True, omit_defaults=True):
    """A rig that was declared, as the history shows it."""

    created: bool


class Bundled(Accepted, frozen=True, kw_only=True, omit_defaults=True):
    """A bundle that was accepted whole: an answer for each command, in order."""

    answers: tuple[Answer | Problem, ...]


class BundleRefused(Refused, frozen=True, kw_only=True, omit_defaults=True):
    """A bundle of which nothing was applied, for the command at `failed_at`: the last of `answers`, the others None."""

    failed_at: int
    answers: tuple[Answer | Problem | None, ...]


class Part(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one part of a tick."""

    accepted: bool
    outcome: str
    retryable: bool


class PartRefused(Part, frozen=True, kw_only=True, omit_defaults=True):
    """A part that was refused: nothing of it was done."""

    at: str | None = None
    by: dict[str, Any] | None = None
    layer: LayerNow | None = None
    missing: tuple[str, ...] = ()
    clip_instance: int | None = None


class Queued(Part, frozen=True, kw_only=True, omit_defaults=True):
    """A request that is held until its tick is sealed."""


class RolledBack(Part, frozen=True, kw_only=True, omit_defaults=True):
    """The scene is as it was at the end of `tick`; these characters were touched since."""

    tick: int
    timeline: int
    characters: tuple[str, ...]
    ended: tuple[Token, ...] = ()
    closed: tuple[ClosedWindow, ...] = ()


class Applied(Struct, frozen=True):
    """A request that a seal applied, with its answer."""

    tick: int
    source: str
    number: int
    character: str | None
    command: str
    answer: Answer | Problem


class Sealed(Part, frozen=True, kw_only=True, omit_defaults=True):
    """Every tick up to `tick` is sealed: what its requests were answered, in the order they were applied."""

    tick: int
    digest: str
    answers: tuple[Applied, ...]
    expired: tuple[Token, ...] = ()
    closed: tuple[ClosedWindow, ...] = ()


class Confirmed(Part, frozen=True, kw_only=True, omit_defaults=True):
    """Nothing up to `tick` can be rolled back: what it released, and what has to be taken back."""

    tick: int
    deliveries: tuple[Delivered, ...]
    withdrawn: tuple[Withdrawn, ...]


class TickAnswer(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """A `tick`: an answer for each part that was given, None for one that was not.

    `accepted` is False when no part was; `outcome` is then the first part's.
    """

    rollback: RolledBack | PartRefused | None = None
    requests: tuple[Queued | PartRefused, ...] | None = None
    seal: Sealed | PartRefused | None = None
    confirm: Confirmed | PartRefused | None = None
