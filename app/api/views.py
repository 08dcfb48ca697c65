"""Views: a character as people and tools read it, whole and at one sequence."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from app.api.answers import iso
from app.gates.character import Character
from app.gates.clip import ClipInstance
from app.gates.graph import Graph, GraphSlot, RequestState
from app.gates.parameter import Snapshot
from app.gates.tally import LayerTally, Tally
from app.gates.transition import Pending, TransitionArbiter


class View(BaseModel):
    """What is read. It has exactly these members."""

    model_config = ConfigDict(extra="forbid")


class PendingView(View):
    """The pending transition, without its seal."""

    generation: int
    from_: str
    to: str
    begun_at: str
    data: Any
    not_before: int | None
    deadline: int | None
    link: int | None

    model_config = ConfigDict(extra="forbid", serialize_by_alias=True, alias_generator=lambda name: name.rstrip("_"))


class TalliesView(View):
    """How often a layer granted and refused. The last three are best effort over a restart."""

    granted: int
    committed: int
    superseded: int
    stale: int
    already_completed: int
    unknown: int


class LayerView(View):
    """One layer. `newest` is the newest generation that no rollback undid: what `if_generation` is compared with."""

    current: str
    committed_at: str
    data: Any
    epoch: int
    generation: int
    newest: int
    pending: PendingView | None
    tallies: TalliesView


class ParametersView(View):
    """One snapshot."""

    version: int
    values: dict[str, int | float | bool]


class ClipInstanceView(View):
    """One open clip instance."""

    clip_instance: int
    clip: str | None
    layer: str | None
    epoch: int
    committed_loop: int | None
    pending: int
    accepted: int
    suppressed: int
    opened_at: str
    data: Any
    group: str | None
    windows: "list[WindowView]"


class DeliveriesView(View):
    """The highest delivery number, and the highest that was acknowledged.

    `due` counts the gameplay events that wait for nothing but their tick to be confirmed.
    """

    last: int
    acknowledged: int
    due: int


class WindowView(View):
    """What an event opened and no other has ended: its kind, and where it stands."""

    kind: str
    loop: int
    frame: int


class ActiveGraphView(View):
    """The graph that is visible."""

    name: str
    request: int
    pose: Any
    outputs: list[str]


class LastRefusalView(View):
    """The newest candidate that was refused."""

    request: int
    outcome: str


class GraphView(View):
    """One graph slot. `lagging` is true while a request is open."""

    active: ActiveGraphView | None
    epoch: int
    latest_request: int
    lagging: bool
    last_refusal: LastRefusalView | None


class CharacterView(View):
    """A whole character at one sequence."""

    model_config = ConfigDict(extra="forbid", title="Character")

    scene: str
    character: str
    life: int
    rig: str | None
    sequence: int
    revision: int
    layers: dict[str, LayerView]
    parameters: ParametersView
    clip_instances: list[ClipInstanceView]
    deliveries: DeliveriesView
    graphs: dict[str, GraphView]


def character_view(scene: str, name: str, character: Character, sequence: int, tally: Tally) -> CharacterView:
    """Show one immutable character, and what its gates refused."""
    return CharacterView(
        scene=scene,
        character=name,
        life=character.life,
        rig=rig_shown(character),
        sequence=sequence,
        revision=character.revision,
        layers={
            layer: _layer(arbiter, tally.layers.get(layer) or LayerTally())
            for layer, arbiter in character.layers.items()
        },
        parameters=parameters_view(character.parameters),
        clip_instances=[
            _instance(number, held, tally.suppressed.get(number, 0))
            for number, held in sorted(character.events.instances.items())
        ],
        deliveries=DeliveriesView(
            last=character.events.last_delivery,
            acknowledged=character.events.acknowledged,
            due=len(character.events.due),
        ),
        graphs={graph: _graph(slot, graph, tally) for graph, slot in character.graphs.items()},
    )


def rig_shown(character: Character) -> str | None:
    """Name the rig; the default one and one that came inline have no name."""
    return None if character.rig == "" or character.rig.startswith("#") else character.rig


def parameters_view(snapshot: Snapshot) -> ParametersView:
    """Show one snapshot."""
    return ParametersView.model_construct(version=snapshot.version, values=snapshot.values)


def _layer(arbiter: TransitionArbiter, tally: LayerTally) -> LayerView:
    return LayerView(
        current=arbiter.current,
        committed_at=iso(arbiter.committed_at),
        data=arbiter.data,
        epoch=arbiter.epoch,
        generation=arbiter.generation,
        newest=arbiter.standing,
        pending=None if arbiter.pending is None else _pending(arbiter.pending),
        tallies=TalliesView(
            granted=arbiter.generation,
            committed=arbiter.committed,
            superseded=arbiter.superseded,
            stale=tally.stale,
            already_completed=tally.already_completed,
            unknown=tally.unknown,
        ),
    )


def _pending(pending: Pending) -> PendingView:
    return PendingView.model_validate(
        {
            "generation": pending.generation,
            "from": pending.from_,
            "to": pending.to,
            "begun_at": iso(pending.begun_at),
            "data": pending.data,
            "not_before": pending.not_before or None,
            "deadline": pending.deadline,
            "link": pending.link,
        }
    )


def _instance(number: int, held: ClipInstance, suppressed: int) -> ClipInstanceView:
    return ClipInstanceView(
        clip_instance=number,
        clip=held.clip,
        layer=held.layer,
        epoch=held.epoch,
        committed_loop=held.committed_loop,
        pending=held.pending,
        accepted=held.accepted,
        suppressed=suppressed,
        opened_at=iso(held.opened_at),
        data=held.data,
        group=held.group,
        windows=[WindowView(kind=each.kind, loop=each.loop, frame=each.frame) for each in held.windows],
    )


def _graph(slot: GraphSlot, name: str, tally: Tally) -> GraphView:
    refused = tally.last_refusals.get(name)
    return GraphView(
        active=None if slot.active is None else _active(slot.active),
        epoch=slot.epoch,
        latest_request=slot.latest_request,
        lagging=slot.state is RequestState.OPEN,
        last_refusal=None if refused is None else LastRefusalView(request=refused.request, outcome=refused.outcome),
    )


def _active(graph: Graph) -> ActiveGraphView:
    return ActiveGraphView(name=graph.name, request=graph.request, pose=graph.pose, outputs=graph.outputs)
