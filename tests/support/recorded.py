"""Lines of a trace made by hand, and the recorded traces of `tests/traces`."""

from pathlib import Path
from typing import Any, TypeVar

from app.replay.adapter import Played
from app.replay.trace import (
    BeginLine,
    CommitLoopLine,
    CompleteLine,
    EventLine,
    GraphCandidateLine,
    GraphRequestLine,
    MetaLine,
    ParametersLine,
    PlayLine,
    Trace,
    Value,
)

TRACES = Path(__file__).parents[1] / "traces"
NAMES = tuple(sorted(path.stem for path in TRACES.glob("*.jsonl")))

HERO = "hero"

LineT = TypeVar("LineT", bound=Played)


class Recorder:
    """Makes lines as a recorder would write them: one character, layer `base`, at a tick that can be moved on."""

    def __init__(self, character: str = HERO, layer: str = "base") -> None:
        self.character = character
        self.layer = layer
        self.tick = 0
        self.lines: list[Played] = []

    def begin(self, handle: str, target: str, believed: str = "idle") -> BeginLine:
        """Record a begin."""
        return self._kept(BeginLine(**self._envelope(), handle=handle, target=target, believed=believed))

    def complete(self, handle: str | None, target: str) -> CompleteLine:
        """Record a completion."""
        return self._kept(CompleteLine(**self._envelope(), handle=handle, target=target))

    def parameters(self, *values: tuple[str, Value]) -> ParametersLine:
        """Record a batch of parameter values."""
        return self._kept(ParametersLine(**self._envelope(), values=list(values)))

    def play(self, clip_instance: int, clip: str = "walk") -> PlayLine:
        """Record the start of a clip."""
        return self._kept(PlayLine(**self._envelope(), clip_instance=clip_instance, clip=clip))

    def event(self, clip_instance: int, loop: int = 0, frame: int = 12, kind: str = "footstep") -> EventLine:
        """Record a mark."""
        event = EventLine(**self._envelope(), clip_instance=clip_instance, loop=loop, frame=frame, kind=kind)
        return self._kept(event)

    def commit_loop(self, clip_instance: int, loop: int = 0) -> CommitLoopLine:
        """Record the end of a loop."""
        return self._kept(CommitLoopLine(**self._envelope(), clip_instance=clip_instance, loop=loop))

    def request(self, request: int, name: str) -> GraphRequestLine:
        """Record the request of a graph."""
        return self._kept(GraphRequestLine(**self._envelope(), request=request, name=name))

    def candidate(
        self,
        request: int,
        name: str,
        outputs: tuple[str, ...] = ("Animator", "GameplayEvents"),
        *,
        evaluated: bool = True,
        pose: str | None = None,
    ) -> GraphCandidateLine:
        """Record a finished load."""
        line = GraphCandidateLine(
            **self._envelope(), request=request, name=name, outputs=list(outputs), evaluated=evaluated, pose=pose
        )
        return self._kept(line)

    def trace(self, name: str = "made-by-hand") -> Trace:
        """Give what was recorded so far as a trace."""
        envelope = {**self._envelope(), "character": "", "layer": ""}
        meta = MetaLine(**envelope, engine="hand", version="1", scenario="made up")
        return Trace(name, "hand", "1", "made up", (meta, *self.lines, meta))

    def _envelope(self) -> dict[str, Any]:
        return {
            "t": self.tick / 30,
            "tick": self.tick,
            "dt": 1 / 30,
            "character": self.character,
            "layer": self.layer,
            "source": "by hand",
        }

    def _kept(self, line: LineT) -> LineT:
        self.lines.append(line)
        return line
