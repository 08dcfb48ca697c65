"""What this node knows of the scenes it has to do with: where they end, what is forgotten, which entry holds what.

None of it is the truth, which is in the streams; it only grows, and spares looking where nothing can have changed.
"""

from bisect import bisect_left
from collections import OrderedDict, deque
from operator import attrgetter
from typing import NamedTuple

from app.journal.jetstream_forms import Head, Linked
from app.journal.port import START

SCENES_MAX = 16_384
"""Of how many scenes something is known; of the longest untouched it is forgotten first."""

STEPS_MAX = 64
"""How many entries of a scene are known by their sequences, the newest."""


class Held(NamedTuple):
    """A head, and its sequence in the stream of heads."""

    sequence: int
    head: Head


class Step(NamedTuple):
    """Where an entry lies, and which decisions it holds."""

    after: int
    position: int
    first: int
    last: int


_last = attrgetter("last")


class Known:
    """What is known of one scene."""

    __slots__ = ("_steps", "appended", "end", "floor", "held", "hinted")

    def __init__(self) -> None:
        self.end = START
        """The highest position at which there is an entry for certain."""
        self.floor = START
        """Up to where entries are forgotten for certain."""
        self.appended = START
        """The last position that this node's own append was given."""
        self.held: Held | None = None
        """The newest head that was seen."""
        self.hinted = START
        """The highest position that a hint told of since the last look: where to look, and never the truth."""
        self._steps: deque[Step] = deque(maxlen=STEPS_MAX)

    def reaches(self, position: int) -> None:
        """Note that there is an entry at `position`."""
        self.end = max(self.end, position)

    @property
    def covered(self) -> int:
        """The position of the newest head that was seen: there is an entry at it, or a later one, for certain."""
        return START if self.held is None else self.held.head.position

    def note(self, linked: Linked) -> None:
        """Note an entry that was seen or written."""
        after, entry = linked
        self.reaches(entry.position)
        if self._steps and self._steps[-1].position != after:
            if entry.position <= self._steps[-1].position:
                return
            self._steps.clear()
        self._steps.append(Step(after, entry.position, entry.first, entry.last))

    def hold(self, held: Held) -> None:
        """Note a head; an earlier one than is known already tells nothing new."""
        if self.held is None or held.sequence >= self.held.sequence:
            self.held = held
            self.floor = max(self.floor, held.head.floor)

    def after(self, sequence: int) -> int | None:
        """Give the position after which the entry lies that holds a decision; None when that is not known."""
        index = bisect_left(self._steps, sequence, key=_last)
        if index == len(self._steps) or self._steps[index].first > sequence:
            return None
        return self._steps[index].after


class Knowledge:
    """What is known of all scenes.

    Bound:     SCENES_MAX scenes, STEPS_MAX entries each.
    When full: the longest untouched scene is forgotten.
    """

    def __init__(self, scenes_max: int = SCENES_MAX) -> None:
        self._scenes: OrderedDict[str, Known] = OrderedDict()
        self._scenes_max = scenes_max

    def of(self, scene: str) -> Known:
        """Give what is known of a scene, to be added to."""
        known = self._scenes.get(scene)
        if known is None:
            known = self._scenes[scene] = Known()
            if len(self._scenes) > self._scenes_max:
                self._scenes.popitem(last=False)
        else:
            self._scenes.move_to_end(scene)
        return known

    def seen(self, scene: str) -> Known | None:
        """Give what is known of a scene, if anything is, without touching it."""
        return self._scenes.get(scene)
