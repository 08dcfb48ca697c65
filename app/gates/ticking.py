"""Ticking: a tick's four parts, decided on one overlay and applied again from their facts.

Source: contract, section 8, "Ticks".
"""

import hashlib
from collections.abc import Generator, Iterable
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from app.gates.bundle import Answered, Bundle, Bundled
from app.gates.bundling import apply_bundle, settle_bundle
from app.gates.character import Answer, Character
from app.gates.closing import close, close_windows, endings_of_holders
from app.gates.consequence import Consequences, TokenEnded
from app.gates.decision import LifeRefusal, Refused, Undecided, name_of
from app.gates.parameter import Value
from app.gates.rig import Rig
from app.gates.scene import Overlay
from app.gates.settling import apply, settle
from app.gates.tick import (
    Applied,
    Request,
    RequestKey,
    Sealed,
    Tick,
    TickAnswers,
    TickApplied,
    Ticked,
    TickRefusal,
    Ticks,
    TickSealed,
)
from app.gates.transition import EXPIRED
from app.gates.tying import Lost, end_tokens, linked_tokens, note_ended_links, tokens_ended
from app.gates.undoing import confirm, kept_past, refusal_of_confirm, refusal_of_rollback, roll_back

Held = dict[int, dict[RequestKey, Request]]

_order = attrgetter("priority", "source", "number")

PACED = 16
"""After how many sealed requests others may run; after a bundle, which is many, at once."""

_digested = msgspec.msgpack.Encoder(order="deterministic").encode


def settle_tick(scene: Overlay, tick: Tick) -> Generator[None, None, Answer]:
    """Decide a tick, a step for every few requests or characters; the answer is what the steps return.

    A part that is refused changes nothing; when all are, the overlay is what it was. Between two steps it is neither.
    """
    if tick.holder is not UNSET and not scene.holds(tick.holder):
        return Refused(LifeRefusal.HOLDER_LOST, at="holder")
    before, fact = scene.ticks, Ticked()
    refusal = None if tick.rollback is UNSET else refusal_of_rollback(scene, tick.rollback)
    if refusal is not None:
        return replace(fact, refused={"rollback": refusal})
    start(scene)
    if tick.rollback is not UNSET:
        fact = replace(fact, rollback=(yield from roll_back(scene, tick.rollback)))
    if tick.requests is not UNSET:
        fact = replace(fact, requests=_hold(scene, tick.requests))
    refused: dict[str, Refused] = {}
    if tick.seal is not UNSET:
        refusal = _refusal_of_seal(scene, tick.seal)
        if refusal is None:
            fact = replace(fact, seal=(yield from _seal(scene, tick.seal)))
        else:
            refused["seal"] = refusal
    if tick.confirm is not UNSET:
        refusal = refusal_of_confirm(scene, tick.confirm)
        if refusal is None:
            fact = replace(fact, confirm=confirm(scene, tick.confirm))
        else:
            refused["confirm"] = refusal
    fact = replace(fact, refused=refused)
    if fact.refusal() is not None:
        scene.ticks = before
    return fact


def apply_tick(scene: Overlay, tick: Tick, fact: Ticked) -> Generator[None, None, None]:
    """Apply a tick that was settled before, in steps as it was: asks no rule."""
    if fact.refusal() is not None:
        return
    start(scene)
    if fact.rollback is not UNSET:
        yield from roll_back(scene, fact.rollback.tick)
    if tick.requests is not UNSET and fact.requests is not UNSET:
        queued = [request for request, refused in zip(tick.requests, fact.requests, strict=True) if refused is None]
        scene.ticks = replace(scene.ticks, held=_with_held(scene.ticks.held, queued))
    if fact.seal is not UNSET:
        for each in fact.seal.ticks:
            scene.open_tick(each.tick)
            for number, applied in enumerate(each.applied, 1):
                _apply_request(scene, each.tick, applied)
                if number % PACED == 0:
                    yield
            if each.expired is not None:
                _apply_expired(scene, each.expired)
            yield from _end_tick(scene, each.tick, _in_order(scene, each.tick), each.applied)
        _end_seal(scene, fact.seal.tick)
    if fact.confirm is not UNSET:
        confirm(scene, fact.confirm.tick)


def start(scene: Overlay) -> None:
    """Let ticks run from the first tick command on: what the scene is then, it was at the end of the last tick."""
    if not scene.ticks.is_running:
        first = Sealed({}, {}, [], scene.sequence, b"")
        scene.ticks = replace(scene.ticks, is_running=True, past={scene.ticks.sealed: first})


def _hold(scene: Overlay, requests: list[Request]) -> list[Refused | None]:
    """Hold requests for their ticks; give for each None, or why not."""
    held, bounds, sealed = scene.ticks.held, scene.scene.bounds, scene.ticks.sealed
    taken = {key for of_tick in held.values() for key in of_tick}
    counts = {tick: len(of_tick) for tick, of_tick in held.items()}
    room, room_of_tick = bounds.scene_requests_max, bounds.tick_requests_max
    last = sealed + bounds.tick_window
    answers = list[Refused | None]()
    queued = list[Request]()
    for request in requests:
        tick, key = request.tick, (request.source, request.number)
        count = counts.get(tick)
        # A tick within the window that others wait for already, room for one more, and a new key: nearly every request.
        is_near = count is not None and sealed < tick <= last
        if not is_near or (count or 0) >= room_of_tick or len(taken) >= room or key in taken:
            refused = _refusal_of_request(scene, request, taken, counts)
            answers.append(refused)
            if refused is not None:
                continue
        else:
            answers.append(None)
        taken.add(key)
        counts[tick] = (count or 0) + 1
        queued.append(request)
    scene.ticks = replace(scene.ticks, held=_with_held(held, queued))
    return answers


def _refusal_of_request(
    scene: Overlay, request: Request, taken: set[RequestKey], counts: dict[int, int]
) -> Refused | None:
    """Say why a request cannot be held."""
    bounds, sealed, tick = scene.scene.bounds, scene.ticks.sealed, request.tick
    if tick <= sealed:
        return Refused(TickRefusal.LATE_TICK, at="tick", by={"tick": sealed})
    if sealed and tick > sealed + bounds.tick_window:
        return Refused(TickRefusal.BEYOND_WINDOW, at="tick", by={"tick": sealed})
    key = (request.source, request.number)
    if key in taken:
        return Refused(TickRefusal.DUPLICATE, at="number")
    is_full = counts.get(tick, 0) >= bounds.tick_requests_max or len(taken) >= bounds.scene_requests_max
    if is_full or (tick not in counts and len(counts) >= bounds.tick_window):
        return Refused(TickRefusal.QUEUE_FULL, at="tick")
    return None


def _with_held(held: Held, queued: list[Request]) -> Held:
    fresh: Held = {}
    for request in queued:
        tick = request.tick
        of_tick = fresh.get(tick)
        if of_tick is None:
            of_tick = fresh[tick] = dict(held.get(tick, {}))
        of_tick[request.source, request.number] = request
    return held | fresh


def _refusal_of_seal(scene: Overlay, tick: int) -> Refused | None:
    sealed, by = scene.ticks.sealed, {"tick": scene.ticks.sealed}
    if tick <= sealed:
        return Refused(TickRefusal.ALREADY_SEALED, at="seal", by=by)
    if sealed and tick > sealed + scene.scene.bounds.tick_window:
        return Refused(TickRefusal.BEYOND_WINDOW, at="seal", by=by)
    return None


def _seal(scene: Overlay, through: int) -> Generator[None, None, TickSealed]:
    """Apply the requests of every tick up to one, tick by tick, the highest priority of each tick last."""
    ticks: list[TickApplied] = []
    while (tick := _next_tick(scene, through)) is not None:
        scene.open_tick(tick)
        requests, applied = _in_order(scene, tick), list[Applied]()
        for number, request in enumerate(requests, 1):
            applied.append(_settle_request(scene, request))
            if number % PACED == 0 or type(request.command) is Bundle:
                yield
        expired = _expire(scene, tick)
        ticks.append(TickApplied(tick, applied, expired))
        yield from _end_tick(scene, tick, requests, applied)
    _end_seal(scene, through)
    return TickSealed(through, scene.ticks.digest.hex(), ticks)


def _in_order(scene: Overlay, tick: int) -> list[Request]:
    """List the requests of a tick as they are applied: ascending by priority, source and number."""
    return sorted(scene.ticks.held.get(tick, {}).values(), key=_order)


def _next_tick(scene: Overlay, through: int) -> int | None:
    """Give the next tick in which something happens: requests, a token that expires, or what was decided in it already.

    A deadline of which nothing is pending any more is nothing: a rollback may have left it behind.
    """
    ticks, opening = scene.settled_ticks(), scene.ticks.sealed + 1
    undo = scene.undo(0, b"")
    if undo.before or undo.newborn or undo.delivered:
        return opening
    first = min((tick for tick in ticks.held if opening <= tick <= through), default=None)
    last = through if first is None else first - 1
    for tick in sorted(tick for tick in ticks.deadlines if opening <= tick <= last):
        if _late_in(scene, ticks, tick):
            return tick
    return first


def _settle_request(scene: Overlay, request: Request) -> Applied:
    command, name = request.command, request.character
    consequences: Consequences | None = None
    if type(command) is Bundle:
        answer, revision = settle_bundle(scene, command), 0
    else:
        assert name is not None, "only a bundle is for no character"
        settled = settle(scene, name, command)
        answer, revision, consequences = (settled, 0, None) if type(settled) is Undecided else settled
    given = Answered(name, name_of(type(command)), answer, revision, consequences)
    return Applied(request.source, request.number, given)


def _apply_request(scene: Overlay, tick: int, applied: Applied) -> None:
    request, given = scene.ticks.held[tick][applied.source, applied.number], applied.answered
    if type(request.command) is Bundle:
        if type(given.answer) is Bundled:
            apply_bundle(scene, request.command, given.answer)
    elif type(given.answer) is not Undecided:
        assert request.character is not None
        apply(scene, request.character, request.command, given.answer, given.consequences)


def _expire(scene: Overlay, tick: int) -> Consequences | None:
    """End the tokens whose last tick this was, and what ends with them; say what that was."""
    late = _late_in(scene, scene.settled_ticks(), tick)
    if not late:
        return None
    own = {(ended.character, ended.layer) for ended in late}
    linked = [ended for ended in linked_tokens(scene, late) if (ended.character, ended.layer) not in own]
    tokens = tokens_ended([*late, *linked])
    endings = endings_of_holders(scene, [*late, *linked])
    _end_expired(scene, tokens)
    return Consequences(tokens, close_windows(scene, endings))


def _late_in(scene: Overlay, ticks: Ticks, tick: int) -> list[Lost]:
    """List the tokens that are pending and have their deadline in a tick."""
    late: list[Lost] = []
    for name in ticks.deadlines.get(tick, ()):
        character = scene.character(name)
        for layer, arbiter in ({} if character is None else character.layers).items():
            deadline = None if arbiter.pending is None else arbiter.pending.deadline
            if deadline is not None and deadline <= tick:
                late.append(Lost(name, layer, arbiter, EXPIRED))
    return late


def _apply_expired(scene: Overlay, expired: Consequences) -> None:
    _end_expired(scene, expired.ended)
    for closed in expired.windows:
        close(scene, closed)


def _end_expired(scene: Overlay, tokens: list[TokenEnded]) -> None:
    links = set()
    for ended in tokens:
        character = scene.character(ended.token.character)
        pending = None if character is None else character.layers[ended.token.layer].pending
        links.add(None if pending is None else pending.link)
    end_tokens(scene, tokens)
    note_ended_links(scene, links)


def _end_tick(
    scene: Overlay, tick: int, requests: list[Request], applied: list[Applied]
) -> Generator[None, None, None]:
    """Close a tick: keep what undoes it, and let the next one begin."""
    ticks = scene.settled_ticks()
    undo = scene.undo(scene.sequence + 1, b"")
    digest = yield from _digest(scene, ticks.digest, tick, requests, undo)
    sealed = replace(undo, digest=digest)
    scene.settle_ticks(
        replace(
            ticks,
            sealed=tick,
            held={other: held for other, held in ticks.held.items() if other > tick},
            deadlines={other: names for other, names in ticks.deadlines.items() if other > tick},
            past=ticks.past | {tick: sealed},
            answered=ticks.answered | {tick: TickAnswers(scene.sequence + 1, applied)} if applied else ticks.answered,
        )
    )
    scene.start_tick(tick + 1)


def _end_seal(scene: Overlay, through: int) -> None:
    """Reach the sealed tick, and let go of what is too old to be rolled back."""
    ticks = scene.ticks
    past = (
        ticks.past
        if through in ticks.past
        else {**ticks.past, through: Sealed({}, {}, [], scene.sequence + 1, ticks.digest)}
    )
    oldest = through - scene.scene.bounds.rollback_ticks
    floor = max(ticks.floor, oldest)
    scene.ticks = replace(
        ticks,
        sealed=through,
        floor=floor,
        past=kept_past(past, floor),
        answered={tick: answers for tick, answers in ticks.answered.items() if tick > oldest},
        links={number: link for number, link in ticks.links.items() if link.ended_in is None or link.ended_in > floor},
    )
    scene.open_tick(through + 1)


def _digest(
    scene: Overlay, former: bytes, tick: int, requests: Iterable[Request], undo: Sealed
) -> Generator[None, None, bytes]:
    """Give the digest of everything sealed up to a tick: what was asked in it, and what looks otherwise since.

    Numbers that a rollback does not take back, times and seals are no part of it, nor is what nobody sees: a scene that
    mispredicted and one that did not have the same digest (docs/decisions/0011).
    """
    asked = [
        (request.priority, request.source, request.number, request.character, name_of(type(request.command)))
        for request in requests
    ]
    shown = []
    for number, name in enumerate(sorted({**undo.before, **undo.newborn}), 1):
        if number % PACED == 0:
            yield
        before, now = undo.before.get(name), scene.character(name)
        rig = None if now is None else scene.rig_of(now)
        if before is None or now is None or rig is None or not _looks_alike(before, now, rig):
            shown.append((name, None if now is None or rig is None else (_layers(now), _values(now, rig))))
    if not asked and not shown:
        return former
    return hashlib.blake2b(_digested((former, tick, asked, shown)), digest_size=16).digest()


def _looks_alike(before: Character, now: Character, rig: Rig) -> bool:
    """Say whether it is the same life, and a player sees no difference."""
    if before.life != now.life:
        return False
    if before.parameters is not now.parameters and _values(before, rig) != _values(now, rig):
        return False
    return before.layers is now.layers or _layers(before) == _layers(now)


def _layers(character: Character) -> dict[str, Any]:
    """Give what a player sees of a character's layers."""
    return {
        layer: (arbiter.current, None if arbiter.pending is None else (arbiter.pending.from_, arbiter.pending.to))
        for layer, arbiter in character.layers.items()
    }


def _values(character: Character, rig: Rig) -> dict[str, Value]:
    """Give what a player sees of a character's parameters, without a trigger's firings: those a rollback leaves."""
    values, declared = character.parameters.values, rig.declared
    if declared is None:
        return values
    return {name: value for name, value in values.items() if name not in declared or declared[name].type != "trigger"}
