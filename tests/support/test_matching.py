"""A matcher that lets a wrong answer pass would make every scenario worthless."""

import pytest

from tests.support.matching import differences

FITTING = [
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": {"b": 1}}, {"a": {"b": 1.0, "c": 2}}),
    ({"a": "<absent>"}, {"b": 1}),
    ({"a": "*"}, {"a": None}),
    ([1, {"a": 1}], [1, {"a": 1, "b": 2}]),
    ([1, "..."], [1, 2, 3]),
    ({"=": {"a": "*", "b": [1]}}, {"b": [1], "a": {"c": 1}}),
    ({"a": {"!": 1}}, {"a": 2}),
    ("<time>", "2026-11-30T10:00:00.123Z"),
    ({}, {"a": 1}),
    ([], []),
]

UNFITTING = [
    ({"a": 1}, {"a": 2}),
    ({"a": 1}, {}),
    ({"a": None}, {}),
    ({"a": "*"}, {}),
    ({"a": "<absent>"}, {"a": None}),
    (1, True),
    (0, False),
    (True, 1),
    ("1", 1),
    (None, 0),
    ([1], [1, 2]),
    ([1, 2], [1]),
    ([1, "..."], []),
    ([], {}),
    ({}, []),
    ({"a": 1}, None),
    ({"=": {"a": 1}}, {"a": 1, "b": 2}),
    ({"=": {"a": {"b": 1}}}, {"a": {"b": 1, "c": 2}}),
    ({"=": [{"a": 1}]}, [{"a": 1, "b": 2}]),
    ({"a": {"!": 1}}, {"a": 1}),
    ({"a": {"!": 1}}, {}),
    ("<time>", "2026-11-30 10:00:00"),
    ("<time>", 1796000000000),
]


@pytest.mark.parametrize(("expected", "came"), FITTING)
def test_what_fits_has_no_differences(expected: object, came: object) -> None:
    assert list(differences(expected, came)) == []


@pytest.mark.parametrize(("expected", "came"), UNFITTING)
def test_what_does_not_fit_is_told(expected: object, came: object) -> None:
    assert list(differences(expected, came)) != []


def test_a_difference_names_its_place() -> None:
    expected = {"a": [{"b": 1}]}

    assert list(differences(expected, {"a": [{"b": 2}]})) == ["answer.a[0].b: expected 1, came 2"]
