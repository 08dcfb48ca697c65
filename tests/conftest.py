"""One service, in memory and in this process, for the tests of a module; NATS servers, started when first asked for."""

from collections.abc import Iterator

import pytest

from tests.support.nats_servers import NatsServers, nats_servers
from tests.support.player import Send
from tests.support.served import served


@pytest.fixture(scope="module")
def send() -> Iterator[Send]:
    with served() as send:
        yield send


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServers]:
    """One server."""
    with nats_servers(1, tmp_path_factory.mktemp("nats-1")) as servers:
        yield servers


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServers]:
    """Three servers that hold each stream three times."""
    with nats_servers(3, tmp_path_factory.mktemp("nats-3")) as servers:
        yield servers
