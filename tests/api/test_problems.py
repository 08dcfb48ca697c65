"""Problems are RFC 9457 with what helps, and each type has a page that explains it."""

import json

import pytest

from app.api.problems import KINDS, MEDIA_TYPE, ProblemError, problem_of, problem_of_status, problem_response
from app.gates.decision import Problem, Undecided
from tests.support.caller import Caller

NAMED_IN_THE_WIRE = {
    "malformed-json": 400,
    "duplicate-json-key": 400,
    "unknown-scene": 404,
    "unknown-character": 404,
    "unknown-rig": 404,
    "conflicting-spawn": 409,
    "too-large": 413,
    "unsupported-media-type": 415,
    "invalid": 422,
    "key-reused": 422,
    "mailbox-full": 503,
    "journal-unavailable": 503,
    "commit-unknown": 503,
    "draining": 503,
}


def test_every_problem_of_the_wire_has_its_status():
    assert {name: KINDS[name].status for name in NAMED_IN_THE_WIRE} == NAMED_IN_THE_WIRE


@pytest.mark.parametrize("name", KINDS)
def test_a_problem_is_answered_with_its_members_and_nothing_it_does_not_know(name: str):
    response = problem_response(ProblemError(name, "why"), retry_after=7)
    body = json.loads(bytes(response.body))

    assert response.media_type == MEDIA_TYPE == response.headers["content-type"]
    assert response.status_code == body["status"] == KINDS[name].status
    assert (body["type"], body["detail"]) == (f"/problems/{name}", "why")
    assert body["retryable"] is KINDS[name].retryable
    assert body.get("retry_after") == (7 if KINDS[name].retryable else None)
    assert response.headers.get("retry-after") == ("7" if KINDS[name].retryable else None)
    assert {"at", "limit"}.isdisjoint(body)


def test_a_problem_says_what_helps():
    body = ProblemError("too-large", "why", at="data", limit=1024).body(retry_after=1)

    assert (body["at"], body["limit"]) == ("data", 1024)


@pytest.mark.parametrize("kind", Problem)
def test_every_reason_not_to_decide_has_its_problem(kind: Problem):
    problem = problem_of(Undecided(kind, "why", at="rig"))

    assert problem.name in KINDS
    assert (problem.detail, problem.at) == ("why", "rig")


@pytest.mark.parametrize(("status", "name"), [(404, "not-found"), (405, "method-not-allowed"), (400, "invalid")])
def test_what_the_framework_answers_is_a_problem_too(status: int, name: str):
    assert problem_of_status(status, "").name == name
    assert problem_of_status(status, "").detail


@pytest.mark.parametrize("name", KINDS)
def test_every_problem_has_a_page(call: Caller, name: str):
    page = call.ask("GET", f"/problems/{name}")

    assert (page.status, page.media_type) == (200, "text/html")
    assert str(KINDS[name].status).encode() in page.content


@pytest.mark.parametrize("name", ["nothing", "%3Cscript%3E", "x" * 5000])
def test_a_problem_that_is_none_has_no_page(call: Caller, name: str):
    assert call.ask("GET", f"/problems/{name}").problem[0] == "not-found"
