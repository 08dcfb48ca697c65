"""Network namespaces: a node on a host of its own, whose way to its servers can be cut in either direction.

It takes the right to make namespaces and Debian's iproute2; `why_not` says what is missing.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults.severed import DOWN, UP

PREFIX = "pgnode"


def _run(*arguments: str) -> None:
    subprocess.run(arguments, check=True, capture_output=True, text=True)


def why_not() -> str | None:
    """Say why there can be no namespaces here; None where there can."""
    if shutil.which("ip") is None:
        return "there is no `ip` here: apt-get install iproute2"
    try:
        with namespace(99):
            return None
    except subprocess.CalledProcessError as error:
        return f"namespaces may not be made here: {error.stderr.strip()}"


class Namespace:
    """One network namespace. The node is at `node`; it reaches clients at `clients`, and its servers at `servers`."""

    def __init__(self, number: int) -> None:
        self.name = f"{PREFIX}{number}"
        self.node, self.clients, self.servers = (f"10.77.{number}.{host}" for host in (2, 1, 3))
        self.prefix = ["ip", "netns", "exec", self.name]
        self._cut: set[str] = set()

    def open(self) -> None:
        """Make it, and a wire to it."""
        outer = f"{self.name}w"
        _run("ip", "netns", "add", self.name)
        _run("ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        for address in (self.clients, self.servers):
            _run("ip", "addr", "add", f"{address}/24", "dev", outer)
        _run("ip", "link", "set", outer, "up")
        _run(*self.prefix, "ip", "addr", "add", f"{self.node}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            _run(*self.prefix, "ip", "link", "set", device, "up")

    def close(self) -> None:
        """Unmake it, whatever of it there is."""
        self.heal()
        subprocess.run(["ip", "netns", "del", self.name], check=False, capture_output=True)

    def cut(self, direction: str) -> None:
        """Let nothing pass between the node and its servers in a direction; its clients still reach it."""
        if direction not in self._cut:
            self._cut.add(direction)
            _run(*self._rule(direction, "add"))

    def heal(self) -> None:
        """Let everything pass again."""
        for direction in self._cut:
            _run(*self._rule(direction, "del"))
        self._cut.clear()

    def _rule(self, direction: str, what: str) -> list[str]:
        """What is dropped is dropped in silence: neither side hears of it."""
        if direction == UP:
            return [*self.prefix, "ip", "route", what, "blackhole", f"{self.servers}/32"]
        assert direction == DOWN
        return ["ip", "rule", what, "from", self.servers, "to", self.node, "blackhole"]


@contextmanager
def namespace(number: int) -> Iterator[Namespace]:
    """Give a namespace for the block. A former one of the number that was left behind is unmade."""
    made = Namespace(number)
    subprocess.run(["ip", "netns", "del", made.name], check=False, capture_output=True)
    try:
        made.open()
        yield made
    finally:
        made.close()
