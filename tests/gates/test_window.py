"""The window: which loops are taken, by instance and by group. Contract, sections 6 and 8."""

import pytest
from msgspec import UNSET, UnsetType

from app.gates.clip import ClipInstance
from app.gates.event_commands import Enqueue
from app.gates.marks import NO_MARKS, Marks
from app.gates.window import Reach, doubled_mark, is_full, late_in_group, marked, refusal_of_loops
from tests.support.rigs import rig

RIG = rig(loop_window=2, events_per_instance=2)
OPENED = ClipInstance(1, 0, 1)
STARTED = OPENED.with_waiting(10, (1, "a"), None, 1)
COMMITTED = STARTED.with_committed(10, 2)
MARKS = NO_MARKS.with_marks("move", [(10, ("left", "step"))], instance=3, window=2, groups_max=4, touched=1)
EVENT = Enqueue(clip_instance=4, loop=10, frame=0, kind="step", group="move", mark="left")


def word(
    held: ClipInstance, lowest: int, highest: int, start: int, group: str | UnsetType = UNSET, marks: Marks = MARKS
) -> str | None:
    refused = refusal_of_loops(Reach(7, group, 1, lowest, highest, start), held, marks, RIG)
    return None if refused is None else str(refused.outcome)


@pytest.mark.parametrize(
    ("held", "lowest", "highest"),
    [(OPENED, 8, 12), (STARTED, 8, 12), (COMMITTED, 10, 12)],
    ids=["new", "started", "committed"],
)
def test_a_report_must_lie_within_the_window_whole(held: ClipInstance, lowest: int, highest: int):
    assert word(held, lowest, highest, 10) is None
    assert word(held, lowest - 1, highest, 10) == "late_loop"
    assert word(held, lowest, highest + 1, 10) == "beyond_window"
    assert word(held, lowest - 1, highest + 1, 10) == "late_loop"


def test_an_older_epoch_comes_before_the_window():
    refused = refusal_of_loops(Reach(7, UNSET, 2, 0, 99, 0), COMMITTED, MARKS, RIG)

    assert refused is not None
    assert (refused.outcome, refused.by, refused.clip_instance) == ("stale_epoch", {"epoch": 2}, 7)


def test_a_loop_that_its_group_has_forgotten_is_late_before_it_is_beyond_the_window():
    assert word(OPENED, 8, 8, 8, "move") is None
    assert word(OPENED, 7, 7, 7, "move") == "late_loop"
    assert word(OPENED, 7, 7, 7, "aim") is None
    assert word(OPENED, 7, 99, 7, "move") == "late_loop"
    assert word(STARTED, 8, 99, 8, "move") == "beyond_window"


def test_a_report_that_goes_back_further_than_its_group_remembers_is_late():
    """The marks of loop 12, which come first, let those of loop 9 be forgotten."""
    assert word(STARTED, 10, 12, 12, "aim") is None
    assert word(STARTED, 9, 12, 12, "aim") == "late_loop"
    assert word(STARTED, 9, 12, 9, "aim") is None


def test_a_late_loop_of_a_group_names_both():
    refused = late_in_group(MARKS, "move", 7, RIG, 4)

    assert refused is not None
    assert (refused.at, refused.by, refused.clip_instance) == ("loop", {"group": "move", "loop": 10}, 4)


def test_a_doubled_mark_names_who_brought_it_first_and_itself_only_when_open():
    opened, unopened = doubled_mark(MARKS, EVENT, is_open=True), doubled_mark(MARKS, EVENT, is_open=False)

    assert opened is not None
    assert unopened is not None
    assert (opened.outcome, opened.by, opened.clip_instance) == ("duplicate", {"clip_instance": 3}, 4)
    assert (unopened.by, unopened.clip_instance) == ({"clip_instance": 3}, UNSET)
    assert doubled_mark(NO_MARKS, EVENT, is_open=True) is None


def test_a_group_is_full_when_it_would_remember_more_marks_than_the_rig_allows():
    assert marked(EVENT) == (10, ("left", "step"))
    assert not is_full(MARKS, "move", [(10, ("left", "dust"))], RIG)
    assert is_full(MARKS, "move", [(10, ("left", "dust")), (10, ("right", "dust"))], RIG)
    assert not is_full(MARKS, "move", [(99, ("left", "dust")), (99, ("right", "dust"))], RIG)
