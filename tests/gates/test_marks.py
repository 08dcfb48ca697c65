"""Marks: the first bringer in a group is remembered, within bounds. Contract, section 8."""

import msgspec

from app.gates.marks import NO_MARKS, Marks

LEFT, RIGHT = ("left", "step"), ("right", "step")


def with_marks(
    marks: Marks, group: str, *brought: tuple[int, tuple[str, str]], instance: int = 1, **fields: int
) -> Marks:
    given = {"window": 2, "groups_max": 2, "touched": 1, **fields}
    return marks.with_marks(group, brought, instance=instance, **given)


def test_the_bringer_of_a_mark_is_remembered_by_group_and_loop():
    marks = with_marks(with_marks(NO_MARKS, "walk", (4, LEFT), instance=7), "walk", (5, LEFT), (4, RIGHT), instance=8)

    assert marks.firsts("walk") == {4: {LEFT: 7, RIGHT: 8}, 5: {LEFT: 8}}
    assert marks.firsts("run") == marks.firsts(None) == marks.firsts(msgspec.UNSET) == {}
    assert (marks.highest_loop("walk"), marks.highest_loop("run")) == (5, 0)


def test_a_value_that_was_read_never_changes():
    one = with_marks(NO_MARKS, "walk", (4, LEFT))

    with_marks(one, "walk", (4, RIGHT))

    assert one.firsts("walk") == {4: {LEFT: 1}}
    assert NO_MARKS.groups == {}


def test_loops_far_below_the_highest_are_forgotten():
    marks = with_marks(NO_MARKS, "walk", *((loop, LEFT) for loop in range(4)))

    assert sorted(marks.firsts("walk")) == [1, 2, 3]
    assert sorted(with_marks(marks, "walk", (9, LEFT)).firsts("walk")) == [9]
    assert sorted(with_marks(marks, "walk", (0, LEFT)).firsts("walk")) == [1, 2, 3]


def test_what_a_group_would_remember_is_counted_before_it_does():
    marks = with_marks(NO_MARKS, "walk", (1, LEFT), (1, RIGHT), (2, LEFT))

    for brought in ([], [(2, RIGHT)], [(3, LEFT)], [(4, LEFT)], [(9, LEFT), (9, RIGHT), (6, LEFT)]):
        after = with_marks(marks, "walk", *brought)
        assert marks.count_with("walk", brought, 2) == sum(map(len, after.firsts("walk").values())), brought
    assert marks.count_with("run", [], 2) == 0
    assert marks.count_with("run", [(9, LEFT), (6, LEFT)], 2) == 1


def test_the_longest_untouched_group_makes_room():
    marks = NO_MARKS
    for touched, group in enumerate(["one", "two", "one", "three"]):
        marks = with_marks(marks, group, (0, (group, str(touched))), touched=touched)

    assert sorted(marks.groups) == ["one", "three"]


def test_nothing_brought_makes_no_group():
    assert with_marks(NO_MARKS, "walk") is NO_MARKS


def test_marks_are_stored_and_read_again():
    marks = with_marks(NO_MARKS, "walk", (4, LEFT), (5, RIGHT))

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(marks), type=Marks) == marks


def test_a_mark_is_forgotten_for_the_instance_that_brought_it_only():
    marks = with_marks(NO_MARKS, "walk", (4, LEFT), (4, RIGHT), instance=7)

    assert marks.without("walk", 4, LEFT, instance=7).firsts("walk") == {4: {RIGHT: 7}}
    assert marks.without("walk", 4, LEFT, instance=8) is marks
    assert marks.without("run", 4, LEFT, instance=7) is marks
