"""Window pairs: what a kind of event opens, another ends; and if nothing does, the gate itself.

Source: contract, section 8, "Window pairs".
"""

from collections.abc import Iterable

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from app.gates.clip import ClipInstance, Event, Holder, OpenWindow
from app.gates.identity import Token
from app.gates.rig import Rig, is_gameplay, is_immediate


def with_taken(held: ClipInstance, events: list[Event], holder: Token | UnsetType, rig: Rig) -> ClipInstance:
    """Open and close windows as events are accepted: those of immediate kinds are delivered by that."""
    key = None if holder is UNSET else (holder.character, holder.layer, holder.epoch, holder.generation)
    opened = with_opened(held, events, key, rig)
    given = [event for event in events if is_immediate(rig, event.kind)]
    if not given or not opened.windows:
        return opened
    return replace(opened, windows=windows_left(opened, given, rig))


def with_opened(held: ClipInstance, events: Iterable[Event], holder: Holder | None, rig: Rig) -> ClipInstance:
    """Open a window for each accepted event of a kind that another ends; it is held until that is certain."""
    if rig.kinds is None:
        return held
    windows = held.windows
    for event in events:
        if rig.kinds[event.kind].ends is not None:
            tick = None if event.tick is UNSET else event.tick
            windows = (*windows, OpenWindow(event.kind, event.loop, event.frame, tick, holder))
    return held if windows is held.windows else replace(held, windows=windows)


def with_returned(
    held: ClipInstance, events: list[Event], holder: Token | UnsetType, rig: Rig, *, opens: bool
) -> ClipInstance:
    """Open and close windows as delivered events come again after a rollback, which took their windows back.

    Of what waited the windows are open still: a loop that is committed again `opens` none. Reported again, it may be
    the instance's first event.
    """
    key = None if holder is UNSET else (holder.character, holder.layer, holder.epoch, holder.generation)
    open_now = {(window.kind, window.loop, window.frame) for window in held.windows}
    unknown = [event for event in events if opens and (event.kind, event.loop, event.frame) not in open_now]
    first = events[0].loop if opens and held.first_loop is None else held.first_loop
    opened = with_opened(held, unknown, key, rig)
    windows = windows_left(opened, events, rig)
    is_same = windows == held.windows and first == held.first_loop
    return held if is_same else replace(opened, windows=windows, first_loop=first)


def is_hidden(window: OpenWindow, held: ClipInstance) -> bool:
    """Say whether the event that opened a window waits for its loop still: nobody has seen the window."""
    return (window.frame, window.kind) in held.waiting.get(window.loop, ())


def windows_left(held: ClipInstance, leaving: Iterable[Event], rig: Rig) -> tuple[OpenWindow, ...]:
    """Give the windows that are open once events have left the instance, in their order.

    An event that ends a kind closes every window of that kind that was seen before it; of two that were seen and are of
    one kind only the later is open.
    """
    if not held.windows or rig.kinds is None:
        return held.windows
    leaving = list(leaving)
    coming = {(event.kind, event.loop, event.frame) for event in leaving}
    hidden = {
        window
        for window in held.windows
        if (window.kind, window.loop, window.frame) in coming or is_hidden(window, held)
    }
    windows = list(held.windows)
    for event in leaving:
        for window in [each for each in hidden if _is_of(each, event)]:
            hidden.discard(window)
        ended = {kind for kind, rule in rig.kinds.items() if rule.ends == event.kind}
        windows = [window for window in windows if window in hidden or window.kind not in ended]
    newest = {window.kind: window for window in windows if window not in hidden}
    return tuple(window for window in windows if window in hidden or newest[window.kind] is window)


def _is_of(window: OpenWindow, event: Event) -> bool:
    return (window.kind, window.loop, window.frame) == (event.kind, event.loop, event.frame)


def end_of(window: OpenWindow, number: int, rig: Rig, *, tick: int) -> Event:
    """Give the event that ends a window by itself; a gameplay one is of the tick being open, or of its opening's."""
    assert rig.kinds is not None, "only a declared kind opens a window"
    ends = rig.kinds[window.kind].ends
    assert ends is not None, "only a kind that another ends opens a window"
    of_tick = UNSET if window.tick is None else max(tick, window.tick)
    return Event(number, window.loop, window.frame, ends, tick=of_tick, synthetic=True)


def windows_at_end(number: int, held: ClipInstance, rig: Rig) -> list[OpenWindow]:
    """List the windows that are open when their instance ends: openings that nobody will see are none."""
    if not held.windows:
        return []
    surviving = [event for event in held.events(number) if is_gameplay(rig, event.kind)]
    gameplay = {(event.loop, event.frame, event.kind) for event in surviving}
    return [
        window
        for window in windows_left(held, surviving, rig)
        if not is_hidden(window, held) or (window.loop, window.frame, window.kind) in gameplay
    ]


def without_window(held: ClipInstance, window: OpenWindow) -> ClipInstance:
    """Forget a window."""
    return replace(held, windows=tuple(each for each in held.windows if each != window))


def with_end_behind(held: ClipInstance, window: OpenWindow, end: Event) -> ClipInstance:
    """Let a window's end wait behind its opening, unless an event of its key waits there already."""
    bucket = held.waiting[window.loop]
    windows = tuple(each for each in held.windows if each != window)
    key = (end.frame, end.kind)
    if key in bucket:
        return replace(held, windows=windows)
    tick = None if end.tick is UNSET else end.tick
    waiting = held.waiting | {window.loop: bucket | {key: [tick, True]}}
    return replace(held, windows=windows, waiting=waiting, remembered=held.remembered + 1, pending=held.pending + 1)
