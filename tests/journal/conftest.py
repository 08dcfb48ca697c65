"""The tests of journals run on one NATS server, and on three."""

import pytest

from tests.support.nats_servers import NatsServers


@pytest.fixture(params=[1, 3], ids=["jetstream-1", "jetstream-3"])
def servers(request: pytest.FixtureRequest) -> NatsServers:
    """First one server, then three."""
    found: NatsServers = request.getfixturevalue({1: "alone", 3: "cluster"}[request.param])
    return found
