"""Marks: of clips blended into one motion, the first that brings a mark is the one that is heard.

Source: contract, section 8, "Blends and missing events": of one (group, loop, mark, kind) only the first is accepted.
"""

from collections.abc import Iterable, Mapping

from msgspec import UNSET, Struct, UnsetType

Mark = tuple[str, str]
"""(mark, kind) within one loop of one group."""

Firsts = Mapping[Mark, int]
"""By mark, the clip instance that brought it first."""

_NO_LOOPS: dict[int, dict[Mark, int]] = {}


class MarkGroup(Struct, frozen=True, array_like=True, gc=False):
    """One group: the first bringer of each mark by loop, for the loops from `highest` down that are remembered.

    `touched` orders groups by their last accepted command that brought a mark.
    """

    touched: int
    highest: int
    loops: dict[int, dict[Mark, int]]


class Marks(Struct, frozen=True, array_like=True, gc=False):
    """The groups of one character, in one life.

    Bound:     `groups_max` groups, in each the loops at most `window` below its highest, and as many marks as the
               gate lets in by asking `count_with` first.
    When full: the longest untouched group makes room.
    """

    groups: dict[str, MarkGroup] = {}

    def highest_loop(self, group: str) -> int:
        """Give the highest loop of a group's marks; 0 for a group that has none."""
        held = self.groups.get(group)
        return 0 if held is None else held.highest

    def firsts(self, group: str | UnsetType | None) -> Mapping[int, Firsts]:
        """Give by loop what a group's marks were brought by; without a group nothing."""
        held = None if group is None or group is UNSET else self.groups.get(group)
        return _NO_LOOPS if held is None else held.loops

    def count_with(self, group: str, brought: Iterable[tuple[int, Mark]], window: int) -> int:
        """Give how many marks a group would remember if these new ones, by loop, were added."""
        held, loops = self.groups.get(group), [loop for loop, _ in brought]
        kept = [] if held is None else [(loop, len(marks)) for loop, marks in held.loops.items()]
        oldest = max([*loops, *(loop for loop, _ in kept)], default=0) - window
        return sum(count for loop, count in kept if loop >= oldest) + sum(loop >= oldest for loop in loops)

    def with_marks(
        self,
        group: str,
        brought: Iterable[tuple[int, Mark]],
        *,
        instance: int,
        window: int,
        groups_max: int,
        touched: int,
    ) -> "Marks":
        """Remember that `instance` brought these marks first; `touched` is the character's new revision."""
        added: dict[int, dict[Mark, int]] = {}
        for loop, mark in brought:
            added.setdefault(loop, {})[mark] = instance
        if not added:
            return self
        groups = self.groups.copy()
        held = groups.pop(group, None)
        while len(groups) >= groups_max:
            del groups[min(groups, key=lambda name: groups[name].touched)]
        before = _NO_LOOPS if held is None else held.loops
        highest = max(*added, -1 if held is None else held.highest)
        loops = {loop: marks for loop, marks in before.items() if loop >= highest - window}
        for loop, marks in added.items():
            if loop >= highest - window:
                loops[loop] = {**loops.get(loop, {}), **marks}
        groups[group] = MarkGroup(touched, highest, loops)
        return Marks(groups)

    def without(self, group: str, loop: int, mark: Mark, *, instance: int) -> "Marks":
        """Forget a mark that `instance` brought: what brought it is withdrawn."""
        held = self.groups.get(group)
        if held is None or held.loops.get(loop, {}).get(mark) != instance:
            return self
        left = {other: first for other, first in held.loops[loop].items() if other != mark}
        loops = {**held.loops, loop: left}
        return Marks({**self.groups, group: MarkGroup(held.touched, held.highest, loops)})


NO_MARKS = Marks()
"""What a life starts with."""
