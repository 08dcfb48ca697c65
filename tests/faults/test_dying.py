"""Each point is where its name says: what a lone request finds when the process dies there."""

from pathlib import Path

import httpx
import pytest

from tests.faults.dying import Died, Dying, dying
from tests.faults.points import POINTS

LONE = [name for name, point in POINTS.items() if point.keeps is not None]
BEGIN = {"layer": "base", "target": "Run"}
SCENE = "/v1/scenes/match-7"
HERO = f"{SCENE}/characters/hero"


def spawned(served: Dying) -> None:
    """Return when the service has done with it: while it answers the next, it is no longer answering this."""
    assert httpx.put(served.url + HERO, json={}).status_code == 201
    assert httpx.get(served.url + HERO).status_code == 200


def begun(served: Dying) -> bool:
    """Ask for a transition; say whether the answer came."""
    try:
        return httpx.post(f"{served.url}{HERO}/begin", json=BEGIN).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("point", LONE)
def test_a_process_that_dies_at_a_point_has_kept_and_answered_what_the_point_says(tmp_path: Path, point: str):
    journal = f"sqlite:{tmp_path / 'p.db'}"

    with dying(journal) as served:
        spawned(served)
        served.doom.tell(point, 1)
        # The power cut needs a sync before it, to which it goes back.
        before = 1 if point == "what is not synced lost" else 0
        assert all(begun(served) for _ in range(before))
        is_answered = begun(served)
        served.died()
    with dying(journal) as served:
        sequence = httpx.get(served.url + SCENE).json()["sequence"]

    assert is_answered == POINTS[point].answers
    assert sequence == 1 + before + (1 if POINTS[point].keeps else 0)


def test_a_process_can_die_while_it_starts_and_starts_again_with_everything(tmp_path: Path):
    """A start moves the log that a killed process left into the database."""
    journal = f"sqlite:{tmp_path / 'p.db'}"
    with dying(journal) as served:
        spawned(served)

    for passages in (1, 2):
        with pytest.raises(Died), dying(journal, at=("page of the log moved", passages)):
            pass

    with dying(journal) as served:
        assert httpx.get(served.url + HERO).status_code == 200


def test_a_process_that_is_told_nothing_lives(tmp_path: Path):
    with dying(f"sqlite:{tmp_path / 'p.db'}") as served:
        spawned(served)
        assert begun(served)
        with pytest.raises(AssertionError, match="lives"):
            served.died(wait_s=0)
