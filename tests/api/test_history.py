"""The history says why a character is in its state, decision by decision, and can be narrowed."""

from typing import Any

import pytest

from app.api.history import layers_of
from app.gates.event_commands import DeliveriesAcknowledged, Play
from app.gates.scene import Record
from app.gates.transition import Begin
from tests.support.caller import Caller


@pytest.fixture
def told(call: Caller) -> Caller:
    """Play the hit-reaction story, and let somebody else run."""
    call.spawn("other", {})
    run = call.accepted("begin", {"layer": "base", "target": "Run"})["token"]
    call.accepted("begin", {"layer": "base", "target": "Hit"})
    call.command("complete", {"token": run})
    call.accepted("begin", {"layer": "face", "target": "Smile"})
    call.accepted("begin", {"layer": "base", "target": "Run"}, "other")
    return call


def sequences(page: dict[str, Any]) -> list[int]:
    return [decision["sequence"] for decision in page["decisions"]]


def test_every_decision_is_told_in_order(told: Caller):
    page = told.ask("GET", "history").body

    assert sequences(page) == list(range(1, 8))
    assert page["next"] is None
    assert [decision["command"] for decision in page["decisions"]][:3] == ["spawn", "spawn", "begin"]
    assert page["decisions"][4]["answer"]["outcome"] == "stale_generation"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("after=5", [6, 7]),
        ("character=other", [2, 7]),
        ("layer=face", [6]),
        ("layer=base&character=hero", [3, 4, 5]),
        ("command=complete", [5]),
        ("outcome=granted", [3, 4, 6, 7]),
        ("refused=true", [5]),
        ("refused=false&after=6", [7]),
        ("character=nobody", []),
        ("after=7", []),
        ("after=9007199254740991", []),
    ],
)
def test_the_history_is_narrowed(told: Caller, query: str, expected: list[int]):
    page = told.ask("GET", f"history?{query}").body

    assert sequences(page) == expected
    assert page["next"] is None


def test_the_history_is_read_page_by_page_until_next_is_null(told: Caller):
    read: list[int] = []
    after: int | None = 0
    while after is not None:
        page = told.ask("GET", f"history?after={after}&limit=2&outcome=granted").body
        assert len(page["decisions"]) <= 2
        read += sequences(page)
        after = page["next"]

    assert read == [3, 4, 6, 7]


@pytest.mark.parametrize("query", ["after=-1", "limit=0", "refused=perhaps", f"layer={'x' * 129}"])
def test_a_query_that_does_not_fit_is_invalid(told: Caller, query: str):
    assert told.ask("GET", f"history?{query}").problem == ("invalid", 422, query.partition("=")[0])


def test_a_play_without_a_layer_concerns_none():
    answer = DeliveriesAcknowledged()

    assert layers_of(Record("hero", Play(clip="Walk"), answer, 1)) == set()
    assert layers_of(Record("hero", Play(clip="Walk", layer="base"), answer, 1)) == {"base"}
    assert layers_of(Record("hero", Begin(layer="face", target="Run"), answer, 1)) == {"face"}
