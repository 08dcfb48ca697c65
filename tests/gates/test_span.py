"""Spans: every event of the manifest once, whatever spans and single events bring it. Contract, section 8."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from app.gates.event_commands import CommitLoop, Covered, Enqueue, Play
from app.gates.graph import RequestGraph
from app.gates.span import SPAN_EVENTS_MAX, brought
from tests.support.played import Played, assert_same_scene
from tests.support.rigs import candidate, clip, rig

KINDS = {"step": "presentation", "dust": "presentation", "spark": "immediate"}
WALK = clip(30, (0, "spark"), (12, "dust", "left"), (12, "step", "left"), (29, "step", "right"))
RUN = clip(20, (8, "step", "left"), (18, "step", "right"))


def alive(**parts: Any) -> Played:
    played = Played()
    played.spawn(rig(**{"kinds": KINDS, "clips": {"Walk": WALK, "Run": RUN}, **parts}))
    played.ask(Play(clip="Walk"))
    return played


def span(first: int, last: int, *, loop: int = 0, number: int = 1, **fields: Any) -> Covered:
    return Covered(clip_instance=number, loop=loop, from_frame=first, to_frame=last, **fields)


def keys(events: Any) -> list[tuple[int, int, str]]:
    return [(event.loop, event.frame, event.kind) for event in events]


def commit(loop: int, number: int = 1) -> CommitLoop:
    return CommitLoop(clip_instance=number, loop=loop)


def test_the_checks_come_in_order_and_a_refused_span_changes_nothing():
    """Played holds every refusal against the character's bytes."""
    played = alive(loop_window=2, events_per_instance=4)
    played.ask(commit(5))
    played.ask(Play(clip="Idle"))

    words = [
        played.word(span(0, -1, number=9)),
        played.word(span(0, -1, number=2)),
        played.word(span(0, -1)),
        played.word(span(0, 2**53 - 1, loop=4)),
        played.word(span(0, 2**53 - 1, loop=5)),
        played.word(span(0, 59, loop=5)),
    ]
    request = played.ask(RequestGraph(name="CombatV9")).request
    assert played.word(candidate(request)) == "committed"

    assert words == [
        "unknown_instance",
        "unknown_clip",
        "span_out_of_range",
        "late_loop",
        "beyond_window",
        "queue_full",
    ]
    assert played.word(span(0, 2**53 - 1, loop=4)) == "stale_epoch"
    assert played.word(span(0, -1)) == "span_out_of_range"


def test_a_span_over_too_many_events_is_refused_before_it_is_walked():
    """A window of any width, and a manifest of events that a group takes once a loop, would else be walked for ever."""
    crowded = clip(2**20, *((frame, "step", "left") for frame in range(1024)))
    played = alive(loop_window=2**53 - 1, clips={"Walk": crowded})
    loops = SPAN_EVENTS_MAX // 1024

    assert played.word(span(0, 2**53 - 1, group="move")) == "span_out_of_range"
    assert played.word(span(0, 2**20 * loops, group="move")) == "span_out_of_range"
    assert played.word(span(0, 2**20 * loops - 1, group="move")) == "covered"


def test_a_span_over_no_events_is_taken_however_long_it_is():
    played = alive(loop_window=2**53 - 1, clips={"Walk": clip(1)})

    assert played.ask(span(0, 2**53 - 1)).events == []


def test_marks_that_a_blended_clip_brought_are_counted_as_accepted():
    played = alive()
    played.ask(Play(clip="Run"))
    run = played.ask(span(0, 19, number=2, group="move"))

    walk = played.ask(span(0, 29, group="move"))

    assert keys(run.events) == [(0, 8, "step"), (0, 18, "step")]
    assert (keys(walk.events), walk.already) == ([(0, 0, "spark"), (0, 12, "dust")], 2)
    assert played.ask(commit(0)).missing is UNSET
    assert played.word(Enqueue(clip_instance=2, loop=0, frame=3, kind="dust", group="move", mark="left")) == "duplicate"


def test_only_what_has_a_mark_is_brought_into_the_group():
    played = alive()
    events = played.ask(span(0, 29, group="move", tick=4)).events

    assert brought(events) == [(0, ("left", "dust")), (0, ("left", "step")), (0, ("right", "step"))]
    assert [event.group for event in events] == [UNSET, "move", "move", "move"]
    assert {event.tick for event in events} == {4}


def test_an_instance_that_is_covered_was_touched_though_nothing_was_new():
    """It must not be the one that makes room."""
    played = alive(instances_open=2)
    played.ask(Play(clip="Walk"))
    before = played.hero().revision

    played.ask(span(1, 2))
    made_room = played.ask(Play(clip="Walk"))

    assert made_room.retired == [2]
    assert played.hero().revision == before + 2


def test_a_covered_span_is_replayed_to_the_same_bytes():
    played = alive()
    played.ask(Play(clip="Run"))
    for command in (span(0, 70), span(0, 39, number=2, group="move"), span(100, -10, loop=1, group="move"), commit(2)):
        played.ask(command)

    assert_same_scene(played.replayed(), played.scene)


FRAMES = 7
SMALL = clip(FRAMES, (0, "spark"), (3, "step", "left"), (3, "dust"), (6, "step", "right"))
spans = st.tuples(st.integers(0, 3 * FRAMES), st.integers(0, 8 * FRAMES - 1), st.integers(0, 8 * FRAMES - 1))


@given(st.lists(spans, max_size=8), st.sampled_from([UNSET, "move"]))
def test_every_event_of_the_union_of_spans_is_accepted_exactly_once(asked: list[tuple[int, int, int]], group: Any):
    """Forwards, backwards, across loops and after seeks; counted from any loop, so frames may be negative.

    The window is wide, so that no span is refused; the group has one instance, which doubles none of its own marks.
    """
    played = alive(clips={"Walk": SMALL}, loop_window=100)
    accepted: list[tuple[int, int, str]] = []
    union: set[int] = set()
    for loop, first, last in asked:
        frames = range(min(first, last), max(first, last) + 1)
        answer = played.ask(span(first - loop * FRAMES, last - loop * FRAMES, loop=loop, group=group))
        crossed = [(at // FRAMES, event) for at in frames for event in SMALL.events if event.frame == at % FRAMES]
        assert len(answer.events) + answer.already == len(crossed)
        assert keys(answer.events) == sorted(keys(answer.events), reverse=last < first)
        accepted += keys(answer.events)
        union |= set(frames)

    expected = sorted(
        (at // FRAMES, event.frame, event.kind) for at in union for event in SMALL.events if event.frame == at % FRAMES
    )
    assert sorted(accepted) == expected
    delivered = played.ask(commit(7)).events
    assert sorted(keys(delivered)) == [key for key in expected if key[2] != "spark"]


@given(spans, st.lists(st.tuples(st.integers(0, 7), st.sampled_from(SMALL.events)), max_size=6))
def test_a_span_is_what_single_events_in_its_order_would_have_been(asked: tuple[int, int, int], before: list[Any]):
    loop, first, last = asked
    whole, singly = alive(clips={"Walk": SMALL}, loop_window=100), alive(clips={"Walk": SMALL}, loop_window=100)
    for played in (whole, singly):
        for at, event in before:
            played.ask(Enqueue(clip_instance=1, loop=at, frame=event.frame, kind=event.kind))
    frames = range(first, last + 1) if last >= first else range(first, last - 1, -1)

    answer = whole.ask(span(first - loop * FRAMES, last - loop * FRAMES, loop=loop))
    words = [
        singly.word(Enqueue(clip_instance=1, loop=at // FRAMES, frame=event.frame, kind=event.kind))
        for at in frames
        for event in (SMALL.events if last >= first else SMALL.events[::-1])
        if event.frame == at % FRAMES
    ]

    assert (len(answer.events), answer.already) == (words.count("accepted"), words.count("duplicate"))
    one, other = whole.hero().events.instances[1], singly.hero().events.instances[1]
    assert (one.seen, one.first_loop, one.pending, one.accepted) == (
        *(other.seen, other.first_loop, other.pending, other.accepted),
    )
    assert {at: set(bucket) for at, bucket in one.waiting.items()} == {
        at: set(bucket) for at, bucket in other.waiting.items()
    }
