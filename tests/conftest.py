"""One service, in memory and in this process, for the tests of a module."""

from collections.abc import Iterator

import pytest

from tests.support.player import Send
from tests.support.served import served


@pytest.fixture(scope="module")
def send() -> Iterator[Send]:
    with served() as send:
        yield send
