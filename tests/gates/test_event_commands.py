"""What the event gate is asked: what does not fit is refused where it is made. Contract, sections 6 and 8."""

from typing import Any

import msgspec
import pytest

from app.gates.event_commands import Covered, Enqueue, EventAccepted, LoopDelivered, Play, SpanCovered
from app.gates.identity import NUMBER_MAX


def event(**fields: Any) -> Enqueue:
    return Enqueue(**{"clip_instance": 1, "loop": 0, "frame": 0, "kind": "step", **fields})


def covered(**fields: Any) -> Covered:
    return Covered(**{"clip_instance": 1, "loop": 0, "from_frame": 0, "to_frame": 9, **fields})


@pytest.mark.parametrize(
    "make",
    [
        lambda: event(kind="a\nb"),
        lambda: event(mark="a\nb"),
        lambda: event(mark="left", group="a\nb"),
        lambda: covered(group="a\nb"),
        lambda: Play(clip="a\nb"),
        lambda: Play(clip="a", layer="\0"),
    ],
)
def test_names_take_no_control_characters(make: Any):
    with pytest.raises(ValueError, match="control characters"):
        make()


def test_a_group_needs_a_mark_and_a_mark_no_group():
    with pytest.raises(ValueError, match="needs a `mark`"):
        event(group="move")

    assert event(mark="left").mark == "left"


@pytest.mark.parametrize("field", ["from_frame", "to_frame"])
def test_frames_of_a_span_may_be_negative(field: str):
    for frame in (-NUMBER_MAX, NUMBER_MAX):
        assert getattr(msgspec.convert(msgspec.to_builtins(covered(**{field: frame})), Covered), field) == frame
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(msgspec.to_builtins(covered(**{field: -NUMBER_MAX - 1})), Covered)


def test_what_an_answer_does_not_say_is_not_there():
    assert msgspec.to_builtins(EventAccepted()) == {"outcome": "accepted"}
    assert msgspec.to_builtins(LoopDelivered([], None, 0)) == {
        "outcome": "delivered",
        "events": [],
        "delivery": None,
        "pending": 0,
    }
    assert msgspec.to_builtins(SpanCovered([], 3)) == {"outcome": "covered", "events": [], "already": 3}
