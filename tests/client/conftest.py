"""One service in a process of its own, and both clients of it, spoken to in one way."""

import asyncio
import inspect
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from posegate_client import AsyncPending, AsyncPosegate, Posegate
from tests.support.process import process

FLAVOURS = ("async", "sync")

_numbers = itertools.count(1)


class Awaited:
    """Speaks to an async object as to a sync one: what is awaitable is awaited, what is iterated is iterated."""

    def __init__(self, runner: asyncio.Runner, held: Any) -> None:
        self._runner = runner
        self._held = held

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._held, name)
        return (
            self._seen(member) if not callable(member) else lambda *args, **kwargs: self._seen(member(*args, **kwargs))
        )

    def __enter__(self) -> "Awaited":
        return Awaited(self._runner, self._runner.run(self._held.__aenter__()))

    def __exit__(self, *how: Any) -> None:
        self._runner.run(self._held.__aexit__(*how))

    def __iter__(self) -> Iterator[Any]:
        try:
            while True:
                yield self._runner.run(anext(self._held))
        except StopAsyncIteration:
            return

    def answer(self) -> Any:
        """Give the answer of a command that is under way, as the sync one is asked for it."""
        return self._runner.run(_awaited(self._held))

    def _seen(self, value: Any) -> Any:
        if isinstance(value, AsyncPending):
            return Awaited(self._runner, value)
        if inspect.isawaitable(value):
            return self._seen(self._runner.run(_awaited(value)))
        is_handle = type(value).__name__.startswith("Async") or isinstance(value, AsyncIterator)
        return Awaited(self._runner, value) if is_handle else value


async def _awaited(value: Any) -> Any:
    return await value


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """Serve a memory journal, and give where."""
    with process("memory:") as serving:
        yield serving.url


@pytest.fixture(params=FLAVOURS)
def connect(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give what makes a client of either flavour, spoken to as the sync one; all are closed at the end."""
    made: list[Any] = []
    with asyncio.Runner() as runner:

        def connected(url: str, **given: Any) -> Any:
            client = (
                Awaited(runner, AsyncPosegate(url, **given)) if request.param == "async" else Posegate(url, **given)
            )
            made.append(client)
            return client

        yield connected
        for client in made:
            client.close()


@pytest.fixture
def posegate(url: str, connect: Any) -> Any:
    """Give a client of the service, of either flavour."""
    return connect(url)


@pytest.fixture
def scene(posegate: Any) -> Any:
    """Give a scene that nobody else has."""
    return posegate.scene(f"client-{next(_numbers)}")
