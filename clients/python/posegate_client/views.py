"""Views: what is read of a scene and of the service, each as of one sequence."""

from typing import Any

from msgspec import Struct, field

from posegate_client.answers import Answer, Applied
from posegate_client.problems import Problem
from posegate_client.rigs import Rig
from posegate_client.values import Event


class Pending(Struct, frozen=True):
    """The pending transition of a layer, without its seal. Times are RFC 3339 in UTC."""

    generation: int
    from_: str = field(name="from")
    to: str
    begun_at: str
    data: Any
    not_before: int | None
    deadline: int | None
    link: int | None


class Tallies(Struct, frozen=True):
    """How often a layer granted and refused. The last three are best effort over a restart."""

    granted: int
    committed: int
    superseded: int
    stale: int
    already_completed: int
    unknown: int


class LayerView(Struct, frozen=True):
    """One layer. `newest` is what `if_generation` is compared with."""

    current: str
    committed_at: str
    data: Any
    epoch: int
    generation: int
    newest: int
    pending: Pending | None
    tallies: Tallies


class Snapshot(Struct, frozen=True, omit_defaults=True):
    """One snapshot of parameters. `etag` is what a later read is asked against; it is no part of the body."""

    version: int
    values: dict[str, int | float | bool]
    etag: str = ""


class Window(Struct, frozen=True):
    """What an event opened and no other has ended."""

    kind: str
    loop: int
    frame: int


class ClipInstance(Struct, frozen=True):
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
    windows: tuple[Window, ...]


class DeliveriesView(Struct, frozen=True):
    """The highest delivery number, the highest that was acknowledged, and how many events wait for their tick alone."""

    last: int
    acknowledged: int
    due: int


class ActiveGraphView(Struct, frozen=True):
    """The graph that is visible."""

    name: str
    request: int
    pose: Any
    outputs: tuple[str, ...]


class LastRefusal(Struct, frozen=True):
    """The newest candidate that was refused."""

    request: int
    outcome: str


class GraphView(Struct, frozen=True):
    """One graph slot. `lagging` is true while a request is open."""

    active: ActiveGraphView | None
    epoch: int
    latest_request: int
    lagging: bool
    last_refusal: LastRefusal | None


class CharacterView(Struct, frozen=True):
    """A whole character at one sequence."""

    scene: str
    character: str
    life: int
    rig: str | None
    sequence: int
    revision: int
    layers: dict[str, LayerView]
    parameters: Snapshot
    clip_instances: tuple[ClipInstance, ...]
    deliveries: DeliveriesView
    graphs: dict[str, GraphView]


class TicksView(Struct, frozen=True):
    """The ticks of a scene: which is open, sealed, confirmed, and how far back it can go."""

    open: int
    sealed: int
    confirmed: int
    timeline: int
    rollback_from: int
    requests: int
    digest: str
    tick_hz: int


class SceneView(Struct, frozen=True):
    """One scene."""

    scene: str
    sequence: int
    at: str
    characters: int
    rigs: tuple[str, ...]
    ticks: TicksView


class ScenesPage(Struct, frozen=True):
    """Names of scenes, ascending; `next` is the cursor of the page behind, None at the end."""

    scenes: tuple[str, ...]
    next: str | None


class CharacterRow(Struct, frozen=True):
    """One character of a list."""

    character: str
    life: int
    rig: str | None
    revision: int


class CharactersPage(Struct, frozen=True):
    """Living characters by id, ascending; `next` is the cursor of the page behind, None at the end."""

    characters: tuple[CharacterRow, ...]
    next: str | None


class Delivery(Struct, frozen=True):
    """A kept delivery."""

    delivery: int
    events: tuple[Event, ...]


class Decision(Struct, frozen=True):
    """One decision of a scene: what was asked and answered, without any seal. `character` is None for a scene's."""

    sequence: int
    at: str
    character: str | None
    command: str
    asked: dict[str, Any]
    answer: Answer | Problem


class HistoryPage(Struct, frozen=True):
    """Decisions in order; `next` is the sequence to read after, None at the end. A page may hold none and go on."""

    decisions: tuple[Decision, ...]
    next: int | None


class TickAnswers(Struct, frozen=True):
    """What a sealed tick answered its requests, in the order they were applied, tokens with their seals."""

    tick: int
    answers: tuple[Applied, ...]


class DeclaredRig(Struct, frozen=True):
    """A rig with its defaults filled in; `created` is False when it was declared so already."""

    created: bool
    rig: Rig


class Session(Struct, frozen=True):
    """A session: its token is the `key` of a player's client until it ends."""

    token: str
    expires_at: str

    def __repr__(self) -> str:
        """Leave the token, which is a credential, out of logs."""
        return f"Session(expires_at={self.expires_at!r})"


class Ready(Struct, frozen=True):
    """Whether the service takes commands, and why not."""

    ready: bool
    reasons: tuple[str, ...]


class Info(Struct, frozen=True):
    """What the service is, and its limits."""

    name: str
    version: str
    journal: str
    limits: dict[str, int]
