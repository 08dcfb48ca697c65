"""Values: what commands and answers are made of, frozen, and equal when what they say is equal."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType, field


class Token(Struct, frozen=True, omit_defaults=True):
    """The right to commit one transition. It round-trips: send it back as it came.

    One without a seal names a transition (what was superseded, what ended) and commits nothing.
    """

    character: str
    layer: str
    epoch: int
    generation: int
    from_: str = field(name="from")
    to: str
    seal: str | None = None

    def __repr__(self) -> str:
        """Show what it names. The seal is the right itself, and stays out of logs."""
        sealed = "sealed" if self.seal is not None else "without seal"
        place = f"{self.character}/{self.layer} {self.from_} -> {self.to}"
        return f"Token({place}, epoch {self.epoch}, generation {self.generation}, {sealed})"


class FromAnswer(Struct, frozen=True):
    """In a batch or bundle: what the command at place `answer`, counted from 0, got. It must stand before."""

    answer: int


class Grant(Struct, frozen=True):
    """A transition named without its right: what is pending."""

    generation: int
    to: str


class LayerNow(Struct, frozen=True):
    """What is true of a layer at the moment of a refusal, so that there is no need to ask again."""

    current: str
    epoch: int
    generation: int
    pending: Grant | None


class Event(Struct, frozen=True, omit_defaults=True):
    """One event as it was enqueued. `payload` is `UNSET` where there is none; `synthetic`: the gate put it in."""

    clip_instance: int
    loop: int
    frame: int
    kind: str
    payload: Any = UNSET
    tick: int | None = None
    group: str | None = None
    mark: str | None = None
    synthetic: bool = False


class MissingEvent(Struct, frozen=True, omit_defaults=True):
    """An event of a clip's list that nobody reported in a loop that was committed."""

    loop: int
    frame: int
    kind: str
    mark: str | None = None


class ClosedWindow(Struct, frozen=True):
    """A window that the gate ended by itself, with the event that ends it; `delivery` is null while that waits."""

    character: str
    kind: str
    event: Event
    delivery: int | None


class Graph(Struct, frozen=True):
    """A graph that is or was active, and the request it answered (0 when the spawn brought it)."""

    name: str
    request: int
    pose: Any
    outputs: tuple[str, ...]


class Delivered(Struct, frozen=True):
    """A delivery that a confirmed tick released."""

    character: str
    delivery: int
    events: tuple[Event, ...]


class Withdrawn(Struct, frozen=True):
    """An event that was delivered in a tick that was rolled back, and did not come again: take it back."""

    character: str
    life: int
    tick: int
    event: Event


class ParameterValue(Struct, frozen=True, omit_defaults=True):
    """One parameter, by name or by 32-bit id. A number that is not finite is refused by the gate, not here."""

    value: int | float | bool | str | None
    name: str | UnsetType = UNSET
    id: int | UnsetType = UNSET


class Evaluation(Struct, frozen=True, omit_defaults=True):
    """A candidate's first frame, evaluated aside: whether it worked, and the pose as evidence (a name, or bones)."""

    succeeded: bool
    pose: str | dict[str, list[float]] | None = None


class ActiveGraph(Struct, frozen=True, omit_defaults=True):
    """What is active from the start of a life."""

    name: str
    pose: str | dict[str, list[float]] | None = None
    outputs: list[str] | None = None
