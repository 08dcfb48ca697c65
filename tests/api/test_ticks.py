"""Bundles and ticks over HTTP: one decision each, keyed like any other, and their answers read again."""

from typing import Any

import pytest

from app.settings import Settings
from tests.support.caller import Caller
from tests.support.served import served

RUN = {"command": "begin", "character": "hero", "layer": "base", "target": "Run"}
HIT = {**RUN, "target": "Hit"}
FLY = {**RUN, "target": "Fly"}


def requested(tick: int, command: dict[str, Any], number: int = 1, source: str = "ai") -> dict[str, Any]:
    return {"tick": tick, "source": source, "number": number, **command}


def asked(call: Caller, name: str, body: Any, **headers: str) -> dict[str, Any]:
    reply = call.ask("POST", name, body, **headers)
    assert reply.status == 200, reply
    answer: dict[str, Any] = reply.body
    return answer


def seals(value: Any) -> int:
    """Count the seals in an answer."""
    if isinstance(value, list):
        return sum(map(seals, value))
    if not isinstance(value, dict):
        return 0
    return isinstance(value.get("seal"), str) + sum(map(seals, value.values()))


def test_a_bundle_is_one_decision_with_an_answer_for_each_command(call: Caller):
    answer = asked(
        call, "bundle", {"commands": [RUN, {"command": "complete", "character": "hero", "token": {"answer": 0}}]}
    )

    assert (answer["accepted"], answer["sequence"], seals(answer)) == (True, 2, 1)
    assert [each["outcome"] for each in answer["answers"]] == ["granted", "committed"]
    assert {each["sequence"] for each in answer["answers"]} == {2}


def test_a_refused_bundle_shows_no_seal_and_changes_nothing(call: Caller):
    before = call.state()

    answer = asked(call, "bundle", {"commands": [RUN, FLY, HIT]})

    assert (answer["accepted"], answer["failed_at"], seals(answer)) == (False, 1, 0)
    assert [each and each["outcome"] for each in answer["answers"]] == [None, "unknown_state"]
    assert call.state() == before


@pytest.mark.parametrize(
    ("path", "body"),
    [("bundle", {"commands": [RUN]}), ("tick", {"requests": [requested(1, RUN)], "seal": 1}), ("tick", {"seal": 0})],
    ids=["bundle", "tick", "a refused tick"],
)
def test_a_key_gives_the_same_answer_and_another_body_under_it_is_a_problem(call: Caller, path: str, body: Any):
    first = asked(call, path, body, idempotency_key="12345678")
    again = asked(call, path, body, idempotency_key="12345678")
    other = call.ask("POST", "tick", {"seal": 5}, idempotency_key="12345678")

    assert first == again
    assert other.problem[:2] == ("key-reused", 422)


def test_a_key_is_one_over_all_doors(call: Caller):
    keyed = {"command": "tick", "requests": [requested(1, RUN)], "seal": 1, "key": "12345678"}

    [first] = asked(call, "batch", {"commands": [keyed]})["answers"]
    again = asked(call, "tick", {"requests": [requested(1, RUN)], "seal": 1}, idempotency_key="12345678")

    assert first == again


def test_the_answers_of_a_sealed_tick_are_read_again_with_their_seals_by_source(call: Caller):
    sealed = asked(call, "tick", {"requests": [requested(1, RUN), requested(1, HIT, source="player")], "seal": 1})

    everything = call.ask("GET", "ticks/1/answers").body
    one = call.ask("GET", "ticks/1/answers?source=player").body

    assert everything == {"tick": 1, "answers": sealed["seal"]["answers"]}
    assert [each["source"] for each in one["answers"]] == ["player"]
    assert seals(one) == 1


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("ticks/9/answers", ("unknown-tick", 404)),
        ("ticks/-1/answers", ("invalid", 422)),
        ("ticks/x/answers", ("invalid", 422)),
    ],
)
def test_a_tick_that_was_not_sealed_has_no_answers(call: Caller, path: str, problem: tuple[str, int]):
    assert call.ask("GET", path).problem[:2] == problem
    assert call.elsewhere().ask("GET", path).problem[1] in (404, 422)


def test_answers_too_old_to_be_rolled_back_are_gone(call: Caller):
    asked(call, "tick", {"requests": [requested(1, RUN)], "seal": 1})
    asked(call, "tick", {"seal": 64})
    kept = call.ask("GET", "ticks/1/answers")
    asked(call, "tick", {"seal": 65})

    assert len(kept.body["answers"]) == 1
    assert call.ask("GET", "ticks/1/answers").problem[:2] == ("unknown-tick", 404)


def test_answers_of_ticks_that_were_rolled_back_are_gone_until_they_are_sealed_again(call: Caller):
    asked(call, "tick", {"requests": [requested(2, RUN)], "seal": 2})
    asked(call, "tick", {"rollback": 1})
    gone = call.ask("GET", "ticks/2/answers")

    asked(call, "tick", {"requests": [requested(2, HIT)], "seal": 2})

    assert gone.problem[:2] == ("unknown-tick", 404)
    [again] = call.ask("GET", "ticks/2/answers").body["answers"]
    assert again["answer"]["token"]["to"] == "Hit"


def test_a_problem_inside_a_seal_stands_in_its_place(call: Caller):
    nobody = {**RUN, "character": "nobody"}

    sealed = asked(call, "tick", {"requests": [requested(1, nobody), requested(1, RUN, 2)], "seal": 1})

    first, second = (each["answer"] for each in sealed["seal"]["answers"])
    assert (first["problem"]["type"], first["problem"]["status"]) == ("/problems/unknown-character", 404)
    assert second["outcome"] == "granted"


def test_the_history_shows_bundles_and_ticks_without_any_seal(call: Caller):
    asked(call, "bundle", {"commands": [RUN]})
    asked(call, "bundle", {"commands": [HIT, {"command": "complete", "character": "hero", "token": {"answer": 0}}]})
    asked(call, "tick", {"requests": [requested(1, {"command": "bundle", "commands": [RUN]})], "seal": 1})

    page = call.ask("GET", "history").body

    assert seals(page) == 0
    assert [decision["command"] for decision in page["decisions"]] == ["spawn", "bundle", "bundle", "tick"]
    assert page["decisions"][2]["asked"]["commands"][1] == {
        "command": "complete",
        "character": "hero",
        "token": {"answer": 0},
    }
    assert page["decisions"][3]["asked"]["requests"][0]["commands"][0]["target"] == "Run"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("character=hero", [1, 2, 3, 4]),
        ("character=nobody", []),
        ("command=bundle", [2, 3]),
        ("outcome=bundled", [2]),
        ("outcome=member_refused", [3]),
        ("outcome=already_sealed", [5]),
        ("refused=true", [3, 5]),
        ("layer=base", [2, 3, 4]),
        ("layer=face", []),
    ],
)
def test_the_history_of_a_character_holds_what_concerned_it_with_others(call: Caller, query: str, expected: list[int]):
    asked(call, "bundle", {"commands": [RUN]})
    asked(call, "bundle", {"commands": [HIT, FLY]})
    asked(call, "tick", {"requests": [requested(1, RUN)], "seal": 1})
    asked(call, "tick", {"seal": 1})

    page = call.ask("GET", f"history?{query}").body

    assert [decision["sequence"] for decision in page["decisions"]] == expected


def test_a_scene_shows_its_ticks(call: Caller):
    fresh = call.ask("GET", "").body["ticks"]
    sealed = asked(call, "tick", {"requests": [requested(3, RUN), requested(9, RUN, 2)], "seal": 4, "confirm": 2})

    assert fresh["tick_hz"] == 60
    assert call.ask("GET", "").body["ticks"] == {
        "open": 5,
        "sealed": 4,
        "confirmed": 2,
        "timeline": 0,
        "rollback_from": 2,
        "requests": 1,
        "digest": sealed["seal"]["digest"],
        "tick_hz": 60,
    }


def test_every_refusal_is_counted_under_its_own_word(call: Caller):
    """Of a tick with nothing accepted that is its first part's; counted as `ticked` it would look like success."""

    def counted(outcome: str) -> float:
        text = call.ask("GET", "/metrics").content.decode()
        lines = [line for line in text.splitlines() if f'outcome="{outcome}"' in line and 'command="tick"' in line]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    before = counted("already_sealed")

    asked(call, "tick", {"seal": 0})

    assert counted("already_sealed") == before + 1


def test_the_limits_are_settings():
    with served(Settings(journal="memory:", bundle_commands_max=1, tick_requests_max=1)) as send:
        call = Caller(send)
        call.spawn()

        too_large = call.ask("POST", "bundle", {"commands": [RUN, HIT]})
        full = asked(call, "tick", {"requests": [requested(1, RUN), requested(1, HIT, 2)]})

    assert too_large.problem == ("too-large", 413, "commands")
    assert [each["outcome"] for each in full["requests"]] == ["queued", "queue_full"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("tick", {"seal": 2**52 + 1}),
        ("tick", {"confirm": 2**52 + 1}),
        ("tick", {"requests": [requested(2**52 + 1, RUN)]}),
        ("characters/hero/begin", {"layer": "base", "target": "Run", "deadline_ticks": 2**31}),
        ("characters/hero/begin", {"layer": "base", "target": "Run", "min_ticks": 2**31}),
    ],
)
def test_no_tick_is_so_high_that_what_follows_it_is_no_number_of_every_client(call: Caller, path: str, body: Any):
    assert call.ask("POST", path, body).body["type"] == "/problems/invalid"
    assert asked(call, "tick", {"seal": 2**52})["seal"]["accepted"] is True
