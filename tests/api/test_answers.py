"""Answers carry what the contract names, in one order of bytes, and no read ever shows a seal."""

import json
from datetime import UTC, datetime

import pytest

from app.api.answers import answer_bytes, answer_in_steps, answer_of, decided, iso, shown, shown_in_steps
from app.api.problems import ProblemError
from app.gates.bundle import Answered, Bundle, Bundled, Member
from app.gates.decision import Problem, Refused, Undecided
from app.gates.event_commands import DeliveriesAcknowledged, Enqueue, EventAccepted
from app.gates.identity import Token
from app.gates.scene import Record
from app.gates.tick import Applied, Request, Tick, TickApplied, Ticked, TickSealed
from app.gates.transition import Begin, TransitionGranted
from app.sequencing.mailbox import Decided
from tests.support.caller import Caller
from tests.support.steps import taken

TOKEN = Token("hero", "base", 1, 1, "Idle", "Run", "1-0123")


def test_an_accepted_command_is_answered_with_its_envelope_and_what_it_made():
    record = Record("hero", Begin(layer="base", target="Run"), TransitionGranted(TOKEN, None), 9)

    answer = json.loads(answer_bytes(12, record))

    assert answer == {
        "accepted": True,
        "outcome": "granted",
        "retryable": False,
        "sequence": 12,
        "revision": 9,
        "token": {
            "character": "hero",
            "layer": "base",
            "epoch": 1,
            "generation": 1,
            "from": "Idle",
            "to": "Run",
            "seal": "1-0123",
        },
        "superseded": None,
    }


@pytest.mark.parametrize(("outcome", "retryable"), [("queue_full", True), ("late_loop", False)])
def test_a_refusal_says_whether_the_same_request_may_succeed_later(outcome: str, retryable: bool):
    command = Enqueue(clip_instance=1, loop=0, frame=0, kind="footstep")

    answer = json.loads(answer_bytes(3, Record("hero", command, Refused(outcome, at="loop"), 2)))

    assert answer == {
        "accepted": False,
        "outcome": outcome,
        "retryable": retryable,
        "sequence": 3,
        "revision": 2,
        "at": "loop",
    }


def test_an_answer_with_nothing_to_add_is_its_envelope():
    command = Enqueue(clip_instance=1, loop=0, frame=0, kind="footstep")

    accepted = json.loads(answer_bytes(1, Record("hero", command, EventAccepted(), 1)))

    assert accepted.keys() == {"accepted", "outcome", "retryable", "sequence", "revision"}


def test_what_no_gate_decided_stands_in_a_batch_as_a_problem():
    undecided = Undecided(Problem.UNKNOWN_CHARACTER, "nobody", at="character")

    answer = json.loads(answer_of(undecided, retry_after=1))

    assert answer["problem"]["type"] == "/problems/unknown-character"
    assert answer["problem"]["at"] == "character"


def test_what_no_gate_decided_is_raised_for_a_single_command():
    with pytest.raises(ProblemError) as raised:
        decided(Undecided(Problem.KEY_REUSED, "used"))

    assert (raised.value.name, raised.value.at) == ("key-reused", None)


def test_what_was_decided_is_given_back():
    result = Decided(1, 0, Record("hero", Begin(layer="base", target="Run"), DeliveriesAcknowledged(), 1))

    assert decided(result) is result


def test_the_history_shows_no_seal_and_leaves_the_callers_own_json_alone():
    command = Begin(layer="base", target="Run", data={"seal": "mine"})
    record = Record("hero", command, TransitionGranted(TOKEN, TOKEN), 1)

    decision = shown(4, 0, record)

    assert "seal" not in decision["answer"]["token"]
    assert "seal" not in decision["answer"]["superseded"]
    assert decision["asked"] == {"layer": "base", "target": "Run", "data": {"seal": "mine"}}
    assert (decision["sequence"], decision["at"], decision["command"]) == (4, "1970-01-01T00:00:00.000Z", "begin")


def test_a_time_is_rfc_3339_in_utc_with_milliseconds():
    at = datetime(2026, 11, 30, 10, 0, 0, 123_000, tzinfo=UTC)

    assert iso(round(at.timestamp() * 1000)) == "2026-11-30T10:00:00.123Z"


def test_a_seal_is_given_to_the_caller_and_never_read_again(call: Caller):
    token = call.accepted("begin", {"layer": "base", "target": "Run"})["token"]
    call.accepted("begin", {"layer": "base", "target": "Hit"})

    read = call.ask("GET", "characters/hero").content + call.ask("GET", "history").content

    assert token["seal"].encode() not in read
    assert b'"seal"' not in read


RUN = Begin(layer="base", target="Run")
GRANTED = Answered("hero", "begin", TransitionGranted(TOKEN, None), 3)


def sealed(requests: int) -> Record:
    """Give a tick that holds some requests and seals as many."""
    asked = [Request(1, "ai", number, 0, "hero", RUN) for number in range(requests)]
    applied = [TickApplied(1, [Applied("ai", number, GRANTED) for number in range(requests)])]
    return Record(None, Tick(requests=asked, seal=1), Ticked(requests=[], seal=TickSealed(1, "00", applied)), 0)


def test_a_seal_of_many_is_answered_in_steps_as_it_is_at_once():
    answer, steps = taken(answer_in_steps(7, sealed(160)))

    assert answer == answer_bytes(7, sealed(160))
    assert len(json.loads(answer)["seal"]["answers"]) == 160
    assert steps >= 10


def test_a_seal_of_many_is_shown_in_steps_and_without_any_seal():
    decision, steps = taken(shown_in_steps(7, 1_000, sealed(160)))

    assert decision == shown(7, 1_000, sealed(160))
    assert [request["number"] for request in decision["asked"]["requests"]] == list(range(160))
    assert "seal" not in decision["answer"]["seal"]["answers"][159]["answer"]["token"]
    assert decision["answer"]["seal"]["digest"] == "00"
    assert steps >= 40


def test_a_bundle_of_many_is_shown_in_steps_and_without_any_seal():
    members = [Member("hero", RUN, {"token": 1} if number == 9 else {}) for number in range(160)]
    record = Record(None, Bundle(commands=members), Bundled([GRANTED] * 160), 0)

    decision, steps = taken(shown_in_steps(7, 1_000, record))

    assert decision["asked"]["commands"][9]["token"] == {"answer": 1}
    assert all("seal" not in each["token"] for each in decision["answer"]["answers"])
    assert steps >= 20
