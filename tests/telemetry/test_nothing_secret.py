"""Nothing secret is written: not in a log line, not in a span, not in a metric, whatever went wrong on the way."""

import json
import socket
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.telemetry.export import sampling
from app.telemetry.tracing import Tracing
from tests.support.process import process
from tests.telemetry.conftest import Serve, Written

SECRET = "hunter2"
HERO = "/v1/scenes/match-7/characters/hero"
HEADERS = {
    "Authorization": f"Bearer posegate_{SECRET}",
    "Cookie": f"session={SECRET}",
    "X-Api-Key": SECRET,
    "Idempotency-Key": f"key-{SECRET}",
    "traceparent": f"00-{SECRET}",
    "tracestate": f"vendor={SECRET}",
    "baggage": f"user={SECRET}",
    "User-Agent": SECRET,
    "Referer": f"http://{SECRET}",
    "X-Request-Id": f"two words {SECRET}",
}
UNAUTHORISED = {name: value for name, value in HEADERS.items() if name != "Authorization"}
TOKEN = {"character": "hero", "layer": "base", "epoch": 1, "generation": 9, "from": "Idle", "to": "Run"}
BODIES: list[tuple[str, Any]] = [
    ("begin", {"layer": "base", "target": "Run", "data": {"note": SECRET}}),
    ("begin", {"layer": SECRET, "target": SECRET}),
    ("begin", {"layer": "base", SECRET: SECRET}),
    ("complete", {"token": {**TOKEN, "seal": f"1-{SECRET}"}}),
    ("complete", {"token": SECRET}),
    ("fail", {"token": {**TOKEN, "seal": f"1-{SECRET}"}, "why": SECRET}),
    ("commit-parameters", {"values": [{"name": SECRET, "value": 1}]}),
    ("enqueue", {"clip_instance": 1, "loop": 0, "frame": 1, "kind": "step", "payload": {"text": SECRET}}),
    (SECRET, {}),
]


def quoting(app: FastAPI) -> None:
    """Add a route whose fault quotes everything it was sent."""

    @app.post("/faulty")
    async def faulty(request: Request) -> None:
        body = (await request.body()).decode()
        try:
            raise KeyError(body)
        except KeyError as error:
            raise RuntimeError(f"{request.headers} {request.url} {body}") from error


async def ask_everything(client: httpx.AsyncClient) -> set[int]:
    """Put the secret in every place that a request has; give the statuses of the answers."""
    statuses = {(await client.put(HERO, json={})).status_code}
    for name, body in BODIES:
        for headers in (HEADERS, UNAUTHORISED):
            statuses.add((await client.post(f"{HERO}/{name}?token={SECRET}", json=body, headers=headers)).status_code)
        command = {"command": name, "character": "hero", **body}
        statuses.add((await client.post("/v1/scenes/match-7/batch", json={"commands": [command]})).status_code)
    for content in (f'{{"layer": "{SECRET}"', f'{{"{SECRET}": 1, "{SECRET}": 2}}', f"\xff{SECRET}"):
        response = await client.post(f"{HERO}/begin", content=content, headers={"Content-Type": "application/json"})
        statuses.add(response.status_code)
    for path in (f"/{SECRET}", f"/v1/scenes/%2F{SECRET}", f"/v1/scenes/{SECRET}!", f"/v1/scenes?after={SECRET}!"):
        statuses.add((await client.get(path, headers=UNAUTHORISED)).status_code)
    statuses.add((await client.post(f"/faulty?token={SECRET}", content=SECRET, headers=HEADERS)).status_code)
    await client.delete("/v1/scenes/match-7")
    return statuses


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def tracing(exporter: InMemorySpanExporter) -> Tracing:
    provider = sampling(1.0)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Tracing(provider)


async def test_a_run_with_secrets_in_every_place_logs_and_counts_none(serve: Serve, written: Written):
    async with serve(prepare=quoting) as client:
        statuses = await ask_everything(client)
        metrics = (await client.get("/metrics")).text
    lines = written()

    assert {201, 200, 400, 401, 404, 422, 500} <= statuses
    assert {"request", "request-failed", "fault"} <= {line["event"] for line in lines}
    assert not [line for line in lines if SECRET in json.dumps(line)]
    assert SECRET not in metrics


async def test_spans_tell_no_header_query_or_body(serve: Serve, exporter: InMemorySpanExporter):
    """They do tell the path, where nothing secret belongs; the log does not even tell that."""
    async with serve(tracing(exporter), prepare=quoting) as client:
        for name, body in BODIES[:-1]:
            await client.post(f"{HERO}/{name}?token={SECRET}", json=body, headers=HEADERS)
            await client.post(f"{HERO}/{name}?token={SECRET}", json=body, headers=UNAUTHORISED)
        await client.post(f"/faulty?token={SECRET}", content=SECRET, headers=HEADERS)

    spans = exporter.get_finished_spans()
    assert len(spans) > 8
    assert not [span.name for span in spans if SECRET in span.to_json()]


def test_a_serving_process_writes_json_lines_only_and_nothing_secret(capfd: pytest.CaptureFixture[str]):
    """Whoever writes: the service, its server, or a library."""
    with process("memory:", log_level="debug") as served:
        with httpx.Client(base_url=served.url, timeout=30) as client:
            client.put(HERO, json={})
            for name, body in BODIES[:-1]:
                for headers in (HEADERS, UNAUTHORISED):
                    client.post(f"{HERO}/{name}?token={SECRET}", json=body, headers=headers)
        for garbage in (f"{SECRET}\r\n\r\n", f"GET / HTTP/1.1\r\n{SECRET}\r\n\r\n", f"GET /{SECRET} HTTP/9\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", served.port), timeout=30) as connection:
                connection.sendall(garbage.encode())
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass
        served.terminate()
        assert served.ended() == 0
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]

    assert len([line for line in lines if line["event"] == "request"]) == 1 + 2 * (len(BODIES) - 1)
    assert not [line for line in lines if SECRET in json.dumps(line)]
