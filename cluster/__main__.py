"""`python -m cluster`: starts a cluster on this machine, says where it is, and stops it when told to."""

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from cluster import balancer
from cluster.children import ClusterError
from cluster.cluster import URL, Cluster
from cluster.ports import NODES_MAX, SERVERS_MAX

FAILED, MISUSED = 1, 2
LOOKS_S = 0.5
_OWN = {"POSEGATE_HOST", "POSEGATE_PORT", "POSEGATE_JOURNAL"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until told to stop (SIGINT, SIGTERM); told again, kill everything, which is a failure. Give the exit code."""
    asked = _parser().parse_args(arguments)
    if asked.balancer and asked.nodes and balancer.program() is None:
        print(f"cluster: {balancer.MISSING}; or leave it away: --no-balancer", file=sys.stderr)
        return MISUSED
    told, hurried, ended = threading.Event(), threading.Event(), set[str]()

    def stop(number: int, frame: FrameType | None) -> None:
        if told.is_set():
            hurried.set()
            cluster.kill()
        told.set()
        if not is_up:
            raise KeyboardInterrupt

    is_up = False
    try:
        cluster = Cluster(
            asked.directory,
            nodes=asked.nodes,
            servers=asked.servers,
            port=asked.port,
            with_balancer=asked.balancer,
            is_alternating=asked.alternate,
            settings=_settings(),
            say=_say,
        )
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        cluster.start()
        is_up = True
        _show(cluster, as_json=asked.json)
        while not told.wait(LOOKS_S):
            for part in cluster.parts:
                if not part.is_running and part.name not in ended:
                    ended.add(part.name)
                    _say(f"{part.name} ended with code {part.exit_code}; nothing is started again. {part.said()}")
        _say("stopping: the nodes answer what they were asked, then the servers stop")
        cluster.stop()
    except KeyboardInterrupt:
        _say("stopped before it was ready")
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return FAILED
    return FAILED if hurried.is_set() else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m cluster",
        description="Start NATS servers, posegate nodes and HAProxy on this machine, and stop them in order at Ctrl-C.",
        epilog="Example: python -m cluster --nodes 3 --port 9000. POSEGATE_… variables are the nodes' settings. "
        "Exit codes: 0 stopped as told, 1 failed, 2 called wrongly.",
    )
    parser.add_argument(
        "--nodes", type=int, default=2, help=f"posegate nodes, 0 to {NODES_MAX} (default 2); with 0 no balancer"
    )
    parser.add_argument(
        "--servers", type=int, default=3, choices=(1, SERVERS_MAX), help="NATS servers, each with all data (default 3)"
    )
    parser.add_argument(
        "--port",
        type=int,
        default=8080,
        help="the balancer's (default 8080); the 19 behind it are the others'; 0 takes free ones",
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path("var/cluster"),
        help="data and logs (default var/cluster); a later start, with as many servers, goes on",
    )
    parser.add_argument(
        "--alternate",
        action="store_true",
        help="send requests to the nodes in turn, whatever their scene: the worst case",
    )
    parser.add_argument("--no-balancer", dest="balancer", action="store_false", help="start no HAProxy: ask any node")
    parser.add_argument("--json", action="store_true", help="print the addresses as one JSON object")
    return parser


def _settings() -> dict[str, str]:
    """Give what the environment says of the nodes' settings, by their names."""
    given = {name: value for name, value in os.environ.items() if name.startswith("POSEGATE_") and name not in _OWN}
    return {name.removeprefix("POSEGATE_").lower(): value for name, value in given.items()}


def _show(cluster: Cluster, *, as_json: bool) -> None:
    """Print where everything is; the journal's URL holds a password, so its file is named instead."""
    places = {
        "balancer": cluster.balancer.url if cluster.balancer else None,
        "stats": f"http://{cluster.balancer.stats}/" if cluster.balancer else None,
        "nodes": {node.name: node.url for node in cluster.nodes},
        "servers": {server.name: server.address for server in cluster.servers},
        "monitors": {server.name: f"http://{server.monitor}" for server in cluster.servers},
        "processes": {part.name: part.pid for part in cluster.parts},
        "directory": str(cluster.directory),
        "journal_url_file": str(cluster.directory / URL),
    }
    if as_json:
        print(json.dumps(places), flush=True)
        return
    if cluster.balancer:
        print(f"posegate listens on {cluster.balancer.url}, and shows what goes where on {places['stats']}")
    for part, address in (*((each, each.url) for each in cluster.nodes), *((s, s.address) for s in cluster.servers)):
        print(f"  {part.name}  {address}  process {part.pid}")
    print(
        f"Data, logs and the journal's address ({URL}) are in {cluster.directory}; Ctrl-C stops everything.", flush=True
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
