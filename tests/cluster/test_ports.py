"""Ports of a cluster: each another, and none that somebody has."""

import socket

from cluster.ports import NODES_MAX, SERVERS_MAX, Ports, is_taken


def test_no_two_parts_share_a_port():
    ports = Ports(8080)

    given = [ports.balancer, ports.stats]
    given += [ports.node(index) for index in range(NODES_MAX)]
    given += [port for index in range(SERVERS_MAX) for port in ports.server(index)]

    assert len(set(given)) == len(given)
    assert (min(given), max(given) < 8100) == (8080, True)


def test_a_free_block_has_nobody_in_it_and_lies_below_what_the_system_gives_away():
    ports = Ports.free()

    assert not any(is_taken(port) for port in range(ports.balancer, ports.balancer + 20))
    assert ports.balancer + 20 <= 32_768


def test_a_port_on_which_somebody_listens_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert is_taken(listening.getsockname()[1])
