import httpx
import pytest

from app.main import build
from app.settings import Settings


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
