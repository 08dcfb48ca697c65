"""Ports: which of this machine a cluster listens on."""

import random
import socket

from cluster.children import ClusterError

NODES_MAX = 8
"""As many nodes as docker/haproxy.cfg has places for."""

SERVERS_MAX = 3
"""docker/nats-cluster.conf names as many."""

_STATS, _SERVERS, _BLOCK = 9, 10, 20

# Below 32,768, where Linux begins to give ports to those who connect: one of those could sit on the port of a server
# that was killed and is to be started again.
_FIRST, _LAST = 20_000, 32_000
_TRIES_MAX = 200
_PORT_MAX = 65_535


class Ports:
    """A block of 20 ports: the balancer, up to 8 nodes, the balancer's page, and three for each NATS server."""

    def __init__(self, first: int) -> None:
        if not 1 <= first <= _PORT_MAX - _BLOCK + 1:
            raise ClusterError(f"--port is 1 to {_PORT_MAX - _BLOCK + 1}: {_BLOCK} ports are taken from there on")
        self._first = first

    @classmethod
    def free(cls) -> "Ports":
        """Give a block on which nobody listens now."""
        for _ in range(_TRIES_MAX):
            first = random.randrange(_FIRST, _LAST, _BLOCK)  # noqa: S311  # no secret
            if not any(is_taken(port) for port in range(first, first + _BLOCK)):
                return cls(first)
        raise ClusterError(f"there are not {_BLOCK} free ports in a row between {_FIRST} and {_LAST}")

    @property
    def balancer(self) -> int:
        """Where clients come."""
        return self._first

    @property
    def stats(self) -> int:
        """Where the balancer shows what goes where."""
        return self._first + _STATS

    def node(self, index: int) -> int:
        """Where a node listens, counted from 0."""
        return self._first + 1 + index

    def server(self, index: int) -> tuple[int, int, int]:
        """Where a NATS server, counted from 0, listens: to clients, to other servers, to who looks after it."""
        client = self._first + _SERVERS + 3 * index
        return client, client + 1, client + 2


def is_taken(port: int, host: str = "127.0.0.1") -> bool:
    """Say whether somebody listens on a port of this machine, or just did and left connections behind."""
    try:
        with socket.create_server((host, port)):
            return False
    except OSError:
        return True
