"""Recorded traces: JSON Lines from real engines, read and typed line by line."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

Value = bool | int | float | str | None
"""A parameter value as recorded. NaN and infinities are the texts "NaN", "Infinity" and "-Infinity"."""


class TraceError(Exception):
    """A file is not a whole trace. The text names the file, the line and what is wrong with it."""


class Line(Struct, frozen=True, kw_only=True, tag_field="op"):
    """What every line says. `t` and `dt` are engine seconds, `tick` is the engine's frame, `source` the callback."""

    t: float
    tick: int
    dt: float
    character: str
    layer: str
    source: str


class MetaLine(Line, frozen=True, kw_only=True, tag="meta"):
    """The first line of a trace, and the last one, which has `counts`: how many lines of each op were written."""

    engine: str
    version: str
    scenario: str
    counts: dict[str, int] | None = None


class NoteLine(Line, frozen=True, kw_only=True, tag="note"):
    """A signal of the engine that stands for no command."""


class BeginLine(Line, frozen=True, kw_only=True, tag="begin"):
    """The game asked for a transition. `believed` is what its client took for the present state."""

    handle: str
    target: str
    believed: str = field(name="from")


class CompleteLine(Line, frozen=True, kw_only=True, tag="complete"):
    """The engine reported a transition as over; of which request, it may not have said."""

    target: str
    handle: str | None = None

    @property
    def request(self) -> str | None:
        """The handle, or None where the engine did not say which (`none` in a trace)."""
        return None if self.handle == "none" else self.handle


class PlayLine(Line, frozen=True, kw_only=True, tag="play"):
    """A clip started; the recorder numbers the playings of a whole recording."""

    clip_instance: int
    clip: str


class EventLine(Line, frozen=True, kw_only=True, tag="event"):
    """A mark of a clip fired."""

    clip_instance: int
    loop: int
    frame: int
    kind: str


class CommitLoopLine(Line, frozen=True, kw_only=True, tag="commit_loop"):
    """A loop of a clip ended, by the count of the client."""

    clip_instance: int
    loop: int


class ParametersLine(Line, frozen=True, kw_only=True, tag="commit_parameters"):
    """Parameter values of one frame, in the order they were computed."""

    values: list[tuple[str, Value]]


class GraphRequestLine(Line, frozen=True, kw_only=True, tag="graph_request"):
    """The game asked for another graph and started to load it."""

    request: int
    name: str


class GraphCandidateLine(Line, frozen=True, kw_only=True, tag="graph_candidate"):
    """A load ended: what it bound, and whether its first frame could be evaluated."""

    request: int
    name: str
    outputs: list[str]
    evaluated: bool
    pose: Any = None
    error: str | None = None


AnyLine = (
    MetaLine
    | NoteLine
    | BeginLine
    | CompleteLine
    | PlayLine
    | EventLine
    | CommitLoopLine
    | ParametersLine
    | GraphRequestLine
    | GraphCandidateLine
)

_DECODER: msgspec.json.Decoder[AnyLine] = msgspec.json.Decoder(AnyLine)


class Trace(Struct, frozen=True):
    """One recording: where it came from, and its lines in the order they were written."""

    name: str
    engine: str
    version: str
    scenario: str
    lines: tuple[AnyLine, ...]


def read_lines(path: Path) -> Iterator[AnyLine]:
    """Give the lines of a trace one by one.

    Raises:
        TraceError: The file cannot be read, or a line is none that a recorder writes.
    """
    try:
        with path.open("rb") as file:
            for number, text in enumerate(file, start=1):
                if text.strip():
                    yield _typed(path, number, text)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from error


def _typed(path: Path, number: int, text: bytes) -> AnyLine:
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}, line {number}: not a line of a trace ({error})") from error


def read_trace(path: Path) -> Trace:
    """Read a whole trace, and hold its lines against the counts it closes with.

    Raises:
        TraceError: The file cannot be read, does not start with a `meta` line, or was cut off or edited.
    """
    lines = tuple(read_lines(path))
    first, last = (lines[0], lines[-1]) if lines else (None, None)
    if not isinstance(first, MetaLine):
        raise TraceError(f"{path}: a trace starts with a `meta` line that names its engine")
    if not isinstance(last, MetaLine) or last.counts is None:
        raise TraceError(f"{path}: the trace was cut off: its last line has no `counts`")
    found = counted(lines[:-1])
    if found != last.counts:
        differing = next(op for op in {**found, **last.counts} if found.get(op) != last.counts.get(op))
        said, seen = last.counts.get(differing, 0), found.get(differing, 0)
        raise TraceError(f"{path}: the recorder wrote {said} lines of `{differing}`, the file holds {seen}")
    return Trace(path.stem, first.engine, first.version, first.scenario, lines)


def counted(lines: tuple[AnyLine, ...]) -> dict[str, int]:
    """Give how many lines there are of each op."""
    return dict(Counter(str(type(line).__struct_config__.tag) for line in lines))
