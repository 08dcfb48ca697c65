from app.journal.jetstream_forms import FORMAT, Head, Linked
from app.journal.jetstream_known import STEPS_MAX, Held, Knowledge, Known
from app.journal.port import StoredEntry


def linked(after: int, position: int, first: int, last: int) -> Linked:
    return Linked(after, StoredEntry(position, first, last, b""))


def test_an_entry_that_was_seen_is_found_by_each_of_its_decisions():
    known = Known()
    known.note(linked(0, 3, 1, 10))
    known.note(linked(3, 8, 11, 20))

    assert [known.after(sequence) for sequence in (1, 10, 11, 20)] == [0, 0, 3, 3]
    assert (known.after(0), known.after(21)) == (None, None)
    assert known.end == 8


def test_entries_with_a_gap_between_are_not_taken_for_neighbours():
    """What lies in the gap is not known, so neither is which entry comes first behind it."""
    known = Known()
    known.note(linked(0, 3, 1, 10))
    known.note(linked(5, 8, 21, 30))

    assert (known.after(10), known.after(15), known.after(25)) == (None, None, 5)


def test_an_entry_that_was_seen_before_changes_nothing():
    known = Known()
    known.note(linked(0, 3, 1, 10))
    known.note(linked(3, 8, 11, 20))
    known.note(linked(0, 3, 1, 10))

    assert (known.after(1), known.after(20), known.end) == (0, 3, 8)


def test_only_the_newest_entries_are_kept():
    known = Known()
    for number in range(STEPS_MAX + 1):
        known.note(linked(number, number + 1, number, number))

    assert known.after(0) is None
    assert known.after(1) == 1
    assert known.after(STEPS_MAX) == STEPS_MAX


def test_an_earlier_head_tells_nothing_new():
    known = Known()
    newer = Held(9, Head(FORMAT, 5, 4, True, []))
    known.hold(newer)
    known.hold(Held(7, Head(FORMAT, 3, 2, True, [])))

    assert (known.held, known.floor) == (newer, 4)


def test_the_longest_untouched_scene_is_forgotten_first():
    knowledge = Knowledge(scenes_max=2)
    knowledge.of("a").reaches(1)
    knowledge.of("b").reaches(2)
    knowledge.of("a")
    knowledge.of("c")

    assert knowledge.seen("b") is None
    kept = knowledge.seen("a")
    assert kept is not None
    assert kept.end == 1


def test_what_a_head_covers_is_known_from_the_newest():
    known = Known()
    assert known.covered == 0

    known.hold(Held(9, Head(FORMAT, 5, 4, True, [])))
    known.hold(Held(7, Head(FORMAT, 3, 2, True, [])))

    assert known.covered == 5
