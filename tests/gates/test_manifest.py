"""Manifests: what a span crosses, and what is missing of committed loops. Contract, section 8."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from app.gates.clip import ClipInstance, Event
from app.gates.manifest import MISSING_LISTED, MissingEvent, Span, manifest_of, missing, newly_committed, newly_crossed
from app.gates.rig import ClipRule
from tests.support.rigs import clip, rig

WALK = clip(30, (0, "start"), (12, "dust"), (12, "step", "left"), (29, "step", "right"))
OPENED = ClipInstance(1, 0, 1, "Walk")


def crossed(rule: ClipRule, start: int, end: int) -> list[tuple[int, int, str]]:
    return [(loop, event.frame, event.kind) for loop, event in Span(start, end).crossed(rule)]


def test_both_ends_of_a_span_belong_to_it():
    assert crossed(WALK, 12, 29) == [(0, 12, "dust"), (0, 12, "step"), (0, 29, "step")]
    assert crossed(WALK, 13, 28) == []
    assert crossed(WALK, 29, 30) == [(0, 29, "step"), (1, 0, "start")]


def test_a_span_backwards_crosses_the_same_in_the_other_order():
    assert crossed(WALK, 50, 10) == crossed(WALK, 10, 50)[::-1]
    assert crossed(WALK, 12, 12) == [(0, 12, "dust"), (0, 12, "step")]


clips = st.builds(
    lambda frames, events: clip(frames, *{(frame % frames, kind) for frame, kind in events}),
    st.integers(1, 40),
    st.lists(st.tuples(st.integers(0, 39), st.sampled_from("ab")), max_size=6),
)
frames = st.integers(0, 300)


@given(clips, frames, frames)
def test_a_span_is_what_a_walk_over_every_frame_meets(rule: ClipRule, start: int, end: int):
    step = 1 if end >= start else -1
    walked = [
        (frame // rule.frames, event.frame, event.kind)
        for frame in range(start, end + step, step)
        for event in rule.events[::step]
        if event.frame == frame % rule.frames
    ]

    assert crossed(rule, start, end) == walked
    assert Span(start, end).count(rule) == len(walked)


def test_a_span_of_very_many_loops_is_counted_without_walking_them():
    assert Span(0, 30 * 2**53 - 1).count(WALK) == 4 * 2**53
    assert Span(30 * 2**53 - 1, 0).count(WALK) == 4 * 2**53
    assert Span(0, 2**53).count(clip(1)) == 0
    assert crossed(clip(1), 0, 2**53) == []


def test_of_a_span_what_was_accepted_by_key_or_by_mark_is_only_counted():
    held = OPENED.with_waiting(0, (12, "dust"), None, 1).with_seen(0, (0, "start"), UNSET, 2)

    alone = newly_crossed(WALK, Span(0, 29), held, {}, number=7, group=UNSET, tick=UNSET)
    grouped = newly_crossed(WALK, Span(0, 29), held, {0: {("left", "step"): 3}}, number=7, group="move", tick=5)

    assert alone == ([Event(7, 0, 12, "step", mark="left"), Event(7, 0, 29, "step", mark="right")], 2)
    assert grouped == ([Event(7, 0, 29, "step", tick=5, group="move", mark="right")], 3)


def test_a_mark_that_a_clip_lists_twice_is_brought_once_a_loop_in_a_group():
    twice = clip(30, (3, "step", "left"), (9, "step", "left"))

    grouped = newly_crossed(twice, Span(29, 0), OPENED, {}, number=7, group="move", tick=UNSET)
    alone = newly_crossed(twice, Span(29, 0), OPENED, {}, number=7, group=UNSET, tick=UNSET)

    assert ([event.frame for event in grouped[0]], grouped[1]) == ([9], 1)
    assert ([event.frame for event in alone[0]], alone[1]) == ([9, 3], 0)


def test_what_is_neither_waiting_nor_seen_nor_marked_is_missing():
    held = OPENED.with_waiting(5, (12, "dust"), None, 1).with_seen(5, (0, "start"), UNSET, 2)

    listed, count = missing(WALK, held, {5: {("left", "step"): 3, ("left", "dust"): 3}}, range(5, 6))

    assert (listed, count) == ([MissingEvent(5, 29, "step", "right")], 1)


def test_an_event_that_was_given_by_key_and_by_mark_counts_once():
    held = OPENED.with_waiting(5, (12, "step"), None, 1)

    assert missing(WALK, held, {5: {("left", "step"): 1}}, range(5, 6))[1] == 3


def test_what_else_waits_does_not_make_up_for_what_is_missing():
    held = OPENED.with_waiting(5, (13, "step"), None, 1).with_waiting(4, (12, "step"), None, 1)

    assert missing(WALK, held, {}, range(5, 6))[1] == 4


@pytest.mark.parametrize("loops", [range(3, 3), range(9, 3), range(2**53, 2**53)])
def test_of_no_loops_nothing_is_missing(loops: range):
    assert missing(WALK, OPENED, {}, range(loops.start, max(loops.start, loops.stop))) == ([], 0)


def test_of_very_many_missing_events_the_lowest_are_listed_and_all_are_counted():
    held = OPENED.with_waiting(0, (12, "dust"), None, 1).with_waiting(2**52, (12, "dust"), None, 1)

    listed, count = missing(WALK, held, {}, range(2**53))

    assert count == 4 * 2**53 - 2
    assert len(listed) == MISSING_LISTED
    assert [(event.loop, event.frame) for event in listed[:4]] == [(0, 0), (0, 12), (0, 29), (1, 0)]


def test_loops_that_were_given_whole_are_passed_over():
    held = OPENED
    for loop in range(100):
        held = held.with_waiting(loop, (3, "step"), None, 1)

    listed, count = missing(clip(30, (3, "step")), held, {}, range(2**53))

    assert count == 2**53 - 100
    assert listed[0].loop == 100


@given(
    clips,
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40), st.sampled_from("ab")), max_size=12),
    st.integers(0, 5),
    st.integers(0, 6),
)
def test_missing_is_what_a_walk_over_every_loop_does_not_find(
    rule: ClipRule, accepted: Sequence[tuple[int, int, str]], first: int, loops: int
):
    held = OPENED
    for loop, frame, kind in set(accepted):
        held = held.with_waiting(loop, (frame, kind), None, 1)
    expected = [
        MissingEvent(loop, event.frame, event.kind)
        for loop in range(first, first + loops)
        for event in rule.events
        if (loop, event.frame, event.kind) not in accepted
    ]

    assert missing(rule, held, {}, range(first, first + loops)) == (expected, len(expected))


def test_only_a_clip_that_was_named_and_listed_has_a_manifest():
    listed = rig(clips={"Walk": WALK})

    assert manifest_of(OPENED, listed) is WALK
    assert manifest_of(ClipInstance(1, 0, 1, "Run"), listed) is None
    assert manifest_of(ClipInstance(1, 0, 1), listed) is None


def test_a_commit_adds_the_loops_since_the_last_one_or_since_the_first_event():
    started = OPENED.with_waiting(57, (1, "a"), None, 1)

    assert newly_committed(OPENED, 9) == range(9, 10)
    assert newly_committed(started, 59) == range(57, 60)
    assert newly_committed(started, 50) == range(50, 51)
    assert newly_committed(started.with_committed(57, 2), 60) == range(58, 61)
    assert list(newly_committed(started.with_committed(57, 2), 57)) == []
