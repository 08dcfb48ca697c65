"""A twin: a service in memory that decides the same commands and is never killed, and what can be seen of a scene."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from app.journal import open_journal
from app.main import build
from app.settings import Settings
from tests.faults.connected import ANSWER_S_MAX, Asks

Body = dict[str, Any]

TIMES = {"at", "committed_at", "begun_at", "opened_at"}


def client_of(url: str) -> httpx.AsyncClient:
    """Give a client of a process. It takes no certificates, which are slow to load."""
    return httpx.AsyncClient(base_url=url, timeout=ANSWER_S_MAX, verify=False)


async def secret_of(url: str) -> bytes:
    """Give the secret of a journal that may be in use, so that a twin can make the same seals."""
    journal = open_journal(url, read_only=True)
    try:
        return journal.secret
    finally:
        await journal.close()


@asynccontextmanager
async def twin(secret: bytes) -> AsyncIterator[httpx.AsyncClient]:
    """Serve from memory in this process; seals are those of a journal with `secret`."""
    app = build(Settings(journal="memory:"))
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app):
        app.state.registry._journal._secret = secret
        async with httpx.AsyncClient(transport=transport, base_url="http://twin", timeout=ANSWER_S_MAX) as client:
            yield client


async def shown(client: Asks, scene: str, characters: Iterable[str]) -> Body:
    """Give all that can be seen of a scene, without times."""
    seen = {scene: (await client.get(f"/v1/scenes/{scene}")).json()}
    for character in characters:
        path = f"/v1/scenes/{scene}/characters/{character}"
        seen[character] = (await client.get(path)).json()
        seen[f"{character} deliveries"] = (await client.get(f"{path}/deliveries")).json()
    made: Body = timeless(seen)
    return made


def timeless(value: Any) -> Any:
    """Drop the times, which a twin cannot share."""
    return without(TIMES, value)


def without(names: set[str], value: Any) -> Any:
    """Drop the members of these names, wherever they are."""
    if isinstance(value, list):
        return [without(names, each) for each in value]
    if isinstance(value, dict):
        return {name: without(names, each) for name, each in value.items() if name not in names}
    return value
