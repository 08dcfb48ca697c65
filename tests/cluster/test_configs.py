"""The configurations in docker/: programs take them, however they are set, and they fit the service's limits."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from app.settings import Settings
from cluster import balancer as balancers
from cluster import servers
from cluster.balancer import Balancer
from cluster.cluster import Cluster

DOCKER = servers.DOCKER
HAPROXY = balancers.CONFIG.read_text(encoding="utf-8")
LIMITS = Settings()

needs_haproxy = pytest.mark.skipif(balancers.program() is None, reason="there is no haproxy on this machine")


def ran(*command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end, with these variables and the way to programs."""
    given = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run(command, cwd=DOCKER, capture_output=True, text=True, env=given)


def number(pattern: str) -> int:
    """Give the one number that a pattern finds in HAProxy's configuration; times in milliseconds."""
    [(found, unit)] = re.findall(rf"^ *{pattern} (\d+)(ms|s|)(?: .*)?$", HAPROXY, re.MULTILINE)
    return int(found) * {"s": 1000}.get(unit, 1)


@pytest.mark.parametrize("count", [1, 3])
def test_nats_takes_its_configuration(tmp_path: Path, count: int):
    """In a folder whose name a configuration might take for something else."""
    cluster = Cluster(tmp_path / '7 "odd" $folders', servers=count)

    for server in cluster.servers:
        done = ran(servers.program(), "-t", "-c", str(server.config), **server.environment())
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("password", ["NATS_PASSWORD", "NATS_ROUTES_PASSWORD"])
def test_nats_does_not_start_without_a_password(tmp_path: Path, password: str):
    [server, *_] = Cluster(tmp_path, servers=3).servers
    given = {name: value for name, value in server.environment().items() if name != password}

    done = ran(servers.program(), "-t", "-c", str(server.config), **given)

    assert done.returncode == 1
    assert password in done.stderr


def own_certificate(directory: Path) -> tuple[Path, Path]:
    """Make a certificate that signs itself, and its key; without openssl the test is skipped."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl on this machine to make a certificate")
    certificate, key = directory / "own.pem", directory / "own.key"
    kind = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost")
    made = ran("openssl", *kind, "-keyout", str(key), "-out", str(certificate))
    assert made.returncode == 0, made.stderr
    return certificate, key


def test_nats_takes_its_configuration_with_the_lines_of_tls(tmp_path: Path):
    certificate, key = own_certificate(tmp_path)
    for name in ("nats.conf", "nats-cluster.conf"):
        text = (DOCKER / name).read_text(encoding="utf-8")
        assert "#tls# " in text
        (tmp_path / name).write_text(text.replace("#tls# ", ""))
    [server, *_] = Cluster(tmp_path / "cluster", servers=3).servers
    given = {"NATS_CERTIFICATE": certificate, "NATS_KEY": key, "NATS_CA": certificate}

    quoted = {name: servers.quoted(str(path)) for name, path in given.items()}
    done = ran(servers.program(), "-t", "-c", str(tmp_path / "nats-cluster.conf"), **server.environment(), **quoted)
    missing = ran(servers.program(), "-t", "-c", str(tmp_path / "nats-cluster.conf"), **server.environment())

    assert done.returncode == 0, done.stderr
    assert "NATS_CERTIFICATE" in missing.stderr


def test_nats_has_each_write_on_disk_before_it_says_so_and_takes_what_the_service_writes():
    text = (DOCKER / "nats.conf").read_text(encoding="utf-8")

    assert re.search(r"^ *sync_interval: always$", text, re.MULTILINE)
    [payload] = re.findall(r"^max_payload: (\d+)MB$", text, re.MULTILINE)
    assert int(payload) * 1024 * 1024 > LIMITS.body_bytes_max


@needs_haproxy
@pytest.mark.parametrize("is_alternating", [False, True])
@pytest.mark.parametrize("count", [1, 2, 8])
def test_haproxy_takes_its_configuration(tmp_path: Path, count: int, is_alternating: bool):
    given = Cluster(tmp_path, servers=1, nodes=count, is_alternating=is_alternating)
    assert isinstance(given.balancer, Balancer)

    environment = given.balancer.environment()
    done = checked(**environment)

    assert (done.returncode, done.stderr) == (0, "")
    named = [place for name, place in environment.items() if name.startswith("POSEGATE_NODE_")]
    addresses = [node.address for node in given.nodes]
    assert named == (addresses if count > 1 else addresses * 2)


@needs_haproxy
def test_haproxy_takes_its_configuration_with_names_that_are_looked_up_while_it_runs(tmp_path: Path):
    done = checked(
        POSEGATE_BALANCER_LISTEN=":8080",
        POSEGATE_BALANCER_RESOLVES="1",
        POSEGATE_NODE_1="node-1.invalid:8080",
        POSEGATE_NODE_2="node-2.invalid:8080",
    )

    assert done.returncode == 0, done.stderr
    assert "ALERT" not in done.stderr


def test_where_names_are_looked_up_both_entries_of_a_node_are_given_its_address():
    """HAProxy gives it to one of them only, unless told otherwise: then nobody is asked while no node is ready."""
    [options] = re.findall(r"^ *default-server (.* resolvers .*)$", HAPROXY, re.MULTILINE)
    twice = set(re.findall(r"^ *server node-\d+-unready (\S+) backup$", HAPROXY, re.MULTILINE))

    assert twice == set(re.findall(r"^ *server node-\d+ (\S+) check$", HAPROXY, re.MULTILINE)) != set()
    assert "resolve-opts allow-dup-ip" in options


@needs_haproxy
def test_haproxy_takes_its_configuration_with_a_certificate(tmp_path: Path):
    certificate, key = own_certificate(tmp_path)
    both = tmp_path / "both.pem"
    both.write_text(certificate.read_text() + key.read_text())

    done = checked(
        POSEGATE_BALANCER_LISTEN=":8443",
        POSEGATE_BALANCER_CERTIFICATE=str(both),
        POSEGATE_NODE_1="127.0.0.1:8081",
        POSEGATE_NODE_2="127.0.0.1:8082",
    )

    assert done.returncode == 0, done.stderr


def checked(**environment: str) -> "subprocess.CompletedProcess[str]":
    """Have HAProxy look at its configuration."""
    program = balancers.program()
    assert program is not None
    return ran(program, "-c", "-q", "-f", str(balancers.CONFIG), **environment)


def test_the_balancer_takes_whatever_head_a_node_takes_so_that_the_node_refuses():
    room = number("tune.bufsize") - number("tune.maxrewrite")

    assert room > LIMITS.target_bytes_max + LIMITS.head_bytes_max + 1024
    assert number("tune.http.maxhdr") > LIMITS.header_items_max + 1


def test_the_balancer_waits_longer_than_a_node_so_that_the_node_says_what_is_wrong():
    slowest = max(LIMITS.body_ms_max, LIMITS.write_ms_max, 4 * LIMITS.watch_beat_ms)

    assert number("timeout client") > slowest
    assert number("timeout server") > slowest
    assert number("timeout tunnel") > LIMITS.ping_ms + LIMITS.pong_ms_max
    assert number("timeout http-request") == LIMITS.head_ms_max
    assert number("timeout http-keep-alive") <= LIMITS.idle_ms_max


def test_the_balancer_leaves_a_node_that_drains_before_it_stops_to_listen():
    [(inter, fast, fall)] = set(re.findall(r"inter (\d+)ms fastinter (\d+)ms downinter \d+ms fall (\d+)", HAPROXY))
    noticed_ms = int(inter) + (int(fall) - 1) * int(fast)

    assert 2 * noticed_ms <= LIMITS.drain_ms


def test_the_balancer_sends_again_only_what_was_never_sent():
    assert re.findall(r"^ *retry-on (.*)$", HAPROXY, re.MULTILINE) == ["conn-failure"]
