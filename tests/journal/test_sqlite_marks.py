import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.journal.port import JournalDamaged, JournalUnavailable
from app.journal.sqlite_chain import Digests, Link
from app.journal.sqlite_marks import RESERVED_SLOTS, SLOT_BYTES, Mark, Marks, named

DIGESTS = Digests(b"a secret of thirty-two bytes    ")
END = Link(7, 20, b"the chain so far")


@pytest.fixture
def database(tmp_path: Path) -> str:
    Marks.make(str(tmp_path / "journal.db"))
    return str(tmp_path / "journal.db")


@pytest.fixture
def marks(database: str) -> Iterator[Marks]:
    opened = Marks(database, DIGESTS, read_only=False)
    yield opened
    opened.close()


def reopened(marks: Marks) -> Marks:
    return Marks(marks.path.removesuffix(".mark"), DIGESTS, read_only=True)


def mark(marks: Marks, number: int, name: str = "room", end: Link = END) -> None:
    """Make and mark a scene, as the writer does."""
    marks.reserve(number)
    marks.learn(number, name)
    marks.write([(number, named(name), end)])


def damage(marks: Marks, place: int) -> None:
    path = Path(marks.path)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["room", "r", "x" * 128, "\N{SNOWMAN}"])
def test_a_mark_is_read_as_it_was_written_at_once_and_later(marks: Marks, name: str):
    mark(marks, 3, name)

    assert marks.read(3) == Mark(name, END)
    later = reopened(marks)
    assert (later.read(3), later.knows(name), later.knows("hall")) == (Mark(name, END), True, False)
    assert (later.highest_id, later.highest_position) == (3, 7)
    later.close()


@pytest.mark.parametrize("fill", [b"\xff", b"\0", b"\x01", None])
def test_damage_where_no_scene_is_makes_none_up(marks: Marks, fill: bytes | None):
    mark(marks, 1)
    path = Path(marks.path)
    content = bytearray(path.read_bytes())
    for slot in range(5, 20):
        place = slot * SLOT_BYTES
        content[place : place + SLOT_BYTES] = os.urandom(SLOT_BYTES) if fill is None else fill * SLOT_BYTES
    content[30 * SLOT_BYTES + 3] ^= 1
    path.write_bytes(content)

    later = reopened(marks)

    assert list(later.all()) == [(1, "room", Mark("room", END))]
    later.close()


def test_a_slot_that_was_made_and_not_written_says_nothing(marks: Marks):
    """A power failure between the COMMIT and the mark leaves this."""
    marks.reserve(1)

    assert marks.read(1) is None
    assert marks.read(RESERVED_SLOTS) is None
    assert list(marks.all()) == []


def test_a_slot_that_was_never_made_is_lost(marks: Marks):
    with pytest.raises(JournalDamaged, match="slot 1 of"):
        marks.read(1)


def test_slots_are_made_and_synced_before_they_are_needed_and_not_again(marks: Marks, monkeypatch: pytest.MonkeyPatch):
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)

    for number in range(1, RESERVED_SLOTS + 2):
        mark(marks, number, f"scene-{number}")

    assert len(synced) == 2
    assert all(marks.read(number) == Mark(f"scene-{number}", END) for number in (1, RESERVED_SLOTS, RESERVED_SLOTS + 1))


@pytest.mark.parametrize("place", [0, 16, 24, 32, 40, SLOT_BYTES - 1])
def test_a_flipped_bit_anywhere_in_a_slot_is_noticed_and_the_others_stay(marks: Marks, place: int):
    mark(marks, 1, "room")
    mark(marks, 2, "hall")

    damage(marks, SLOT_BYTES + place)

    with pytest.raises(JournalDamaged, match="slot 1 of"):
        marks.read(1)
    assert marks.read(2) == Mark("hall", END)
    assert [(number, found) for number, _, found in marks.all()] == [(1, None), (2, Mark("hall", END))]


def test_a_damaged_slot_still_tells_the_name_as_a_rule(marks: Marks):
    mark(marks, 1)

    damage(marks, SLOT_BYTES)

    later = reopened(marks)
    assert later.knows("room")
    later.close()


def test_a_slot_in_another_place_or_of_another_journal_is_no_mark(marks: Marks):
    mark(marks, 1)
    path = Path(marks.path)
    content = path.read_bytes()
    path.write_bytes(content[:SLOT_BYTES] * 2 + content[SLOT_BYTES : 2 * SLOT_BYTES] + content[3 * SLOT_BYTES :])
    other = Marks(marks.path.removesuffix(".mark"), Digests(b"another secret of 32 bytes      "), read_only=True)

    for opened, number in ((marks, 2), (other, 3)):
        with pytest.raises(JournalDamaged):
            opened.read(number)
    other.close()


def test_many_scenes_at_once_come_in_runs_of_neighbours(marks: Marks, monkeypatch: pytest.MonkeyPatch):
    marks.reserve(1)
    offsets: list[int] = []
    pwrite = os.pwrite

    def spy(file: int, content: bytes, offset: int) -> int:
        offsets.append(offset // SLOT_BYTES)
        return pwrite(file, content, offset)

    monkeypatch.setattr(os, "pwrite", spy)
    numbers = (9, 3, 2, 4, 30)
    marks.write([(number, named(f"scene-{number}"), END) for number in numbers])

    assert offsets == [2, 9, 30]
    assert [marks.read(number) for number in numbers] == [Mark(f"scene-{number}", END) for number in numbers]


def test_what_the_disk_does_not_take_comes_with_the_next(marks: Marks, monkeypatch: pytest.MonkeyPatch):
    mark(marks, 1, "room")
    mark(marks, 2, "hall")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        marks.write([(1, named("room"), Link(8, 21, bytes(16)))])
    assert marks.read(1) == Mark("room", END)
    marks.write([(2, named("hall"), Link(9, 22, bytes(16)))])

    assert marks.read(1) == Mark("room", Link(8, 21, bytes(16)))
    assert marks.read(2) == Mark("hall", Link(9, 22, bytes(16)))


def test_a_disk_without_room_for_a_new_scenes_slot_refuses_the_scene(marks: Marks, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(JournalUnavailable, match="no room for marks"):
            marks.reserve(1)

    mark(marks, 1)
    assert marks.read(1) == Mark("room", END)


def test_marks_that_cannot_be_synced_disturb_nobody(marks: Marks, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "cannot reach it")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", broken)
        marks.sync()
    marks.close()
    marks.close()
    marks.sync()


def test_marks_that_are_only_read_are_not_made(tmp_path: Path):
    absent = Marks(str(tmp_path / "journal.db"), DIGESTS, read_only=True)

    with pytest.raises(JournalDamaged):
        absent.read(1)
    absent.write([(1, named("room"), END)])
    assert list(tmp_path.iterdir()) == []


def test_marks_of_a_journal_are_not_taken_for_those_of_a_new_one(marks: Marks, database: str):
    mark(marks, 1)

    with pytest.raises(JournalDamaged, match=r"holds no journal, but .*mark says that it did"):
        Marks.make(database)
