"""Plays every scenario on JetStream too: each command at another of two nodes than the one before."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.settings import Settings
from tests.support.nats_servers import NatsServers, fresh_name
from tests.support.player import Response, Send, play
from tests.support.scenario import Scenario, read_all
from tests.support.served import served

SCENARIOS = read_all(Path(__file__).parent)
FORGOTTEN_S = 0.1
READS = ("GET", "HEAD", "OPTIONS")

_numbers = itertools.count(1)


class Alternating:
    """Sends each command to the next node, and reads where the last command was decided: others may be behind."""

    def __init__(self, nodes: list[Send], runner: asyncio.Runner) -> None:
        self._nodes = itertools.cycle(nodes)
        self._node = next(self._nodes)
        self._runner = runner

    def __call__(self, method: str, path: str, headers: dict[str, str], body: bytes | None) -> Response:
        if method not in READS:
            self._node = next(self._nodes)
        response = self._node(method, path, headers, body)
        if method == "DELETE":
            # The history of what was closed is forgotten by whoever closed it, after the answer.
            self._runner.run(asyncio.sleep(FORGOTTEN_S))
        return response


@pytest.fixture(scope="module", params=["alone", "cluster"])
def nodes(request: pytest.FixtureRequest) -> Iterator[Send]:
    """Two nodes on one server, or on three."""
    servers: NatsServers = request.getfixturevalue(request.param)
    settings = Settings(journal=servers.url(fresh_name()))
    with (
        asyncio.Runner() as runner,
        served(settings, beside=runner) as first,
        served(settings, beside=runner) as second,
    ):
        yield Alternating([first, second], runner)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_scenario(scenario: Scenario, nodes: Send):
    play(scenario, nodes, f"scenario-{next(_numbers)}")
