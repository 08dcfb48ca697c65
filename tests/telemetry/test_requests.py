"""Every request has an id, a place in the metrics, and a line in the log where its level or its status asks for one."""

import re
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.journal.port import JournalUnavailable
from tests.telemetry.conftest import Serve, Written

HERO = "/v1/scenes/match-7/characters/hero"
TEMPLATE = "/v1/scenes/{scene}/characters/{character}"
MADE = re.compile(r"[0-9a-f]{16}-[0-9a-f]+")


async def counted(client: httpx.AsyncClient) -> dict[str, float]:
    text = (await client.get("/metrics")).text
    rows = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in rows}


def raising(failure: Exception) -> Any:
    def prepare(app: FastAPI) -> None:
        @app.get("/raises")
        async def raises() -> None:
            raise failure

    return prepare


@pytest.mark.parametrize("given", ["r-1", "x" * 128, "a/b:c~!"])
async def test_a_sane_request_id_is_answered_as_it_came(serve: Serve, given: str):
    async with serve() as client:
        response = await client.get("/livez", headers={"X-Request-Id": given})

    assert response.headers.get_list("x-request-id") == [given]


@pytest.mark.parametrize("given", [b"", b"x" * 129, b"two words", b"caf\xe9", b"tab\there"])
async def test_another_one_is_replaced_by_one_that_is_made(serve: Serve, given: bytes):
    async with serve() as client:
        response = await client.get("/livez", headers=[(b"x-request-id", given)])

    assert MADE.fullmatch(response.headers["x-request-id"])


async def test_made_ids_differ(serve: Serve):
    async with serve() as client:
        made = [(await client.get("/livez")).headers["x-request-id"] for _ in range(3)]

    assert len(set(made)) == 3


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("DELETE", "/livez", 405),
        ("GET", "/v1/scenes/a%2Fb", 422),
        ("GET", "/v1/scenes/nobody", 404),
        ("GET", "/raises", 500),
    ],
)
async def test_refused_requests_and_faults_have_their_id_too(serve: Serve, method: str, path: str, status: int):
    async with serve(prepare=raising(RuntimeError("broken"))) as client:
        response = await client.request(method, path, headers={"X-Request-Id": "r-1"})

    assert (response.status_code, response.headers.get_list("x-request-id")) == (status, ["r-1"])


async def test_requests_are_counted_by_template_never_by_path(serve: Serve):
    async with serve() as client:
        await client.put(HERO, json={})
        await client.put(HERO.replace("hero", "other"), json={})
        await client.post(f"{HERO}/begin", json={"layer": "base", "target": "Run"})
        await client.get("/v1/scenes/nobody")
        metrics = await counted(client)

    assert metrics[f'posegate_requests_total{{method="PUT",route="{TEMPLATE}",status="201"}}'] == 2
    assert metrics[f'posegate_requests_total{{method="POST",route="{TEMPLATE}/begin",status="200"}}'] == 1
    assert metrics['posegate_requests_total{method="GET",route="/v1/scenes/{scene}",status="404"}'] == 1
    assert metrics[f'posegate_request_seconds_count{{method="PUT",route="{TEMPLATE}"}}'] == 2
    assert metrics['posegate_problems_total{outcome="unknown-scene"}'] == 1
    assert not [name for name in metrics if re.search("match-7|hero|nobody", name)]


async def test_guesses_of_paths_and_methods_make_one_label_set(serve: Serve):
    async with serve() as client:
        for guess in range(20):
            await client.request(f"GUESS{guess}", f"/guess/{guess}")
        await client.request("GUESS", "/livez")
        metrics = await counted(client)

    assert metrics['posegate_requests_total{method="other",route="unmatched",status="404"}'] == 20
    assert metrics['posegate_requests_total{method="other",route="/livez",status="405"}'] == 1
    assert not [name for name in metrics if "guess" in name.lower()]


async def test_a_fault_is_counted_as_the_problem_it_is_answered_with(serve: Serve):
    async with serve(prepare=raising(RuntimeError("broken"))) as client:
        await client.get("/raises")
        metrics = await counted(client)

    assert metrics['posegate_requests_total{method="GET",route="/raises",status="500"}'] == 1
    assert metrics['posegate_problems_total{outcome="internal-error"}'] == 1


async def test_a_request_is_one_line_at_debug(serve: Serve, written: Written):
    async with serve() as client:
        await client.put(HERO, json={}, headers={"X-Request-Id": "r-1"})
        [line] = [line for line in written() if line["event"] == "request"]

    assert line.pop("ms") > 0
    assert line.pop("timestamp")
    expected = {"event": "request", "level": "debug", "request_id": "r-1", "route": TEMPLATE, "method": "PUT"}
    assert line == {**expected, "status": 201}


async def test_a_5xx_is_one_line_at_warning_with_its_problem_and_trace(serve: Serve, written: Written):
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    async with serve(prepare=raising(JournalUnavailable("disk full"))) as client:
        await client.get("/raises", headers={"X-Request-Id": "r-1", "traceparent": parent})
        [line] = written()

    assert (line["event"], line["level"], line["status"]) == ("request-failed", "warning", 503)
    assert (line["route"], line["problem"]) == ("/raises", "journal-unavailable")
    assert (line["request_id"], line["trace_id"]) == ("r-1", "4bf92f3577b34da6a3ce929d0e0e4736")


async def test_a_traceparent_that_is_none_is_not_logged(serve: Serve, written: Written):
    async with serve() as client:
        await client.get("/livez", headers={"traceparent": "00-hunter2-hunter3-01"})
        [line] = written()

    assert "trace_id" not in line


async def test_a_fault_is_told_with_the_id_of_its_request(serve: Serve, written: Written):
    async with serve(prepare=raising(RuntimeError("hunter2"))) as client:
        await client.get("/raises", headers={"X-Request-Id": "r-1"})
        lines = {line["event"]: line for line in written()}

    assert lines["fault"]["request_id"] == lines["request-failed"]["request_id"] == "r-1"
    assert lines["fault"]["exception"].splitlines()[-1] == "RuntimeError"
    assert "hunter2" not in str(lines)


async def test_what_is_no_http_request_passes_untouched(serve: Serve):
    """The lifespan goes through the same middleware; a service that started and stopped shows that it does."""
    async with serve() as client:
        assert (await client.get("/readyz")).status_code == 200
