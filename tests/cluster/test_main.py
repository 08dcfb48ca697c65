"""`python -m cluster` as a person calls it: it says where everything is, stops when told, and goes on with the data."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from cluster.cluster import SERVERS
from cluster.ports import Ports

ROOT = Path(__file__).parents[2]


@contextmanager
def started(directory: Path) -> Iterator[tuple["subprocess.Popen[str]", dict[str, Any]]]:
    """Start the smallest cluster; give its process and what it printed. It is killed at the end if it still runs."""
    command = [sys.executable, "-m", "cluster", "--servers", "1", "--nodes", "1", "--port", "0", "--no-balancer"]
    process = subprocess.Popen(
        [*command, "--json", "--directory", str(directory)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "POSEGATE_DRAIN_MS": "50"},
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, process.communicate(timeout=30)[1]
        yield process, json.loads(line)
    finally:
        process.kill()
        process.communicate()


def is_there(pid: int) -> bool:
    """Say whether a process runs, or has not been noticed to have ended."""
    return Path(f"/proc/{pid}").exists()


def test_it_stops_everything_when_told_and_goes_on_with_the_data_and_ends_what_a_kill_left(tmp_path: Path):
    scene = "/v1/scenes/kept/characters/hero"
    with started(tmp_path) as (process, places):
        assert httpx.put(f"{places['nodes']['node-1']}{scene}", json={}, trust_env=False).status_code == 201
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
        ended = process.returncode
    left = [pid for pid in places["processes"].values() if is_there(pid)]
    with started(tmp_path) as (process, places):
        found = httpx.get(f"{places['nodes']['node-1']}{scene}", trust_env=False).status_code
        process.kill()
        process.wait()
    orphans = [pid for pid in places["processes"].values() if is_there(pid)]
    with started(tmp_path) as (process, places):
        again = httpx.get(f"{places['nodes']['node-1']}{scene}", trust_env=False).status_code
        process.send_signal(signal.SIGINT)
        _, said_then = process.communicate(timeout=30)

    assert (ended, left) == (0, [])
    assert "everything is stopped" in said
    assert (found, len(orphans), again) == (200, 2, 200)
    assert all(f"process {pid} was left by an earlier run" in said_then for pid in orphans)


def test_without_haproxy_it_says_what_to_install_and_what_else_to_do():
    blind = "from cluster import __main__ as it; it.balancer.program = lambda: None; raise SystemExit(it.main())"
    done = subprocess.run([sys.executable, "-c", blind], cwd=ROOT, capture_output=True, text=True, timeout=30)

    assert done.returncode == 2
    assert "apt-get install haproxy" in done.stderr
    assert "--no-balancer" in done.stderr


def test_its_help_names_every_option_with_an_example():
    done = subprocess.run([sys.executable, "-m", "cluster", "--help"], cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0
    for option in (
        "--nodes",
        "--servers",
        "--port",
        "--directory",
        "--alternate",
        "--no-balancer",
        "--json",
        "Example:",
    ):
        assert option in done.stdout


def test_a_size_that_it_has_not_is_refused_in_a_line(tmp_path: Path):
    command = [sys.executable, "-m", "cluster", "--nodes", "9", "--no-balancer", "--directory", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "0 to 8 nodes" in done.stderr


def refused(directory: Path, *arguments: str) -> str:
    """Call it, and give the one line with which it ends."""
    command = [sys.executable, "-m", "cluster", "--no-balancer", "--directory", str(directory), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    return done.stderr


def test_a_port_that_is_taken_is_named_before_anything_is_started(tmp_path: Path):
    block = Ports.free()
    with socket.create_server(("127.0.0.1", block.node(1))):
        said = refused(tmp_path, "--servers", "1", "--port", str(block.balancer))

    assert f"port {block.node(1)} of 127.0.0.1, for node-2, is taken: choose other ports with --port" in said
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_ports_that_do_not_exist_are_refused(tmp_path: Path):
    assert "--port is 1 to 65516" in refused(tmp_path, "--port", "65530")


def test_data_of_another_number_of_servers_are_not_touched(tmp_path: Path):
    (tmp_path / SERVERS).write_text("3\n")
    noted = refused(tmp_path, "--servers", "1", "--port", "0")
    (tmp_path / SERVERS).unlink()
    for number in (1, 2, 3):
        (tmp_path / f"nats-{number}").mkdir()
    found = refused(tmp_path, "--servers", "1", "--port", "0")

    assert noted == found
    assert "give --servers 3, or --directory another folder" in noted
