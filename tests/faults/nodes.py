"""Nodes of one cluster as processes: each with wires of its own to the servers, one on a host of its own."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from pathlib import Path

import cluster.nodes
from cluster.asking import asked
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
    def reached_at(self) -> str:
        """Where clients reach it: `host:port`."""
        return self.address if self.apart is None else f"{self.apart.node}:{self.port}"

    @property
    def url(self) -> str:
        """The same for a client."""
        return f"http://{self.reached_at}"

    def start(self) -> None:
        """Start it; `ready` waits until it serves."""
        super().start()
        if self.apart is not None and self._relay is None:
            # A service without keys serves its own machine only, which the namespace is: the relay is inside too.
            relay = [sys.executable, "-m", "tests.faults.severed", self.reached_at, self.address]
            self._relay = subprocess.Popen([*self.prefix, *relay], cwd=ROOT)

    def is_ready(self) -> bool:
        """Say whether it says at /readyz that it takes commands."""
        answer = asked(self.reached_at, "/readyz")
        return answer is not None and answer[0] == HTTPStatus.OK

    def close(self) -> None:
        """End everything of it."""
        self.kill()
        if self._relay is not None:
            self._relay.kill()
            self._relay.wait()


class Nodes:
    """Three NATS servers and the nodes on them; the last node is on a host of its own, where that can be."""

    def __init__(self, servers: NatsServers, journal: str, nodes: list[Node]) -> None:
        self.servers = servers
        self.journal = journal
        self.nodes = nodes

    @property
    def urls(self) -> list[str]:
        """The addresses of all nodes."""
        return [node.url for node in self.nodes]

    @property
    def entries(self) -> str:
        """The stream that holds the entries."""
        return f"{NAME}-entries"


NAME = "hammered"


def _journal(hosts: list[str], copies: int) -> str:
    return f"nats://{USER}:{PASSWORD}@{','.join(hosts)}/{NAME}?replicas={copies}"


@asynccontextmanager
async def running(directory: Path, *, servers: int = 3, nodes: int = 2, apart: bool = True) -> AsyncIterator[Nodes]:
    """Run servers and `nodes` nodes for the block, and one more in a namespace with `apart`, where that can be."""
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
        yield Nodes(natses, _journal(addresses, servers), made)
