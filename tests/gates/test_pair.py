"""Window pairs: what opens, what closes, and which windows are open. Contract, section 8, "Window pairs"."""

from collections.abc import Callable

import pytest
from msgspec import UNSET

from app.gates.clip import ClipInstance, Event, OpenWindow
from app.gates.event_commands import Play
from app.gates.identity import Token
from app.gates.pair import (
    end_of,
    is_hidden,
    windows_at_end,
    windows_left,
    with_end_behind,
    with_opened,
    with_returned,
    with_taken,
    without_window,
)
from tests.support.rigs import clip, rig
from tests.support.ticked import KINDS, TickedScene

World = Callable[..., TickedScene]

RIG = rig(kinds=KINDS)
EMPTY = ClipInstance(1, 0, 0)
HOLDER = Token("hero", "base", 1, 4, "Idle", "Attack", "seal")


def event(kind: str, frame: int = 0, loop: int = 0, tick: int | None = None) -> Event:
    return Event(1, loop, frame, kind, tick=UNSET if tick is None else tick)


def waiting(*events: Event) -> ClipInstance:
    """An instance in which events wait, with the windows that they opened."""
    held = EMPTY
    for each in events:
        tick = None if each.tick is UNSET else [each.tick, None, None]
        held = held.with_waiting(each.loop, (each.frame, each.kind), tick, 1)
    return with_opened(held, events, None, RIG)


def test_a_window_remembers_where_it_was_opened_its_tick_and_its_holder():
    held = with_taken(EMPTY, [event("danger", 3, 2, tick=9)], HOLDER, RIG)

    assert held.windows == (OpenWindow("danger", 2, 3, 9, ("hero", "base", 1, 4)),)


def test_a_kind_that_nothing_ends_opens_none():
    held = with_taken(EMPTY, [event("step"), event("spark"), event("hit"), event("swung")], UNSET, RIG)

    assert held is EMPTY


def test_where_no_kinds_are_listed_nothing_opens():
    assert with_opened(EMPTY, [event("danger")], None, rig()) is EMPTY


def test_an_immediate_end_closes_by_being_accepted():
    opened = with_taken(EMPTY, [event("flash")], UNSET, RIG)

    closed = with_taken(opened, [event("flashed", 5)], UNSET, RIG)

    assert [window.kind for window in opened.windows] == ["flash"]
    assert closed.windows == ()


def test_of_a_span_an_end_that_is_crossed_before_its_opening_leaves_the_window_open():
    """A clip that is played backwards crosses the end first."""
    back = with_taken(EMPTY, [event("flashed", 5), event("flash", 3)], UNSET, RIG)
    forth = with_taken(EMPTY, [event("flash", 3), event("flashed", 5)], UNSET, RIG)

    assert ([window.kind for window in back.windows], forth.windows) == (["flash"], ())


def test_an_end_that_waits_closes_nothing_yet():
    opened = with_taken(EMPTY, [event("swing")], UNSET, RIG)

    assert with_taken(opened, [event("swung", 5)], UNSET, RIG).windows == opened.windows


def test_a_window_is_hidden_while_its_opening_waits():
    held = waiting(event("swing", 3))

    assert is_hidden(held.windows[0], held)
    assert not is_hidden(held.windows[0], held.with_committed(0, 2))


def test_an_end_leaves_no_window_of_its_kind_that_was_seen_before_it():
    held = waiting(event("swing", 1), event("swing", 2), event("danger", 3), event("swung", 4))
    leaving = held.events(1)

    left = windows_left(held, leaving, RIG)

    assert [(window.kind, window.frame) for window in left] == [("danger", 3)]


def test_an_end_that_leaves_before_its_opening_closes_only_what_was_seen():
    held = waiting(event("swung", 1), event("swing", 2))

    left = windows_left(held, held.events(1), RIG)

    assert [(window.kind, window.frame) for window in left] == [("swing", 2)]


def test_an_end_leaves_what_still_waits_alone():
    held = waiting(event("swung", 1), event("swing", 2, loop=1))

    assert windows_left(held, held.events(1, 0), RIG) == held.windows


def test_of_two_windows_of_a_kind_that_were_seen_only_the_later_is_open():
    held = waiting(event("swing", 1), event("swing", 9))

    left = windows_left(held, held.events(1), RIG)

    assert [window.frame for window in left] == [9]


def test_the_end_of_a_window_stands_where_it_was_opened_and_is_synthetic():
    window = OpenWindow("swing", 2, 7)

    assert end_of(window, 5, RIG, tick=30) == Event(5, 2, 7, "swung", synthetic=True)


@pytest.mark.parametrize(("opened_in", "of"), [(9, 30), (33, 33)])
def test_the_end_of_a_gameplay_window_is_of_the_open_tick_and_never_before_its_opening(opened_in: int, of: int):
    window = OpenWindow("danger", 2, 7, opened_in)

    assert end_of(window, 5, RIG, tick=30).tick == of


def test_at_the_end_of_an_instance_openings_that_nobody_will_see_are_no_windows():
    held = waiting(event("swing", 1))

    assert windows_at_end(1, held, RIG) == []
    assert windows_at_end(1, held.with_committed(0, 2), RIG) == [OpenWindow("swing", 0, 1)]
    assert windows_at_end(1, EMPTY, RIG) == []


def test_at_the_end_of_an_instance_gameplay_openings_will_be_seen_and_their_ends_too():
    one = waiting(event("danger", 1, tick=4))
    both = waiting(event("danger", 1, tick=4), event("safe", 6, tick=4))

    assert windows_at_end(1, one, RIG) == list(one.windows)
    assert windows_at_end(1, both, RIG) == []


def test_an_end_waits_behind_its_opening():
    held = waiting(event("swing", 1))

    behind = with_end_behind(held, held.windows[0], Event(1, 0, 1, "swung", synthetic=True))

    assert [(each.kind, each.synthetic) for each in behind.events(1)] == [("swing", UNSET), ("swung", True)]
    assert (behind.windows, behind.pending, behind.remembered) == ((), 2, 2)


def test_an_end_waits_once_where_one_of_its_key_waits_already():
    held = waiting(event("swing", 1), event("swung", 1))

    behind = with_end_behind(held, held.windows[0], Event(1, 0, 1, "swung", synthetic=True))

    assert behind.waiting == held.waiting
    assert behind.windows == ()


def test_forgetting_one_window_leaves_the_others():
    held = waiting(event("swing", 1), event("danger", 2, tick=1))

    assert without_window(held, held.windows[0]).windows == held.windows[1:]


# In a scene


def windows(scene: TickedScene, number: int = 1) -> list[tuple[str, int]]:
    return [(window.kind, window.frame) for window in scene.hero().events.instances[number].windows]


def test_a_presentation_window_is_open_from_its_acceptance_until_its_end_is_delivered(world: World):
    scene = world()
    scene.enqueue(1, "swing", frame=1)
    scene.enqueue(1, "swung", frame=9)
    accepted = windows(scene)

    scene.commit(1)

    assert (accepted, windows(scene)) == ([("swing", 1)], [])
    assert scene.retire(1).undelivered == []
    assert scene.given() == [(1, 0, 1, "swing"), (1, 0, 9, "swung")]


def test_a_gameplay_window_is_closed_by_an_end_that_waits_only_for_its_tick(world: World):
    """It will come, whatever becomes of the instance: another end would be one too many."""
    scene = world()
    scene.enqueue(1, "danger", frame=1)
    scene.enqueue(1, "safe", frame=9)
    scene.commit(1)
    left = windows(scene)

    scene.retire(1)
    scene.seal(1)
    scene.confirm(1)

    assert left == []
    assert scene.given() == [(1, 0, 1, "danger"), (1, 0, 9, "safe")]


def test_a_span_opens_and_closes_windows_as_single_events_do(world: World):
    scene = world(clips={"Attack": clip(10, (1, "flash"), (3, "swing"), (6, "flashed"), (8, "swung"))})
    scene.ask(Play(clip="Attack"))

    scene.cover(1, 0, 4)
    opened = windows(scene)
    scene.cover(1, 5, 9)
    immediate_closed = windows(scene)
    scene.commit(1)

    assert opened == [("flash", 1), ("swing", 3)]
    assert immediate_closed == [("swing", 3)]
    assert windows(scene) == []


# Events that come again after a rollback


def test_an_opening_that_comes_again_opens_its_window_with_the_holder_it_has_now():
    back = with_returned(EMPTY, [event("flash", 3)], HOLDER, RIG, opens=True)

    assert back.windows == (OpenWindow("flash", 0, 3, None, ("hero", "base", 1, 4)),)
    assert back.first_loop == 0


def test_an_opening_that_waited_has_its_window_still_and_opens_no_other():
    held = waiting(event("swing", 3)).with_committed(0, 2)

    assert with_returned(held, [event("swing", 3)], HOLDER, RIG, opens=True) is held
    assert with_returned(EMPTY, [event("swing", 3)], HOLDER, RIG, opens=False) is EMPTY


def test_an_end_that_comes_again_closes_what_its_opening_opened_again():
    held = waiting(event("swing", 3)).with_committed(0, 2)

    assert with_returned(held, [event("swung", 9)], UNSET, RIG, opens=False).windows == ()
    assert with_returned(EMPTY, [event("flash", 3), event("flashed", 9)], UNSET, RIG, opens=True).windows == ()


def test_a_loop_that_is_committed_again_closes_windows_in_the_order_it_first_did():
    held = waiting(event("swung", 1), event("swing", 2)).with_committed(0, 2)

    again = with_returned(held, [event("swung", 1), event("swing", 2)], UNSET, RIG, opens=False)

    assert [(window.kind, window.frame) for window in again.windows] == [("swing", 2)]
