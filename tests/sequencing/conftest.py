"""What the tests of sequencing share: a deadline for each of them, and a journal that can be told to fail."""

import asyncio
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.journal import open_journal
from tests.support.journal_fakes import FaultyJournal

DEADLINE_S = 20
"""A test that takes longer hangs: nothing here waits for time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every asyncio test of this folder its deadline."""
    for item in items:
        if not isinstance(item, pytest.Function) or Path(__file__).parent not in item.path.parents:
            continue
        if inspect.iscoroutinefunction(item.obj):
            item.obj = _with_deadline(item.obj)


def _with_deadline(test: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(test)
    async def timed(**given: Any) -> None:
        async with asyncio.timeout(DEADLINE_S):
            await test(**given)

    return timed


@pytest.fixture
async def journal() -> FaultyJournal:
    """A memory journal behind faults that are not asked for yet."""
    return FaultyJournal(open_journal("memory:"))
