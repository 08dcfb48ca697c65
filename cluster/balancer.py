"""The load balancer of a cluster: HAProxy, as docker/haproxy.cfg sets it up."""

import csv
import io
import os
import resource
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.asking import asked
from cluster.children import Child, ClusterError
from cluster.nodes import Node
from cluster.servers import DOCKER

CONFIG = DOCKER / "haproxy.cfg"
MISSING = "there is no haproxy. On Debian or Ubuntu: sudo apt-get install haproxy (the cluster starts its own)"


def program() -> str | None:
    """Give the path of `haproxy`; None when there is none. Debian puts it where only root looks."""
    return shutil.which("haproxy", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))


def _connections_max() -> int:
    """Give how many clients it can have: each needs two open files, and without them it does not start."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return 20_000 if allowed == resource.RLIM_INFINITY else max(min(20_000, (allowed - 200) // 2), 100)


class Balancer(Child):
    """HAProxy before the nodes: by the scene, or, `is_alternating`, to each in turn, whatever the scene.

    Told to stop, it takes no more clients, and waits half a minute for those it has.
    """

    stop_signal = signal.SIGUSR1

    def __init__(self, log: Path, nodes: Sequence[Node], *, port: int, stats_port: int, is_alternating: bool) -> None:
        super().__init__("balancer", log)
        self._nodes = nodes
        self.is_alternating = is_alternating
        self.address = f"127.0.0.1:{port}"
        self.stats = f"127.0.0.1:{stats_port}"
        self.listens = [("127.0.0.1", port), ("127.0.0.1", stats_port)]

    @property
    def url(self) -> str:
        """Where clients come."""
        return f"http://{self.address}"

    def environment(self) -> Mapping[str, str]:
        """Give the variables of its configuration, which asks for two nodes: one alone stands there twice."""
        places = [node.address for node in self._nodes]
        if len(places) == 1:
            places *= 2
        given = {
            "POSEGATE_BALANCER_LISTEN": self.address,
            "POSEGATE_BALANCER_STATS": self.stats,
            "POSEGATE_BALANCER_CONNECTIONS_MAX": str(_connections_max()),
            **{f"POSEGATE_NODE_{number}": place for number, place in enumerate(places, 1)},
        }
        return {**given, "POSEGATE_BALANCER_ALTERNATES": "1"} if self.is_alternating else given

    def start(self) -> None:
        """Start it."""
        found = program()
        if found is None:
            raise ClusterError(MISSING)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("POSEGATE_")}
        self.spawn([found, "-db", "-f", str(CONFIG)], {**inherited, **self.environment()}, DOCKER)

    def ready(self) -> None:
        """Wait until it sends requests to every node that runs."""
        self.until(self._has_all, "found every node ready")

    def states(self) -> dict[str, str]:
        """Give how it sees each node, by its name, as HAProxy says it: `UP`, `UP 1/2` on its way down, `DOWN`."""
        return {name: row["status"] for name, row in self._rows().items()}

    def chosen(self) -> dict[str, int]:
        """Give how many requests it chose each node for, by its name, since it was started."""
        return {name: int(row["lbtot"]) for name, row in self._rows().items()}

    def _rows(self) -> dict[str, dict[str, str]]:
        """Give what its page says of each node, by its name; nothing when it does not answer."""
        answer = asked(self.stats, "/;csv")
        if answer is None:
            return {}
        rows = csv.DictReader(io.StringIO(answer[1].decode().removeprefix("# ")))
        names = {node.name for node in self._nodes}
        return {row["svname"]: row for row in rows if row["pxname"] == "nodes" and row["svname"] in names}

    def _has_all(self) -> bool:
        states = self.states()
        return bool(states) and all(states.get(node.name) == "UP" for node in self._nodes if node.is_running)
