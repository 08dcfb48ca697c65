"""The same state machine on JetStream: one node on one server and on three, and two nodes that take turns.

`POSEGATE_HYPOTHESIS=long` takes more and longer examples here too.
"""

from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings

from app.journal import connect_journal
from app.journal.port import Journal
from app.sequencing.mailbox import Addressed, Result
from app.sequencing.registry import Registry
from tests.model.test_scene_model import PROFILE, SceneMachine
from tests.support.journal_fakes import Fault
from tests.support.nats_servers import NatsServers, fresh_name

QUICK, STEPS = 8, 25
"""Examples and steps where nothing else is asked for: each example makes three streams."""


class OnServers(SceneMachine):
    """One node whose journal is on NATS servers."""

    servers: ClassVar[NatsServers]

    async def opened(self) -> Journal:
        return await connect_journal(self.servers.url(fresh_name()))


class TakingTurns(OnServers):
    """Two nodes: each submission goes to the other one, and readers read where it was decided."""

    def __init__(self) -> None:
        super().__init__()
        self.idle = Registry(self.journal, self.settings, clock=self.clock)

    async def submit(self, commands: list[Addressed], fault: Fault) -> list[Result]:
        self.registry, self.idle = self.idle, self.registry
        if fault is not Fault.NONE:
            # The fault is for the decision, and not for the first write of a node that is behind.
            await self.registry.opened("room", at_least=self.plain.sequence)
        return await super().submit(commands, fault)

    def teardown(self) -> None:
        self.run(self.idle.close())
        self.journal.is_closed = False
        super().teardown()


CHOSEN = settings(
    PROFILE,
    max_examples=PROFILE.max_examples if PROFILE.max_examples > QUICK * 10 else QUICK,
    stateful_step_count=STEPS,
    deadline=None,
    # To find the shortest example takes minutes with servers behind it.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("servers", ["alone", "cluster"])
@pytest.mark.parametrize("machine", [OnServers, TakingTurns])
def test_scene(request: pytest.FixtureRequest, servers: str, machine: type[OnServers]):
    found: NatsServers = request.getfixturevalue(servers)
    placed: type[OnServers] = type(f"{machine.__name__}On{servers.title()}", (machine,), {"servers": found})
    case = placed.TestCase
    case.settings = CHOSEN
    case().runTest()
