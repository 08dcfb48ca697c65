"""Nodes of one cluster as processes: each with wires of its own to the servers, one on a host of its own.

Clients come through HAProxy, which alternates between them; where there is none they go to each node in turn.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import cluster.nodes
from cluster import balancer as balancers
from cluster.balancer import Balancer
from tests.faults.namespaces import Namespace, namespace, why_not
from tests.faults.severed import Wires, wires
from tests.support.nats_servers import PASSWORD, USER, NatsServers, free_ports, nats_servers
from tests.support.process import ROOT

NAMESPACE = 1 + os.getpid() % 200


class Node(cluster.nodes.Node):
    """One `posegate serve` with wires of its own. One that is `apart` is in a namespace, reached through a relay."""

    def __init__(self, name: str, journal: str, laid: Wires, log: Path, apart: Namespace | None) -> None:
        [port] = free_ports(1)
        super().__init__(name, log, port=port, journal_url=journal, settings={"watch_beat_ms": "1000"})
        self.wires = laid
        self.apart = apart
        self._relay: subprocess.Popen[bytes] | None = None
        if apart is not None:
            self.prefix = apart.prefix

    @property
    def address(self) -> str:
        """Where clients and the balancer reach it: `host:port`."""
        return super().address if self.apart is None else f"{self.apart.node}:{self.port}"

    def start(self) -> None:
        """Start it; `ready` waits until it serves."""
        super().start()
        if self.apart is not None and self._relay is None:
            # A service without keys serves its own machine only, which the namespace is: the relay is inside too.
            relay = [sys.executable, "-m", "tests.faults.severed", self.address, super().address]
            self._relay = subprocess.Popen([*self.prefix, *relay], cwd=ROOT)

    def close(self) -> None:
        """End everything of it."""
        self.kill()
        if self._relay is not None:
            self._relay.kill()
            self._relay.wait()


class Nodes:
    """Three NATS servers and the nodes on them; the last node is on a host of its own, where that can be.

    `balancer` is HAProxy before all nodes, alternating; None where there is none.
    """

    def __init__(self, servers: NatsServers, journal: str, nodes: list[Node], balancer: Balancer | None) -> None:
        self.servers = servers
        self.journal = journal
        self.nodes = nodes
        self.balancer = balancer

    @property
    def urls(self) -> list[str]:
        """The addresses of all nodes."""
        return [node.url for node in self.nodes]

    @property
    def doors(self) -> list[str]:
        """Where commands go, in turn: to the balancer, which alternates; without one, to each node."""
        return self.urls if self.balancer is None else [self.balancer.url]

    @property
    def entries(self) -> str:
        """The stream that holds the entries."""
        return f"{NAME}-entries"


NAME = "hammered"


def _journal(hosts: list[str], copies: int) -> str:
    return f"nats://{USER}:{PASSWORD}@{','.join(hosts)}/{NAME}?replicas={copies}"


@asynccontextmanager
async def running(
    directory: Path, *, servers: int = 3, nodes: int = 2, apart: bool = True, balanced: bool = True
) -> AsyncIterator[Nodes]:
    """Run servers and `nodes` nodes for the block, where that can be with one more in a namespace and the balancer."""
    async with AsyncExitStack() as stack:
        natses = stack.enter_context(nats_servers(servers, directory / "nats"))
        addresses = [server.address for server in natses]
        made: list[Node] = []
        separate = stack.enter_context(namespace(NAMESPACE)) if apart and why_not() is None else None
        for number in range(nodes + (separate is not None)):
            own = separate if number == nodes else None
            host = "127.0.0.1" if own is None else own.servers
            laid = await stack.enter_async_context(wires(addresses, host=host))
            name = f"node-{number + 1}"
            node = Node(name, _journal(laid.addresses, servers), laid, directory / f"{name}.log", own)
            stack.callback(node.close)
            made.append(node)
            node.start()
            await asyncio.to_thread(node.ready)
        balancer = _balancer(directory, made) if balanced and balancers.program() is not None else None
        if balancer is not None:
            stack.callback(balancer.kill)
            balancer.start()
            await asyncio.to_thread(balancer.ready)
        yield Nodes(natses, _journal(addresses, servers), made, balancer)


def _balancer(directory: Path, nodes: list[Node]) -> Balancer:
    port, stats_port = free_ports(2)
    return Balancer(directory / "balancer.log", nodes, port=port, stats_port=stats_port, is_alternating=True)
