"""One service for the tests of a module, and a scene of its own for each test."""

from collections.abc import Iterator

import pytest

from tests.support.caller import Caller
from tests.support.player import Send
from tests.support.served import served


@pytest.fixture(scope="module")
def send() -> Iterator[Send]:
    with served() as send:
        yield send


@pytest.fixture
def call(send: Send) -> Caller:
    """Speak to a new scene in which `hero` is alive."""
    caller = Caller(send)
    assert caller.spawn().status == 201
    return caller
