"""The wiring: the server says where it listens, failures are problems, and the journal is closed last."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from app.journal.port import CommitUnknown, JournalDamaged, JournalUnavailable
from app.main import build
from app.sequencing.registry import Draining, MailboxFull, MemoryFull
from app.settings import Settings
from tests.support.caller import strict_json
from tests.support.process import process
from tests.support.wire import wire

FAILURES: list[tuple[Exception, str, int]] = [
    (MailboxFull("full"), "mailbox-full", 503),
    (MemoryFull("full"), "memory-full", 503),
    (Draining("stopping"), "draining", 503),
    (JournalUnavailable("disk full"), "journal-unavailable", 503),
    (JournalDamaged("torn"), "journal-damaged", 503),
    (CommitUnknown("who knows"), "commit-unknown", 503),
    (RuntimeError("a secret"), "internal-error", 500),
]


def test_a_server_says_where_it_listens_once_it_answers(tmp_path: Path):
    with process(f"sqlite:{tmp_path / 'p.db'}") as served:
        assert served.url.startswith("http://127.0.0.1:")
        assert httpx.get(f"{served.url}/readyz", timeout=30).json() == {"ready": True, "reasons": []}
        assert "server" not in httpx.get(f"{served.url}/livez", timeout=30).headers


async def test_what_a_connection_tells_without_any_route_is_counted_too():
    with process("memory:") as served:
        async with wire(served.port) as client:
            client.send(b"no HTTP\r\n\r\n")
            answer = await client.answer()
        async with wire(served.port) as client:
            client.ask("GET", "/metrics", headers="Connection: close\r\n")
            counted = await client.rest()

    assert answer.problem == "malformed-http"
    assert b'posegate_problems_total{outcome="malformed-http"} 1.0' in counted


@pytest.mark.parametrize(("failure", "name", "status"), FAILURES, ids=str)
async def test_whatever_a_route_raises_is_a_problem(failure: Exception, name: str, status: int):
    app = build(Settings(journal="memory:", retry_after_s=7))

    @app.get("/raises")
    async def raises() -> None:
        raise failure

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        response = await client.get("/raises")

    body = strict_json(response.content)
    assert (response.status_code, body["type"], body["status"]) == (status, f"/problems/{name}", status)
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers.get("retry-after") == ("7" if body["retryable"] else None)
    assert "secret" not in response.text


@pytest.mark.parametrize(
    ("method", "path", "name", "allow"),
    [
        ("GET", "/nothing", "not-found", None),
        ("PATCH", "/v1/scenes/match-7", "method-not-allowed", "DELETE, GET"),
        ("POST", "/v1/scenes/match-7/characters/hero", "method-not-allowed", "DELETE, GET, PUT"),
        ("DELETE", "/livez", "method-not-allowed", "GET"),
        ("GET", "/v1/scenes?limit=0", "invalid", None),
    ],
)
async def test_what_the_framework_answers_is_a_problem(method: str, path: str, name: str, allow: str | None):
    app = build(Settings(journal="memory:"))

    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        response = await client.request(method, path)

    assert response.json()["type"] == f"/problems/{name}"
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers.get("allow") == allow


async def test_a_service_that_is_stopping_is_alive_but_not_ready_and_takes_nothing_new():
    app = build(Settings(journal="memory:"))
    transport = httpx.ASGITransport(app)

    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        await client.put("/v1/scenes/match-7/characters/hero", json={})
        await app.state.registry.close()
        alive, ready = await client.get("/livez"), await client.get("/readyz")
        command = await client.post("/v1/scenes/match-7/characters/hero/begin", json={"layer": "base", "target": "Run"})

    assert alive.status_code == 200
    assert (ready.status_code, ready.json()) == (503, {"ready": False, "reasons": ["draining"]})
    assert (command.status_code, command.json()["type"]) == (503, "/problems/draining")
    assert command.headers["retry-after"] == "1"


async def test_the_journal_is_closed_when_the_service_stops(tmp_path: Path):
    """Closed, the file can be opened by the next service, which has everything."""
    settings = Settings(journal=f"sqlite:{tmp_path / 'p.db'}")
    path = "/v1/scenes/match-7/characters/hero"
    shown = []

    for _ in range(2):
        app = build(settings)
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://t") as client,
        ):
            await client.put(path, json={})
            await client.post(f"{path}/begin", json={"layer": "base", "target": "Run"})
            shown.append((await client.get(path)).json())

    assert [one["layers"]["base"]["generation"] for one in shown] == [1, 2]
    assert shown[1]["life"] == 1


async def test_requests_under_way_together_are_all_answered():
    app = build(Settings(journal="memory:"))
    transport = httpx.ASGITransport(app)

    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        await client.put("/v1/scenes/match-7/characters/hero", json={})
        body = json.dumps({"layer": "base", "target": "Run"})
        requests = [
            client.post(
                "/v1/scenes/match-7/characters/hero/begin", content=body, headers={"content-type": "application/json"}
            )
            for _ in range(100)
        ]
        answers = [response.json() for response in await asyncio.gather(*requests)]

    assert sorted(answer["token"]["generation"] for answer in answers) == list(range(1, 101))
    assert sorted(answer["sequence"] for answer in answers) == list(range(2, 102))
