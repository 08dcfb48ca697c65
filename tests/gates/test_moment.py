from app.gates.moment import STILL, Moment
from app.gates.scene import Bounds, Overlay, Scene
from app.gates.tick import Ticks
from tests.support.played import SECRET


def moment(*, sealed: int, confirmed: int, window: int = 8) -> Moment:
    scene = Scene("room", SECRET, Bounds(tick_window=window))
    scene.ticks = Ticks(sealed=sealed, confirmed=confirmed)
    return Overlay(scene, 1_000).moment


def test_a_scene_that_sealed_nothing_is_in_its_first_tick_and_takes_events_of_any():
    """The first tick a game names is its own to choose: a server that was restarted goes on at 40,000."""
    assert moment(sealed=0, confirmed=0) == STILL == Moment(tick=1, confirmed=0, last=None)


def test_the_open_tick_is_the_one_after_the_sealed_and_the_window_counts_from_the_sealed():
    assert moment(sealed=7, confirmed=3, window=4) == Moment(tick=8, confirmed=3, last=11)
