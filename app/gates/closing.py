"""Closing: the gate ends a window by itself when its instance, its epoch, its life or its holder ends.

Source: contract, section 8, "Window pairs": delivered once, synthetic, whatever ends the window.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from app.gates.character import Character
from app.gates.clip import ClipInstance, Holder, OpenWindow
from app.gates.consequence import WindowClosed
from app.gates.event import EventGate
from app.gates.event_commands import Retire
from app.gates.graph import GraphCommitted
from app.gates.lives import Despawned
from app.gates.pair import end_of, windows_at_end, without_window
from app.gates.rig import DEFAULT_BOUNDS, MAIN, Rig, is_gameplay
from app.gates.scene import Overlay
from app.gates.surviving import is_end_behind, with_window_closed
from app.gates.tick import Gone
from app.gates.transition import COMMITTED
from app.gates.tying import Lost


class Ending(NamedTuple):
    """A window that ends: whose, of which instance, and the rig that says what ends it."""

    character: str
    clip_instance: int
    window: OpenWindow
    rig: Rig


def endings_of_decision(name: str, before: Character, rig: Rig, command: Any, fact: Any) -> list[Ending]:
    """List the windows of a character that a decision about it ends: with an instance, an epoch, or its life."""
    instances = before.events.instances
    if type(fact) is Despawned:
        ended: Iterable[int] = instances
    elif type(command) is Retire:
        ended = (command.clip_instance,)
    elif type(fact) is GraphCommitted:
        return _stale(name, before, rig, command.graph, fact)
    else:
        made_room = getattr(fact, "retired", UNSET)
        ended = () if made_room is UNSET else made_room
    return [
        Ending(name, number, window, rig)
        for number in ended
        for window in windows_at_end(number, instances[number], rig)
    ]


def _stale(name: str, before: Character, rig: Rig, graph: str, fact: GraphCommitted) -> list[Ending]:
    return [
        Ending(name, number, window, rig)
        for number, held in before.events.instances.items()
        if held.epoch == before.epoch(held.layer) and _is_driven(held.layer, graph, fact)
        for window in held.windows
    ]


def _is_driven(layer: str | None, graph: str, fact: GraphCommitted) -> bool:
    if layer is not None:
        return layer in fact.epochs
    return graph == MAIN


def endings_of_holders(scene: Overlay, lost: list[Lost]) -> list[Ending]:
    """List the windows that tokens held which lost their right, in the order they lost it."""
    endings = []
    for each in lost:
        key = (each.character, each.layer, each.arbiter.epoch, each.arbiter.standing)
        for name, number in each.arbiter.holds:
            character = scene.character(name)
            held = None if character is None else character.events.instances.get(number)
            if character is None or held is None:
                continue
            rig = scene.rig_of(character)
            endings += [Ending(name, number, window, rig) for window in held.windows if window.holder == key]
    return endings


def close_windows(scene: Overlay, endings: list[Ending]) -> list[WindowClosed]:
    """End windows, each once; not those whose opening was rolled back and did not come again."""
    closed = []
    for ending in dict.fromkeys((each.character, each.clip_instance, each.window) for each in endings):
        if _is_undone(scene, *ending):
            continue
        rig = next(each.rig for each in endings if (each.character, each.clip_instance, each.window) == ending)
        closed.append(_decided(scene, *ending, rig))
        close(scene, closed[-1])
    return closed


def _is_undone(scene: Overlay, name: str, number: int, window: OpenWindow) -> bool:
    """Say whether the event that opened a window was delivered before a rollback and did not come again since."""
    if not scene.ticks.unreturned:
        return False
    _, life = _gate(scene, name)
    key = (number, window.loop, window.frame, window.kind)
    return any(
        not gone.is_gameplay and gone.key == key and gone.character == name and gone.life == life
        for gone in scene.ticks.unreturned
    )


def close_unfounded(scene: Overlay, names: Iterable[str]) -> list[WindowClosed]:
    """End windows that a rollback opened again, though their epoch or their holder ended for good."""
    endings: list[Ending] = []
    for name in names:
        character = scene.character(name)
        if character is None:
            continue
        rig = scene.rig_of(character)
        for number, held in character.events.instances.items():
            is_stale = bool(held.windows) and held.epoch < character.epoch(held.layer)
            endings += [
                Ending(name, number, window, rig)
                for window in held.windows
                if is_stale or (window.holder is not None and not _is_standing(scene, window.holder))
            ]
    return close_windows(scene, endings)


def _is_standing(scene: Overlay, holder: Holder) -> bool:
    name, layer, epoch, generation = holder
    character = scene.character(name)
    arbiter = None if character is None else character.layers.get(layer)
    if arbiter is None or (arbiter.epoch, arbiter.standing) != (epoch, generation):
        return False
    return arbiter.pending is not None or arbiter.ended == COMMITTED


def forget_windows(scene: Overlay, withdrawn: list[Gone]) -> None:
    """Forget the windows of openings that are withdrawn: they have no end."""
    for gone in withdrawn:
        character = scene.character(gone.character)
        held = None if character is None else character.events.instances.get(gone.event.clip_instance)
        if character is None or held is None or character.life != gone.life:
            continue
        for window in held.windows:
            if (gone.event.clip_instance, window.loop, window.frame, window.kind) == gone.key:
                put_instance(scene, gone.character, gone.event.clip_instance, without_window(held, window))


def put_instance(scene: Overlay, name: str, number: int, held: ClipInstance) -> None:
    """Replace an open instance of a living character; no revision tells of its windows."""
    character = scene.character(name)
    assert character is not None, "only a living character has open instances"
    events = replace(character.events, instances=character.events.instances | {number: held})
    scene.put(name, character, replace(character, events=events))


def _decided(scene: Overlay, name: str, number: int, window: OpenWindow, rig: Rig) -> WindowClosed:
    gate, _ = _gate(scene, name)
    end = end_of(window, number, rig, tick=scene.tick)
    is_again = any(gone.event == end and gone.character == name for gone in scene.ticks.unreturned)
    waits = is_again or is_gameplay(rig, end.kind) or is_end_behind(gate, window, number)
    return WindowClosed(name, window, end, None if waits else gate.given.last + 1, is_again)


def close(scene: Overlay, closed: WindowClosed) -> None:
    """Apply the end of a window; ask no rule."""
    name, end = closed.character, closed.event
    gate, life = _gate(scene, name)
    character = scene.character(name)
    kept = DEFAULT_BOUNDS["deliveries_kept"] if character is None else scene.rig_of(character).deliveries_kept
    is_behind = is_end_behind(gate, closed.window, end.clip_instance)
    after = with_window_closed(gate, closed.window, end, closed.delivery, kept=kept, is_again=closed.is_again)
    if character is None:
        scene.dead[name] = replace(scene.dead[name], events=after)
    else:
        scene.put(name, character, replace(character, events=after, revision=character.revision + 1))
    if closed.is_again:
        again = [gone for gone in scene.ticks.unreturned if gone.event == end and gone.character == name]
        left = [gone for gone in scene.ticks.unreturned if gone not in again]
        scene.ticks = replace(scene.ticks, unreturned=left)
    if closed.is_again or closed.delivery is not None:
        scene.deliver(Gone(scene.tick, name, life, end))
    elif not is_behind and end.tick is not UNSET:
        scene.due.append((end.tick, name))


def _gate(scene: Overlay, name: str) -> tuple[EventGate, int]:
    """Give the event gate of a character, or of what remains of it, and its life."""
    character = scene.character(name)
    if character is not None:
        return character.events, character.life
    return scene.dead[name].events, scene.dead[name].life
