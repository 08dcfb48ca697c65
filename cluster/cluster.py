"""The whole cluster: started in order, its parts at hand, and stopped in order."""

import asyncio
import fcntl
import json
import os
import secrets
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from cluster.balancer import Balancer
from cluster.children import LOOKS_S, READY_S_MAX, Child, ClusterError
from cluster.nodes import Node
from cluster.ports import NODES_MAX, SERVERS_MAX, Ports, is_taken
from cluster.servers import Server

JOURNAL = "posegate"
"""The name of the journal, with which the names of its streams begin."""

PROCESSES, URL, SERVERS = "processes.json", "journal.url", "servers.count"

FREED_S_MAX = 5.0
"""How long the ports of killed processes are waited for, seconds."""


def unsaid(line: str) -> None:
    """Let nobody know how far it is."""


class Cluster:
    """NATS servers, posegate nodes and a balancer, on ports of the loopback address, as processes of this one.

    Data, logs and the journal's URL are in `directory`; a cluster that is started there later goes on with the data. It
    must have as many servers then. Passwords are drawn anew each time. `port` is the balancer's, those of the others
    follow; 0 takes free ones. Without `nodes` there is no balancer either, only the journal. `servers` is 1 or 3,
    `replicas` how many of them have each entry: all, if nothing else is said. `settings` are those of every node, by
    their names. Nothing that ends is started again by itself.

    The parts may be told otherwise (`Node.journal_url`, `prefix`, `host`) before the cluster is entered. Its calls
    block; `async with` waits beside the loop. When it is left, or cannot be started, everything is stopped.
    """

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int = 2,
        servers: int = 3,
        port: int = 0,
        replicas: int | None = None,
        with_balancer: bool = True,
        is_alternating: bool = False,
        settings: Mapping[str, str] | None = None,
        say: Callable[[str], None] = unsaid,
    ) -> None:
        if not 0 <= nodes <= NODES_MAX or servers not in (1, SERVERS_MAX):
            raise ClusterError(f"a cluster has 0 to {NODES_MAX} nodes, and 1 or {SERVERS_MAX} NATS servers")
        self.directory = directory.resolve()
        self.replicas = replicas or servers
        self._say = say
        self._lock: IO[str] | None = None
        ports = Ports(port) if port else Ports.free()
        # Drawn with a letter in front: NATS takes what begins with a digit for a number.
        self._passwords = f"p{secrets.token_hex(24)}", f"r{secrets.token_hex(24)}"
        self.servers = [
            Server(f"nats-{n + 1}", self.directory / f"nats-{n + 1}", ports=ports.server(n), passwords=self._passwords)
            for n in range(servers)
        ]
        for server in self.servers:
            server.others = self.servers if servers > 1 else ()
        self.nodes = [
            Node(
                f"node-{n + 1}",
                self.directory / f"node-{n + 1}.log",
                port=ports.node(n),
                journal_url=self.journal_url,
                settings=settings or {},
            )
            for n in range(nodes)
        ]
        self.balancer: Balancer | None = None
        if with_balancer and nodes:
            self.balancer = Balancer(
                self.directory / "balancer.log",
                self.nodes,
                port=ports.balancer,
                stats_port=ports.stats,
                is_alternating=is_alternating,
            )

    @property
    def journal_url(self) -> str:
        """The journal of all nodes, as POSEGATE_JOURNAL takes it; it holds a password."""
        hosts = ",".join(server.address for server in self.servers)
        return f"nats://posegate:{self._passwords[0]}@{hosts}/{JOURNAL}?replicas={self.replicas}"

    @property
    def parts(self) -> Sequence[Child]:
        """All processes, in the order in which they are started."""
        return [*self.servers, *self.nodes, *([self.balancer] if self.balancer else [])]

    @property
    def url(self) -> str:
        """Where clients come: the balancer, or without one the first node, which there must be."""
        return self.balancer.url if self.balancer else self.nodes[0].url

    def leader(self, stream: str) -> Server:
        """Give the server that leads a stream; waits, up to a minute, while nobody does.

        Raises:
            ClusterError: Nobody does.
        """
        deadline = time.monotonic() + READY_S_MAX
        while time.monotonic() < deadline:
            for server in self.servers:
                leader = server.leaders().get(stream)
                found = [each for each in self.servers if each.name == leader and each.is_running]
                if found:
                    return found[0]
            time.sleep(LOOKS_S)
        raise ClusterError(f"nobody leads the stream {stream}")

    def start(self) -> None:
        """Start everything, and return when the balancer sends requests to every node.

        Raises:
            ClusterError: Something could not be started, and everything is stopped again. Nothing was started where a
                cluster runs in this directory, where data are of another number of servers, or a port is taken.
        """
        self._enter_directory()
        with ExitStack() as undo:
            undo.callback(self.kill)
            for name, parts in (("NATS", self.servers), ("posegate", self.nodes), ("the balancer", [self.balancer])):
                there = [part for part in parts if part is not None]
                for part in there:
                    part.start()
                    self._note()
                for part in there:
                    part.ready()
                if there:
                    self._say(f"{name} is ready: {', '.join(part.name for part in there)}")
            undo.pop_all()

    def stop(self) -> None:
        """Stop everything in order: new clients are turned away, nodes drain and answer, then the servers stop.

        Raises:
            ClusterError: Something did not stop in its time, and was killed.
        """
        late: list[str] = []
        # The nodes end what the balancer waits for, such as a watch.
        first = [] if self.balancer is None else [self.balancer]
        if self.balancer is not None:
            self.balancer.signal(self.balancer.stop_signal)
        for node in self.nodes:
            node.signal(node.stop_signal)
        for part in (*self.nodes, *first, *self.servers):
            try:
                part.stop()
            except ClusterError as error:
                late.append(str(error))
                part.kill()
        self._say("everything is stopped")
        self._leave_directory()
        if late:
            raise ClusterError("; ".join(late))

    def kill(self) -> None:
        """End everything at once."""
        for part in reversed(self.parts):
            part.kill()
        self._leave_directory()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def _enter_directory(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._lock = (self.directory / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise ClusterError(f"a cluster runs in {self.directory} already") from error
        try:
            self._require_as_many_servers()
            self._require_ports(FREED_S_MAX if self._end_what_is_left() else 0.0)
        except ClusterError:
            self._leave_directory()
            raise
        (self.directory / SERVERS).write_text(f"{len(self.servers)}\n")
        url = self.directory / URL
        url.touch(mode=0o600)
        url.write_text(self.journal_url + "\n")

    def _require_as_many_servers(self) -> None:
        """See that data which are there were made by as many servers: others would not read them."""
        noted = self.directory / SERVERS
        made = int(noted.read_text()) if noted.is_file() else len(list(self.directory.glob("nats-?/")))
        if made not in (0, len(self.servers)):
            raise ClusterError(
                f"the data in {self.directory} are those of {made} NATS servers, and are not read by"
                f" {len(self.servers)}: give --servers {made}, or --directory another folder"
            )

    def _require_ports(self, wait_s: float) -> None:
        """See that nobody listens where this cluster is to listen, if need be after a while."""
        deadline = time.monotonic() + wait_s
        placed: list[Server | Node | Balancer] = [*self.servers, *self.nodes]
        if self.balancer is not None:
            placed.append(self.balancer)
        listening = [(part.name, *where) for part in placed for where in part.listens]
        for name, host, port in listening:
            while is_taken(port, host):
                if time.monotonic() >= deadline:
                    raise ClusterError(f"port {port} of {host}, for {name}, is taken: choose other ports with --port")
                time.sleep(LOOKS_S)

    def _leave_directory(self) -> None:
        if self._lock is not None:
            (self.directory / PROCESSES).unlink(missing_ok=True)
            self._lock.close()
            self._lock = None

    def _note(self) -> None:
        """Note which processes run, for a start after this process was killed."""
        running = [part.pid for part in self.parts if part.pid is not None]
        noted = [(pid, since) for pid in running if (since := _since(pid)) is not None]
        (self.directory / PROCESSES).write_text(json.dumps(noted))

    def _end_what_is_left(self) -> bool:
        """Kill what an earlier cluster in this directory left when it was killed: it holds the ports and the data.

        Say whether there was anything.
        """
        is_any = False
        with suppress(OSError, ValueError):
            for pid, since in json.loads((self.directory / PROCESSES).read_text()):
                if _since(pid) == since:
                    self._say(f"process {pid} was left by an earlier run, and is killed")
                    os.kill(pid, signal.SIGKILL)
                    is_any = True
        return is_any


def _since(pid: int) -> str | None:
    """Give when a process began, which no other of its number has; None when there is none."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return None
