"""The feed: what is decided in a scene as it happens, as values, and the place from which it goes on."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from posegate_client.calls import decisions_of
from posegate_client.problems import Problem, error_of
from posegate_client.reading import Bytes, read
from posegate_client.sse import Message
from posegate_client.views import CharacterView, Decision, SceneView


class Wanted(Struct, frozen=True, omit_defaults=True):
    """Which decisions are wanted; None wants all. `snapshot` begins with the whole scene as it is now."""

    character: str | None = None
    layer: str | None = None
    gate: str | None = None
    accepted: bool | None = None
    snapshot: bool = False

    def members(self, after: int | None) -> dict[str, Any]:
        """Give it as it is asked for, behind a place where there is one: then no snapshot is needed."""
        given: dict[str, Any] = {name: getattr(self, name) for name in ("character", "layer", "gate", "accepted")}
        given |= {"after": after, "snapshot": True if self.snapshot and after is None else None}
        return {name: value for name, value in given.items() if value is not None}


class Turn(Struct, frozen=True):
    """Decisions that became visible together, as far as they are wanted; `last` is the sequence read with them."""

    decisions: tuple[Decision, ...]
    last: int


class ScenePart(Struct, frozen=True, kw_only=True):
    """A part of a whole scene as of one sequence. One with `scene` is the first, one without `more` the last.

    Where a first part comes before the last one came, it was begun anew: let go of the parts before.
    """

    sequence: int
    characters: tuple[CharacterView, ...]
    more: bool
    scene: SceneView | None = None
    reason: str | None = None


class SceneSnapshot(ScenePart, frozen=True, kw_only=True):
    """A part of the scene with which the feed begins."""


class Reset(ScenePart, frozen=True, kw_only=True):
    """What came next is not kept any more: a part of the scene as it is instead. Let go of what you knew of it.

    `reason` is `gone` (retention took it) or `ahead` (the scene has not been so far: it is another one).
    """


class SceneClosed(Struct, frozen=True):
    """The scene was closed with the decision `sequence`. Nothing comes behind it."""

    sequence: int


FeedItem = Turn | SceneSnapshot | Reset | SceneClosed


class _End(Struct, frozen=True):
    reason: str
    sequence: int
    problem: Problem | None = None


class Place:
    """How far a feed is: `after` is the last sequence that was given, None before the first.

    Whatever was given up to it is never given again.
    """

    def __init__(self, after: int | None = None) -> None:
        self.after = after
        self.is_over = False
        self.pause_s: float | None = None
        """What the service asked for when it ended the feed for now: seconds."""

    def taken(self, message: Message) -> list[FeedItem]:
        """Take an event of a watch; give what it says. Events that a newer service adds say nothing.

        Raises:
            ProblemError: The feed ended, and asking again would not help.
            NotPosegate: It is none of posegate's.
        """
        last = int(message.id) if message.id is not None and message.id.isascii() and message.id.isdigit() else None
        if message.data is None:
            self.reached(last)
            return []
        match message.event:
            case "decisions":
                return self.decided(message.data, last)
            case "snapshot":
                return self.shown(message.data, SceneSnapshot)
            case "reset":
                return self.shown(message.data, Reset)
            case "end":
                return self.ended(message.data)
            case _:
                return []

    def reached(self, last: int | None) -> None:
        """Take note that everything up to a sequence was given, or is not wanted."""
        if last is not None:
            self.after = last if self.after is None else max(self.after, last)

    def decided(self, data: Bytes, last: int | None) -> list[FeedItem]:
        """Take decisions."""
        decisions, _ = decisions_of(data)
        if self.after is not None:
            after = self.after
            decisions = tuple(each for each in decisions if each.sequence > after)
        if last is None and decisions:
            last = decisions[-1].sequence
        self.reached(last)
        return [Turn(decisions, decisions[-1].sequence if last is None else last)] if decisions else []

    def shown(self, data: Bytes, kind: type[SceneSnapshot] | type[Reset]) -> list[FeedItem]:
        """Take a part of the scene; with the last one the feed goes on behind its sequence."""
        part = read(data, kind)
        if not part.more:
            self.after = part.sequence
        return [part]

    def ended(self, data: Bytes) -> list[FeedItem]:
        """Take why nothing more comes: for good, for now, or because of a problem that stays.

        Raises:
            ProblemError: The latter.
        """
        end = read(data, _End)
        if end.problem is None:
            self.is_over = True
            return [SceneClosed(end.sequence)]
        if not end.problem.retryable:
            self.is_over = True
            raise error_of(end.problem)
        self.pause_s = end.problem.retry_after
        return []


def given_by(item: FeedItem, before: int | None) -> int | None:
    """Give the place behind an item that was taken; within a scene that is not whole it stays where it was."""
    if isinstance(item, Turn):
        return item.last
    return item.sequence if isinstance(item, SceneClosed) or not item.more else before


def queries_of(wanted: Wanted, place: Place) -> dict[str, str]:
    """Give the queries of a watch."""
    members: Mapping[str, Any] = wanted.members(place.after)
    return {name: str(value).lower() if type(value) is bool else str(value) for name, value in members.items()}
