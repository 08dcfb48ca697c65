"""compose.yaml holds to what is there: its files, the variables of what it starts, and the service's settings."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # its types are a package of their own

from app.settings import Settings

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
MADE_BY_THE_OPERATOR = {"keys", "docker/metrics.key"}
NODES, SERVERS = ("node-1", "node-2"), ("nats-1", "nats-2", "nats-3")


def mounts(service: str) -> dict[str, str]:
    """Give what a service sees of this tree: the path inside by the path here."""
    found = {}
    for each in SERVICES[service].get("volumes", ()):
        source, target = (each["source"], each["target"]) if isinstance(each, dict) else each.split(":")[:2]
        if source.startswith("."):
            found[source.removeprefix("./")] = target
    return found


def asked_by(name: str) -> set[str]:
    """Give the variables that a configuration in docker/ asks for, those that need not be there left out."""
    text = "\n".join(
        line for line in (ROOT / "docker" / name).read_text().splitlines() if not line.lstrip().startswith("#")
    )
    optional = set(re.findall(r"defined\((\w+)\)", text)) | set(re.findall(r"\$\{(\w+)-", text))
    return set(re.findall(r"\$\{?([A-Z]+_\w+)", text)) - optional


def test_the_profile_cluster_starts_what_a_cluster_is():
    started = {name for name, service in SERVICES.items() if "cluster" in service.get("profiles", ())}

    assert started == {*NODES, *SERVERS, "balancer", "cluster-prometheus", "grafana"}


def test_without_a_profile_one_service_starts_as_ever():
    assert [name for name, service in SERVICES.items() if "profiles" not in service] == ["posegate"]


@pytest.mark.parametrize("service", SERVICES)
def test_every_file_that_is_mounted_is_there_and_may_not_be_written(service: str):
    for source in mounts(service):
        assert source in MADE_BY_THE_OPERATOR or (ROOT / source).exists(), source
    for each in SERVICES[service].get("volumes", ()):
        if isinstance(each, dict):
            assert each["read_only"] is True
            assert each["bind"] == {"create_host_path": False}
        elif each.startswith("."):
            assert each.endswith(":ro")


@pytest.mark.parametrize("service", SERVICES)
def test_ports_are_open_to_this_machine_only(service: str):
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[service].get("ports", ()))


def test_no_two_that_run_together_want_one_port():
    together = [name for name in SERVICES if name != "prometheus"]
    ports = [port.rsplit(":", 1)[0] for name in together for port in SERVICES[name].get("ports", ())]

    assert len(set(ports)) == len(ports)


@pytest.mark.parametrize("service", ["posegate", *NODES])
def test_a_node_is_given_settings_that_there_are_and_the_time_to_stop(service: str):
    limits = Settings()
    given = SERVICES[service]["environment"]

    assert {name.removeprefix("POSEGATE_").lower() for name in given} <= set(Settings.model_fields)
    stop_s = (limits.drain_ms + 2 * limits.shutdown_ms_max) / 1000 + 1
    assert int(SERVICES[service]["stop_grace_period"].removesuffix("s")) > stop_s


def test_every_node_has_the_journal_on_all_three_servers():
    for node in NODES:
        url = SERVICES[node]["environment"]["POSEGATE_JOURNAL"]
        assert re.findall(r"nats-\d:4222", url) == [f"{server}:4222" for server in SERVERS]
        assert url.endswith("?replicas=3")
        assert set(SERVICES[node]["depends_on"]) == set(SERVERS)


def test_every_nats_server_is_told_all_that_its_configuration_asks_for():
    for server in SERVERS:
        given = SERVICES[server]["environment"]
        assert set(given) == asked_by("nats.conf") | asked_by("nats-cluster.conf")
        assert given["NATS_NAME"] == server
        assert [f"@{name}:6222" in given[f"NATS_ROUTE_{n}"] for n, name in enumerate(SERVERS, 1)] == [True] * 3
        assert mounts(server) == {f"docker/{name}": f"/etc/nats/{name}" for name in ("nats.conf", "nats-cluster.conf")}


def test_no_password_is_made_up_where_the_operator_gave_none():
    """Left without a value, a variable is not there, and NATS does not start; an empty password would be one."""
    for server in SERVERS:
        given = SERVICES[server]["environment"]
        assert (given["NATS_PASSWORD"], given["NATS_ROUTES_PASSWORD"]) == (None, None)
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"\$\{(\w+)([^}]*)\}", text)) == {("NATS_PASSWORD", "-"), ("NATS_ROUTES_PASSWORD", "-")}
    assert "/.env\n" in (ROOT / ".gitignore").read_text(encoding="utf-8")


def test_the_balancer_is_told_all_that_its_configuration_asks_for_and_nothing_that_it_does_not_know():
    given = SERVICES["balancer"]["environment"]
    known = set(re.findall(r"POSEGATE_(?:BALANCER|NODE)_\w+", (ROOT / "docker/haproxy.cfg").read_text()))

    assert asked_by("haproxy.cfg") <= set(given) <= known
    assert [given[f"POSEGATE_NODE_{n}"] for n in (1, 2)] == [f"{node}:8080" for node in NODES]


def test_prometheus_asks_every_node_by_itself():
    text = yaml.safe_load((ROOT / "docker/prometheus-cluster.yml").read_text(encoding="utf-8"))
    one = yaml.safe_load((ROOT / "docker/prometheus.yml").read_text(encoding="utf-8"))

    [job], [alone] = text["scrape_configs"], one["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"{node}:8080" for node in NODES]}]
    assert {**job, "static_configs": None} == {**alone, "static_configs": None}
    assert mounts("cluster-prometheus")["docker/prometheus-cluster.yml"] == "/etc/prometheus/prometheus.yml"
