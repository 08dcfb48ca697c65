"""A scene under ticks: what it gave out over everything, and whether it replays and reopens to the same."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import UNSET

from app.gates.bundle import Bundle, Bundled
from app.gates.candidate import Candidate
from app.gates.clip import Event
from app.gates.consequence import Consequences
from app.gates.decision import Command, Refused
from app.gates.event_commands import (
    Acknowledge,
    CommitLoop,
    Covered,
    Enqueue,
    EventAccepted,
    LoopDelivered,
    Retire,
    SpanCovered,
)
from app.gates.graph import RequestGraph
from app.gates.lives import Remains
from app.gates.rig import KindRule, is_immediate
from app.gates.scene import Bounds, Record, Scene
from app.gates.tick import Given, Request, Tick, TickConfirmed, Ticked, Withdrawn
from app.journal.codec import (
    StoredCharacter,
    decode_character,
    decode_checkpoint,
    encode_character,
    encode_checkpoint,
    encode_entry,
)
from tests.support.played import SECRET, Played, assert_same_scene
from tests.support.rigs import candidate, rig

KINDS: dict[str, Any] = {
    "step": "presentation",
    "spark": "immediate",
    "hit": "gameplay",
    "swing": KindRule("presentation", "swung"),
    "swung": "presentation",
    "flash": KindRule("immediate", "flashed"),
    "flashed": "immediate",
    "danger": KindRule("gameplay", "safe"),
    "safe": "gameplay",
}
"""A kind of every class, and of every class a pair: `swing`, `flash` and `danger` open what the next one ends."""

Key = tuple[str, int, int, int, str]
"""(character, clip instance, loop, frame, kind)."""


class Gave(NamedTuple):
    """One event that a scene gave out: as a delivery or as the acceptance of an immediate kind."""

    character: str
    event: Event

    @property
    def key(self) -> Key:
        """Give the event's key in its scene."""
        event = self.event
        return self.character, event.clip_instance, event.loop, event.frame, event.kind


class TickedScene(Played):
    """Plays commands and ticks, and notes whatever was given out or withdrawn.

    With `reopens` the scene is stored and opened again after every turn, as if the service had restarted.
    """

    def __init__(self, *, bounds: Bounds | None = None, reopens: bool = False) -> None:
        super().__init__(bounds=bounds)
        self.reopens = reopens
        self.requested: dict[tuple[str, int], Request] = {}
        self.asked: list[tuple[Any, ...]] = []
        self.answered: list[list[Any]] = []
        self.gave: list[Gave] = []
        self.withdrawn: list[Withdrawn] = []

    def turn(self, *asked: Any) -> list[Any]:
        """Decide commands in one turn; note what was given out."""
        turn = Candidate(self.scene, self.at)
        decided = [turn.decide(*one) for one in asked]
        if turn.records:
            self.entries.append(encode_entry(at=turn.at, first=turn.first, records=turn.records))
            self.scene.adopt(turn)
        self.asked.append(asked)
        for _, command, *_ in asked:
            if isinstance(command, Tick) and command.requests is not UNSET:
                self.requested |= {(request.source, request.number): request for request in command.requests}
        for one in decided:
            if isinstance(one, Record):
                self._note(one.character, one.command, one.answer, one.consequences)
        if self.reopens:
            self.scene = reopened(self.scene)
        answers = [one.answer if isinstance(one, Record) else one for one in decided]
        self.answered.append(answers)
        return answers

    def _note(self, name: str | None, command: Command, answer: Any, consequences: Consequences | None) -> None:
        if isinstance(answer, Ticked):
            self._note_tick(command, answer)
        elif isinstance(answer, Bundled):
            assert isinstance(command, Bundle)
            for member, given in zip(command.commands, answer.answers, strict=True):
                self._note(member.character, member.command, given.answer, given.consequences)
        elif name is not None:
            self.gave += [Gave(name, event) for event in self._given(name, command, answer)]
        self._note_closed(consequences)

    def _given(self, name: str, command: Command, answer: Any) -> list[Event]:
        if isinstance(answer, LoopDelivered):
            return answer.events
        if isinstance(answer, SpanCovered):
            return [event for event in answer.events if self._is_immediate(name, event.kind)]
        if (
            isinstance(answer, EventAccepted)
            and isinstance(command, Enqueue)
            and self._is_immediate(name, command.kind)
        ):
            return [Event(command.clip_instance, command.loop, command.frame, command.kind, command.payload)]
        return []

    def _is_immediate(self, name: str, kind: str) -> bool:
        held = self.scene.roster.get(name)
        return held is not None and is_immediate(self.scene.rig_of(held), kind)

    def _note_closed(self, consequences: Consequences | None) -> None:
        for closed in () if consequences is None else consequences.windows:
            if closed.delivery is not None:
                self.gave.append(Gave(closed.character, closed.event))

    def _note_tick(self, command: Command, answer: Ticked) -> None:
        assert isinstance(command, Tick)
        if answer.rollback is not UNSET:
            self._note_closed(answer.rollback.consequences)
        if answer.seal is not UNSET:
            for tick in answer.seal.ticks:
                for applied in tick.applied:
                    inner = self.requested[applied.source, applied.number]
                    given = applied.answered
                    self._note(given.character, inner.command, given.answer, given.consequences)
                self._note_closed(tick.expired)
        if answer.confirm is not UNSET:
            self.gave += [Gave(given.character, event) for given in answer.confirm.deliveries for event in given.events]
            self.withdrawn += answer.confirm.withdrawn

    # Ticks

    def seal(self, tick: int) -> Any:
        """Seal up to a tick, which must go."""
        answer = self.tick(seal=tick)
        assert not answer.refused, answer
        return answer.seal

    def confirm(self, tick: int) -> TickConfirmed:
        """Confirm up to a tick, which must go."""
        answer = self.tick(confirm=tick)
        assert not answer.refused, answer
        confirmed: TickConfirmed = answer.confirm
        return confirmed

    def rollback(self, tick: int) -> Any:
        """Roll back to the end of a tick, which must go."""
        answer = self.tick(rollback=tick)
        assert not answer.refused, answer
        return answer.rollback

    # What was given

    def gave_keys(self) -> list[Key]:
        """List the keys of whatever was given out, in order."""
        return [gave.key for gave in self.gave]

    def given(self, *kinds: str) -> list[tuple[int, int, int, str]]:
        """List (clip instance, loop, frame, kind) of what was given out, in order, of all kinds or some."""
        return [gave.key[1:] for gave in self.gave if not kinds or gave.event.kind in kinds]

    def withdrawn_keys(self) -> list[Key]:
        """List the keys of what was withdrawn, in order."""
        return [Gave(each.character, each.event).key for each in self.withdrawn]

    def deliveries(self, who: str = "hero") -> dict[int, list[str]]:
        """Give the kinds of the deliveries that can be read again, by number."""
        return {each.delivery: [event.kind for event in each.events] for each in self.hero(who).events.deliveries}

    # Commands in short

    def enqueue(
        self, number: int, kind: str, *, loop: int = 0, frame: int = 0, who: str = "hero", **fields: Any
    ) -> Any:
        """Report an event."""
        return self.ask(Enqueue(clip_instance=number, loop=loop, frame=frame, kind=kind, **fields), who)

    def commit(self, number: int, loop: int = 0, who: str = "hero") -> Any:
        """Commit a loop."""
        return self.ask(CommitLoop(clip_instance=number, loop=loop), who)

    def cover(self, number: int, first: int, last: int, *, loop: int = 0, who: str = "hero", **fields: Any) -> Any:
        """Report a span of frames."""
        return self.ask(Covered(clip_instance=number, loop=loop, from_frame=first, to_frame=last, **fields), who)

    def retire(self, number: int, who: str = "hero") -> Any:
        """Close an instance."""
        return self.ask(Retire(clip_instance=number), who)

    def acknowledge(self, through: int, who: str = "hero") -> Any:
        """Let go of deliveries."""
        return self.ask(Acknowledge(through=through), who)

    def swap(self, who: str = "hero") -> Any:
        """Commit another graph, so that every instance of its layers is stale."""
        request = self.ask(RequestGraph(name="CombatV9"), who).request
        return self.ask(candidate(request), who)

    # What every test must keep

    def check(self) -> None:
        """Hold this scene equal to its entries replayed, and its answers to those of one that reopens at every turn."""
        assert_same_scene(self.scene, self.replayed())
        twin = TickedScene(bounds=self.bounds, reopens=True)
        for asked, answered in zip(self.asked, self.answered, strict=True):
            assert twin.turn(*asked) == answered


def reopened(scene: Scene) -> Scene:
    """Store a scene as a checkpoint and open that."""
    header = encode_checkpoint(scene.state, scene.receipts.dump(), scene.open_ticks(), closed=not scene.state.exists)
    head, fresh = decode_checkpoint(header), Scene(scene.name, SECRET, scene.bounds)
    for name in scene.roster.names():
        stored = decode_character(encode_character(StoredCharacter(scene.roster.blob(name), None, None)))
        assert stored.living is not None
        fresh.roster.load(name, stored.living)
    remains = dict[str, Remains]()
    for name, kept in scene.remains.items():
        dead = decode_character(encode_character(StoredCharacter(None, kept, None))).remains
        assert dead is not None
        remains[name] = dead
    fresh.restore(head.state, head.receipts, remains, head.open_ticks)
    return fresh


def ticked(*, bounds: Bounds | None = None, who: tuple[str, ...] = ("hero",), **parts: Any) -> TickedScene:
    """Spawn characters of a rig that knows `KINDS`, apart from what a test changes."""
    scene = TickedScene(bounds=bounds)
    for name in who:
        scene.spawn(rig(**{"kinds": KINDS, **parts}), name)
    return scene


def words(answers: list[Any]) -> Iterator[str]:
    """Give the word of each answer."""
    for answer in answers:
        yield str(answer.outcome) if isinstance(answer, Refused) else str(answer.__struct_config__.tag)


def shown(given: list[Given]) -> list[tuple[str, int, list[tuple[int, str]]]]:
    """Show confirmed deliveries as (character, number, (frame, kind) of each event)."""
    return [(each.character, each.delivery, [(event.frame, event.kind) for event in each.events]) for each in given]
