"""Spent numbers: runs above a floor that never falls, so that a bounded memory forgets no retirement."""

import random

from app.gates.spent import RUNS_KEPT, Runs, is_spent, spent

NOTHING: tuple[int, Runs] = (-1, ())


def after(*numbers: int) -> tuple[int, Runs]:
    floor, runs = NOTHING
    for number in numbers:
        floor, runs = spent(floor, runs, number)
    return floor, runs


def test_neighbours_join_into_one_run():
    assert after(3, 5, 4, 9) == (-1, ((3, 5), (9, 9)))


def test_a_run_that_reaches_the_floor_becomes_part_of_it():
    assert after(1, 3, 0) == (1, ((3, 3),))


def test_of_too_many_runs_the_lowest_folds_into_the_floor():
    floor, runs = after(*range(2, 2 * RUNS_KEPT + 4, 2))

    assert (floor, len(runs), runs[0]) == (2, RUNS_KEPT, (4, 4))


def test_a_number_below_the_floor_moves_nothing():
    """An open instance may lie below the floor; its retirement must not let the floor fall and free what was spent."""
    floor, runs = after(*range(2, 2 * RUNS_KEPT + 4, 2))

    assert spent(floor, runs, 1) == (floor, runs)


def test_whatever_the_order_a_spent_number_stays_spent():
    chance = random.Random(7)
    (floor, runs), seen = NOTHING, set[int]()
    for number in chance.sample(range(4 * RUNS_KEPT), 3 * RUNS_KEPT):
        floor, runs = spent(floor, runs, number)
        seen.add(number)

    assert all(is_spent(floor, runs, number) for number in seen)
    assert all(is_spent(floor, runs, number) == (number in seen) for number in range(floor + 1, 4 * RUNS_KEPT))
    assert len(runs) <= RUNS_KEPT
