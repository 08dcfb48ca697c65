"""Spans go to the collector that was named, over OTLP, and one that does not answer keeps nobody from ending."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from app.telemetry.export import sampling
from app.telemetry.tracing import CLOSE_S, Tracing
from tests.telemetry.conftest import Serve


class Collector:
    """An OTLP collector that keeps what it was sent."""

    def __init__(self) -> None:
        received: list[tuple[str, ExportTraceServiceRequest]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                received.append((self.path, ExportTraceServiceRequest.FromString(body)))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self.received = received
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="collector")
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


async def test_what_ended_before_the_service_stopped_has_arrived(serve: Serve, collector: Collector):
    async with serve(otlp_endpoint=f"{collector.address}/") as client:
        await client.put("/v1/scenes/match-7/characters/hero", json={})

    names = {
        span.name
        for _, sent in collector.received
        for resource in sent.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }
    services = {
        attribute.value.string_value
        for _, sent in collector.received
        for resource in sent.resource_spans
        for attribute in resource.resource.attributes
        if attribute.key == "service.name"
    }
    assert {path for path, _ in collector.received} == {"/v1/traces"}
    assert names == {"PUT /v1/scenes/{scene}/characters/{character}", "turn", "append"}
    assert services == {"posegate"}


async def test_a_ratio_of_zero_sends_nothing(serve: Serve, collector: Collector):
    async with serve(otlp_endpoint=collector.address, trace_sample_ratio=0) as client:
        await client.put("/v1/scenes/match-7/characters/hero", json={})

    assert not collector.received


async def test_a_collector_that_takes_no_connection_delays_the_end_for_a_bounded_time(serve: Serve):
    """The service answers all the while: spans are sent from a thread of their own."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        async with (
            asyncio.timeout(CLOSE_S + 30),
            serve(otlp_endpoint=f"http://127.0.0.1:{deaf.getsockname()[1]}") as client,
        ):
            answer = await client.put("/v1/scenes/match-7/characters/hero", json={})

    assert answer.status_code == 201


@pytest.mark.parametrize("endpoint", ["memory:", "collector:4318", "ftp://collector", "http://"])
def test_what_is_no_address_is_refused(endpoint: str):
    with pytest.raises(ValueError, match="http or https address"):
        Tracing.to(endpoint, ratio=1.0)


def test_a_ratio_keeps_about_that_share_of_traces():
    tracer = sampling(0.25).get_tracer("test")

    kept = sum(tracer.start_span("request").is_recording() for _ in range(2_000))

    assert 300 < kept < 700
