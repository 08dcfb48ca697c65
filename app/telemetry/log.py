"""Log lines: one JSON object each, never a token, key, seal or body, and which request and trace they belong to."""

import logging
import sys
import traceback
from collections.abc import MutableMapping
from typing import Any

import structlog
from opentelemetry import trace

from app.telemetry.passage import present

log: structlog.stdlib.BoundLogger = structlog.get_logger("posegate")
"""The one logger. Events are short words joined by dashes; what they concern is in fields."""

FRAMES_MAX = 60
"""How many frames of a failure are logged, the innermost."""

_lowest = logging.INFO


def configure(level: str) -> None:
    """Write lines of `level` and above to standard error, those of the libraries from warning on among them."""
    global _lowest  # noqa: PLW0603  # one process has one log
    _lowest = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    structlog.configure(
        processors=[
            _belonging,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _located,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_lowest),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )
    libraries = logging.getLogger()
    libraries.handlers = [held for held in libraries.handlers if not isinstance(held, LibraryLines)]
    libraries.addHandler(LibraryLines())
    libraries.setLevel(max(_lowest, logging.WARNING))


def is_debugging() -> bool:
    """Say whether lines at debug are written, so that what only they need is not made in vain."""
    return _lowest <= logging.DEBUG


class LibraryLines(logging.Handler):
    """Writes what libraries log as lines of ours: the first line of the text, and where a failure came from."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line. The rest of a longer text may quote a request, as asyncio's do."""
        text = record.getMessage().strip().partition("\n")[0]
        failure = record.exc_info[1] if record.exc_info else None
        write = log.error if record.levelno >= logging.ERROR else log.warning
        write("library", logger=record.name, text=text, exc_info=failure)


def _belonging(_: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the ids of the request and the trace in which the line is logged, where there are any."""
    passage = present()
    span = trace.get_current_span().get_span_context()
    if passage is not None:
        line.setdefault("request_id", passage.id.decode("ascii"))
    if span.is_valid:
        line["trace_id"] = trace.format_trace_id(span.trace_id)
    elif passage is not None and passage.trace_id is not None:
        line["trace_id"] = passage.trace_id
    return line


def _located(_: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put in a failure's place what it was and where it came from.

    Its message is left out, since it may quote a request: a body, a token, a key.
    """
    failure = line.pop("exc_info", None)
    if failure is True:
        failure = sys.exc_info()[1]
    if isinstance(failure, BaseException):
        line["exception"] = "\n".join(_places(failure))
    return line


def _places(failure: BaseException) -> list[str]:
    """Give a failure's type and its frames, innermost last, after those of the failures that it came from."""
    chain: list[BaseException] = []
    at: BaseException | None = failure
    while at is not None and at not in chain:
        chain.append(at)
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    lines = []
    for each in reversed(chain):
        frames = traceback.extract_tb(each.__traceback__)[-FRAMES_MAX:]
        lines += [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        lines.append(f"{type(each).__module__}.{type(each).__qualname__}".removeprefix("builtins."))
        if isinstance(each, BaseExceptionGroup):
            lines += [f"| {line}" for inner in each.exceptions for line in _places(inner)]
    return lines
