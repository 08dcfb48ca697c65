"""Where spans go: to an OTLP collector over HTTP, from a thread of its own."""

from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from app import __version__

EXPORT_S = 1
"""Longest time that sending one batch of spans may take, retries included, seconds."""


class WithoutQuery(SpanProcessor):
    """Takes the query out of a request's span: FastAPI writes it as it came, and it may hold what is secret."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Overwrite the query, where the span has one."""
        if span.attributes and "url.query" in span.attributes:
            span.set_attribute("url.query", "REDACTED")


def sampling(ratio: float) -> TracerProvider:
    """Give a provider that keeps a share of the traces begun here, or as a caller decided, and sends nothing yet."""
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(ratio)),
        resource=Resource.create({"service.name": "posegate", "service.version": __version__}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(WithoutQuery())
    return provider


def exporting(endpoint: str, *, ratio: float) -> TracerProvider:
    """Give a provider that sends to the collector at `endpoint`, its base address.

    Bound: what OpenTelemetry's `OTEL_BSP_…` variables say, by default 2,048 spans waiting; beyond, they are dropped.

    Raises:
        ValueError: `endpoint` is no http or https address.
    """
    address = urlsplit(endpoint)
    if address.scheme not in {"http", "https"} or not address.hostname:
        raise ValueError("otlp_endpoint takes an http or https address, such as http://127.0.0.1:4318")
    provider = sampling(ratio)
    exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces", timeout=EXPORT_S)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider
