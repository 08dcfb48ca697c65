import httpx
import pytest

from app.main import build
from app.settings import Settings
from tests.support.caller import Caller


@pytest.mark.parametrize("slash", ["%2F", "%2f"])
async def test_an_encoded_slash_names_nothing_and_ends_nobody(slash: str):
    """Decoded, `s%2Fcharacters%2Fhero` would be the character `hero` of scene `s`."""
    app = build(Settings(journal="memory:"))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            await client.put("/v1/scenes/s/characters/hero", json={})

            refused = await client.delete(f"/v1/scenes/s{slash}characters{slash}hero")

            assert refused.status_code == 422
            assert refused.headers["content-type"] == "application/problem+json"
            assert refused.json()["type"] == "/problems/invalid"
            assert (await client.get("/v1/scenes/s/characters/hero")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "history?outcom=stale_generation"),
        ("GET", "characters/hero?limit=1"),
        ("POST", "batch?dry=true"),
        ("GET", "characters?limit=1&cursr=a"),
    ],
)
def test_a_query_that_nobody_reads_is_invalid_and_named(call: Caller, method: str, path: str):
    reply = call.ask(method, path, b'{"commands":[]}' if method == "POST" else None)

    assert reply.problem[:2] == ("invalid", 422)
    assert reply.problem[2] in ("outcom", "limit", "dry", "cursr")


def test_a_query_that_is_read_is_taken(call: Caller):
    for path in ("history?outcome=stale_generation&after=0&refused=true", "characters?limit=1&cursor=a"):
        assert call.ask("GET", path).status == 200
