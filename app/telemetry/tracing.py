"""Traces: spans of turns and appends, what joins them to the requests that caused them, and where they are sent."""

import asyncio
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, StatusCode, TraceFlags, Tracer

from app import __version__

if TYPE_CHECKING:
    from fastapi.telemetry import TelemetryConfig
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.util.types import AttributeValue

LINKS_MAX = 128
"""How many submissions a turn's span links to: as many as the library keeps of one span."""

CLOSE_S = 2
"""Longest time that closing waits for the last spans to be sent, seconds."""

_UNWATCHED = frozenset({"/livez", "/readyz", "/metrics"})
_PARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_NOTHING: AbstractContextManager[None] = nullcontext()


def traceparent_of(span: Span) -> str:
    """Give a span's context as the `traceparent` header has it (W3C)."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def context_of(traceparent: str) -> SpanContext | None:
    """Give the context that a `traceparent` names; None for one that names none."""
    parts = _PARENT.fullmatch(traceparent)
    if parts is None:
        return None
    flags = TraceFlags(int(parts[3], 16))
    context = SpanContext(int(parts[1], 16), int(parts[2], 16), is_remote=True, trace_flags=flags)
    return context if context.is_valid else None


def link(span: Span, traceparents: Iterable[str]) -> None:
    """Join a span that has not ended to others, but not to itself."""
    own = span.get_span_context().span_id
    for traceparent in traceparents:
        context = context_of(traceparent)
        if context is not None and context.span_id != own and span.is_recording():
            span.add_link(context)


class Tracing:
    """One service's spans. Without a provider there are none, and asking for them costs next to nothing.

    A turn is traced when one of the requests in it is: its span is the child of the first of them and links to all.

    Bound:     `LINKS_MAX` links a turn; what waits to be sent is the provider's to bound.
    """

    def __init__(self, provider: "TracerProvider | None" = None) -> None:
        self._provider = provider
        self._tracer: Tracer | None = None if provider is None else provider.get_tracer("posegate", __version__)

    @classmethod
    def to(cls, endpoint: str, *, ratio: float) -> "Tracing":
        """Trace to an OTLP collector (HTTP): `endpoint` is its base address; none traces nothing.

        `ratio` is the share of traces begun here that are kept; a caller's own decision about its trace is followed.

        Raises:
            ValueError: `endpoint` is no http or https address.
        """
        if not endpoint:
            return cls()
        # The larger part of OpenTelemetry is imported by those only who trace.
        from app.telemetry.export import exporting  # noqa: PLC0415

        return cls(exporting(endpoint, ratio=ratio))

    @property
    def is_on(self) -> bool:
        """Say whether requests have spans."""
        return self._provider is not None

    def of_requests(self) -> "TelemetryConfig":
        """Give FastAPI's own telemetry its settings: spans of requests where there is tracing, nothing else.

        Its metrics would count again what `/metrics` has, and its log records hold the messages of failures.
        """
        return {
            "tracer_provider": self._provider,
            "tracing": self._provider is not None,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
            "exclude": lambda scope: scope["path"] in _UNWATCHED,
        }

    def caller(self) -> Span | None:
        """Give the span of the request being answered here; None when it is not traced."""
        if self._tracer is None:
            return None
        span = trace.get_current_span()
        return span if span.is_recording() else None

    def turn(self, scene: str, callers: Sequence[Span]) -> AbstractContextManager[None]:
        """Trace a turn for the requests in it that are traced; without any, nothing."""
        if self._tracer is None or not callers:
            return _NOTHING
        links = [Link(caller.get_span_context()) for caller in callers[:LINKS_MAX]]
        parent = trace.set_span_in_context(callers[0], Context())
        return _Traced(self._tracer, "turn", parent, links, {"posegate.scene": scene})

    def append(self, *, first: int, last: int, size: int) -> AbstractContextManager[None]:
        """Trace an append inside a turn that is traced; without one, nothing."""
        if self._tracer is None or not trace.get_current_span().is_recording():
            return _NOTHING
        about = {"posegate.sequence.first": first, "posegate.sequence.last": last, "posegate.entry.bytes": size}
        return _Traced(self._tracer, "append", None, [], about)

    async def close(self) -> None:
        """Send what waits, for at most `CLOSE_S` seconds. Spans that end later are dropped."""
        if self._provider is None:
            return
        # A daemon, so that a collector that does not answer keeps nobody from ending.
        sending = threading.Thread(target=self._provider.shutdown, name="last-spans", daemon=True)
        sending.start()
        await asyncio.to_thread(sending.join, CLOSE_S)


class _Traced(AbstractContextManager[None]):
    """A span while a block runs. A failure is noted by its type; its message may quote a request."""

    def __init__(
        self,
        tracer: Tracer,
        name: str,
        parent: Context | None,
        links: Sequence[Link],
        about: "Mapping[str, AttributeValue]",
    ) -> None:
        self._span = tracer.start_span(name, context=parent, links=links, attributes=about)
        self._current = trace.use_span(self._span, record_exception=False, set_status_on_exception=False)

    def __enter__(self) -> None:
        self._current.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if kind is not None:
            self._span.set_attribute("error.type", kind.__name__)
            self._span.set_status(StatusCode.ERROR)
        self._current.__exit__(kind, error, where)
        self._span.end()
