import pytest

from app.gates.clip import Event
from app.gates.delivery import CHUNK, Deliveries

STEP = [Event(1, 0, 12, "footstep")]


def given(count: int, *, kept: int) -> Deliveries:
    deliveries = Deliveries()
    for _ in range(count):
        deliveries = deliveries.with_events(STEP, kept=kept)
    return deliveries


def numbers(deliveries: Deliveries, after: int = 0) -> list[int]:
    return [delivery.delivery for delivery in deliveries.readable(after)]


def test_numbers_rise_by_one_from_one():
    assert numbers(given(3, kept=256)) == [1, 2, 3]


@pytest.mark.parametrize("kept", [1, 5, CHUNK, CHUNK + 1, 3 * CHUNK])
@pytest.mark.parametrize("count", [1, 4, CHUNK, 5 * CHUNK + 3])
def test_the_last_ones_can_be_read_and_no_more_than_a_chunk_lies_below_them(count: int, kept: int):
    deliveries = given(count, kept=kept)

    assert numbers(deliveries) == list(range(max(1, count - kept + 1), count + 1))
    assert sum(map(len, deliveries.chunks)) < min(count, kept) + CHUNK


def test_none_are_kept_when_none_are_to_be_kept():
    deliveries = given(40, kept=0)

    assert (numbers(deliveries), deliveries.last, deliveries.chunks) == ([], 40, ())


def test_reading_after_a_number_gives_what_is_above_it():
    assert numbers(given(20, kept=256), after=18) == [19, 20]


def test_acknowledging_lets_go_up_to_a_number_and_never_takes_back():
    deliveries = given(20, kept=256).with_acknowledged(17)

    assert numbers(deliveries) == [18, 19, 20]
    assert deliveries.with_acknowledged(3) == deliveries
    assert len(deliveries.chunks) == 1


def test_all_acknowledged_leaves_nothing_behind():
    assert given(20, kept=256).with_acknowledged(20).chunks == ()


def test_adding_leaves_what_a_reader_holds_as_it_was():
    before = given(3, kept=4)
    held = before.readable()

    after = before.with_events(STEP, kept=4).with_events(STEP, kept=4)

    assert before.readable() == held
    assert numbers(after) == [2, 3, 4, 5]


# Deliveries with gameplay events stay until they are acknowledged


def mixed(pattern: str, *, kept: int) -> Deliveries:
    """Give deliveries: `g` for one with gameplay events, `p` for one without."""
    deliveries = Deliveries()
    for letter in pattern:
        deliveries = deliveries.with_events(STEP, kept=kept, is_gameplay=letter == "g")
    return deliveries


@pytest.mark.parametrize(
    ("pattern", "kept", "readable"),
    [
        ("ppg", 3, [1, 2, 3]),
        ("ppg", 2, [2, 3]),
        ("gpp", 2, [1, 3]),
        ("gpgpp", 3, [1, 3, 5]),
        ("ggp", 2, [1, 2]),
        ("gg", 1, [1, 2]),
        ("pgpgpgp", 5, [2, 4, 5, 6, 7]),
    ],
)
def test_the_oldest_without_gameplay_events_make_room_for_all_that_is_kept(
    pattern: str, kept: int, readable: list[int]
):
    assert numbers(mixed(pattern, kept=kept)) == readable


def test_it_is_full_when_gameplay_deliveries_take_up_all_the_room():
    assert [mixed(pattern, kept=2).is_full(2) for pattern in ("", "pp", "gp", "gg")] == [False, False, False, True]


def test_acknowledging_lets_gameplay_deliveries_go_and_makes_room():
    full = mixed("gpg", kept=2)

    after = full.with_acknowledged(1)

    assert (numbers(full), full.is_full(2)) == ([1, 3], True)
    assert (numbers(after), after.is_full(2)) == ([3], False)
    assert numbers(after.with_events(STEP, kept=2)) == [3, 4]


def test_reading_after_a_number_mixes_both_in_their_order():
    assert numbers(mixed("pgpgp", kept=9), after=2) == [3, 4, 5]


def test_many_others_around_one_that_stays_are_bounded():
    deliveries = mixed("g" + "p" * (5 * CHUNK), kept=CHUNK)

    assert numbers(deliveries) == [1, *range(4 * CHUNK + 3, 5 * CHUNK + 2)]
    assert sum(map(len, deliveries.chunks)) < 2 * CHUNK
