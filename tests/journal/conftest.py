"""NATS servers for the tests of journals: each count is started once, when the first test asks for it."""

from collections.abc import Iterator

import pytest

from tests.support.nats_servers import NatsServers, nats_servers


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


@pytest.fixture(params=[1, 3], ids=["jetstream-1", "jetstream-3"])
def servers(request: pytest.FixtureRequest) -> NatsServers:
    """First one server, then three."""
    found: NatsServers = request.getfixturevalue({1: "alone", 3: "cluster"}[request.param])
    return found
