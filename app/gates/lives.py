"""Lives: how a character is spawned and ends, and what of a dead one keeps its numbers from being used again.

Source: contract, sections 9 and 10.
"""

import hashlib

import msgspec
from msgspec import Struct, field

from app.gates.character import PARAMETERS_MAX, Carried, Character
from app.gates.decision import Command, Fact
from app.gates.delivery import Deliveries
from app.gates.event import EventGate
from app.gates.graph import Graph, GraphSlot, RequestState
from app.gates.parameter import Snapshot
from app.gates.rig import Rig, default_rig
from app.gates.surviving import next_life
from app.gates.transition import TransitionArbiter

DEFAULT = ""
"""The key of the rig that a spawn gets when it names none and brings none."""

_deterministic = msgspec.msgpack.Encoder(order="deterministic")


class Spawn(Command, frozen=True, tag="spawn"):
    """Start a life. Answers: Spawned, or a Problem (conflict, unknown rig).

    `rig` names a declared rig, or `inline` brings one; neither means the default. `graphs` holds what is active from
    the start, defaults filled in.
    """

    rig: str | None = None
    inline: Rig | None = None
    graphs: dict[str, Graph] = field(default_factory=dict)


class Despawn(Command, frozen=True, tag="despawn"):
    """End a life. Answers: Despawned, or stale_life, or a Problem (not alive)."""


class DeclareRig(Command, frozen=True, tag="declare-rig"):
    """Declare or redeclare a rig of the scene. Answers: RigDeclared, or a Problem (others live by it)."""

    name: str
    rig: Rig


class CloseScene(Command, frozen=True, tag="close-scene"):
    """End the scene for good. Answers: SceneClosed. Only the floors of its numbers remain."""


class Spawned(Fact, frozen=True, tag="spawned"):
    """A life, new or (with `created` false) the one that was there already.

    `character` is a new life's first value: what the scene takes over, and what a retry of the same key is shown.
    """

    life: int
    created: bool
    character: Character | None = None


class Despawned(Fact, frozen=True, tag="despawned"):
    """The life that ended."""

    life: int


class RigDeclared(Fact, frozen=True, tag="declared"):
    """The rig is as declared; `created` is false when it was already."""

    created: bool


class SceneClosed(Fact, frozen=True, tag="closed"):
    """Nothing is alive, and no rig, receipt or history remains."""


LifeCommand = Spawn | Despawn | DeclareRig | CloseScene


class Remains(Struct, frozen=True, array_like=True, gc=False):
    """What is remembered of a dead id (or, as a scene's floor, of all that were forgotten): its highest numbers.

    `died_at` is the sequence of the despawn and gives the order in which remains fold into the floor.
    """

    life: int = 0
    revision: int = 0
    epoch: int = 0
    version: int = -1
    request: int = 0
    triggers: dict[str, int] = {}
    events: EventGate = EventGate()
    died_at: int = 0


def rig_key(spawn: Spawn) -> str:
    """Give the key of a spawn's rig in its scene: an inline one's can be no declared name, the default has one."""
    if spawn.inline is not None and spawn.inline != default_rig():
        # `names` follows from what is declared, and its keys are numbers, which have no deterministic encoding.
        declared = msgspec.structs.replace(spawn.inline, names={})
        return "#" + hashlib.blake2b(_deterministic.encode(declared), digest_size=16).hexdigest()
    return DEFAULT if spawn.rig is None else spawn.rig


def active_graphs(spawn: Spawn, rig: Rig) -> dict[str, Graph]:
    """Give what is active from the start; a graph that names no outputs binds the required ones."""
    return {
        name: Graph(graph.name, graph.request, graph.pose, graph.outputs or list(rig.graphs[name].required_outputs))
        for name, graph in spawn.graphs.items()
    }


def declaration(spawn: Spawn, rig: Rig) -> bytes:
    """Give a digest of what a spawn declares, defaults filled in: equal spawns are the same spawn."""
    declared = _deterministic.encode((rig_key(spawn), active_graphs(spawn, rig)))
    return hashlib.blake2b(declared, digest_size=16).digest()


def newborn(spawn: Spawn, rig: Rig, before: Remains, *, at: int) -> Character:
    """Make the next life: its epochs are higher, its numbers go on where the former life's ended.

    Triggers keep their count over lives; every other parameter starts at its declared default.
    """
    epoch = before.epoch + 1
    values = rig.defaults()
    values.update({name: count for name, count in before.triggers.items() if _is_trigger(rig, name)})
    unheld = {name: count for name, count in before.triggers.items() if not _is_trigger(rig, name)}
    is_held = not unheld and rig.layers and rig.graphs
    active = active_graphs(spawn, rig)
    ended = RequestState.ENDED if before.request else RequestState.NONE
    return Character(
        before.life + 1,
        rig_key(spawn),
        declaration(spawn, rig),
        before.revision + 1,
        {name: TransitionArbiter(rule.initial, at, epoch) for name, rule in rig.layers.items()},
        Snapshot(before.version + 1, values),
        before.events,
        {name: GraphSlot(active.get(name), 1, before.request, "", ended) for name in rig.graphs},
        None if is_held else Carried(before.epoch, before.request, unheld),
    )


def remains(character: Character, rig: Rig, *, sequence: int) -> Remains:
    """Keep of a life that ends what its id's next life must be above: of triggers the last 4,096."""
    carried = character.carried or Carried()
    held = {name: int(value) for name, value in character.parameters.values.items() if _is_trigger(rig, name)}
    triggers = carried.triggers | held if carried.triggers else held
    return Remains(
        character.life,
        character.revision + 1,
        max((arbiter.epoch for arbiter in character.layers.values()), default=carried.epoch),
        character.parameters.version,
        max((slot.latest_request for slot in character.graphs.values()), default=carried.request),
        dict(list(triggers.items())[-PARAMETERS_MAX:]),
        next_life(character.events, rig),
        sequence,
    )


def folded(floor: Remains, gone: Remains) -> Remains:
    """Raise a scene's floor above an id that is forgotten; its deliveries and trigger counts end with it."""
    highest = max(floor.events.highest, gone.events.highest)
    lowest = max(floor.events.floor, gone.events.floor)
    last = max(floor.events.last_delivery, gone.events.last_delivery)
    return Remains(
        max(floor.life, gone.life),
        max(floor.revision, gone.revision),
        max(floor.epoch, gone.epoch),
        max(floor.version, gone.version),
        max(floor.request, gone.request),
        {},
        EventGate(highest=highest, floor=lowest, given=Deliveries((), last, last, last + 1)),
        gone.died_at,
    )


def _is_trigger(rig: Rig, name: str) -> bool:
    rule = (rig.declared or {}).get(name)
    return rule is not None and rule.type == "trigger"
