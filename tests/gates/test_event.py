"""The event gate: each key is delivered once, by the watermark of its instance. Source: 2026-07-29-2000."""

from typing import Any

import pytest
from msgspec import UNSET

from app.gates.clip import Event
from app.gates.event import INSTANCE_LEAD_MAX
from app.gates.event_commands import Acknowledge, CommitLoop, Enqueue, Play, Retire
from app.gates.graph import RequestGraph
from app.gates.manifest import MissingEvent
from app.gates.rig import Rig
from tests.support.played import Played
from tests.support.rigs import ANY_STATE, candidate, clip, graph_rule, rig

KINDS = {"step": "presentation", "spark": "immediate"}


def alive(**parts: Any) -> Played:
    played = Played()
    played.spawn(rig(**{"kinds": KINDS, **parts}))
    return played


def event(number: int, loop: int = 0, frame: int = 0, kind: str = "step", **fields: Any) -> Enqueue:
    return Enqueue(clip_instance=number, loop=loop, frame=frame, kind=kind, **fields)


def commit(number: int, loop: int) -> CommitLoop:
    return CommitLoop(clip_instance=number, loop=loop)


def swapped(played: Played) -> None:
    request = played.ask(RequestGraph(name="CombatV9")).request
    assert played.word(candidate(request)) == "committed"


def test_the_fixed_stream_of_the_article_delivers_each_event_once():
    """Callbacks 4, accepted 3, suppressed 1, delivered 2, pending 1."""
    played = alive()
    words = [played.word(event(41, loop, 12)) for loop in (0, 0, 0)] + [played.word(event(41, 1, 12))]
    other = played.word(event(41, 0, 20))

    delivered = played.ask(commit(41, 0))

    assert [*words, other] == ["accepted", "duplicate", "duplicate", "accepted", "accepted"]
    assert (len(delivered.events), delivered.pending) == (2, 1)


# The ladders, rung by rung: each case trips its own rung and every rung below it that can be tripped at once.


def test_play_answers_in_the_order_of_its_checks():
    played = alive(instances_open=1)
    played.ask(event(5))
    played.ask(Retire(clip_instance=5))
    played.ask(event(6))

    words = [
        played.word(Play(clip="Walk", layer="tail", clip_instance=5)),
        played.word(Play(clip="Walk", clip_instance=5)),
        played.word(Play(clip="Walk", clip_instance=7 + INSTANCE_LEAD_MAX)),
        played.word(Play(clip="Walk", clip_instance=6)),
        played.word(Play(clip="Walk", clip_instance=7)),
        played.word(Play(clip="Walk")),
    ]

    assert words == [
        "unknown_layer",
        "retired_instance",
        "instance_out_of_range",
        "instance_open",
        "instances_full",
        "instances_full",
    ]


def test_enqueue_answers_in_the_order_of_its_checks():
    played = alive(instances_open=1, loop_window=2, events_per_instance=2)
    played.ask(event(5))
    played.ask(Retire(clip_instance=5))
    played.ask(commit(6, 10))
    played.ask(event(6, 10, 1))
    full_and_new = [
        played.word(event(5, kind="roar")),
        played.word(event(5)),
        played.word(event(7 + INSTANCE_LEAD_MAX)),
        played.word(event(7)),
    ]
    played.ask(event(6, 11, 1))
    held = [
        played.word(event(6, 9, 1)),
        played.word(event(6, 13, 1)),
        played.word(event(6, 10, 1)),
        played.word(event(6, 10, 2)),
    ]
    swapped(played)
    stale = [played.word(event(6, loop, 1)) for loop in (9, 13, 10)]

    assert full_and_new == ["unknown_kind", "retired_instance", "instance_out_of_range", "instances_full"]
    assert held == ["late_loop", "beyond_window", "duplicate", "queue_full"]
    assert stale == ["stale_epoch"] * 3


def test_commit_loop_answers_in_the_order_of_its_checks():
    played = alive(instances_open=1)
    played.ask(event(5))
    played.ask(Retire(clip_instance=5))
    played.ask(commit(6, 10))
    played.ask(event(6, 10))

    words = [played.word(commit(number, 9)) for number in (5, 7 + INSTANCE_LEAD_MAX, 7, 6)]

    assert words == ["retired_instance", "instance_out_of_range", "instances_full", "loop_rollback"]


def test_retire_and_ack_answer_for_what_never_was():
    played = alive()
    played.ask(event(5))
    played.ask(Retire(clip_instance=5))

    assert played.word(Retire(clip_instance=6)) == "unknown_instance"
    assert played.word(Retire(clip_instance=5)) == "retired_instance"
    assert played.word(Acknowledge(through=1)) == "unknown_delivery"
    assert played.word(Acknowledge(through=0)) == "acknowledged"


# Loops


def test_a_future_loop_never_blocks_an_earlier_one():
    played = alive()
    played.ask(event(1, 3))
    played.ask(event(1, 0))

    delivered = played.ask(commit(1, 0))

    assert [item.loop for item in delivered.events] == [0]
    assert delivered.pending == 1


def test_loop_numbers_may_be_skipped():
    played = alive()
    for loop in (2, 3, 5):
        played.ask(event(1, loop))

    delivered = played.ask(commit(1, 5))

    assert [item.loop for item in delivered.events] == [2, 3, 5]


def test_the_same_loop_may_be_committed_again_and_delivers_what_arrived_since():
    played = alive()
    played.ask(event(1, 0, 1))
    first = played.ask(commit(1, 0))
    late_double, late = played.word(event(1, 0, 1)), played.word(event(1, 0, 2))

    second = played.ask(commit(1, 0))
    third = played.ask(commit(1, 0))

    assert (late_double, late) == ("duplicate", "accepted")
    assert ([item.frame for item in first.events], first.delivery) == ([1], 1)
    assert ([item.frame for item in second.events], second.delivery) == ([2], 2)
    assert (third.events, third.delivery) == ([], None)


def test_an_instance_may_start_at_any_loop_and_the_first_accepted_one_stands_in_for_the_watermark():
    played = alive(loop_window=8)

    words = [played.word(event(1, loop)) for loop in (57, 49, 48, 65, 66)]

    assert words == ["accepted", "accepted", "late_loop", "accepted", "beyond_window"]


def test_after_the_first_commit_the_window_is_above_the_watermark_only():
    played = alive(loop_window=8)
    played.ask(event(1, 57))
    played.ask(commit(1, 57))

    words = [played.word(event(1, loop, 9)) for loop in (56, 57, 65, 66)]

    assert words == ["late_loop", "accepted", "accepted", "beyond_window"]


def test_a_refused_loop_names_the_watermark_and_the_instance():
    played = alive()
    played.ask(commit(1, 20))

    late, beyond = played.ask(event(1, 19)), played.ask(event(1, 29))

    assert (late.at, late.by, late.clip_instance) == ("loop", {"loop": 20}, 1)
    assert (beyond.at, beyond.by, beyond.clip_instance) == ("loop", {"loop": 20}, 1)


# Keys and payloads


def test_same_frame_other_kind_are_two_events():
    played = alive(kinds=None)

    assert played.word(event(1, kind="left")) == "accepted"
    assert played.word(event(1, kind="right")) == "accepted"


@pytest.mark.parametrize(
    ("first", "second", "differs"),
    [
        ({"foot": "left", "power": 4}, {"power": 4.0, "foot": "left"}, UNSET),
        (1, True, True),
        (UNSET, UNSET, UNSET),
        (UNSET, None, True),
        ({"a": 1}, {"a": 2}, True),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_delivered", [False, True])
def test_a_duplicate_says_when_its_payload_differs(first: Any, second: Any, differs: Any, is_delivered: bool):
    played = alive()
    played.ask(event(1, payload=first))
    if is_delivered:
        played.ask(commit(1, 0))

    answer = played.ask(event(1, payload=second))

    assert (answer.outcome, answer.payload_differs) == ("duplicate", differs)


def test_the_first_payload_stands():
    played = alive()
    played.ask(event(1, payload="first"))
    played.ask(event(1, payload="second"))

    assert played.ask(commit(1, 0)).events == [Event(1, 0, 0, "step", "first")]


# Immediate kinds


def test_the_answer_of_an_immediate_event_is_its_delivery_and_only_its_key_is_kept():
    played = alive(events_bytes=0)
    accepted = played.word(event(1, 0, 3, "spark", payload="x" * 500))
    double = played.word(event(1, 0, 3, "spark", payload="x" * 500))

    delivered = played.ask(commit(1, 0))

    assert (accepted, double) == ("accepted", "duplicate")
    assert (delivered.events, delivered.delivery, delivered.pending) == ([], None, 0)
    assert played.word(event(1, 0, 3, "spark")) == "duplicate"
    assert played.hero().events.waiting_bytes == 0


def test_an_immediate_double_ahead_of_the_watermark_is_caught_after_a_commit_below_it():
    played = alive()
    played.ask(event(1, 0))
    played.ask(event(1, 3, 3, "spark"))
    played.ask(commit(1, 1))

    assert played.word(event(1, 3, 3, "spark")) == "duplicate"


def test_immediate_keys_count_among_the_remembered():
    played = alive(events_per_instance=1)
    played.ask(event(1, 0, 0, "spark"))

    assert played.word(event(1, 0, 1, "spark")) == "queue_full"


# Epochs


def two_graphs() -> Rig:
    return rig(
        layers={"base": ANY_STATE, "face": ANY_STATE},
        graphs={"main": graph_rule("base"), "mask": graph_rule("face")},
        kinds=None,
    )


def test_an_instance_goes_stale_with_the_layer_it_was_played_on_and_others_do_not():
    played = Played()
    played.spawn(two_graphs())
    on_base = played.ask(Play(clip="Walk", layer="base")).clip_instance
    on_face = played.ask(Play(clip="Blink", layer="face")).clip_instance
    request = played.ask(RequestGraph(name="Mask2", graph="mask")).request
    played.ask(candidate(request, graph="mask"))

    assert played.word(event(on_base)) == "accepted"
    assert played.word(event(on_face)) == "stale_epoch"


def test_instances_without_a_layer_belong_to_graph_main():
    played = Played()
    played.spawn(two_graphs())
    played.ask(event(1))
    without_layer = played.ask(Play(clip="Walk")).clip_instance
    request = played.ask(RequestGraph(name="Mask2", graph="mask")).request
    played.ask(candidate(request, graph="mask"))
    still = [played.word(event(number, 0, 1)) for number in (1, without_layer)]

    swapped(played)

    assert still == ["accepted", "accepted"]
    assert [played.word(event(number, 0, 2)) for number in (1, without_layer)] == ["stale_epoch", "stale_epoch"]


def test_without_a_graph_main_an_instance_without_a_layer_never_goes_stale():
    played = Played()
    played.spawn(rig(graphs={"body": graph_rule("base")}))
    played.ask(event(1))
    request = played.ask(RequestGraph(name="Body2", graph="body")).request
    played.ask(candidate(request, graph="body"))

    assert played.word(event(1, 0, 1)) == "accepted"


def test_what_a_stale_instance_had_accepted_can_still_be_committed_or_retired():
    played = alive()
    for number in (1, 2):
        played.ask(event(number))
    swapped(played)

    delivered = played.ask(commit(1, 0))
    retired = played.ask(Retire(clip_instance=2))

    assert [item.clip_instance for item in delivered.events] == [1]
    assert [item.clip_instance for item in retired.undelivered] == [2]


# Deliveries


def test_deliveries_are_numbered_kept_and_make_room_oldest_first():
    played = alive(deliveries_kept=2)
    for loop in range(4):
        played.ask(event(1, loop))
        played.ask(commit(1, loop))
    gate = played.hero().events

    assert [kept.delivery for kept in gate.deliveries] == [3, 4]
    assert gate.last_delivery == 4


def test_a_rig_may_keep_no_delivery_and_still_numbers_them():
    played = alive(deliveries_kept=0)
    played.ask(event(1))

    assert played.ask(commit(1, 0)).delivery == 1
    assert played.hero().events.deliveries == ()


def test_acknowledged_deliveries_are_dropped_and_a_lower_ack_again_has_no_effect():
    played = alive()
    for loop in range(3):
        played.ask(event(1, loop))
        played.ask(commit(1, loop))
    before = played.hero().revision

    words = [played.word(Acknowledge(through=2)), played.word(Acknowledge(through=1))]
    gate = played.hero().events

    assert words == ["acknowledged", "acknowledged"]
    assert ([kept.delivery for kept in gate.deliveries], gate.acknowledged) == ([3], 2)
    assert played.hero().revision == before


def test_deliveries_their_numbers_and_the_acknowledged_go_on_over_lives_and_instances_do_not():
    played = alive()
    for loop in range(2):
        played.ask(event(5, loop))
        played.ask(commit(5, loop))
    played.ask(Acknowledge(through=1))

    played.respawn(rig(kinds=KINDS))
    gate = played.hero().events

    assert ([kept.delivery for kept in gate.deliveries], gate.last_delivery, gate.acknowledged) == ([2], 2, 1)
    assert [played.word(event(number)) for number in (5, 3, 6)] == ["retired_instance", "retired_instance", "accepted"]


# Groups


def marked(number: int, mark: str = "left", group: str = "move", **fields: Any) -> Enqueue:
    return event(number, **{"frame": number, "mark": mark, "group": group, **fields})


def test_of_a_mark_of_a_group_the_first_is_accepted_whichever_instance_brings_it():
    played = alive()
    words = [played.word(marked(1)), played.word(marked(2)), played.word(marked(1, frame=20))]

    double = played.ask(marked(2))

    assert words == ["accepted", "duplicate", "duplicate"]
    assert (double.at, double.by, double.payload_differs) == ("mark", {"clip_instance": 1}, UNSET)


def test_another_loop_kind_mark_or_group_is_another_mark():
    played = alive()
    played.ask(marked(1))

    words = [
        played.word(marked(2, loop=1)),
        played.word(marked(2, kind="spark")),
        played.word(marked(2, mark="right")),
        played.word(marked(2, group="aim", frame=9)),
    ]

    assert words == ["accepted"] * 4


def test_an_immediate_event_brings_its_mark_too():
    played = alive()

    assert played.word(marked(1, kind="spark")) == "accepted"
    assert played.word(marked(2, kind="spark")) == "duplicate"


def test_a_double_of_a_mark_is_found_after_the_window_and_before_the_full_queue():
    played = alive(loop_window=2, events_per_instance=1)
    played.ask(marked(1, loop=10))
    played.ask(event(2, 10))

    words = [
        played.word(marked(2, loop=7)),
        played.word(marked(2, loop=13)),
        played.word(marked(2, loop=10)),
        played.word(marked(2, loop=10, mark="right")),
    ]
    on_a_new_instance = [
        played.word(marked(3, loop=7)),
        played.word(marked(3, loop=10)),
        played.word(marked(3, "right", loop=10)),
    ]

    assert words == ["late_loop", "beyond_window", "duplicate", "queue_full"]
    assert on_a_new_instance == ["late_loop", "duplicate", "queue_full"]
    assert 3 not in played.hero().events.instances


def test_a_double_of_its_own_key_is_told_by_its_payload():
    played = alive()
    played.ask(marked(1, payload=1))

    double = played.ask(marked(1, payload=2))

    assert (double.outcome, double.by, double.payload_differs) == ("duplicate", UNSET, True)


def test_marks_outlive_their_instance_and_end_with_the_life():
    played = alive()
    played.ask(marked(1))
    played.ask(Retire(clip_instance=1))
    retired = played.word(marked(2))

    played.respawn(rig(kinds=KINDS))

    assert retired == "duplicate"
    assert played.hero().events.marks.groups == {}
    assert played.word(marked(2)) == "accepted"


def test_there_are_as_many_groups_as_instances_may_be_open():
    played = alive(instances_open=2)
    for frame, group in enumerate(("one", "two", "three")):
        played.ask(marked(1, group=group, frame=frame))

    assert sorted(played.hero().events.marks.groups) == ["three", "two"]


# Manifests


WALK = {"Walk": clip(30, (12, "step", "left"), (27, "step", "right"))}


def test_a_commit_tells_what_the_manifest_expected_of_its_loops_and_nobody_reported():
    played = alive(clips=WALK)
    played.ask(Play(clip="Walk"))
    played.ask(event(1, 0, 12))

    first, again, skipping = (played.ask(commit(1, loop)) for loop in (0, 0, 2))

    assert first.missing == [MissingEvent(0, 27, "step", "right")]
    assert again.missing is UNSET
    assert [(event.loop, event.frame) for event in skipping.missing] == [(1, 12), (1, 27), (2, 12), (2, 27)]
    assert first.missing_count is skipping.missing_count is UNSET


def test_what_the_group_of_an_instance_was_brought_by_another_is_not_missing():
    played = alive(clips=WALK)
    played.ask(Play(clip="Walk"))
    played.ask(marked(2, "left", loop=3))
    played.ask(marked(1, "right", loop=3))

    assert played.ask(commit(1, 3)).missing is UNSET


def test_a_commit_over_very_many_loops_counts_what_it_does_not_list():
    played = alive(clips=WALK)
    played.ask(Play(clip="Walk"))
    played.ask(commit(1, 0))

    far = played.ask(commit(1, 2**53 - 1))

    assert (len(far.missing), far.missing_count) == (256, 2 * (2**53 - 1))
