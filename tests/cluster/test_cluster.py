"""A small cluster, really started: one NATS server, two posegate nodes, and HAProxy where there is one."""

import asyncio
import json
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from threading import Event, Thread

import httpx
import pytest
from websockets.sync.client import connect

from cluster import balancer as balancers
from cluster.children import ClusterError
from cluster.cluster import PROCESSES, URL, Cluster
from posegate_client import Limits, Posegate

SETTINGS = {"drain_ms": "1000"}
HAS_HAPROXY = balancers.program() is not None
needs_haproxy = pytest.mark.skipif(not HAS_HAPROXY, reason="there is no haproxy on this machine")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a cluster whose balancer sends requests to the nodes in turn."""
    directory = tmp_path_factory.mktemp("cluster")
    with Cluster(directory, servers=1, with_balancer=HAS_HAPROXY, is_alternating=True, settings=SETTINGS) as running:
        yield running


def doors(cluster: Cluster) -> list[str]:
    """Give where clients come: the balancer, or, without one, each node."""
    return [cluster.balancer.url] if cluster.balancer else [node.url for node in cluster.nodes]


def test_one_scene_is_decided_by_both_nodes_in_one_order(cluster: Cluster):
    scene = "/v1/scenes/both"
    with httpx.Client(trust_env=False) as client:
        door = cycle(doors(cluster))
        client.put(f"{next(door)}{scene}/characters/hero", json={})
        begin = {"layer": "base", "target": "Run"}
        answers = [client.post(f"{next(door)}{scene}/characters/hero/begin", json=begin).json() for _ in range(10)]
        served = [
            'route="/v1/scenes/{scene}/characters/{character}/begin",status="200"'
            in client.get(f"{node.url}/metrics").text
            for node in cluster.nodes
        ]

    assert [answer["outcome"] for answer in answers] == ["granted"] * 10
    assert [answer["sequence"] for answer in answers] == list(range(2, 12))
    assert [answer["token"]["generation"] for answer in answers] == list(range(1, 11))
    assert served == [True, True]


def test_no_command_is_lost_or_doubled_while_a_node_is_restarted_in_order(cluster: Cluster):
    """Through the balancer; without one, a client of the other node."""
    url = doors(cluster)[-1]
    stopped, answered = Event(), list[int]()

    def command() -> None:
        with Posegate(url, limits=Limits(deadline_s=30.0, attempts_max=30)) as posegate:
            hero = posegate.scene("restarted").character("hero")
            hero.spawn()
            while not stopped.is_set():
                answered.append(hero.begin("base", "Run").sequence)

    commanding = Thread(target=command)
    commanding.start()
    before = len(answered)
    cluster.nodes[0].restart()
    after = len(answered)
    cluster.nodes[0].until(lambda: len(answered) > after + 10, "served again", 20)
    stopped.set()
    commanding.join(30)

    assert cluster.nodes[0].exit_code is None
    assert after > before
    assert answered == list(range(2, 2 + len(answered)))


@needs_haproxy
def test_a_watch_through_the_balancer_is_told_what_any_node_decides(cluster: Cluster):
    scene = f"{cluster.url}/v1/scenes/watched"
    told: list[int] = []
    with httpx.Client(trust_env=False, timeout=20) as client:
        client.put(f"{scene}/characters/hero", json={})
        with client.stream("GET", f"{scene}/watch?after=0") as watch:
            with httpx.Client(trust_env=False) as commands:
                for _ in range(4):
                    commands.post(f"{scene}/characters/hero/begin", json={"layer": "base", "target": "Run"})
            for line in watch.iter_lines():
                if line.startswith("data: "):
                    told += [each["sequence"] for each in json.loads(line.removeprefix("data: "))["decisions"]]
                if told and told[-1] == 5:
                    break

    assert told == [1, 2, 3, 4, 5]


@needs_haproxy
def test_a_channel_goes_through_the_balancer(cluster: Cluster):
    address = f"{cluster.url}/v1/scenes/channelled/channel".replace("http://", "ws://")
    with connect(address, proxy=None) as channel:
        channel.send('{"id":1,"command":"spawn","character":"hero"}')
        said = json.loads(channel.recv(timeout=10))

    assert (said["id"], said["answer"]["outcome"]) == (1, "spawned")


def test_it_knows_who_leads_the_streams(cluster: Cluster):
    [server] = cluster.servers

    assert cluster.leader("posegate-entries") is server
    assert {"posegate-entries", "posegate-heads"} <= set(server.leaders())


def test_a_server_that_is_restarted_has_its_data_and_the_nodes_find_it_again(cluster: Cluster):
    [server] = cluster.servers
    with Posegate(doors(cluster)[-1], limits=Limits(deadline_s=30.0, attempts_max=60)) as posegate:
        hero = posegate.scene("served-again").character("hero")
        before = hero.spawn().sequence
        server.restart()
        after = hero.begin("base", "Run").sequence

    assert (before, after) == (1, 2)


def test_its_passwords_are_for_its_user_only(cluster: Cluster):
    url = cluster.directory / URL

    assert url.stat().st_mode & 0o077 == 0
    assert url.read_text().strip() == cluster.journal_url
    password = cluster.journal_url.partition("@")[0].rpartition(":")[2]
    for log in cluster.directory.glob("*.log"):
        assert password not in log.read_text(errors="replace")
    for part in cluster.parts:
        assert password not in Path(f"/proc/{part.pid}/cmdline").read_text()


def test_a_second_one_does_not_run_in_the_same_directory(cluster: Cluster):
    with pytest.raises(ClusterError, match=r"runs in .* already"):
        Cluster(cluster.directory, servers=1, nodes=1).start()

    assert all(part.is_running for part in cluster.parts)


async def test_what_cannot_be_started_leaves_nothing_behind(tmp_path: Path):
    broken = Cluster(tmp_path, servers=1, nodes=1, with_balancer=False, settings={"port": "1"})
    broken.nodes[0].journal_url = "nothing:"

    with pytest.raises(ClusterError, match="node-1 ended with code 2"):
        await asyncio.wait_for(broken.__aenter__(), 30)

    assert not any(part.is_running for part in broken.parts)
    assert not (tmp_path / PROCESSES).exists()


@pytest.mark.parametrize(("nodes", "servers"), [(-1, 1), (9, 1), (2, 2), (2, 0)])
def test_a_size_that_it_has_not_is_refused(tmp_path: Path, nodes: int, servers: int):
    with pytest.raises(ClusterError, match="0 to 8 nodes"):
        Cluster(tmp_path, nodes=nodes, servers=servers)
