"""NATS servers with JetStream as processes of their own: one, or a cluster, on free ports of this machine."""

import json
import os
import random
import shutil
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from cluster.children import Child
from cluster.ports import is_taken

USER = "posegate"
PASSWORD = "not-to-be-shown-1f9c"
READY_S_MAX = 30.0
PORT_FIRST, PORT_LAST = 20_000, 32_000
"""Below where Linux begins to give ports to those who connect: one of those could sit on that of a killed server."""

LOOK_S = 0.05
MAX_PAYLOAD_BYTES = 8 * 1024 * 1024


def binary() -> str:
    """Give the path of `nats-server`: the one beside this Python, else the one on the path."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.is_file() else shutil.which("nats-server")
    assert found is not None, "there is no nats-server: install the test dependencies"
    return found


def free_ports(count: int) -> list[int]:
    """Give ports that nobody listens on now, each another, and that nobody who connects is given meanwhile."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(PORT_FIRST, PORT_LAST)
        if port not in ports and not is_taken(port):
            ports.append(port)
    return ports


def fresh_name() -> str:
    """Give a name for a journal that no other test has."""
    return f"t{os.urandom(6).hex()}"


class NatsServer(Child):
    """One server: its process, and how it is started, stopped, held still and killed."""

    def __init__(self, name: str, directory: Path, *, port: int, monitor: int, config: str) -> None:
        super().__init__(name, directory / f"{name}.log")
        self.port = port
        self._monitor = monitor
        self._is_clustered = "cluster {" in config
        self._config = directory / f"{name}.conf"
        self._config.write_text(config, encoding="utf-8")

    @property
    def address(self) -> str:
        """Where clients connect: `host:port`."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the process on the data it left; `ready` waits for it."""
        self.spawn([binary(), "-c", str(self._config)], os.environ, self._config.parent)

    def ready(self) -> None:
        """Wait until clients are served and JetStream knows who leads it."""
        self.until(self._is_healthy, "served")

    def end_gently(self) -> None:
        """Have the server hand over what it leads, send its clients elsewhere, and end by itself (SIGUSR2)."""
        self.signal(signal.SIGUSR2)

    def retire(self) -> None:
        """End it gently, and wait for it."""
        self.end_gently()
        self.ended(self.stop_s_max)

    def ask(self, path: str) -> dict[str, Any]:
        """Ask the monitoring port, which is open to this machine only, for a JSON document."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._monitor}{path}", timeout=2) as answer:
            said: dict[str, Any] = json.load(answer)
            return said

    def _is_healthy(self) -> bool:
        try:
            if self.ask("/healthz?js-enabled-only=true").get("status") != "ok":
                return False
            return not self._is_clustered or self.ask("/jsz").get("meta_cluster", {}).get("leader", "") != ""
        except OSError:
            return False


class NatsServers:
    """The servers of one cluster, or the one that is alone."""

    def __init__(self, servers: list[NatsServer]) -> None:
        self._servers = servers

    def __getitem__(self, index: int) -> NatsServer:
        """Give one server."""
        return self._servers[index]

    def __iter__(self) -> Iterator[NatsServer]:
        """Go over all servers."""
        return iter(self._servers)

    def __len__(self) -> int:
        """Give how many there are."""
        return len(self._servers)

    def url(self, name: str, *, replicas: int | None = None, scheme: str = "nats", **options: str) -> str:
        """Give the URL of a journal on these servers, as many copies as there are servers unless told otherwise."""
        hosts = ",".join(server.address for server in self._servers)
        query = urlencode({"replicas": str(replicas or len(self)), **options})
        return f"{scheme}://{USER}:{PASSWORD}@{hosts}/{name}?{query}"

    def leader(self, stream: str) -> NatsServer:
        """Give the server that leads a stream now; waits while nobody does."""
        deadline = time.monotonic() + READY_S_MAX
        while time.monotonic() < deadline:
            name = self._leader(stream)
            for server in self._servers:
                if server.name == name and server.is_running:
                    return server
            time.sleep(LOOK_S)
        raise AssertionError(f"nobody leads {stream}")

    def ready(self) -> None:
        """Start what does not run, and wait until all serve."""
        for server in self._servers:
            if not server.is_running:
                server.start()
        for server in self._servers:
            server.ready()

    def stop(self) -> None:
        """End every process."""
        for server in self._servers:
            server.kill()

    def _leader(self, stream: str) -> str:
        for server in self._servers:
            try:
                told = server.ask("/jsz?streams=true")
            except OSError:
                continue
            for account in told.get("account_details", []):
                for each in account.get("stream_detail", []):
                    if each["name"] == stream:
                        leader: str = each.get("cluster", {}).get("leader", "" if len(self) > 1 else server.name)
                        if leader:
                            return leader
        return ""


@contextmanager
def nats_servers(count: int, directory: Path, *, more: str = "") -> Iterator[NatsServers]:
    """Run `count` servers that keep their data below `directory`; `more` is added to each configuration.

    They ask for USER and PASSWORD, take messages up to MAX_PAYLOAD_BYTES, and flush each write to disk.
    """
    ports = free_ports(count * 3)
    monitors, routes = ports[count : 2 * count], ports[2 * count :]
    directory.mkdir(parents=True, exist_ok=True)
    servers = NatsServers(
        [
            NatsServer(
                f"n{index + 1}",
                directory,
                port=ports[index],
                monitor=monitors[index],
                config=_config(index, directory, ports[index], monitors[index], routes if count > 1 else [], more),
            )
            for index in range(count)
        ]
    )
    try:
        servers.ready()
        yield servers
    finally:
        servers.stop()


def _config(index: int, directory: Path, port: int, monitor: int, routes: list[int], more: str) -> str:
    """Give the configuration of one server."""
    name = f"n{index + 1}"
    lines = [
        f'server_name: "{name}"',
        f'listen: "127.0.0.1:{port}"',
        f'http: "127.0.0.1:{monitor}"',
        f"max_payload: {MAX_PAYLOAD_BYTES}",
        "lame_duck_grace_period: 1s",
        "lame_duck_duration: 30s",
        f'authorization {{ user: "{USER}", password: "{PASSWORD}" }}',
        f'jetstream {{ store_dir: "{directory / name}", sync_interval: always, max_file_store: 4GB }}',
    ]
    if routes:
        others = ", ".join(f'"nats://127.0.0.1:{other}"' for other in routes)
        lines.append(
            f'cluster {{ name: "tested", listen: "127.0.0.1:{routes[index]}", routes: [{others}], no_advertise: true }}'
        )
    return "\n".join([*lines, more, ""])
