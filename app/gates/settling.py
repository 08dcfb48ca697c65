"""Settling: one command of one character decided on an overlay, with all that its answer brings about.

A bundle and a tick settle several commands as one decision; a candidate records what was settled.
"""

from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from app.gates.character import Answer, Character, Place
from app.gates.closing import (
    close,
    close_unfounded,
    close_windows,
    endings_of_decision,
    endings_of_holders,
    put_instance,
)
from app.gates.consequence import Consequences
from app.gates.decision import Command, Fact, Problem, Refused, Undecided
from app.gates.delivering import note_delivered, note_returned
from app.gates.event_commands import CommitLoop, Covered, Enqueue, Play, Retire
from app.gates.graph import SubmitCandidate
from app.gates.growth import GROWING, outgrows, surely_holds
from app.gates.lives import Despawn, Despawned
from app.gates.pair import with_returned
from app.gates.rig import Rig, is_immediate
from app.gates.scene import Overlay
from app.gates.shortcut import SHORTCUTS
from app.gates.spawning import LIFE_COMMANDS, decide_life, evolve_life
from app.gates.transition import (
    CANCELLED,
    EPOCH_ENDED,
    FAILED,
    SUPERSEDED,
    Begin,
    Cancel,
    Complete,
    Fail,
    TransitionGranted,
)
from app.gates.tying import end_tokens, linked_tokens, lost_rights, note_ended_links, tokens_ended

Settled = tuple[Answer, int, Consequences | None]
"""An answer, the character's revision after it, and what else it ended."""

_ENDS_AS: dict[type[Command], str] = {
    Begin: SUPERSEDED,
    Cancel: CANCELLED,
    Fail: FAILED,
    SubmitCandidate: EPOCH_ENDED,
    Despawn: EPOCH_ENDED,
}
"""How a token ends that one of these commands takes the right from."""

_ENDS_WINDOWS = frozenset({Play, Enqueue, CommitLoop, Retire, SubmitCandidate, Despawn})
"""The commands that may end windows of their own character: with an instance, an epoch or a life."""

_MAKES_DUE = frozenset({CommitLoop, Retire, Despawn})
"""The commands after which gameplay events wait for nothing but their tick."""

_DELIVERS = frozenset({Enqueue, Covered, CommitLoop})
_FOLLOWED = frozenset({*_ENDS_AS, *_ENDS_WINDOWS, *_DELIVERS, Complete})
"""The commands whose answers may bring about more than what they are about."""


def settle(scene: Overlay, name: str, command: Command, link: int | None = None) -> Settled | Undecided:
    """Decide one command; when it was accepted the overlay has moved on. An Undecided leaves no trace."""
    kind = type(command)
    before = scene.living.get(name) or scene.character(name)
    if before is None or kind in LIFE_COMMANDS:
        return _settle_life(scene, name, command, before)
    rig = scene.rigs[before.rig].rig
    shortcut = SHORTCUTS.get(kind)
    if shortcut is not None and link is None and command.life is UNSET and command.holder is UNSET:
        ticks, found = scene.ticks, None
        if not ticks.links and not (ticks.is_running and (ticks.unreturned or kind is CommitLoop)):
            found = shortcut(command, name, before, rig, scene.sealer, scene.at)
        if found is not None:
            fact, value = found
            if value is before or kind not in GROWING or surely_holds(scene, name, command):
                scene.put(name, before, value)
                return fact, value.revision, None
    answer = before.decide(command, Place(name, rig, scene.sealer, scene.holds, scene.moment, link))
    if type(answer) is Refused:
        return answer, _refuse(scene, name, command, answer, before), None
    if type(answer) is Undecided:
        return answer
    after = before.evolve(command, answer, rig, at=scene.at)
    if after is not before and kind in GROWING and outgrows(scene, name, command, answer, after):
        limit = scene.scene.bounds.character_bytes_max
        return Undecided(Problem.TOO_LARGE, f"{name!r} would be larger than {limit} bytes; acknowledge, retire, commit")
    scene.put(name, before, after)
    if kind not in _FOLLOWED or _leads_nowhere(scene, command, answer, before, rig):
        return answer, after.revision, None
    consequences = _decide_consequences(scene, name, command, answer, before, rig)
    _follow(scene, name, command, answer, before, rig)
    return answer, _revision(scene, name, after.revision), consequences


def _settle_life(scene: Overlay, name: str, command: Command, before: Character | None) -> Settled | Undecided:
    answer = decide_life(scene, name, command)
    if type(answer) is Undecided:
        return answer
    if type(answer) is Refused:
        return answer, _refuse(scene, name, command, answer, before), None
    rig = None if before is None else scene.rig_of(before)
    revision = evolve_life(scene, name, command, answer)
    if before is None or rig is None or type(answer) is not Despawned:
        return answer, revision, None
    consequences = _decide_consequences(scene, name, command, answer, before, rig)
    _follow(scene, name, command, answer, before, rig)
    return answer, revision, consequences


def apply(scene: Overlay, name: str, command: Command, answer: Answer, consequences: Consequences | None) -> int:
    """Apply what was settled before: asks no rule. Give the character's revision after it."""
    character = scene.character(name)
    if type(answer) is Refused:
        return _refuse(scene, name, command, answer, character)
    rig = None if character is None else scene.rig_of(character)
    revision = _evolve(scene, name, command, answer, character)
    if character is None or rig is None or type(command) not in _FOLLOWED:
        return revision
    if consequences is None and _leads_nowhere(scene, command, answer, character, rig):
        return revision
    if consequences is not None:
        end_tokens(scene, consequences.ended)
        for closed in consequences.windows:
            close(scene, closed)
    _follow(scene, name, command, answer, character, rig)
    return _revision(scene, name, revision)


def _leads_nowhere(scene: Overlay, command: Command, fact: Any, before: Character, rig: Rig) -> bool:
    """Say at little cost that nothing follows from an accepted command; False where one has to look."""
    if scene.ticks.links:
        return False
    kind = type(command)
    if kind is Enqueue:
        is_bare = fact.retired is UNSET and command.holder is UNSET and not scene.ticks.unreturned
        return is_bare and not is_immediate(rig, command.kind)  # type: ignore[attr-defined]  # it is an Enqueue
    if type(command) is Begin:
        is_kept = type(fact) is not TransitionGranted
        return is_kept or (fact.deadline is UNSET and not before.layers[command.layer].holds)
    return kind is Complete or (kind not in _ENDS_AS and rig.kinds is None and not scene.ticks.is_running)


def _revision(scene: Overlay, name: str, revision: int) -> int:
    after = scene.character(name)
    return revision if after is None else after.revision


def _refuse(scene: Overlay, name: str, command: Command, refused: Refused, character: Character | None) -> int:
    """Note a refusal beside the gates; give the revision of the character, which is what it was."""
    if character is None:
        return 0
    scene.refusals.append((name, command, refused))
    if scene.ticks.unreturned:
        _return(scene, name, character, command, refused)
    return character.revision


def _evolve(scene: Overlay, name: str, command: Command, fact: Fact, character: Character | None) -> int:
    if type(command) in LIFE_COMMANDS:
        return evolve_life(scene, name, command, fact)
    assert character is not None, "a fact concerns a character that is alive"
    after = character.evolve(command, fact, scene.rigs[character.rig].rig, at=scene.at)
    scene.put(name, character, after)
    return after.revision


def _decide_consequences(
    scene: Overlay, name: str, command: Command, fact: Fact, before: Character, rig: Rig
) -> Consequences | None:
    """End what was tied to what a decision, which is applied already, was about; say what that was."""
    kind = type(command)
    lost = []
    if kind in _ENDS_AS:
        layers = [command.layer] if type(command) is Begin else before.layers
        lost = lost_rights(name, before, scene.character(name), layers, _ENDS_AS[kind])
    has_windows = kind in _ENDS_WINDOWS and rig.kinds is not None
    endings = endings_of_decision(name, before, rig, command, fact) if has_windows else []
    if not lost and not endings:
        return None
    linked = linked_tokens(scene, lost)
    endings += endings_of_holders(scene, [*lost, *linked])
    ended = tokens_ended(linked)
    end_tokens(scene, ended)
    windows = close_windows(scene, endings)
    return Consequences(ended, windows) if ended or windows else None


def _follow(scene: Overlay, name: str, command: Command, fact: Any, before: Character, rig: Rig) -> None:
    """Note what an accepted command leads to later: deadlines, events due, windows held, what a rollback must know."""
    kind = type(command)
    if type(fact) is TransitionGranted and fact.deadline is not UNSET:
        scene.deadlines.append((fact.deadline, name))
    if scene.ticks.links:
        note_ended_links(scene, {layer.pending.link for layer in before.layers.values() if layer.pending is not None})
    if rig.kinds is not None and kind in _MAKES_DUE:
        _note_due(scene, name, before)
    if kind not in _DELIVERS:
        return
    _note_hold(scene, name, command)
    if scene.ticks.is_running:
        note_delivered(scene, name, before, command, fact)
        if scene.ticks.unreturned:
            _return(scene, name, before, command, fact)


def _return(scene: Overlay, name: str, before: Character, command: Any, answer: Answer) -> None:
    """Let events come again that were delivered before a rollback: with them, their windows do."""
    events = note_returned(scene, name, before, command, answer)
    character = scene.character(name)
    held = None if character is None or not events else character.events.instances.get(command.clip_instance)
    if character is None or held is None:
        return
    is_of_loop = type(command) is CommitLoop
    if is_of_loop:
        events = sorted(events, key=lambda event: (event.loop, event.frame))
    after = with_returned(held, events, command.holder, scene.rig_of(character), opens=not is_of_loop)
    if after is not held:
        put_instance(scene, name, command.clip_instance, after)
        _note_hold(scene, name, command)
    close_unfounded(scene, [name])


def _note_due(scene: Overlay, name: str, before: Character) -> None:
    """Let gameplay events that wait only for their tick be found when it is confirmed."""
    after = scene.character(name)
    due = scene.dead[name].events.due if after is None else after.events.due
    for event in due[len(before.events.due) :]:
        if event.tick is not UNSET:
            scene.due.append((max(event.tick, scene.ticks.confirmed + 1), name))


def _note_hold(scene: Overlay, name: str, command: Command) -> None:
    """Let a holder's token know the windows that it holds open, so that they end with it."""
    character, holder = scene.character(name), command.holder
    if holder is UNSET or (type(command) is not Enqueue and type(command) is not Covered):
        return
    assert character is not None
    key = (holder.character, holder.layer, holder.epoch, holder.generation)
    held = character.events.instances[command.clip_instance]
    owner = scene.character(holder.character)
    if owner is None or not any(window.holder == key for window in held.windows):
        return
    arbiter = owner.layers[holder.layer].with_hold((name, command.clip_instance))
    if arbiter is not owner.layers[holder.layer]:
        layers = owner.layers | {holder.layer: arbiter}
        scene.put(holder.character, owner, replace(owner, layers=layers))
