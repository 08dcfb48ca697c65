"""The balancer before nodes that do as they are told: who gets what, and what a client hears when a node goes away."""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import httpx
import pytest

from app.api.problems import KINDS
from cluster import balancer as balancers
from cluster.balancer import Balancer
from cluster.children import ClusterError
from cluster.ports import Ports
from tests.cluster.scripted import DEATH, HELD, Scripted, scripted

pytestmark = pytest.mark.skipif(balancers.program() is None, reason="there is no haproxy on this machine")
SEEN_S_MAX = 10.0


@contextmanager
def balanced(
    directory: Path, nodes: list[Scripted], *, is_alternating: bool = False
) -> Iterator[tuple[Balancer, httpx.Client]]:
    """Run a balancer before nodes; give it and a client of it, once all nodes are seen."""
    ports = Ports.free()
    balancer = Balancer(
        directory / "balancer.log",
        nodes,
        port=ports.balancer,
        stats_port=ports.stats,
        is_alternating=is_alternating,
    )
    balancer.start()
    try:
        balancer.ready()
        until(lambda: all(state == "UP" for state in balancer.states().values()), balancer)
        with httpx.Client(base_url=balancer.url, trust_env=False) as client:
            yield balancer, client
    finally:
        balancer.kill()


def until(is_so: Callable[[], bool], balancer: Balancer) -> None:
    """Wait until the balancer has noticed something."""
    balancer.until(is_so, "noticed", SEEN_S_MAX)


def test_a_scene_stays_with_one_node_and_scenes_are_spread_over_all(tmp_path: Path):
    with scripted(3) as nodes, balanced(tmp_path, nodes) as (_, client):
        places = [
            {client.get(f"/v1/scenes/match-{scene}{rest}").text for rest in ("", "/watch", "/characters/hero?x=1")}
            for scene in range(60)
        ]

    assert all(len(place) == 1 for place in places)
    counted = Counter(place.pop() for place in places)
    assert len(counted) == 3
    assert min(counted.values()) >= 10


def test_what_names_no_scene_is_shared_by_all(tmp_path: Path):
    with scripted(2) as nodes, balanced(tmp_path, nodes) as (_, client):
        said = [
            client.get(path).text for path in ("/v1/scenes", "/v1/info", "/metrics", "/v1/scenes?after=match-7") * 3
        ]

    assert min(Counter(said)[node.name] for node in nodes) >= 3


def test_alternating_sends_one_scene_to_each_node_in_turn(tmp_path: Path):
    with scripted(2) as nodes, balanced(tmp_path, nodes, is_alternating=True) as (balancer, client):
        said = [client.get("/v1/scenes/match-7").text for _ in range(6)]
        chosen = balancer.chosen()

    assert chosen == {"node-1": 3, "node-2": 3}
    assert said in (["node-1", "node-2"] * 3, ["node-2", "node-1"] * 3)


def test_a_request_keeps_its_id_and_says_where_it_really_comes_from(tmp_path: Path):
    with scripted(2) as nodes, balanced(tmp_path, nodes) as (_, client):
        client.get("/v1/scenes/a", headers={"X-Request-Id": "frame-7", "X-Forwarded-For": "203.0.113.9"})
        [(_, headers)] = nodes[0].requests + nodes[1].requests

    assert headers["x-request-id"] == "frame-7"
    assert headers["x-forwarded-for"] == "127.0.0.1"


def test_an_unready_node_gets_nothing_new_and_ends_what_it_has(tmp_path: Path):
    with scripted(2) as nodes, balanced(tmp_path, nodes) as (balancer, client):
        held: list[str] = []
        asking = Thread(target=lambda: held.append(httpx.get(f"{balancer.url}{HELD}", trust_env=False).text))
        asking.start()
        until(lambda: any(node.is_held.is_set() for node in nodes), balancer)
        [its] = [node for node in nodes if node.is_held.is_set()]
        [other] = [node for node in nodes if node is not its]

        its.is_welcoming = False
        until(lambda: balancer.states()[its.name].startswith("DOWN"), balancer)
        moved = {client.get(f"/v1/scenes/match-{scene}").text for scene in range(20)}
        its.release.set()
        asking.join(SEEN_S_MAX)
        its.is_welcoming = True
        until(lambda: balancer.states()[its.name] == "UP", balancer)
        back = client.get("/v1/scenes/a").text

    assert moved == {other.name}
    assert held == [its.name]
    assert back == its.name


def test_when_a_node_goes_its_scenes_move_and_no_others(tmp_path: Path):
    scenes = [f"/v1/scenes/match-{scene}" for scene in range(60)]
    with scripted(3) as nodes, balanced(tmp_path, nodes) as (balancer, client):
        before = {scene: client.get(scene).text for scene in scenes}
        nodes[0].is_welcoming = False
        until(lambda: balancer.states()["node-1"].startswith("DOWN"), balancer)
        after = {scene: client.get(scene).text for scene in scenes}

    moved = [scene for scene in scenes if before[scene] != after[scene]]
    assert moved == [scene for scene in scenes if before[scene] == "node-1"]
    assert {after[scene] for scene in moved} == {"node-2", "node-3"}


def test_when_no_node_is_ready_all_are_asked_all_the_same(tmp_path: Path):
    """Reads are answered then, and the first command that succeeds shows that the journal is there again."""
    with scripted(2) as nodes, balanced(tmp_path, nodes) as (balancer, client):
        for node in nodes:
            node.is_welcoming = False
        until(lambda: all(state.startswith("DOWN") for state in balancer.states().values()), balancer)

        answers = [client.get(f"/v1/scenes/match-{scene}") for scene in range(20)]

    assert {answer.status_code for answer in answers} == {200}
    assert {answer.text for answer in answers} == {"node-1", "node-2"}


def test_a_request_that_was_sent_is_not_sent_again(tmp_path: Path):
    with scripted(2) as nodes, balanced(tmp_path, nodes) as (_, client):
        answer = client.post(DEATH, content=b"{}")
        sent = [path for node in nodes for path in node.paths if path == DEATH]

    assert len(sent) == 1
    assert (answer.status_code, answer.json()["type"]) == (502, "/problems/commit-unknown")
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_neither_is_one_on_a_connection_that_was_used_before_and_there_the_client_hears_its_end(tmp_path: Path):
    """HAProxy leaves it to the client then, as a server does that lets go of an idle connection."""
    with scripted(2) as nodes, balanced(tmp_path, nodes) as (_, client):
        client.get("/v1/scenes/a")
        with pytest.raises(httpx.RemoteProtocolError):
            client.post(DEATH, content=b"{}")
        sent = [path for node in nodes for path in node.paths if path == DEATH]

    assert len(sent) == 1


def test_a_node_that_refuses_to_be_connected_to_is_passed_over(tmp_path: Path):
    """At once, not only when the next probe has failed: nothing was sent yet."""
    with scripted(2) as nodes, balanced(tmp_path, nodes) as (_, client):
        nodes[0].close()
        answers = [client.post(f"/v1/scenes/match-{scene}", content=b"{}") for scene in range(20)]

    assert {answer.text for answer in answers} == {"node-2"}
    assert len(nodes[1].paths) == 20


def test_when_no_node_is_there_a_problem_says_that_nothing_was_sent(tmp_path: Path):
    with scripted(2) as nodes, balanced(tmp_path, nodes) as (_, client):
        for node in nodes:
            node.close()
        answer = client.post("/v1/scenes/match-7/batch", content=b"{}")

    said = answer.json()
    assert (answer.status_code, said["type"], said["retryable"]) == (503, "/problems/journal-unavailable", True)
    assert answer.headers["Retry-After"] == "1"


def test_every_problem_of_the_balancer_is_one_that_the_service_explains():
    text = balancers.CONFIG.read_text(encoding="utf-8")
    quoted = [line.split("string '")[1].split("'")[0] for line in text.splitlines() if " http-error status " in line]
    said = [httpx.Response(200, text=each).json() for each in quoted]

    assert {problem["status"] for problem in said} == {400, 408, 500, 502, 503, 504}
    for problem in said:
        kind = KINDS[problem["type"].removeprefix("/problems/")]
        assert (problem["title"], problem["retryable"]) == (kind.title, kind.retryable)


def test_without_haproxy_it_says_where_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    balancer = Balancer(tmp_path / "balancer.log", [], port=1, stats_port=2, is_alternating=False)

    with pytest.raises(ClusterError, match="apt-get install haproxy"):
        balancer.start()


def test_told_to_stop_it_lets_what_runs_come_to_its_end(tmp_path: Path):
    with scripted(2) as nodes, balanced(tmp_path, nodes) as (balancer, _):
        held: list[str] = []
        asking = Thread(target=lambda: held.append(httpx.get(f"{balancer.url}{HELD}", trust_env=False).text))
        asking.start()
        until(lambda: any(node.is_held.is_set() for node in nodes), balancer)

        stopping = Thread(target=balancer.stop)
        stopping.start()
        deadline = time.monotonic() + SEEN_S_MAX
        while balancer.states() and time.monotonic() < deadline:
            time.sleep(0.02)
        for node in nodes:
            node.release.set()
        asking.join(SEEN_S_MAX)
        stopping.join(SEEN_S_MAX)

    assert held in (["node-1"], ["node-2"])
    assert balancer.exit_code == 0
