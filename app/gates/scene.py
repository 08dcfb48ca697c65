"""The scene: what is adopted, the candidate that a turn decides on, and the one step from one to the other."""

from collections.abc import Iterable

from msgspec import UNSET, Struct

from app.gates.character import Answer, Character, Place
from app.gates.decision import RETRYABLE, Command, Fact, LifeRefusal, Problem, Refused, Undecided
from app.gates.identity import Sealer
from app.gates.lives import (
    DEFAULT,
    CloseScene,
    DeclareRig,
    Despawn,
    Despawned,
    Remains,
    RigDeclared,
    SceneClosed,
    Spawn,
    Spawned,
    declaration,
    folded,
    newborn,
    remains,
    rig_key,
)
from app.gates.receipt import Mark, Receipt, Receipts
from app.gates.rig import Rig, default_rig
from app.gates.roster import Roster


class Bounds(Struct, frozen=True):
    """What a scene may hold: live values, remembered dead ids, receipts a caller, and how long those are kept (ms)."""

    hot_characters_max: int = 4096
    remains_max: int = 10_000
    receipts_max: int = 10_000
    receipts_ms: int = 600_000
    rigs_max: int = 1_000


class Record(Struct, frozen=True, array_like=True, gc=False):
    """One decision: who, what was asked, what was answered, and the character's revision after it.

    `character` is None for what concerns the whole scene. `mark` is there when the command came with a key.
    """

    character: str | None
    command: Command
    answer: Answer
    revision: int
    mark: Mark | None = None

    @property
    def accepted(self) -> bool:
        """Say whether the answer is a fact."""
        return type(self.answer) is not Refused


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
    spawn or rig until it is closed.
    """

    def __init__(self, name: str, secret: bytes, bounds: Bounds) -> None:
        self.name = name
        self.sealer = Sealer(name, secret)
        self.bounds = bounds
        self.state = SceneState()
        self.roster = Roster(hot_max=bounds.hot_characters_max)
        self.remains: dict[str, Remains] = {}
        self.receipts = Receipts(kept=bounds.receipts_max, kept_ms=bounds.receipts_ms)

    @property
    def sequence(self) -> int:
        """Give the sequence of the last adopted decision."""
        return self.state.sequence

    def rig_of(self, character: Character) -> Rig:
        """Give the rig a living character was spawned with."""
        return self.state.rigs[character.rig].rig

    def adopt(self, candidate: "Candidate") -> None:
        """Make a candidate's outcome the visible state. No reader can see a part of it: nothing waits in between."""
        if candidate.closes:
            self.roster.clear()
            self.remains.clear()
            self.receipts.restore({})
        for name in candidate.dead:
            if name in self.roster and name not in candidate.living:
                self.roster.remove(name)
        for name, character in candidate.living.items():
            self.roster.put(name, character)
            self.remains.pop(name, None)
        for name, kept in candidate.dead.items():
            self.remains.pop(name, None)
            self.remains[name] = kept
        rigs, floor = candidate.rigs, candidate.floor
        while len(self.remains) > self.bounds.remains_max:
            oldest = next(iter(self.remains))
            floor = folded(floor, self.remains.pop(oldest))
            candidate.gone.append(oldest)
        self.state = SceneState(candidate.sequence, candidate.at, candidate.exists, rigs, floor)
        for sequence, mark in candidate.marks.values():
            self.receipts.keep(mark, sequence=sequence, at=candidate.at)

    def restore(self, state: SceneState, receipts: dict[str, dict[bytes, Receipt]], kept: dict[str, Remains]) -> None:
        """Take back a checkpoint, after its living characters were loaded into the roster."""
        self.state = state
        self.receipts.restore(receipts)
        self.remains = dict(sorted(kept.items(), key=lambda item: item[1].died_at))

    def replay(self, first: int, at: int, records: Iterable[Record]) -> "Candidate":
        """Apply recorded facts and adopt them; give the candidate that was adopted. Asks no rule."""
        candidate = Candidate(self, at)
        assert first == candidate.sequence + 1, "entries follow each other without a gap"
        for record in records:
            candidate.apply(record)
        self.adopt(candidate)
        return candidate


class Candidate:
    """A turn's outcome so far, over an adopted scene that it leaves alone until it is adopted or dropped.

    `living` and `dead` hold what was touched: a living character's newest value, a dead one's remains. `records` are
    the decisions in order; the first has the sequence after the scene's. `gone` are ids that
    were held before and of which nothing remains: all of them when it `closes` the scene, and those that fold into the
    floor when it is adopted.
    """

    def __init__(self, scene: Scene, at: int) -> None:
        self.scene = scene
        self.at = max(at, scene.state.at)
        self.sequence = scene.state.sequence
        self.rigs = scene.state.rigs
        self.floor = scene.state.floor
        self.living: dict[str, Character] = {}
        self.dead: dict[str, Remains] = {}
        self.closes = False
        self.gone: list[str] = []
        self.exists = scene.state.exists
        self.records: list[Record] = []
        self.marks: dict[tuple[str, bytes], tuple[int, Mark]] = {}

    @property
    def first(self) -> int:
        """Give the sequence of the first decision, where there is one."""
        return self.sequence - len(self.records) + 1

    def earlier(self, mark: Mark) -> tuple[int, bytes] | None:
        """Give the sequence and fingerprint of what was decided under a key before, in this turn or an earlier one."""
        held = self.marks.get((mark.caller, mark.key))
        if held is not None:
            return held[0], held[1].fingerprint
        receipt = None if self.closes else self.scene.receipts.find(mark.caller, mark.key, at=self.at)
        return None if receipt is None else (receipt.sequence, receipt.fingerprint)

    def character(self, name: str) -> Character | None:
        """Give a living character as this candidate has it."""
        held = self.living.get(name)
        if held is not None or name in self.dead or self.closes:
            return held
        return self.scene.roster.get(name)

    def decide(self, name: str | None, command: Command, mark: Mark | None = None) -> Record | Undecided:
        """Decide one command; when it was accepted the candidate has moved on. An Undecided leaves no trace."""
        if name is None or type(command) in _LIFE_COMMANDS:
            return self._decide_and_record_life(name, command, mark)
        character = self.living.get(name) or self.character(name)
        if character is None:
            return self._decide_and_record_life(name, command, mark)
        rig = self.rigs[character.rig].rig
        answer = character.decide(command, Place(name, rig, self.scene.sealer))
        if type(answer) is Undecided:
            return answer
        if type(answer) is not Refused:
            character = character.evolve(command, answer, rig, at=self.at)
            self.living[name] = character
        if mark is not None:
            return self._record(name, command, answer, character.revision, mark)
        self.sequence += 1
        record = Record(name, command, answer, character.revision)
        self.records.append(record)
        return record

    def _decide_and_record_life(self, name: str | None, command: Command, mark: Mark | None) -> Record | Undecided:
        character = None if name is None else self.character(name)
        decided = self._decide_life(name, character, command)
        if isinstance(decided, Undecided):
            return decided
        record = Record(name, command, decided, 0 if character is None else character.revision, mark)
        return self.apply(record)

    def answer(self, name: str | None, command: Command) -> Answer | Undecided:
        """Say how a command would be decided now; nothing moves on."""
        character = None if name is None else self.character(name)
        if name is not None and character is not None and type(command) not in _LIFE_COMMANDS:
            return character.decide(command, Place(name, self.rigs[character.rig].rig, self.scene.sealer))
        return self._decide_life(name, character, command)

    def apply(self, record: Record) -> Record:
        """Add a recorded decision: apply its fact, ask no rule. Give the record with the revision after it."""
        name, command, answer = record.character, record.command, record.answer
        if type(answer) is Refused:
            return self._record(name, command, answer, record.revision, record.mark)
        fact: Fact = answer
        if type(command) in _LIFE_COMMANDS:
            revision = self._evolve_life(name, command, fact)
        else:
            assert name is not None
            character = self.character(name)
            assert character is not None, "a fact concerns a character that is alive"
            character = character.evolve(command, fact, self.rigs[character.rig].rig, at=self.at)
            self.living[name] = character
            revision = character.revision
        return self._record(name, command, answer, revision, record.mark)

    def _record(self, name: str | None, command: Command, answer: Answer, revision: int, mark: Mark | None) -> Record:
        self.sequence += 1
        if mark is not None and type(answer) is Refused and answer.outcome in RETRYABLE:
            mark = None
        record = Record(name, command, answer, revision, mark)
        self.records.append(record)
        if mark is not None:
            self.marks[mark.caller, mark.key] = (self.sequence, mark)
        return record

    def _decide_life(self, name: str | None, character: Character | None, command: Command) -> Answer | Undecided:
        match command:
            case DeclareRig():
                return self._decide_rig(command)
            case CloseScene() if self.exists:
                return SceneClosed()
            case Spawn():
                assert name is not None
                return self._decide_spawn(name, character, command)
            case _ if not self.exists:
                return Undecided(Problem.UNKNOWN_SCENE, f"there is no scene {self.scene.name!r}; a spawn makes one")
            case _ if character is None:
                return Undecided(Problem.UNKNOWN_CHARACTER, f"no character {name!r} is alive in this scene")
            case Despawn():
                if command.life is not UNSET and command.life != character.life:
                    return Refused(LifeRefusal.STALE_LIFE, at="life", by={"life": character.life})
                return Despawned(character.life)
            case _:
                raise AssertionError(f"no gate takes {type(command).__name__}")

    def _decide_rig(self, command: DeclareRig) -> Answer | Undecided:
        held = self.rigs.get(command.name)
        if held is not None and held.rig == command.rig:
            return RigDeclared(False)
        if held is not None and held.users:
            detail = f"{held.users} living characters use another rig {command.name!r}; despawn them first"
            return Undecided(Problem.CONFLICTING_RIG, detail)
        if held is None and len(self.rigs) >= self.scene.bounds.rigs_max:
            return Undecided(Problem.TOO_LARGE, f"a scene holds at most {self.scene.bounds.rigs_max} rigs")
        return RigDeclared(True)

    def _decide_spawn(self, name: str, character: Character | None, command: Spawn) -> Answer | Undecided:
        before = self._before(name)
        life = before.life + 1 if character is None else character.life
        if command.life is not UNSET and command.life != life:
            if not self.exists:
                return Undecided(
                    Problem.UNKNOWN_SCENE, f"there is no scene {self.scene.name!r}, so no former life in it"
                )
            return Refused(
                LifeRefusal.STALE_LIFE, at="life", by={"life": life if character is not None else before.life}
            )
        rig = self._rig_for(command)
        if isinstance(rig, Undecided):
            return rig
        unknown = [graph for graph in command.graphs if graph not in rig.graphs]
        if unknown:
            return Undecided(Problem.INVALID, f"the rig has no graph {unknown[0]!r}", at=f"graphs.{unknown[0]}")
        if character is None:
            return Spawned(life, True, newborn(command, rig, before, at=self.at))
        if character.declared != declaration(command, rig):
            detail = f"{name!r} is alive and was spawned otherwise; despawn it first, or spawn it as it was"
            return Undecided(Problem.CONFLICTING_SPAWN, detail)
        return Spawned(life, False)

    def _rig_for(self, command: Spawn) -> Rig | Undecided:
        if command.inline is not None:
            if rig_key(command) not in self.rigs and len(self.rigs) >= self.scene.bounds.rigs_max:
                return Undecided(Problem.TOO_LARGE, f"a scene holds at most {self.scene.bounds.rigs_max} rigs")
            return command.inline
        if command.rig is None:
            return default_rig()
        held = self.rigs.get(command.rig)
        if held is None:
            return Undecided(Problem.UNKNOWN_RIG, f"the scene has no rig {command.rig!r}; declare it first", at="rig")
        return held.rig

    def _before(self, name: str) -> Remains:
        """Give what an id's next life must be above."""
        kept = self.dead.get(name)
        if kept is None and not self.closes:
            kept = self.scene.remains.get(name)
        return self.floor if kept is None else kept

    def _evolve_life(self, name: str | None, command: Command, fact: Fact) -> int:
        self.exists = type(fact) is not SceneClosed
        match fact, command:
            case RigDeclared(), DeclareRig():
                if fact.created:
                    self.rigs = {**self.rigs, command.name: RigUse(command.rig)}
                return 0
            case SceneClosed(), _:
                self._close()
                return 0
            case Spawned(), Spawn():
                assert name is not None
                if fact.character is not None:
                    self._use(fact.character.rig, command, 1)
                    self.living[name] = fact.character
                    self.dead.pop(name, None)
                character = self.character(name)
                assert character is not None, "a spawn leaves its character alive"
                return character.revision
            case Despawned(), _:
                assert name is not None
                return self._despawn(name)
            case _:
                raise AssertionError(f"{type(command).__name__} never yields {type(fact).__name__}")

    def _despawn(self, name: str) -> int:
        character = self.character(name)
        assert character is not None, "only a living character can be despawned"
        kept = remains(character, self.rigs[character.rig].rig, sequence=self.sequence + 1)
        self.living.pop(name, None)
        self.dead[name] = kept
        self._use(character.rig, None, -1)
        return kept.revision

    def _use(self, key: str, spawn: Spawn | None, change: int) -> None:
        """Count the users of a rig; one that no scene declared goes with its last user."""
        held = self.rigs.get(key)
        if held is None:
            assert spawn is not None
            held = RigUse(default_rig() if spawn.inline is None else spawn.inline)
        users = held.users + change
        rigs = dict(self.rigs)
        if users == 0 and (key == DEFAULT or key.startswith("#")):
            del rigs[key]
        else:
            rigs[key] = RigUse(held.rig, users)
        self.rigs = rigs

    def _close(self) -> None:
        """Fold every life, living or dead, into the floor; nothing else stays."""
        floor = self.floor
        scene = self.scene
        if not self.closes:
            self.gone = [*scene.roster, *scene.remains]
            for name in scene.roster:
                if name not in self.living and name not in self.dead:
                    character = scene.roster.get(name)
                    assert character is not None
                    rig = self.rigs[character.rig].rig
                    floor = folded(floor, remains(character, rig, sequence=self.sequence + 1))
            for kept in scene.remains.values():
                floor = folded(floor, kept)
        for character in self.living.values():
            floor = folded(floor, remains(character, self.rigs[character.rig].rig, sequence=self.sequence + 1))
        for kept in self.dead.values():
            floor = folded(floor, kept)
        self.living, self.dead, self.rigs = {}, {}, {}
        self.floor, self.closes, self.marks = floor, True, {}


_LIFE_COMMANDS = frozenset({Spawn, Despawn, DeclareRig, CloseScene})
