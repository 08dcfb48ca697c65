from collections.abc import Iterator
from pathlib import Path

import pytest

from app.journal.port import START, JournalDamaged
from app.journal.sqlite_chain import Digests
from app.journal.sqlite_examination import Examination
from app.journal.sqlite_file import DatabaseFile, recognise
from app.journal.sqlite_marks import Marks
from app.journal.sqlite_tables import Tables


class Made:
    """A scene of ten entries (of two sequences each), a checkpoint after the seventh, the first two trimmed."""

    def __init__(self, path: Path) -> None:
        self.file = DatabaseFile(str(path), read_only=False)
        self.connection = self.file.connect(writing=True)
        self.digests = Digests(recognise(self.connection, self.file.path))
        self.marks = Marks(self.file.path, self.digests, read_only=False)
        tables = Tables(self.connection, self.digests, self.marks)
        tables.begin()
        self.positions = [START]
        for first in range(1, 20, 2):
            self.positions.append(
                tables.append("room", after=self.positions[-1], first=first, last=first + 1, blob=b"%d" % first)
            )
        tables.checkpoint("room", position=self.positions[7], header=b"h", changed={"hero": b"1"}, listed=True)
        tables.commit()

    def trim(self) -> None:
        tables = Tables(self.connection, self.digests, self.marks)
        tables.begin()
        tables.trim("room", before=self.positions[2])
        tables.commit()

    def change(self, statement: str, *positions: int) -> None:
        self.connection.execute(statement, [self.positions[number] for number in positions])
        assert self.connection.changes() == 1

    @property
    def examined(self) -> Examination:
        return Examination(self.connection, self.digests, "room", 1)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    opened = Made(tmp_path / "journal.db")
    yield opened
    opened.connection.close()
    opened.marks.close()
    opened.file.release()


def firsts(made: Made, limit: int = 99) -> list[int]:
    return [entry.first for entry in made.examined.from_start(START, limit)]


def test_an_undamaged_scene_is_tied_from_its_start_to_its_end(made: Made):
    assert firsts(made) == list(range(1, 20, 2))
    assert firsts(made, limit=2) == [1, 3]
    assert [entry.first for entry in made.examined.from_start(made.positions[8], 9)] == [17, 19]
    assert made.examined.forgettable() == (START, 0)
    assert made.examined.highest() == 20


def test_a_trimmed_scene_has_no_start_and_nothing_more_to_be_forgotten(made: Made):
    made.trim()

    assert firsts(made) == []
    assert made.examined.forgettable() == (made.positions[2], 0)
    assert made.examined.highest() == 20


@pytest.mark.parametrize(
    ("statement", "number", "forgettable"),
    [
        ("UPDATE entries SET blob = x'00' WHERE position = ?", 4, (4, 8)),
        ("DELETE FROM entries WHERE position = ?", 4, (5, 10)),
        ("UPDATE entries SET chain = x'00' WHERE position = ?", 4, (5, 10)),
        ("UPDATE entries SET blob = x'00' WHERE position = ?", 7, (7, 14)),
        ("DELETE FROM entries WHERE position = ?", 7, (7, 14)),
        ("UPDATE entries SET blob = x'00' WHERE position = ?", 9, (0, 0)),
    ],
)
def test_what_must_be_forgotten_ends_with_the_last_entry_that_is_not_tied(
    made: Made, statement: str, number: int, forgettable: tuple[int, int]
):
    made.change(statement, number)

    position, sequence = made.examined.forgettable()

    assert (made.positions.index(position), sequence) == forgettable
    assert firsts(made)[-1] == 2 * (number - 1) - 1
    assert made.examined.highest() == 20


def test_without_a_sealed_row_there_is_no_checkpoint_but_the_entries_tell_how_far_it_came(made: Made):
    made.connection.execute("UPDATE scenes SET seal = x'00'")

    assert made.examined.row is None
    assert made.examined.highest() == 20
    with pytest.raises(JournalDamaged, match="no sound checkpoint"):
        made.examined.forgettable()


def test_a_sequence_that_nothing_sound_tells_of_is_not_believed(made: Made):
    made.change("UPDATE entries SET last = 1 << 52 WHERE position = ?", 10)

    assert made.examined.highest() == 18


def test_an_entry_is_found_by_its_position_as_the_row_or_it_itself_says(made: Made):
    made.trim()
    examined = made.examined

    assert examined.entry_at(START) == made.digests.start("room")
    assert [examined.entry_at(made.positions[number]).last for number in (2, 7, 9)] == [4, 14, 18]
    for position in (made.positions[1], made.positions[10] + 1):
        with pytest.raises(JournalDamaged, match="no entry at position"):
            examined.entry_at(position)


def test_a_scene_without_a_row_is_examined_as_one_that_was_just_made(made: Made):
    examined = Examination(made.connection, made.digests, "attic", None)

    assert (examined.bare.id, examined.row, examined.highest()) == (2, None, 0)
