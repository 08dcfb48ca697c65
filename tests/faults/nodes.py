"""Nodes of one cluster as processes: each with wires of its own to the servers, one on a host of its own."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx

from tests.faults.namespaces import Namespace, namespace, why_not
from tests.faults.severed import Wires, wires
from tests.support.nats_servers import PASSWORD, USER, NatsServers, free_ports, nats_servers
from tests.support.process import ROOT

STARTED_S_MAX = 60.0
STOPPED_S_MAX = 40.0
NAMESPACE = 1 + os.getpid() % 200


class Node:
    """One `posegate serve`. It keeps its address over all its lives; what it logs is in `log`."""

    def __init__(self, name: str, journal: str, laid: Wires, log: Path, apart: Namespace | None) -> None:
        self.name = name
        self.wires = laid
        self.apart = apart
        self.log = log
        self._journal = journal
        self._port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None
        self._relay: subprocess.Popen[bytes] | None = None
        self.url = f"http://{'127.0.0.1' if apart is None else apart.node}:{self._port}"

    @property
    def is_running(self) -> bool:
        """Say whether its process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def prefix(self) -> list[str]:
        """What a program that runs beside the node is started with."""
        return [] if self.apart is None else self.apart.prefix

    async def start(self) -> None:
        """Start it, and wait until it serves."""
        process = self._launch()
        async with httpx.AsyncClient(verify=False, timeout=2) as client:
            until = time.monotonic() + STARTED_S_MAX
            while not await self._is_ready(client):
                assert process.poll() is None, f"{self.name} ended:\n{self.said()}"
                assert time.monotonic() < until, f"{self.name} is not ready:\n{self.said()}"
                await asyncio.sleep(0.05)

    def _launch(self) -> "subprocess.Popen[bytes]":
        environment = {name: value for name, value in os.environ.items() if not name.startswith("POSEGATE_")}
        environment |= {"POSEGATE_JOURNAL": self._journal, "POSEGATE_WATCH_BEAT_MS": "1000"}
        serve = [sys.executable, "-m", "app.cli", "serve", "--port", str(self._port)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen([*self.prefix, *serve], cwd=ROOT, env=environment, stdout=log, stderr=log)
        if self.apart is not None and self._relay is None:
            relay = [sys.executable, "-m", "tests.faults.severed"]
            ends = [self.url.removeprefix("http://"), f"127.0.0.1:{self._port}"]
            self._relay = subprocess.Popen([*self.prefix, *relay, *ends], cwd=ROOT)
        return self._process

    async def _is_ready(self, client: httpx.AsyncClient) -> bool:
        try:
            return (await client.get(f"{self.url}/readyz")).status_code == 200
        except httpx.TransportError:
            return False

    def said(self) -> str:
        """Give the end of what it logged."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-3_000:]

    def kill(self) -> None:
        """End it as a power cut would."""
        self._signal(signal.SIGKILL)
        self._ended()

    async def stop(self) -> None:
        """Tell it to stop, and wait until it has: what it was asked is answered."""
        self._signal(signal.SIGTERM)
        assert self._process is not None
        await asyncio.to_thread(self._process.wait, STOPPED_S_MAX)
        self._process = None

    def pause(self) -> None:
        """Hold it still: its connections stay, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """End everything of it."""
        for process in (self._process, self._relay):
            if process is not None:
                process.kill()
                process.wait(STOPPED_S_MAX)

    def _ended(self) -> None:
        assert self._process is not None
        self._process.wait(STOPPED_S_MAX)
        self._process = None

    def _signal(self, how: signal.Signals) -> None:
        assert self._process is not None, f"{self.name} does not run"
        self._process.send_signal(how)


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
            await node.start()
        yield Nodes(natses, _journal(addresses, servers), made)
