"""Spawning: how a scene decides what begins and ends lives, declares rigs, and closes it."""

from msgspec import UNSET

from app.gates.character import Answer, Character
from app.gates.decision import Command, Fact, LifeRefusal, Problem, Refused, Undecided
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
from app.gates.rig import Rig, default_rig
from app.gates.scene import Overlay, RigUse
from app.gates.tick import Ticks

LIFE_COMMANDS = frozenset({Spawn, Despawn, DeclareRig, CloseScene})


def decide_life(scene: Overlay, name: str | None, command: Command) -> Answer | Undecided:
    """Decide what begins or ends a life, or say that there is nobody to decide any other command."""
    character = None if name is None else scene.character(name)
    match command:
        case DeclareRig():
            return _decide_rig(scene, command)
        case CloseScene() if scene.exists:
            return SceneClosed()
        case Spawn():
            assert name is not None
            return _decide_spawn(scene, name, character, command)
        case _ if not scene.exists:
            return Undecided(Problem.UNKNOWN_SCENE, f"there is no scene {scene.scene.name!r}; a spawn makes one")
        case _ if character is None:
            return Undecided(Problem.UNKNOWN_CHARACTER, f"no character {name!r} is alive in this scene")
        case Despawn():
            refused = _refusal_of_life(scene, command, character.life)
            return refused or Despawned(character.life)
        case _:
            raise AssertionError(f"no gate takes {type(command).__name__}")


_NO_ROOM = Undecided(Problem.TOO_LARGE, "there are as many scenes as there may be; close one that is over")


def _refusal_of_life(scene: Overlay, command: Spawn | Despawn, life: int, shown: int | None = None) -> Refused | None:
    if command.life is not UNSET and command.life != life:
        return Refused(LifeRefusal.STALE_LIFE, at="life", by={"life": life if shown is None else shown})
    if command.holder is not UNSET and not scene.holds(command.holder):
        return Refused(LifeRefusal.HOLDER_LOST, at="holder")
    return None


def _decide_rig(scene: Overlay, command: DeclareRig) -> Answer | Undecided:
    if not scene.exists and not scene.may_begin:
        return _NO_ROOM
    held = scene.rigs.get(command.name)
    if held is not None and held.rig == command.rig:
        return RigDeclared(False)
    if held is not None and held.users:
        detail = f"{held.users} living characters use another rig {command.name!r}; despawn them first"
        return Undecided(Problem.CONFLICTING_RIG, detail)
    if held is None and len(scene.rigs) >= scene.scene.bounds.rigs_max:
        return Undecided(Problem.TOO_LARGE, f"a scene holds at most {scene.scene.bounds.rigs_max} rigs")
    return RigDeclared(True)


def _decide_spawn(scene: Overlay, name: str, character: Character | None, command: Spawn) -> Answer | Undecided:
    before = _before(scene, name)
    life = before.life + 1 if character is None else character.life
    refused = _refusal_of_life(scene, command, life, before.life if character is None else life)
    if refused is not None and not scene.exists:
        detail = f"there is no scene {scene.scene.name!r}, so no former life and no token in it"
        return Undecided(Problem.UNKNOWN_SCENE, detail)
    if refused is not None:
        return refused
    if not scene.exists and not scene.may_begin:
        return _NO_ROOM
    rig = _rig_for(scene, command)
    if isinstance(rig, Undecided):
        return rig
    unknown = [graph for graph in command.graphs if graph not in rig.graphs]
    if unknown:
        return Undecided(Problem.INVALID, f"the rig has no graph {unknown[0]!r}", at=f"graphs.{unknown[0]}")
    if character is None and scene.population >= scene.scene.bounds.characters_max:
        return Undecided(Problem.TOO_LARGE, f"a scene holds at most {scene.scene.bounds.characters_max} characters")
    if character is None:
        return Spawned(life, True, newborn(command, rig, before, at=scene.at))
    if character.declared != declaration(command, rig):
        detail = f"{name!r} is alive and was spawned otherwise; despawn it first, or spawn it as it was"
        return Undecided(Problem.CONFLICTING_SPAWN, detail)
    return Spawned(life, False)


def _rig_for(scene: Overlay, command: Spawn) -> Rig | Undecided:
    if command.inline is not None:
        if rig_key(command) not in scene.rigs and len(scene.rigs) >= scene.scene.bounds.rigs_max:
            return Undecided(Problem.TOO_LARGE, f"a scene holds at most {scene.scene.bounds.rigs_max} rigs")
        return command.inline
    if command.rig is None:
        return default_rig()
    held = scene.rigs.get(command.rig)
    if held is None:
        return Undecided(Problem.UNKNOWN_RIG, f"the scene has no rig {command.rig!r}; declare it first", at="rig")
    return held.rig


def _before(scene: Overlay, name: str) -> Remains:
    """Give what an id's next life must be above."""
    kept = scene.remains_of(name)
    return scene.floor if kept is None else kept


def evolve_life(scene: Overlay, name: str | None, command: Command, fact: Fact) -> int:
    """Apply what was decided; give the revision of the character it concerned, 0 for none."""
    scene.exists = type(fact) is not SceneClosed
    match fact, command:
        case RigDeclared(), DeclareRig():
            if fact.created:
                scene.rigs = {**scene.rigs, command.name: RigUse(command.rig)}
            return 0
        case SceneClosed(), _:
            _close(scene)
            return 0
        case Spawned(), Spawn():
            assert name is not None
            if fact.character is not None:
                _use(scene, fact.character.rig, command, 1)
                scene.put_newborn(name, fact.character)
            character = scene.character(name)
            assert character is not None, "a spawn leaves its character alive"
            return character.revision
        case Despawned(), _:
            assert name is not None
            return _despawn(scene, name)
        case _:
            raise AssertionError(f"{type(command).__name__} never yields {type(fact).__name__}")


def _despawn(scene: Overlay, name: str) -> int:
    character = scene.character(name)
    assert character is not None, "only a living character can be despawned"
    kept = remains(character, scene.rig_of(character), sequence=scene.sequence + 1)
    # What it was is not needed to undo the tick, for no rollback takes back a life; its name is.
    scene.put(name, character, character)
    scene.living.pop(name, None)
    scene.dead[name] = kept
    _use(scene, character.rig, None, -1)
    return kept.revision


def _use(scene: Overlay, key: str, spawn: Spawn | None, change: int) -> None:
    """Count the users of a rig; one that no scene declared goes with its last user."""
    held = scene.rigs.get(key)
    if held is None:
        assert spawn is not None
        held = RigUse(default_rig() if spawn.inline is None else spawn.inline)
    users = held.users + change
    rigs = dict(scene.rigs)
    if users == 0 and (key == DEFAULT or key.startswith("#")):
        del rigs[key]
    else:
        rigs[key] = RigUse(held.rig, users)
    scene.rigs = rigs


def _close(scene: Overlay) -> None:
    """Fold every life, living or dead, into the floor; nothing else stays."""
    floor, adopted = scene.floor, scene.scene
    if not scene.closes:
        scene.gone = [*adopted.roster, *adopted.remains]
        for name in adopted.roster:
            if name not in scene.living and name not in scene.dead:
                character = adopted.roster.get(name)
                assert character is not None
                floor = folded(floor, remains(character, scene.rig_of(character), sequence=scene.sequence + 1))
        for kept in adopted.remains.values():
            floor = folded(floor, kept)
    for character in scene.living.values():
        floor = folded(floor, remains(character, scene.rig_of(character), sequence=scene.sequence + 1))
    for kept in scene.dead.values():
        floor = folded(floor, kept)
    scene.living, scene.dead, scene.rigs = {}, {}, {}
    scene.floor, scene.closes, scene.marks = floor, True, {}
    scene.settle_ticks(Ticks())
    scene.start_tick(1)
