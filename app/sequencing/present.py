"""The present: a scene that readers look at as it is now, or kept still at one sequence while they take long."""

from collections.abc import Callable, Mapping
from weakref import WeakSet

from app.gates.roster import Roster
from app.gates.scene import Scene, SceneState
from app.gates.tally import NOTHING, Tally
from app.gates.tick import Ticks
from app.sequencing.sequencer import Sequencer

PRESENTS_MAX = 4
"""How many different presents of one scene are kept; one reader more gets the newest of them."""


class Opened:
    """A scene that readers may look at: its adopted state and what its gates refused."""

    def __init__(self, sequencer: Sequencer, scene: Scene) -> None:
        self._sequencer = sequencer
        self.scene = scene

    def tally(self, character: str) -> Tally:
        """Give what a character's gates refused in this life."""
        return self._sequencer.store.tally(character)

    def tallies(self) -> dict[str, Tally]:
        """Give the tallies of all characters, as they are now."""
        return self._sequencer.store.tallies()


class Present:
    """A scene as it stood at one sequence. Turns go on; this stays as it is.

    It holds references to immutable values, so it costs two dictionaries of the scene's characters.
    """

    __slots__ = ("__weakref__", "_tallies", "name", "roster", "state", "ticks")

    def __init__(self, scene: Scene, tallies: Mapping[str, Tally]) -> None:
        self.name = scene.name
        self.state: SceneState = scene.state
        self.ticks: Ticks = scene.ticks
        self.roster: Roster = scene.roster.still()
        self._tallies = tallies

    @property
    def sequence(self) -> int:
        """Give the sequence of the last decision that it shows."""
        return self.state.sequence

    def tally(self, character: str) -> Tally:
        """Give what a character's gates had refused."""
        return self._tallies.get(character, NOTHING)


class Presents:
    """The presents that somebody reads. Whoever asks for one holds it for as long as they read.

    Bound: `PRESENTS_MAX` a scene; beyond, the newest of them is given, which is older than the scene is now.
    """

    def __init__(self) -> None:
        self._read: WeakSet[Present] = WeakSet()

    def of(self, scene: Scene, tallies: Callable[[], Mapping[str, Tally]]) -> Present:
        """Give a scene as it is now, or as it was when as many are being read as may."""
        read = sorted((each for each in self._read if each.name == scene.name), key=lambda each: each.sequence)
        if read and (read[-1].sequence == scene.sequence or len(read) >= PRESENTS_MAX):
            return read[-1]
        present = Present(scene, tallies())
        self._read.add(present)
        return present
