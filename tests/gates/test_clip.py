"""One playing of one clip: what waits, what is remembered, and how payloads compare. Contract, section 6."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from app.gates.clip import ClipInstance, Event, kept, kept_event, kept_payload, payload_bytes, payload_digest

OPENED = ClipInstance(1, 0, 1)


def test_events_come_by_loop_then_frame_then_arrival():
    held = OPENED
    for loop, frame, kind in [(1, 0, "a"), (0, 9, "b"), (0, 3, "late"), (0, 3, "later")]:
        held = held.with_waiting(loop, (frame, kind), None, 1)

    assert [(event.loop, event.frame, event.kind) for event in held.events(7)] == [
        (0, 3, "late"),
        (0, 3, "later"),
        (0, 9, "b"),
        (1, 0, "a"),
    ]
    assert [event.kind for event in held.events(7, 0)] == ["late", "later", "b"]


def test_an_event_is_listed_as_it_was_enqueued():
    held = OPENED.with_waiting(2, (5, "spark"), kept(None), 1).with_waiting(2, (6, "spark"), kept(UNSET), 1)

    assert held.events(7) == [Event(7, 2, 5, "spark", None), Event(7, 2, 6, "spark", UNSET)]


@pytest.mark.parametrize("payload", [UNSET, None, {"foot": "left"}, [1, 2, 3]])
@pytest.mark.parametrize("tick", [UNSET, 0, 7])
@pytest.mark.parametrize(("group", "mark"), [(UNSET, UNSET), (UNSET, "left"), ("walk", "left")])
def test_what_waits_is_delivered_as_it_was_enqueued_before_and_after_it_was_stored(
    payload: Any, tick: Any, group: Any, mark: Any
):
    waits = kept(payload, tick, group, mark)
    held = OPENED.with_waiting(2, (5, "spark"), waits, 1)
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(held), type=ClipInstance)

    assert held.events(7) == stored.events(7) == [Event(7, 2, 5, "spark", payload, tick, group, mark)]
    assert kept_payload(waits) == payload
    assert kept_event(7, 2, (5, "spark"), waits) == held.events(7)[0]


def test_a_bare_event_keeps_nothing_beside_its_key():
    assert kept(UNSET) is None
    assert kept(None) == [None]


def test_an_instance_that_was_stored_without_a_group_has_none():
    """The layout of checkpoints before groups: one field less."""
    fields = msgspec.to_builtins(OPENED.with_waiting(0, (1, "a"), [4], 1), builtin_types=(dict, tuple))[:-1]

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(fields), type=ClipInstance).group is None


def test_the_last_group_that_was_named_is_remembered():
    held = OPENED.with_waiting(0, (1, "a"), None, 1, "walk")

    assert held.with_waiting(0, (2, "a"), None, 2).group == "walk"
    assert held.with_seen(0, (2, "a"), UNSET, 2, "run").group == "run"
    assert held.with_committed(0, 2).group == "walk"


def test_a_span_is_taken_as_if_its_events_had_come_one_by_one():
    steps = [Event(7, loop, frame, "step") for loop, frame in [(3, 9), (3, 2), (2, 9)]]
    spark = Event(7, 2, 4, "spark")
    singly = OPENED
    for event in steps:
        singly = singly.with_waiting(event.loop, (event.frame, "step"), None, 5)
    singly = singly.with_seen(2, (4, "spark"), UNSET, 5)

    together = OPENED.with_span(steps, [spark], 5, first=3, group=UNSET)

    assert together == singly
    assert (together.first_loop, together.pending, together.remembered, together.accepted) == (3, 3, 4, 4)


def test_a_span_without_new_events_only_touches():
    held = OPENED.with_span([], [], 5, first=None, group="walk")

    assert (held.touched, held.group, held.first_loop, held.accepted) == (5, "walk", None, 0)


def test_a_value_that_was_read_never_changes():
    one = OPENED.with_waiting(0, (1, "a"), None, 1)

    two = one.with_waiting(0, (2, "b"), None, 2)
    done = two.with_committed(0, 3)

    assert (OPENED.pending, one.pending, two.pending, done.pending) == (0, 1, 2, 0)
    assert len(one.waiting[0]) == 1


def test_keys_strictly_below_the_watermark_are_forgotten_and_those_of_its_loop_stay():
    held = OPENED
    for loop in (0, 1, 2):
        held = held.with_waiting(loop, (4, "step"), None, 1)

    after = held.with_committed(1, 2)

    assert sorted(after.seen) == [1]
    assert sorted(after.waiting) == [2]
    assert (after.remembered, after.pending, after.accepted, after.committed_loop) == (2, 1, 3, 1)


def test_keys_of_immediate_events_ahead_of_the_watermark_stay():
    held = OPENED.with_seen(0, (1, "spark"), UNSET, 1).with_seen(3, (1, "spark"), UNSET, 1)

    after = held.with_committed(1, 2)

    assert sorted(after.seen) == [3]
    assert (after.remembered, after.pending) == (1, 0)


def test_committing_the_same_loop_again_adds_to_its_remembered_keys():
    once = OPENED.with_waiting(0, (1, "a"), None, 1).with_committed(0, 2)

    twice = once.with_waiting(0, (2, "b"), None, 3).with_committed(0, 4)

    assert sorted(twice.seen[0]) == [(1, "a"), (2, "b")]
    assert twice.remembered == 2


def test_the_first_accepted_loop_stands_in_until_a_commit():
    held = OPENED.with_waiting(57, (1, "a"), None, 1).with_waiting(56, (1, "a"), None, 2)

    assert (held.first_loop, held.committed_loop) == (57, None)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (4, 4.0),
        ({"a": 1, "b": [2, {"c": 3.0, "d": None}]}, {"b": [2.0, {"d": None, "c": 3}], "a": 1.0}),
        (0, -0.0),
        ([], []),
        (1e20, 10**20),
    ],
    ids=str,
)
def test_payloads_that_are_equal_as_json_values_have_one_digest(one: Any, other: Any):
    assert payload_digest(one) == payload_digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (0, False),
        (None, UNSET),
        (None, False),
        ("1", 1),
        ([1, 2], [2, 1]),
        ({"a": None}, {}),
        ([], {}),
        ({"a": [1]}, {"a": 1}),
        (1, 1.5),
        ("é", "e\u0301"),
    ],
    ids=str,
)
def test_payloads_that_differ_as_json_values_have_two_digests(one: Any, other: Any):
    assert payload_digest(one) != payload_digest(other)


def test_a_payload_weighs_its_compact_utf8_json():
    assert payload_bytes({"a": [1, "é"]}) == len('{"a":[1,"é"]}'.encode())
    assert payload_bytes(None) == 4
    assert payload_bytes(UNSET) == 0
