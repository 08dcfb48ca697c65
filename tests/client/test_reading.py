"""Every answer that a scenario or a bug report gets, read by the client and written again, is what was sent."""

import itertools
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from posegate_client import answers as said
from posegate_client.answers import Accepted, Answer, Applied, BundleRefused, Refused
from posegate_client.calls import decisions_of
from posegate_client.problems import NotPosegate, Problem
from posegate_client.reading import answer_of
from posegate_client.values import Token
from tests.support.player import play
from tests.support.scenario import read_all

FOLDERS = [Path(__file__).parents[1] / name for name in ("scenarios", "cases")]
SCENARIOS = [scenario for folder in FOLDERS for scenario in read_all(folder)]

_numbers = itertools.count(1)

GRANTED: dict[str, Any] = {
    "accepted": True,
    "retryable": False,
    "sequence": 12,
    "revision": 9,
    "outcome": "granted",
    "token": {"character": "hero", "layer": "base", "epoch": 1, "generation": 2, "from": "Idle", "to": "Hit"},
    "superseded": None,
}


def written(value):
    """An answer as the wire has it; a problem among answers stands in an object of its own."""
    if isinstance(value, Problem):
        return {"problem": {"retryable": False, **plain(value)}}
    if isinstance(value, Applied):
        return {**plain(value, "answer"), "answer": written(value.answer)}
    if isinstance(value, said.Bundled | said.BundleRefused):
        return {
            **plain(value, "answers"),
            "answers": [each if each is None else written(each) for each in value.answers],
        }
    if isinstance(value, said.Sealed):
        return {**plain(value, "answers"), "answers": [written(each) for each in value.answers]}
    if isinstance(value, said.TickAnswer):
        shown = plain(value)
        if isinstance(value.seal, said.Sealed):
            shown["seal"] = written(value.seal)
        return shown
    return plain(value)


def plain(value, without=None):
    shown = json.loads(msgspec.json.encode(value))
    shown.pop(without, None)
    return shown


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_every_answer_is_read_whole(scenario, send):
    """What a value lacks or adds would show here: each is written again and compared with the bytes that came."""
    seen = []

    def noted(method, target, headers, body):
        response = send(method, target, headers, body)
        if response.status == 200 and method != "PUT" and response.headers.get("content-type") == "application/json":
            seen.append((target, response.content))
        return response

    play(scenario, noted, f"read-{next(_numbers)}")

    for target, content in seen:
        body = json.loads(content)
        if "decisions" in body:
            decisions, following = decisions_of(content)
            assert [written(each.answer) for each in decisions] == [each["answer"] for each in body["decisions"]]
            assert following == body["next"]
        elif "outcome" in body:
            assert written(answer_of(content)) == body, target
        elif target.endswith("/batch"):
            read = [answer_of(json.dumps(each).encode()) for each in body["answers"]]
            assert list(map(written, read)) == body["answers"]


def test_the_scenarios_were_found():
    assert len(SCENARIOS) > 200


def test_members_that_a_newer_service_adds_are_left_out():
    body = {**GRANTED, "colour": "red", "token": {**GRANTED["token"], "weight": 3}}

    assert answer_of(json.dumps(body).encode()) == answer_of(json.dumps(GRANTED).encode())


def test_a_fact_that_a_newer_service_adds_is_an_acceptance():
    body = {"accepted": True, "retryable": False, "sequence": 1, "revision": 1, "outcome": "polished", "shine": 3}

    answer = answer_of(json.dumps(body).encode())

    assert type(answer) is Accepted
    assert answer.outcome == "polished"


def test_a_refusal_that_a_newer_service_adds_is_a_refusal():
    body = {"accepted": False, "retryable": True, "sequence": 1, "revision": 1, "outcome": "too_shiny", "at": "shine"}

    assert answer_of(json.dumps(body).encode()) == Refused(
        accepted=False, retryable=True, sequence=1, revision=1, outcome="too_shiny", at="shine"
    )


def test_a_refused_bundle_says_at_which_command():
    refused: dict[str, Any] = {
        "accepted": False,
        "outcome": "unknown_layer",
        "retryable": False,
        "sequence": 3,
        "revision": 0,
    }
    body = {**refused, "outcome": "member_refused", "at": "commands[1]", "failed_at": 1, "answers": [None, refused]}

    answer = answer_of(json.dumps(body).encode())

    assert isinstance(answer, BundleRefused)
    assert answer.failed_at == 1
    assert answer.answers == (None, Refused(**refused))


@pytest.mark.parametrize(
    "content", [b"", b"<html>", b"[]", b"{}", b'{"accepted":true}', b'{"accepted":true,"outcome":"granted"}', b"\xff"]
)
def test_what_posegate_never_says_is_noticed(content):
    with pytest.raises(NotPosegate):
        answer_of(content)


def test_a_token_round_trips():
    sealed = {**GRANTED["token"], "seal": "1-abc"}

    token = msgspec.json.decode(json.dumps(sealed), type=Token)

    assert json.loads(msgspec.json.encode(token)) == sealed
    assert "abc" not in repr(token)


def test_answers_are_values():
    first, second = answer_of(json.dumps(GRANTED).encode()), answer_of(json.dumps(GRANTED).encode())

    assert isinstance(first, Answer)
    assert first == second
    with pytest.raises(AttributeError):
        first.sequence = 13  # type: ignore[misc]  # that is the point
