import pytest

from app.replay.naive import NaiveClient, is_non_finite, is_same
from tests.support.recorded import Recorder


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def client():
    return NaiveClient()


def test_every_completion_writes_the_state_the_late_one_too(client, recorder):
    for line in [recorder.complete("h2", "hit"), recorder.complete("h1", "run")]:
        client.see(line)

    assert client.states == {("hero", "base"): "run"}


def test_a_begin_writes_nothing(client, recorder):
    client.see(recorder.begin("h1", "run"))

    assert client.states == {}


def test_values_are_written_one_by_one_the_broken_ones_too(client, recorder):
    client.see(recorder.parameters(("Speed", 1), ("Turn", 0.5)))
    client.see(recorder.parameters(("Speed", "NaN"), ("Speed", 2), ("Up", "Infinity")))

    assert client.parameters == {"hero": {"Speed": 2, "Turn": 0.5, "Up": "Infinity"}}


def test_every_mark_fires_the_doubled_one_too(client, recorder):
    for line in [recorder.play(1), recorder.event(1), recorder.event(1), recorder.commit_loop(1)]:
        client.see(line)

    assert client.fired == 2


def test_the_graph_that_arrived_last_is_shown_finished_or_not(client, recorder):
    client.see(recorder.candidate(2, "CombatV9"))
    client.see(recorder.candidate(1, "ExploreV8", (), evaluated=False))

    assert client.graphs == {"hero": "ExploreV8"}


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", None, float("nan"), float("inf")])
def test_what_is_not_finite(value):
    assert is_non_finite(value)


@pytest.mark.parametrize("value", ["nearly", 0, 1.5, True])
def test_what_is_not_not_finite(value):
    assert not is_non_finite(value)


def test_values_are_the_same_as_json_compares_them():
    assert is_same(4, 4.0)
    assert not is_same(True, 1)
    assert not is_same("NaN", 0.0)
    assert is_same(False, False)
