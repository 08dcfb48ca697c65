"""The roster: a bounded number of live values, the rest asleep, and nobody can tell which."""

from app.gates.character import Character
from app.gates.lives import Remains, Spawn, newborn
from app.gates.rig import default_rig
from app.gates.roster import Roster, freeze, thaw


def character(at: int = 0) -> Character:
    return newborn(Spawn(), default_rig(), Remains(), at=at)


def filled(hot_max: int, *names: str) -> Roster:
    roster = Roster(hot_max=hot_max)
    for at, name in enumerate(names):
        roster.put(name, character(at))
        roster.cool(1)
    return roster


def test_a_thawed_character_equals_the_frozen_one_and_freezes_alike():
    held = character(7)

    assert thaw(freeze(held)) == held
    assert freeze(thaw(freeze(held))) == freeze(held)


def test_the_longest_untouched_goes_to_sleep_and_is_given_as_before():
    roster = filled(2, "a", "b", "c")

    assert [roster.get(name) for name in "abc"] == [character(0), character(1), character(2)]
    assert roster.get("a") is not roster.get("a")
    assert roster.get("c") is roster.get("c")


def test_a_touched_one_stays_awake():
    roster = filled(2, "a", "b")
    roster.put("a", character(9))

    roster.put("c", character(2))
    roster.cool(1)

    assert roster.get("a") is roster.get("a")
    assert roster.get("b") is not roster.get("b")


def test_only_so_many_go_to_sleep_at_once():
    roster = Roster(hot_max=1)
    for at, name in enumerate("abcde"):
        roster.put(name, character(at))

    roster.cool(2)
    awake = [name for name in "abcde" if roster.get(name) is roster.get(name)]
    roster.cool(9)

    assert awake == ["c", "d", "e"]
    assert [name for name in "abcde" if roster.get(name) is roster.get(name)] == ["e"]


def test_blobs_are_the_same_awake_and_asleep():
    awake, asleep = filled(9, "a", "b"), filled(1, "a", "b")

    assert [awake.blob(name) for name in "ab"] == [asleep.blob(name) for name in "ab"]


def test_names_are_ascending_and_follow_who_comes_and_goes():
    roster = filled(1, "b", "a", "Z")
    before = list(roster.names())

    roster.remove("a")
    roster.load("c", freeze(character()))

    assert before == ["Z", "a", "b"]
    assert roster.names() == ["Z", "b", "c"]
    assert (len(roster), "a" in roster, "c" in roster) == (3, False, True)


def test_who_is_not_there_is_not_given():
    roster = filled(1, "a", "b")
    roster.remove("a")
    roster.remove("b")

    assert (roster.get("a"), roster.blob("b"), list(roster)) == (None, None, [])


def test_what_a_reader_got_never_changes():
    roster = filled(1, "a")
    seen = roster.get("a")

    roster.put("a", character(9))

    assert seen == character(0)


def test_clearing_lets_go_of_all():
    roster = filled(1, "a", "b")

    roster.clear()

    assert (len(roster), roster.names(), roster.get("a")) == (0, [], None)


def test_a_roster_that_is_kept_still_stays_as_it_was():
    roster = filled(1, "a", "b", "c")
    still = roster.still()

    roster.put("a", character(9))
    roster.put("d", character(3))
    roster.cool(4)
    roster.remove("b")

    assert list(still) == ["a", "b", "c"]
    assert still.names() == ["a", "b", "c"]
    assert [still.get(name) for name in "abc"] == [character(0), character(1), character(2)]
    assert list(roster) == ["a", "c", "d"]
