import pytest

from app.journal.covering import Misuse, require_checkpoint_between, require_covered
from app.journal.port import START, Superseded


@pytest.mark.parametrize("position", [5, 7, 9])
def test_a_checkpoint_may_be_anywhere_from_the_earlier_one_to_the_last_entry(position: int):
    require_checkpoint_between("room", position, lowest=5, last=9)


def test_a_checkpoint_before_the_earlier_one_is_superseded():
    with pytest.raises(Superseded, match="room"):
        require_checkpoint_between("room", 4, lowest=5, last=9)


@pytest.mark.parametrize(("position", "lowest"), [(10, 5), (10, None), (-1, None)])
def test_a_checkpoint_may_not_be_elsewhere(position: int, lowest: int | None):
    with pytest.raises(Misuse, match="room"):
        require_checkpoint_between("room", position, lowest=lowest, last=9)


def test_what_a_checkpoint_covers_may_be_forgotten():
    require_covered("room", START, checkpoint=None)
    require_covered("room", 5, checkpoint=5)


@pytest.mark.parametrize("checkpoint", [None, 4])
def test_what_no_checkpoint_covers_may_not(checkpoint: int | None):
    with pytest.raises(Misuse, match="room"):
        require_covered("room", 5, checkpoint=checkpoint)
