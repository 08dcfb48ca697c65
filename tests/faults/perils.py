"""What happens to a cluster while it is hammered: nodes and servers that die, stand still, are cut off or restarted."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from itertools import chain

from tests.faults.hammer import Hammer
from tests.faults.nodes import Node, Nodes
from tests.faults.severed import DOWN, UP

Peril = Callable[[Nodes, Hammer, random.Random], Awaitable[None]]

BETWEEN = 20
"""How many answers come between two steps of a peril that has several."""

PAUSED_S, QUORUM_LOST_S, CUT_S, DELAYED_S = 10.0, 20.0, 8.0, 0.2
CUTS = 6


async def node_killed(cluster: Nodes, hammer: Hammer, chance: random.Random) -> None:
    """A node is killed, and started again while the others serve."""
    node = chance.choice(cluster.nodes)
    node.kill()
    await hammer.answered(BETWEEN)
    node.start()
    await asyncio.to_thread(node.ready)


async def node_paused(cluster: Nodes, hammer: Hammer, chance: random.Random) -> None:
    """A node stands still for longer than anybody waits, and then goes on with what it was about to write."""
    node = chance.choice(cluster.nodes)
    node.pause()
    try:
        await asyncio.sleep(PAUSED_S)
    finally:
        node.resume()


async def leader_killed(cluster: Nodes, hammer: Hammer, chance: random.Random) -> None:
    """The server that leads the entries is killed, and comes back later."""
    leader = cluster.servers.leader(cluster.entries)
    leader.kill()
    hammer.mark("leader killed")
    await hammer.answered(BETWEEN)
    hammer.measure()
    await _back(cluster, leader.name)


async def restarted(cluster: Nodes, hammer: Hammer, chance: random.Random) -> None:
    """Every node and every server is restarted in order, one after another."""
    for node in cluster.nodes:
        hammer.mark("node restarted")
        await asyncio.to_thread(node.restart)
        await hammer.answered(BETWEEN)
        hammer.measure()
    for server in cluster.servers:
        hammer.mark("server restarted")
        await asyncio.to_thread(server.retire)
        await hammer.answered(BETWEEN)
        await _back(cluster, server.name)
        await hammer.answered(BETWEEN)
        hammer.measure()


async def quorum_lost(cluster: Nodes, hammer: Hammer, chance: random.Random) -> None:
    """Two servers of three are gone, killed or held still: nothing can be written, and nobody is told that it was."""
    gone = chance.sample(list(cluster.servers), 2)
    is_killed = chance.random() < 0.5
    for server in gone:
        (server.kill if is_killed else server.pause)()
    await asyncio.sleep(QUORUM_LOST_S)
    hammer.mark("quorum back")
    for server in gone:
        if is_killed:
            await _back(cluster, server.name)
        else:
            server.resume()
    await hammer.answered(BETWEEN)
    hammer.measure()


async def cut_off(cluster: Nodes, hammer: Hammer, chance: random.Random) -> None:
    """A node and its servers do not hear each other, or only one the other. Clients still reach the node."""
    directions = chance.choice([(UP,), (DOWN,), (UP, DOWN)])
    node = cluster.nodes[-1]
    try:
        for direction in directions:
            if node.apart is None:
                node.wires.silence(direction)
            else:
                node.apart.cut(direction)
        await asyncio.sleep(CUT_S)
    finally:
        node.wires.heal()
        if node.apart is not None:
            node.apart.heal()


async def bad_wire(cluster: Nodes, hammer: Hammer, chance: random.Random) -> None:
    """The wires of a node are slow, and break again and again."""
    node = chance.choice(cluster.nodes)
    node.wires.slow(DELAYED_S)
    try:
        for _ in range(CUTS):
            await asyncio.sleep(chance.uniform(0.3, 1.5))
            node.wires.cut()
    finally:
        node.wires.heal()


PERILS: dict[str, Peril] = {
    "node killed": node_killed,
    "node paused": node_paused,
    "leader killed": leader_killed,
    "restarted in order": restarted,
    "quorum lost": quorum_lost,
    "cut off": cut_off,
    "bad wire": bad_wire,
}


def drawn(seed: int, rounds: int) -> Iterable[str]:
    """Give the perils of so many rounds: each as often as every other, in another order each time."""
    chance, names = random.Random(seed), list(PERILS)
    whole = (chance.sample(names, len(names)) for _ in range(rounds // len(names) + 1))
    return list(chain.from_iterable(whole))[:rounds]


async def _back(cluster: Nodes, name: str) -> None:
    """Start a server again, and wait until it serves."""
    [server] = [each for each in cluster.servers if each.name == name]
    server.start()
    await asyncio.to_thread(server.ready)


def stopped(nodes: Iterable[Node]) -> list[str]:
    """Name the nodes whose process has ended by itself."""
    return [node.name for node in nodes if not node.is_running]
