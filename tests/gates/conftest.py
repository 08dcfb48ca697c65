"""What the tests of the gates share: a scene whose story is replayed when it is told."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.played import Played
from tests.support.ticked import TickedScene, ticked


@pytest.fixture
def room() -> Iterator[Played]:
    """A scene with `hero` and `villain`; at the end its entries must say the same, and be decided the same."""
    played = Played()
    played.spawn()
    played.spawn(who="villain")
    yield played
    played.check()


@pytest.fixture
def world() -> Iterator[Callable[..., TickedScene]]:
    """Make scenes under ticks; at the end each must replay, and answer the same when it reopens at every turn."""
    made: list[TickedScene] = []

    def make(**parts: object) -> TickedScene:
        made.append(ticked(**parts))  # type: ignore[arg-type]  # what a rig is made of, and bounds
        return made[-1]

    yield make
    for scene in made:
        scene.check()
