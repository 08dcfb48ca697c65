import asyncio

import httpx
import pytest

from app.replay.own import own_service
from app.replay.service import ServiceError


async def answers(url):
    async with httpx.AsyncClient(base_url=url) as client:
        try:
            return (await client.get("/readyz")).json()["ready"]
        except httpx.ConnectError:
            return None


async def test_a_service_of_ones_own_is_ready_and_then_gone_and_a_named_journal_stays(tmp_path):
    async with own_service(f"sqlite:{tmp_path}/kept.db") as url:
        assert url.startswith("http://127.0.0.1:")
        assert await answers(url) is True

    assert await answers(url) is None
    assert "kept.db" in {path.name for path in tmp_path.iterdir()}


async def test_it_is_stopped_when_what_used_it_fails():
    """The line that would fail a replay must not leave a server behind."""
    with pytest.raises(ZeroDivisionError):
        async with own_service("memory:") as url:
            raise ZeroDivisionError

    assert await answers(url) is None


async def test_it_is_stopped_when_what_used_it_is_cancelled():
    urls = []
    is_up = asyncio.Event()

    async def used():
        async with own_service("memory:") as url:
            urls.append(url)
            is_up.set()
            await asyncio.Event().wait()

    using = asyncio.create_task(used(), name="using")
    await is_up.wait()
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using

    assert await answers(urls[0]) is None


async def test_a_service_that_does_not_start_says_why():
    with pytest.raises(ServiceError, match=r"`posegate serve` ended with 2: .*'nowhere:' names no journal"):
        async with own_service("nowhere:"):
            pass
