"""A service with API keys, and the credentials of everybody who might come to it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from app.api.keys import digest_of
from app.main import build
from app.sequencing.registry import Registry
from app.settings import Settings

MATCH, LOBBY, OPS = "posegate_match-key", "posegate_lobby-key", "posegate_ops-key"
"""Keys: of the game servers of `match-…` and of `lobby-…`, and of operations."""

KEYS: dict[str, Any] = {
    "keys": [
        {"name": "match", "role": "server", "prefixes": ["match-"], "sha256": digest_of(MATCH)},
        {"name": "lobby", "role": "server", "prefixes": ["lobby-"], "sha256": digest_of(LOBBY)},
        {"name": "ops", "role": "ops", "sha256": digest_of(OPS)},
    ]
}


class Keyed:
    """Speaks to a service with keys, as whoever is named."""

    def __init__(self, client: httpx.AsyncClient, registry: Registry) -> None:
        self._client = client
        self.registry = registry

    async def ask(
        self, credential: str | None, method: str, path: str, body: Any = None, **headers: str
    ) -> httpx.Response:
        """Send one request; a body is written as JSON."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if credential is not None:
            given["Authorization"] = f"Bearer {credential}"
        if method in ("GET", "DELETE"):
            return await self._client.request(method, path, headers=given)
        return await self._client.request(method, path, headers=given, json={} if body is None else body)

    async def spawn(self, credential: str, scene: str, *names: str) -> None:
        """Spawn characters with the default rig."""
        for name in names:
            response = await self.ask(credential, "PUT", f"/v1/scenes/{scene}/characters/{name}")
            assert response.status_code == 201, response.text

    async def session(self, credential: str, scene: str, characters: dict[str, int], **more: Any) -> str:
        """Mint a session and give its token."""
        body = {"sub": "player-7", "characters": characters, **more}
        response = await self.ask(credential, "POST", f"/v1/scenes/{scene}/sessions", body)
        assert response.status_code == 201, response.text
        return str(response.json()["token"])


@asynccontextmanager
async def keyed(**settings: Any) -> AsyncIterator[Keyed]:
    """Serve a memory journal with `KEYS`, or what the settings say instead."""
    app = build(Settings(**{"journal": "memory:", "keys": json.dumps(KEYS), **settings}))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        yield Keyed(client, app.state.registry)
