"""Undoing: a scene goes back to the end of an earlier tick, or can no longer because the tick was confirmed.

Source: contract, section 8, "Rollback": what comes back, what never comes back, what is forgotten.
"""

from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from app.gates.character import Character
from app.gates.clip import Event, payload_bytes
from app.gates.closing import close_unfounded, forget_windows
from app.gates.consequence import Consequences
from app.gates.decision import Refused
from app.gates.event import EventGate
from app.gates.rig import DEFAULT_BOUNDS
from app.gates.scene import Overlay
from app.gates.surviving import confirmable, restored, with_confirmed, with_withdrawn
from app.gates.tick import Given, Gone, Link, RolledBack, Sealed, TickConfirmed, TickRefusal, Ticks, Withdrawn
from app.gates.transition import EPOCH_ENDED
from app.gates.tying import Lost, end_tokens, linked_tokens, note_ended_links, tokens_ended

ResultT = TypeVar("ResultT")

PACED = 16
"""After how many characters that are looked at or restored others may run."""

Windows = frozenset[tuple[int, int, int]]
"""(clip instance, loop, frame) of the events that opened windows."""


def refusal_of_rollback(scene: Overlay, tick: int) -> Refused | None:
    """Say why the scene cannot go back to the end of a tick; None when it can."""
    ticks = scene.ticks
    if tick > ticks.sealed:
        return Refused(TickRefusal.UNSEALED, at="rollback", by={"tick": ticks.sealed})
    if tick < ticks.confirmed:
        return Refused(TickRefusal.BELOW_CONFIRMED, at="rollback", by={"tick": ticks.confirmed})
    if tick < ticks.floor:
        return Refused(TickRefusal.BEYOND_ROLLBACK, at="rollback", by={"tick": ticks.floor})
    return None


def roll_back(scene: Overlay, tick: int) -> Generator[None, None, RolledBack]:
    """Restore what the scene was at the end of a tick, which the scene can go back to, in steps of a few characters."""
    ticks = scene.settled_ticks()
    undone = [ticks.past[other] for other in sorted(ticks.past) if other > tick]
    undone.append(scene.undo(scene.sequence, b""))
    gone = [each for sealed in undone for each in sealed.delivered]
    last = next(ticks.past[other] for other in sorted(ticks.past) if other >= tick)
    past = {other: sealed for other, sealed in ticks.past.items() if other <= tick}
    former = past[max(past)].digest if past else b""
    timeline = ticks.timeline + 1
    scene.settle_ticks(
        replace(
            ticks,
            sealed=tick,
            timeline=timeline,
            held={},
            past=past | {tick: past[tick] if tick in past else Sealed({}, {}, [], last.sequence, former)},
            answered={other: applied for other, applied in ticks.answered.items() if other <= tick},
            links=_links_at(ticks, tick),
        )
    )
    names = dict.fromkeys(name for sealed in undone for name in (*sealed.before, *sealed.newborn))
    unreturned = ticks.unreturned + gone
    gone_of: dict[str, list[Gone]] = {}
    for each in unreturned:
        gone_of.setdefault(each.character, []).append(each)
    final = yield from _by_name(names, lambda name: _windows_of_ended_life(scene, name, undone))
    waiting = yield from _by_name(names, lambda name: _restore(scene, name, undone, gone_of.get(name, [])))
    scene.ticks = replace(
        scene.ticks,
        unreturned=[
            replace(each, waited=each.key in waiting[each.character]) if each.character in waiting else each
            for each in unreturned
            if not _is_end_of(each.event, final.get(each.character, frozenset()))
        ],
    )
    scene.start_tick(tick + 1)
    consequences = yield from _end_unfounded(scene, undone, names)
    # A decision that sealed later ticks too is undone in part, so its own key is decided afresh.
    reaches_beyond = any(sealed.sequence == last.sequence for other, sealed in ticks.past.items() if other > tick)
    kept, earlier = last.sequence - reaches_beyond, scene.forgets_after
    scene.forgets_after = kept if earlier is None else min(kept, earlier)
    scene.marks = {key: held for key, held in scene.marks.items() if held[0] <= kept}
    return RolledBack(tick, timeline, list(names), consequences)


def _by_name(names: Iterable[str], of: Callable[[str], ResultT]) -> Generator[None, None, dict[str, ResultT]]:
    """Give what there is of each name, in order, with a step after every few."""
    given = dict[str, ResultT]()
    for number, name in enumerate(names, 1):
        given[name] = of(name)
        if number % PACED == 0:
            yield
    return given


def _end_unfounded(
    scene: Overlay, undone: list[Sealed], names: Iterable[str]
) -> Generator[None, None, Consequences | None]:
    """End tokens and windows that came back, though what they are tied to ended for good with an epoch or a life."""
    lost = []
    for number, name in enumerate(names, 1):
        if number % PACED == 0:
            yield
        then, now = _earlier(name, undone)[0], scene.character(name)
        for layer, arbiter in then.layers.items():
            link = None if arbiter.pending is None else arbiter.pending.link
            present = None if now is None or now.life != then.life else now.layers[layer].pending
            if link is not None and (present is None or present.link != link):
                lost.append(Lost(name, layer, arbiter, EPOCH_ENDED))
    linked = linked_tokens(scene, lost)
    ended = tokens_ended(linked)
    end_tokens(scene, ended)
    note_ended_links(scene, {each.arbiter.pending.link for each in linked if each.arbiter.pending is not None})
    windows = close_unfounded(scene, names)
    return Consequences(ended, windows) if ended or windows else None


def _links_at(ticks: Ticks, tick: int) -> dict[int, Link]:
    return {
        number: replace(link, ended_in=None) if link.ended_in is not None and link.ended_in > tick else link
        for number, link in ticks.links.items()
        if link.made_in <= tick
    }


def _earlier(name: str, undone: list[Sealed]) -> list[Character]:
    """Give what a character was in ticks that are undone: at first as it was at the end of the tick before them."""
    return [held for sealed in undone for held in (sealed.before.get(name), sealed.newborn.get(name)) if held]


def _windows(before: Character) -> Windows:
    return frozenset(
        (number, window.loop, window.frame)
        for number, held in before.events.instances.items()
        for window in held.windows
    )


def _windows_of_ended_life(scene: Overlay, name: str, undone: list[Sealed]) -> Windows:
    """Name the windows that were open at the end of a tick and ended with a life since: no rollback takes that back."""
    now, before = scene.character(name), _earlier(name, undone)[0]
    return _windows(before) if now is None or now.life != before.life else frozenset()


def _is_end_of(event: Event, windows: Windows) -> bool:
    return event.synthetic is True and (event.clip_instance, event.loop, event.frame) in windows


def _restore(scene: Overlay, name: str, undone: list[Sealed], gone: list[Gone]) -> set[tuple[int, int, int, str]]:
    """Restore one character as far as its life lasts; give the keys of what would wait again had it not been given."""
    now, earlier = scene.character(name), _earlier(name, undone)
    if now is None:
        _drop_undone_due(scene, name, earlier[0])
        return set()
    before = next((held for held in earlier if held.life == now.life), None)
    if before is None:
        return set()
    given = [each.event for each in gone if each.life == now.life or each.is_gameplay]
    then = replace(before.events, due=_accepted_due(before.events.due, earlier[0]))
    if before == now and then.due == before.events.due and not given:
        return set()
    rig = scene.rig_of(now)
    events, waiting = restored(now.events, then, given, rig, touched=now.revision + 1)
    waiting |= {each.key for each in gone if each.waited and _was_seen(then, each.key)}
    after = now.restored(before, events, rig)
    scene.living[name] = after
    for arbiter in after.layers.values():
        if arbiter.pending is not None and arbiter.pending.deadline is not None:
            scene.deadlines.append((arbiter.pending.deadline, name))
    _note_due(scene, name, events)
    return waiting


def _was_seen(gate: EventGate, key: tuple[int, int, int, str]) -> bool:
    """Say whether an earlier rollback took a key from what waited, to remember it as delivered."""
    number, loop, frame, kind = key
    held = gate.instances.get(number)
    return held is not None and (frame, kind) in held.seen.get(loop, {})


def _drop_undone_due(scene: Overlay, name: str, before: Character) -> None:
    """Forget gameplay events of a life that ended, as far as they were accepted in ticks that are undone."""
    kept = scene.remains_of(name)
    if kept is None or not kept.events.due:
        return
    due = _accepted_due(kept.events.due, before)
    if len(due) < len(kept.events.due):
        weight = sum(payload_bytes(event.payload) for event in due)
        scene.dead[name] = replace(kept, events=replace(kept.events, due=due, waiting_bytes=weight))
    _note_due(scene, name, kept.events)


def _accepted_due(due: tuple[Event, ...], before: Character) -> tuple[Event, ...]:
    """Give what was accepted already, and the ends of windows that were open then."""
    waiting = [event for number, held in before.events.instances.items() for event in held.events(number)]
    accepted = {event.key for event in (*before.events.due, *waiting)}
    windows = _windows(before)
    return tuple(event for event in due if event.key in accepted or _is_end_of(event, windows))


def _note_due(scene: Overlay, name: str, gate: EventGate) -> None:
    for event in gate.due:
        if event.tick is not UNSET:
            scene.due.append((max(event.tick, scene.ticks.confirmed + 1), name))


def kept_past(past: dict[int, Sealed], floor: int) -> dict[int, Sealed]:
    """Keep what undoes the ticks above a floor, and of those up to it only where the last of them ended."""
    kept = {tick: sealed for tick, sealed in past.items() if tick > floor}
    last = max((tick for tick in past if tick <= floor), default=None)
    if last is not None:
        kept = {last: past[last].bare(), **kept}
    return kept


def refusal_of_confirm(scene: Overlay, tick: int) -> Refused | None:
    """Say why a tick cannot be confirmed; None when it can."""
    if tick > scene.ticks.sealed:
        return Refused(TickRefusal.UNSEALED, at="confirm", by={"tick": scene.ticks.sealed})
    for name in _due_names(scene, tick):
        character = scene.character(name)
        if character is None or not confirmable(character.events, tick):
            continue
        if character.events.given.is_full(scene.rig_of(character).deliveries_kept):
            oldest = character.events.given.pinned[0].delivery
            return Refused(TickRefusal.DELIVERY_BACKLOG, at="confirm", by={"character": name, "delivery": oldest})
    return None


def _due_names(scene: Overlay, tick: int) -> list[str]:
    due = scene.settled_ticks().due
    return sorted({name for other, names in due.items() if other <= tick for name in names})


def confirm(scene: Overlay, tick: int) -> TickConfirmed:
    """Let nothing up to a tick be rolled back: release what waited for it, withdraw what did not come again."""
    if tick <= scene.ticks.confirmed:
        return TickConfirmed(tick)
    given = [_release(scene, name, tick) for name in _due_names(scene, tick)]
    ticks = scene.settled_ticks()
    withdrawn = [each for each in ticks.unreturned if each.tick <= tick and not each.is_gameplay]
    floor = max(ticks.floor, tick)
    scene.settle_ticks(
        replace(
            ticks,
            confirmed=tick,
            floor=floor,
            past=kept_past(ticks.past, floor),
            due={other: names for other, names in ticks.due.items() if other > tick},
            unreturned=[each for each in ticks.unreturned if each.tick > tick],
        )
    )
    forget_windows(scene, withdrawn)
    for each in withdrawn:
        _take_back(scene, each)
    for name in dict.fromkeys(each.character for each in withdrawn):
        _forget_echoes(scene, name)
    scene.open_tick(scene.tick)
    shown = [Withdrawn(each.character, each.life, each.tick, each.event) for each in withdrawn]
    return TickConfirmed(tick, [each for each in given if each is not None], shown)


def _release(scene: Overlay, name: str, tick: int) -> Given | None:
    """Deliver the gameplay events of a character, alive or not, that wait for a tick up to one."""
    character = scene.character(name)
    if character is not None:
        events = confirmable(character.events, tick)
        if not events:
            return None
        after = with_confirmed(character.events, events, kept=scene.rig_of(character).deliveries_kept)
        scene.put(name, character, replace(character, events=after, revision=character.revision + 1))
        life = character.life
    else:
        kept = scene.remains_of(name)
        events = [] if kept is None else confirmable(kept.events, tick)
        if kept is None or not events:
            return None
        after = with_confirmed(kept.events, events, kept=DEFAULT_BOUNDS["deliveries_kept"])
        scene.dead[name] = replace(kept, events=after)
        life = kept.life
    for event in events:
        scene.deliver(Gone(scene.tick, name, life, event, is_gameplay=True))
    return Given(name, after.last_delivery, events)


def _take_back(scene: Overlay, gone: Gone) -> None:
    """Let a withdrawn event be one that was never delivered, as far as its life lasts."""
    character = scene.character(gone.character)
    if character is None or character.life != gone.life:
        return
    events = with_withdrawn(character.events, gone.event, has_waited=gone.waited)
    if events is not character.events:
        after = replace(character, events=events, revision=character.revision + 1)
        scene.put(gone.character, character, after)


def _forget_echoes(scene: Overlay, name: str) -> None:
    """Forget what was delivered of numbers that are not open, as far as it is withdrawn."""
    character = scene.character(name)
    if character is None or not character.events.echoes:
        return
    left: dict[int, dict[int, dict[tuple[int, str], bytes]]] = {}
    held = character.events.echoes
    for each in scene.ticks.unreturned:
        number, loop, frame, kind = each.key
        digest = held.get(number, {}).get(loop, {}).get((frame, kind))
        if each.character == name and each.life == character.life and digest is not None:
            left.setdefault(number, {}).setdefault(loop, {})[frame, kind] = digest
    if left != held:
        scene.put(name, character, replace(character, events=replace(character.events, echoes=left)))
