"""Metrics count requests, decisions, turns and what the journal does, each by labels that name no scene."""

from prometheus_client.parser import text_string_to_metric_families

from app import __version__
from app.telemetry.metrics import Metrics
from tests.telemetry.conftest import Serve


def lines(metrics: Metrics) -> dict[str, float]:
    rows = [line.rpartition(" ") for line in metrics.render().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in rows}


def test_a_turn_counts_its_decisions_by_their_labels():
    metrics = Metrics()

    metrics.turn({("transition", "begin", "granted"): 3, ("event", "enqueue", "duplicate"): 1}, 0.002)
    metrics.turn({("transition", "begin", "granted"): 1}, 0.4)

    counted = lines(metrics)
    assert counted['posegate_decisions_total{command="begin",gate="transition",outcome="granted"}'] == 4
    assert counted['posegate_decisions_total{command="enqueue",gate="event",outcome="duplicate"}'] == 1
    assert counted["posegate_turn_commands_count"] == 2
    assert counted["posegate_turn_commands_sum"] == 5
    assert counted['posegate_turn_commands_bucket{le="1"}'] == 1
    assert counted['posegate_turn_commands_bucket{le="5"}'] == 2
    assert counted['posegate_turn_commands_bucket{le="+Inf"}'] == 2
    assert counted['posegate_turn_seconds_bucket{le="0.0025"}'] == 1
    assert counted["posegate_turn_seconds_sum"] == 0.402


def test_stale_reports_of_every_command_are_counted_together():
    metrics = Metrics()

    metrics.turn({("transition", "complete", "stale_generation"): 2, ("transition", "cancel", "stale_epoch"): 1}, 0.1)
    metrics.turn({("event", "enqueue", "stale_epoch"): 4, ("transition", "complete", "committed"): 9}, 0.1)

    counted = lines(metrics)
    assert counted['posegate_stale_total{outcome="stale_generation"}'] == 2
    assert counted['posegate_stale_total{outcome="stale_epoch"}'] == 5


def test_stale_reports_are_zero_before_the_first_so_that_a_rise_from_none_is_a_rise():
    assert lines(Metrics())['posegate_stale_total{outcome="stale_generation"}'] == 0


def test_a_request_is_counted_by_route_method_and_status_and_timed_by_route_and_method():
    metrics = Metrics()

    metrics.request("/v1/scenes/{scene}", "GET", 200, 0.003)
    metrics.request("/v1/scenes/{scene}", "GET", 404, 0.0001)

    counted = lines(metrics)
    assert counted['posegate_requests_total{method="GET",route="/v1/scenes/{scene}",status="200"}'] == 1
    assert counted['posegate_requests_total{method="GET",route="/v1/scenes/{scene}",status="404"}'] == 1
    assert counted['posegate_request_seconds_count{method="GET",route="/v1/scenes/{scene}"}'] == 2
    assert counted['posegate_request_seconds_bucket{le="0.0005",method="GET",route="/v1/scenes/{scene}"}'] == 1


def test_problems_are_counted_by_name():
    metrics = Metrics()

    metrics.problem("journal-unavailable")
    metrics.problem("journal-unavailable")

    assert lines(metrics)['posegate_problems_total{outcome="journal-unavailable"}'] == 2


def test_problems_that_are_known_are_shown_at_zero_so_that_the_first_is_a_rise():
    metrics = Metrics(problems=["journal-unavailable", "commit-unknown"])

    metrics.problem("commit-unknown")

    counted = lines(metrics)
    assert counted['posegate_problems_total{outcome="journal-unavailable"}'] == 0
    assert counted['posegate_problems_total{outcome="commit-unknown"}'] == 1


def test_what_the_journal_does_is_timed_and_what_came_together_is_counted():
    metrics = Metrics()

    metrics.append(0.02)
    metrics.commit(7, 0.015)
    metrics.waited(0.3)

    counted = lines(metrics)
    assert (counted["posegate_append_seconds_count"], counted["posegate_append_seconds_sum"]) == (1, 0.02)
    assert (counted["posegate_commit_seconds_count"], counted["posegate_commit_seconds_sum"]) == (1, 0.015)
    assert (counted["posegate_commit_entries_count"], counted["posegate_commit_entries_sum"]) == (1, 7)
    assert (counted["posegate_mailbox_age_seconds_count"], counted["posegate_mailbox_age_seconds_sum"]) == (1, 0.3)


def test_what_is_asked_when_the_metrics_are_is_what_it_is_then():
    metrics, waiting = Metrics(), [3, 4]
    metrics.commands_waiting = lambda: sum(waiting)
    metrics.is_ready = lambda: bool(waiting)
    metrics.damaged_scenes = lambda: 2
    metrics.open_scenes = 5

    before = lines(metrics)
    waiting.clear()
    after = lines(metrics)

    assert (before["posegate_commands_waiting"], before["posegate_ready"]) == (7, 1)
    assert (after["posegate_commands_waiting"], after["posegate_ready"]) == (0, 0)
    assert (after["posegate_open_scenes"], after["posegate_damaged_scenes"]) == (5, 2)


def test_the_process_and_the_build_are_told():
    counted = lines(Metrics())

    [build] = [name for name in counted if name.startswith("posegate_build_info{")]
    assert f'version="{__version__}"' in build
    assert counted["process_resident_memory_bytes"] > 1_000_000


def test_the_digest_of_the_limits_is_told():
    metrics = Metrics()
    metrics.limits_digest = "0123456789abcdef"

    assert lines(metrics)['posegate_limits_info{digest="0123456789abcdef"}'] == 1


async def test_nodes_with_different_limits_tell_different_digests(serve: Serve):
    told = []
    for limits in ({}, {"remains_max": 5}, {}):
        async with serve(**limits) as client:
            text = (await client.get("/metrics")).text
            told += [line for line in text.splitlines() if line.startswith("posegate_limits_info")]

    assert told[0] == told[2] != told[1]
    assert len(told) == 3


def test_all_of_it_is_readable_text_and_every_family_says_what_it_is():
    families = list(text_string_to_metric_families(Metrics().render().decode()))

    assert len(families) > 15
    assert not [family.name for family in families if not family.documentation]


def test_two_services_of_one_process_count_apart():
    one, other = Metrics(), Metrics()

    one.turn({("transition", "begin", "granted"): 1}, 0.1)

    assert lines(one)["posegate_turn_commands_count"] == 1
    assert lines(other)["posegate_turn_commands_count"] == 0
    assert not [name for name in lines(other) if name.startswith("posegate_decisions_total")]
