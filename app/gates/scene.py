"""The scene: what is adopted, the overlay that a turn works on, and the one step from one to the other."""

from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from app.gates.character import Answer, Character
from app.gates.consequence import Consequences
from app.gates.decision import Command, Refused
from app.gates.due import is_due
from app.gates.identity import Sealer, Token
from app.gates.lives import Remains, folded
from app.gates.moment import Moment
from app.gates.receipt import Mark, Receipt, Receipts
from app.gates.rig import Rig
from app.gates.roster import UNCOMPRESSED, Compression, Roster
from app.gates.tick import Gone, Sealed, Ticked, Ticks, entries, kept_entries, with_added

ENTRIES_TIDY = 4_096
"""How many agenda entries a scene holds before it looks which of them came to nothing."""


COOLED_MAX = 64
"""How many characters go to sleep at one adoption, which nothing interrupts: about 2 ms. Whoever adopts lets more."""


class Bounds(Struct, frozen=True):
    """What a scene may hold.

    Live values, remembered dead ids, receipts a caller, and how long those are kept (ms); living characters, and the
    bytes of one in its stored form; how many sealed ticks it can roll back, how many ticks ahead it holds requests, how
    many a tick and in all, and after how many events that were delivered in one tick it gives up rolling back.
    """

    hot_characters_max: int = 4096
    remains_max: int = 10_000
    receipts_max: int = 10_000
    receipts_ms: int = 600_000
    rigs_max: int = 1_000
    characters_max: int = 1_000_000
    character_bytes_max: int = 4_194_304
    rollback_ticks: int = 64
    tick_window: int = 64
    tick_requests_max: int = 4_096
    scene_requests_max: int = 8_192
    tick_deliveries_max: int = 65_536


class Record(Struct, frozen=True, array_like=True, gc=False):
    """One decision: who, what was asked, what was answered, and the character's revision after it.

    `character` is None for what concerns the whole scene. `mark` is there when the command came with a key, and
    `consequences` when the decision ended more than it was about.
    """

    character: str | None
    command: Command
    answer: Answer
    revision: int
    mark: Mark | None = None
    consequences: Consequences | None = None

    @property
    def accepted(self) -> bool:
        """Say whether anything of the command was accepted."""
        answer = self.answer.refusal() if type(self.answer) is Ticked else self.answer
        return type(answer) is not Refused


class RigUse(Struct, frozen=True, array_like=True):
    """A rig of a scene, and how many living characters were spawned with it."""

    rig: Rig
    users: int = 0


class SceneState(Struct, frozen=True, array_like=True):
    """What a scene is apart from its characters: stored in the head of a checkpoint."""

    sequence: int = 0
    at: int = 0
    exists: bool = False
    rigs: dict[str, RigUse] = {}
    floor: Remains = Remains()


class Scene:
    """The adopted state of one scene. Readers may look at any time; only `adopt` changes it, in one step.

    `sequence` is the last decision's, `at` its time (ms since 1970, never falling). A scene `exists` from its first
    spawn or rig until it is closed. `before` holds the characters that the tick being open has touched, as they were
    when the last one was sealed, `newborn` those whose life began in it, and `delivered` the events that it gave out.
    """

    def __init__(self, name: str, secret: bytes, bounds: Bounds, compression: Compression = UNCOMPRESSED) -> None:
        self.name = name
        self.sealer = Sealer(name, secret)
        self.bounds = bounds
        self.state = SceneState()
        self.roster = Roster(hot_max=bounds.hot_characters_max, compression=compression)
        self.remains: dict[str, Remains] = {}
        self.ticks = Ticks()
        self.before: dict[str, Character] = {}
        self.newborn: dict[str, Character] = {}
        self.delivered: list[Gone] = []
        self._entries_max = ENTRIES_TIDY
        self.receipts = Receipts(kept=bounds.receipts_max, kept_ms=bounds.receipts_ms)

    @property
    def sequence(self) -> int:
        """Give the sequence of the last adopted decision."""
        return self.state.sequence

    def rig_of(self, character: Character) -> Rig:
        """Give the rig a living character was spawned with."""
        return self.state.rigs[character.rig].rig

    def adopt(self, overlay: "Overlay") -> None:
        """Make an overlay's outcome the visible state. No reader can see a part of it: nothing waits in between."""
        if overlay.closes:
            self.roster.clear()
            self.remains.clear()
            self.receipts.restore({})
        for name in overlay.dead:
            if name in self.roster and name not in overlay.living:
                self.roster.remove(name)
        for name, character in overlay.living.items():
            self.roster.put(name, character)
            self.remains.pop(name, None)
        for name, kept in sorted(overlay.dead.items(), key=_in_order_of_death):
            held = self.remains.get(name)
            if held is not None and held.died_at != kept.died_at:
                del self.remains[name]
            self.remains[name] = kept
        floor = overlay.floor
        while len(self.remains) > self.bounds.remains_max:
            oldest = next(iter(self.remains))
            floor = folded(floor, self.remains.pop(oldest))
            overlay.gone.append(oldest)
        self._adopt_ticks(overlay)
        self.state = SceneState(overlay.sequence, overlay.at, overlay.exists, overlay.rigs, floor)
        if overlay.forgets_after is not None:
            self.receipts.forget(after=overlay.forgets_after)
        self.receipts.keep(overlay.marks.values(), at=overlay.at)
        self.roster.note_sizes(overlay.sizes)
        self.roster.cool(COOLED_MAX)

    def _adopt_ticks(self, overlay: "Overlay") -> None:
        if overlay.starts_tick:
            self.before, self.newborn, self.delivered = overlay.before, overlay.newborn, overlay.delivered
        elif overlay.ticks.is_running:
            self.before.update(overlay.before)
            self.newborn.update(overlay.newborn)
            self.delivered.extend(overlay.delivered)
        has_noted = overlay.has_noted or bool(overlay.deadlines or overlay.due)
        self.ticks = overlay.settled_ticks()
        if len(self.delivered) > self.bounds.tick_deliveries_max:
            # Nobody seals these ticks: what would undo them must not grow for ever.
            self.before, self.newborn, self.delivered = {}, {}, []
            last = {tick: sealed.bare() for tick, sealed in self.ticks.past.items() if tick == self.ticks.sealed}
            self.ticks = replace(self.ticks, floor=self.ticks.sealed + 1, past=last, unreturned=[])
        if has_noted and entries(self.ticks) > self._entries_max:
            self._tidy_agendas()

    def _tidy_agendas(self) -> None:
        """Let go of agenda entries that came to nothing: nobody may ever seal or confirm their ticks."""
        ticks = self.ticks
        deadlines = kept_entries(ticks.deadlines, lambda name, tick: tick in self._deadlines_of(name))
        due = kept_entries(ticks.due, self._is_due)
        self.ticks = replace(ticks, deadlines=deadlines, due=due)
        self._entries_max = max(ENTRIES_TIDY, 2 * entries(self.ticks))

    def _deadlines_of(self, name: str) -> set[int | None]:
        character = self.roster.get(name)
        layers = () if character is None else character.layers.values()
        return {layer.pending.deadline for layer in layers if layer.pending is not None}

    def _is_due(self, name: str, tick: int) -> bool:
        held = self.roster.get(name) or self.remains.get(name)
        return held is not None and any(is_due(event, tick) for event in held.events.due)

    def restore(
        self,
        state: SceneState,
        receipts: dict[str, dict[bytes, Receipt]],
        kept: dict[str, Remains],
        ticks: "OpenTicks",
    ) -> None:
        """Take back a checkpoint, after its living characters were loaded into the roster."""
        self.state = state
        self.receipts.restore(receipts)
        self.remains = dict(sorted(kept.items(), key=_in_order_of_death))
        self.ticks, self.before, self.newborn, self.delivered = (
            ticks.ticks,
            ticks.before,
            ticks.newborn,
            ticks.delivered,
        )

    def open_ticks(self) -> "OpenTicks":
        """Give the ticks as a checkpoint stores them."""
        return OpenTicks(self.ticks, self.before, self.newborn, self.delivered)


def _in_order_of_death(item: tuple[str, Remains]) -> tuple[int, str]:
    """Give the order in which remains fold into the floor; several lives may end in one decision."""
    name, kept = item
    return kept.died_at, name


class OpenTicks(Struct, frozen=True, array_like=True):
    """The ticks of a scene with what undoes the one being open."""

    ticks: Ticks = Ticks()
    before: dict[str, Character] = {}
    newborn: dict[str, Character] = {}
    delivered: list[Gone] = []


class Savepoint(NamedTuple):
    """Everything of an overlay that a decision may change."""

    living: dict[str, Character]
    dead: dict[str, Remains]
    rigs: dict[str, RigUse]
    exists: bool
    tick: int
    moment: Moment
    ticks: Ticks
    before: dict[str, Character]
    newborn: dict[str, Character]
    delivered: list[Gone]
    starts_tick: bool
    deadlines: list[tuple[int, str]]
    due: list[tuple[int, str]]
    refusals: list[tuple[str, Command, Refused]]
    born: list[str]


class Overlay:
    """A turn's outcome so far, over an adopted scene that it leaves alone until it is adopted or dropped.

    `living` and `dead` hold what was touched: a living character's newest value, a dead one's remains. `gone` are ids
    that were held before and of which nothing remains: all of them when it `closes` the scene, and those that fold into
    the floor when it is adopted. `tick` is the one being open; `before`, `newborn` and `delivered` are the scene's,
    as far as this turn adds to them, or all there is when it `starts_tick`. `refusals` are those of single commands, to
    be tallied, `born` the ids whose life began, `sizes` the most bytes of who grew. Receipts of sequences above
    `forgets_after` are forgotten. A scene that does not exist begins only when it `may_begin`.
    """

    def __init__(self, scene: Scene, at: int) -> None:
        self.scene = scene
        self.sealer = scene.sealer
        self.at = max(at, scene.state.at)
        self.sequence = scene.state.sequence
        self.rigs = scene.state.rigs
        self.floor = scene.state.floor
        self.living: dict[str, Character] = {}
        self.dead: dict[str, Remains] = {}
        self.closes = False
        self.gone: list[str] = []
        self.exists = scene.state.exists
        self.may_begin = True
        self.ticks = scene.ticks
        self.tick = scene.ticks.sealed + 1
        self.moment = self._moment()
        self.before: dict[str, Character] = {}
        self.newborn: dict[str, Character] = {}
        self.delivered: list[Gone] = []
        self.starts_tick = False
        self.deadlines: list[tuple[int, str]] = []
        self.due: list[tuple[int, str]] = []
        self.refusals: list[tuple[str, Command, Refused]] = []
        self.born: list[str] = []
        self.sizes: dict[str, int] = {}
        self.has_noted = False
        self.forgets_after: int | None = None
        self.marks: dict[tuple[str, bytes], tuple[int, Mark]] = {}

    def open_tick(self, tick: int) -> None:
        """Let `tick` be the one being open, as the ticks stand now."""
        self.tick = tick
        self.moment = self._moment()

    def _moment(self) -> Moment:
        ticks = self.ticks
        last = ticks.sealed + self.scene.bounds.tick_window if ticks.sealed else None
        return Moment(self.tick, ticks.confirmed, last)

    def character(self, name: str) -> Character | None:
        """Give a living character as this overlay has it."""
        held = self.living.get(name)
        if held is not None or name in self.dead or self.closes:
            return held
        return self.scene.roster.get(name)

    def remains_of(self, name: str) -> Remains | None:
        """Give what is remembered of a dead id as this overlay has it."""
        kept = self.dead.get(name)
        return self.scene.remains.get(name) if kept is None and not self.closes else kept

    def rig_of(self, character: Character) -> Rig:
        """Give the rig a living character was spawned with."""
        return self.rigs[character.rig].rig

    @property
    def population(self) -> int:
        """Count the living; those who died and were born again in this overlay count twice until it is adopted."""
        return (0 if self.closes else len(self.scene.roster)) + len(self.born) - len(self.dead)

    def put(self, name: str, before: Character, after: Character) -> None:
        """Replace a living character; while ticks run, what it was when the open tick began is kept."""
        if self.ticks.is_running and name not in self.before and (self.starts_tick or name not in self.scene.before):
            self.before[name] = before
        self.living[name] = after

    def put_newborn(self, name: str, character: Character) -> None:
        """Add a character whose life begins: a rollback cannot take it back beyond its birth."""
        if self.ticks.is_running:
            self.newborn[name] = character
        self.living[name] = character
        self.dead.pop(name, None)
        self.born.append(name)

    def deliver(self, gone: Gone) -> None:
        """Note an event that was given out, so that a rollback of its tick does not give it again."""
        if self.ticks.is_running:
            self.delivered.append(gone)

    def holds(self, token: Token) -> bool:
        """Say whether a token of any character of the scene still has its right, pending or committed."""
        character = self.character(token.character)
        arbiter = None if character is None else character.layers.get(token.layer)
        if character is None or arbiter is None:
            return False
        return arbiter.is_held_by(token, life=character.life, sealer=self.scene.sealer)

    def undo(self, sequence: int, digest: bytes) -> Sealed:
        """Give what undoes the tick being open: what it touched and delivered, in this turn and before it."""
        if self.starts_tick:
            return Sealed(self.before, self.newborn, self.delivered, sequence, digest)
        adopted = self.scene
        return Sealed(
            adopted.before | self.before,
            adopted.newborn | self.newborn,
            adopted.delivered + self.delivered,
            sequence,
            digest,
        )

    def start_tick(self, tick: int) -> None:
        """Begin a tick that nothing has happened in."""
        self.starts_tick, self.before, self.newborn, self.delivered = True, {}, {}, []
        self.open_tick(tick)

    def settled_ticks(self) -> Ticks:
        """Give the ticks with what this overlay adds to their agendas."""
        ticks = self.ticks
        if not self.deadlines and not self.due:
            return ticks
        return replace(
            ticks, deadlines=with_added(ticks.deadlines, self.deadlines), due=with_added(ticks.due, self.due)
        )

    def settle_ticks(self, ticks: Ticks) -> None:
        """Go on with other ticks, made from `settled_ticks`."""
        self.has_noted = self.has_noted or bool(self.deadlines or self.due)
        self.ticks, self.deadlines, self.due = ticks, [], []

    def savepoint(self) -> Savepoint:
        """Remember the overlay as it is, so that a decision made of several can be dropped whole."""
        return Savepoint(
            self.living.copy(),
            self.dead.copy(),
            self.rigs,
            self.exists,
            self.tick,
            self.moment,
            self.ticks,
            self.before.copy(),
            self.newborn.copy(),
            self.delivered.copy(),
            self.starts_tick,
            self.deadlines.copy(),
            self.due.copy(),
            self.refusals.copy(),
            self.born.copy(),
        )

    def go_back(self, point: Savepoint) -> None:
        """Drop what was done since a savepoint, which must not be used again."""
        for name, value in point._asdict().items():
            setattr(self, name, value)
