"""A scene of its own for each test."""

import pytest

from tests.support.caller import Caller
from tests.support.player import Send


@pytest.fixture
def call(send: Send) -> Caller:
    """Speak to a new scene in which `hero` is alive."""
    caller = Caller(send)
    assert caller.spawn().status == 201
    return caller
