"""Capacity: what all connections hold together has bounds, and what was refused is not held."""

import pytest

from app.api.capacity import Capacity
from app.api.problems import ProblemError
from app.settings import Settings


def test_times_are_the_settings_in_seconds():
    capacity = Capacity(Settings(first_byte_ms_max=1500, write_ms_max=250))

    assert (capacity.first_byte_s, capacity.write_s) == (1.5, 0.25)


def test_bodies_are_held_up_to_their_bound():
    capacity = Capacity(Settings(bodies_bytes_max=100))

    capacity.take_body(60)
    with pytest.raises(ProblemError) as refused:
        capacity.take_body(41)
    capacity.take_body(40)

    assert (refused.value.name, refused.value.limit, capacity.body_bytes) == ("overloaded", 100, 100)


def test_unread_answers_are_held_up_to_their_bound():
    capacity = Capacity(Settings(unread_bytes_max=100))

    assert [capacity.take_unread(size) for size in (60, 41, 40)] == [True, False, True]
    assert capacity.unread_bytes == 100
