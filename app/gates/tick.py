"""The tick: requests held for a tick, sealed in one order, confirmed, and rolled back.

Source: contract, section 8, "Ticks".
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, final

from msgspec import UNSET, Meta, Struct, UnsetType, field

from app.gates.bundle import Answered, Bundle, MemberCommand
from app.gates.character import Character
from app.gates.clip import Event
from app.gates.consequence import Consequences
from app.gates.decision import Command, Fact, Refused
from app.gates.identity import NUMBER_MAX, Name, Number, TickNumber

Priority = Annotated[int, Meta(ge=-NUMBER_MAX, le=NUMBER_MAX)]


class TickRefusal(StrEnum):
    """Why a part of a tick was refused: rollback, then requests, seal and confirm, each in the order of its checks."""

    UNSEALED = "unsealed"
    BELOW_CONFIRMED = "below_confirmed"
    BEYOND_ROLLBACK = "beyond_rollback"
    LATE_TICK = "late_tick"
    BEYOND_WINDOW = "beyond_window"
    DUPLICATE = "duplicate"
    QUEUE_FULL = "queue_full"
    ALREADY_SEALED = "already_sealed"
    DELIVERY_BACKLOG = "delivery_backlog"


class Request(Struct, frozen=True, array_like=True, gc=False):
    """A command that one producer wants applied in a tick. `character` is None for a bundle."""

    tick: TickNumber
    source: Name
    number: Number
    priority: Priority
    character: str | None
    command: MemberCommand | Bundle


RequestKey = tuple[str, int]
"""(source, number): by which a request is known again."""


class Tick(Command, frozen=True, tag="tick"):
    """Roll back, hold requests, seal and confirm, in this order, as one decision.

    Answers: Ticked, with an answer for each part; when none was accepted it is refused for the first part's
    TickRefusal. After a rollback that is refused no other part is looked at.
    """

    rollback: TickNumber | UnsetType = UNSET
    requests: list[Request] | UnsetType = UNSET
    seal: TickNumber | UnsetType = UNSET
    confirm: TickNumber | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.life is not UNSET:
            raise ValueError("a tick has no life; its requests may name theirs")
        if self.rollback is UNSET and self.requests is UNSET and self.seal is UNSET and self.confirm is UNSET:
            raise ValueError("a tick does at least one of `rollback`, `requests`, `seal`, `confirm`")


@final
class RequestQueued(Fact, frozen=True, tag="queued"):
    """The request is held until its tick is sealed."""


@final
class RolledBack(Fact, frozen=True, tag="rolled_back"):
    """The scene is as it was at the end of `tick`, on timeline `timeline`: these characters were touched since.

    `consequences` is what could not come back, since it is tied to what ended for good: an epoch or a life.
    """

    tick: int
    timeline: int
    characters: list[str]
    consequences: Consequences | None = None


class Applied(Struct, frozen=True, array_like=True, gc=False):
    """A request that a seal applied, and its answer."""

    source: str
    number: int
    answered: Answered


class TickApplied(Struct, frozen=True, array_like=True, gc=False):
    """One sealed tick: its requests in the order they were applied, and the tokens that expired at its end."""

    tick: int
    applied: list[Applied]
    expired: Consequences | None = None


@final
class TickSealed(Fact, frozen=True, tag="sealed"):
    """Every tick up to `tick` is sealed. `ticks` are those in which something was applied or expired."""

    tick: int
    digest: str
    ticks: list[TickApplied]


class Given(Struct, frozen=True, gc=False):
    """A delivery that a confirmation released."""

    character: str
    delivery: int
    events: list[Event]


class Withdrawn(Struct, frozen=True, gc=False):
    """A presentation event that was delivered in a tick that was rolled back, and did not come again."""

    character: str
    life: int
    tick: int
    event: Event


@final
class TickConfirmed(Fact, frozen=True, tag="confirmed"):
    """Nothing up to `tick` can be rolled back any more: what it released, and what is withdrawn."""

    tick: int
    deliveries: list[Given] = field(default_factory=list)
    withdrawn: list[Withdrawn] = field(default_factory=list)


@final
class Ticked(Fact, frozen=True, tag="ticked"):
    """What became of each part; in `requests` None stands for one that is queued. `refused` holds parts by name."""

    rollback: RolledBack | UnsetType = UNSET
    requests: list[Refused | None] | UnsetType = UNSET
    seal: TickSealed | UnsetType = UNSET
    confirm: TickConfirmed | UnsetType = UNSET
    refused: dict[str, Refused] = field(default_factory=dict)

    def refusal(self) -> Refused | None:
        """Give why nothing of the tick was accepted: its first refusal; None when something was."""
        if self.rollback is not UNSET or self.seal is not UNSET or self.confirm is not UNSET:
            return None
        refused = [*(self.requests or ()), *self.refused.values()]
        return refused[0] if refused and all(each is not None for each in refused) else None


class Gone(Struct, frozen=True, array_like=True, gc=False):
    """An event that was delivered in a tick, or given as it was accepted. A gameplay one is never withdrawn.

    `waited` says that a rollback took it from what waited: it comes again when its loop is committed again, and that
    may be rolled back once more.
    """

    tick: int
    character: str
    life: int
    event: Event
    is_gameplay: bool = False
    waited: bool = False

    @property
    def key(self) -> tuple[int, int, int, str]:
        """Give the event's key: (clip instance, loop, frame, kind)."""
        return self.event.key


class Sealed(Struct, frozen=True, array_like=True):
    """What undoes one sealed tick.

    `before` holds the characters it touched as they were before it, `newborn` those whose life began in it as they were
    born, `delivered` the events that it gave out. `sequence` is the decision that sealed it; `digest` stands for
    everything sealed up to it.
    """

    before: dict[str, Character]
    newborn: dict[str, Character]
    delivered: list[Gone]
    sequence: int
    digest: bytes

    def bare(self) -> "Sealed":
        """Give where the tick ended, without what undoes it."""
        return Sealed({}, {}, [], self.sequence, self.digest)


class TickAnswers(Struct, frozen=True, array_like=True):
    """What the requests of one sealed tick were answered, and the decision that sealed it."""

    sequence: int
    applied: list[Applied]


class Link(Struct, frozen=True, array_like=True):
    """Tokens that end together: (character, layer, generation). `ended_in` is the tick in which they did."""

    members: list[tuple[str, str, int]]
    made_in: int
    ended_in: int | None = None


class Ticks(Struct, frozen=True, array_like=True):
    """The ticks of a scene: a value; whoever changes it makes another.

    `floor` is the lowest tick that can be rolled back to; `is_running` from the first tick command on. `past` holds
    what undoes the sealed ticks above it, `answered` the answers of their requests; ticks in which nothing happened are
    in neither. `deadlines` and `due` name by tick the characters with a token that may expire, or events that wait to
    be confirmed. `unreturned` was delivered in ticks that were rolled back.
    """

    sealed: int = 0
    confirmed: int = 0
    timeline: int = 0
    floor: int = 0
    is_running: bool = False
    held: dict[int, dict[RequestKey, Request]] = {}
    past: dict[int, Sealed] = {}
    answered: dict[int, TickAnswers] = {}
    deadlines: dict[int, list[str]] = {}
    due: dict[int, list[str]] = {}
    unreturned: list[Gone] = []
    links: dict[int, Link] = {}
    links_made: int = 0

    @property
    def digest(self) -> bytes:
        """Give the digest of everything sealed."""
        return self.past[max(self.past)].digest if self.past else b""


Agenda = dict[int, list[str]]


def entries(ticks: Ticks) -> int:
    """Count the entries of both agendas."""
    return sum(map(len, ticks.deadlines.values())) + sum(map(len, ticks.due.values()))


def kept_entries(agenda: Agenda, is_wanted: Callable[[str, int], bool]) -> Agenda:
    """Keep the entries that are wanted still."""
    kept = {tick: [name for name in names if is_wanted(name, tick)] for tick, names in agenda.items()}
    return {tick: names for tick, names in kept.items() if names}


def with_added(agenda: Agenda, added: list[tuple[int, str]]) -> Agenda:
    """Note characters under ticks; `agenda` itself stays as it is."""
    if not added:
        return agenda
    grown: dict[int, dict[str, None]] = {}
    for tick, name in added:
        if tick not in grown:
            grown[tick] = dict.fromkeys(agenda.get(tick, ()))
        grown[tick][name] = None
    return agenda | {tick: list(names) for tick, names in grown.items()}
