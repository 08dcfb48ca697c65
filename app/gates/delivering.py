"""Delivering under ticks: what a tick gave out, and which of it came again after the tick was rolled back.

Source: contract, section 8, "Rollback": nothing is delivered twice, and what does not come again is withdrawn.
"""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from app.gates.character import Answer, Character
from app.gates.clip import Event
from app.gates.decision import Command, Refused
from app.gates.event_commands import (
    CommitLoop,
    Covered,
    Enqueue,
    EventAccepted,
    EventRefusal,
    LoopDelivered,
    SpanCovered,
)
from app.gates.manifest import manifest_of
from app.gates.rig import Rig, is_gameplay, is_immediate
from app.gates.scene import Overlay
from app.gates.tick import Gone


def note_delivered(scene: Overlay, name: str, character: Character, command: Command, fact: Answer) -> None:
    """Note the events that an accepted command gave out in the tick being open."""
    rig = scene.rig_of(character)
    for event in _given(command, fact, rig):
        scene.deliver(Gone(scene.tick, name, character.life, event, is_gameplay(rig, event.kind)))


def _given(command: Command, fact: Answer, rig: Rig) -> Iterable[Event]:
    if type(fact) is LoopDelivered:
        return fact.events
    if type(fact) is SpanCovered:
        return [event for event in fact.events if is_immediate(rig, event.kind)]
    if type(fact) is EventAccepted and type(command) is Enqueue and is_immediate(rig, command.kind):
        return (
            Event(
                command.clip_instance,
                command.loop,
                command.frame,
                command.kind,
                command.payload,
                command.tick,
                command.group,
                command.mark,
            ),
        )
    return ()


def note_returned(scene: Overlay, name: str, character: Character, command: Command, answer: Answer) -> list[Event]:
    """Note the events that came again after they were rolled back: they are not withdrawn. Give them."""
    returns = _returns(command, answer, character, scene.rig_of(character))
    if returns is None:
        return []
    again = [gone for gone in scene.ticks.unreturned if _is_of(gone, name, character.life) and returns(gone)]
    if again:
        left = [gone for gone in scene.ticks.unreturned if gone not in again]
        scene.ticks = replace(scene.ticks, unreturned=left)
        for gone in again:
            scene.deliver(replace(gone, tick=scene.tick))
    return [gone.event for gone in again]


def _is_of(gone: Gone, name: str, life: int) -> bool:
    return gone.character == name and gone.life == life


def _returns(command: Command, answer: Answer, character: Character, rig: Rig) -> Callable[[Gone], bool] | None:
    """Give what tells the events that a decision brings again; None when it brings none."""
    if type(command) is Enqueue and type(answer) is Refused and answer.outcome == EventRefusal.DUPLICATE:
        key = (command.clip_instance, command.loop, command.frame, command.kind)
        return lambda gone: gone.key == key
    if type(command) is CommitLoop and type(answer) is LoopDelivered:
        number, loop = command.clip_instance, command.loop
        return lambda gone: gone.waited and gone.event.clip_instance == number and gone.event.loop <= loop
    if type(command) is Covered and type(answer) is SpanCovered:
        number, rule = command.clip_instance, manifest_of(character.events.instances[command.clip_instance], rig)
        assert rule is not None, "only a clip with a manifest is covered"
        low, high = sorted((command.from_frame, command.to_frame))
        frames, zero = rule.frames, command.loop * rule.frames
        listed = {(event.frame, event.kind) for event in rule.events}
        return lambda gone: (
            gone.event.clip_instance == number
            and (gone.event.frame, gone.event.kind) in listed
            and zero + low <= gone.event.loop * frames + gone.event.frame <= zero + high
        )
    return None
