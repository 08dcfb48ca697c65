"""Metrics count decisions by gate, command and outcome, and the sizes of turns."""

from app.telemetry.metrics import Metrics


def lines(metrics: Metrics) -> dict[str, float]:
    rows = [line.rpartition(" ") for line in metrics.render().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in rows}


def test_a_turn_counts_its_decisions_by_their_labels():
    metrics = Metrics()

    metrics.turn({("transition", "begin", "granted"): 3, ("event", "enqueue", "duplicate"): 1})
    metrics.turn({("transition", "begin", "granted"): 1})

    counted = lines(metrics)
    assert counted['posegate_decisions_total{command="begin",gate="transition",outcome="granted"}'] == 4
    assert counted['posegate_decisions_total{command="enqueue",gate="event",outcome="duplicate"}'] == 1
    assert counted["posegate_turn_commands_count"] == 2
    assert counted["posegate_turn_commands_sum"] == 5
    assert counted['posegate_turn_commands_bucket{le="1"}'] == 1
    assert counted['posegate_turn_commands_bucket{le="5"}'] == 2
    assert counted['posegate_turn_commands_bucket{le="+Inf"}'] == 2


def test_two_services_of_one_process_count_apart():
    one, other = Metrics(), Metrics()

    one.turn({("transition", "begin", "granted"): 1})

    assert lines(one)["posegate_turn_commands_count"] == 1
    assert lines(other)["posegate_turn_commands_count"] == 0
    assert not [name for name in lines(other) if name.startswith("posegate_decisions_total")]
