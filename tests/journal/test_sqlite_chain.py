import pytest

from app.journal.port import SealSecret
from app.journal.sqlite_chain import Digests, Link, Row, as_total, packed_secrets, secrets_of

DIGESTS = Digests(b"a secret of thirty-two bytes    ")
START = DIGESTS.start("room")


def row(**changed: object) -> Row:
    made = Row(1, "room", *START, 1, None, None, None, None, None, 0, as_total(0), b"")
    return DIGESTS.sealed(made._replace(**changed))  # type: ignore[arg-type]  # by name


def entry(before: Link, position: int = 3, blob: bytes = b"turn") -> tuple[int, int, int, bytes, bytes]:
    return position, 5, 9, blob, DIGESTS.chain(before.chain, position, 5, 9, blob)


def test_an_entry_follows_the_one_it_was_tied_to():
    assert DIGESTS.follows(START, entry(START))


@pytest.mark.parametrize(
    "changed",
    [{0: 4}, {1: 6}, {2: 8}, {3: b"turm"}, {3: "turn"}, {3: None}, {4: bytes(16)}, {4: None}, {0: "3"}, {2: 9.0}],
)
def test_an_entry_of_which_anything_is_otherwise_follows_nothing(changed: dict[int, object]):
    stored = tuple(changed.get(place, value) for place, value in enumerate(entry(START)))

    assert not DIGESTS.follows(START, stored)


def test_an_entry_follows_neither_another_one_nor_another_scenes_start_nor_another_journals():
    other = Digests(b"another secret of 32 bytes      ")

    assert not DIGESTS.follows(Link(3, 9, entry(START)[4]), entry(START))
    assert not DIGESTS.follows(DIGESTS.start("hall"), entry(START))
    assert not other.follows(other.start("room"), entry(START))


@pytest.mark.parametrize("column", [name for name in Row._fields if name not in ("name", "seal")])
def test_a_row_of_which_any_column_is_otherwise_is_not_sealed(column: str):
    sealed = row()

    assert DIGESTS.is_sealed(sealed, "room")
    assert not DIGESTS.is_sealed(sealed._replace(**{column: "otherwise"}), "room")  # type: ignore[arg-type]  # on purpose


def test_a_row_is_sealed_for_its_own_name():
    assert not DIGESTS.is_sealed(row(), "hall")
    assert not DIGESTS.is_sealed(row()._replace(name="hall"), "hall")


def test_what_a_row_says_of_its_checkpoint_and_its_floor():
    assert row().covered is None
    assert row().trimmed == START
    assert row(position=7, last=20, chain=b"c").covered == Link(7, 20, b"c")
    assert row(floor=7, floor_last=20, floor_chain=b"c").trimmed == Link(7, 20, b"c")


def test_a_character_can_leave_a_sum_without_the_others_being_read():
    hero, orc = DIGESTS.character("room", "hero", b"1"), DIGESTS.character("room", "orc", b"1")

    assert as_total(hero + orc - hero) == as_total(orc)
    assert as_total(-1) == b"\xff" * 16
    assert len({hero, orc, DIGESTS.character("hall", "hero", b"1"), DIGESTS.character("room", "hero", b"2")}) == 4


def test_secrets_are_packed_only_where_there_are_any():
    secrets = (SealSecret(7, b"secret", b"granted"), SealSecret(90, b"another", b""))

    assert packed_secrets(()) is None
    assert secrets_of(None) == ()
    assert secrets_of(packed_secrets(secrets)) == secrets
    assert DIGESTS.content(None) is None
