"""The scenario format, as tests/scenarios/README.md describes it."""

import json
from pathlib import Path

import pytest

from tests.support.player import Response, play
from tests.support.scenario import Scenario, ScenarioError, composed, filled, filled_text, outcomes, raw_bytes, read


def test_a_file_is_read_into_scenarios_of_steps(tmp_path: Path) -> None:
    text = """# comment
== First
spawn hero
hero begin {"layer": "base",
            "target": "Run"} as run
  @ Idempotency-Key: abc
  # comment
  + granted {"token":
     {"generation": 1}}
  @ ETag: *
GET history x3
== Second
POST batch
  | {"a": NaN}
  ! 422 invalid
"""

    first, second = _read(tmp_path, text)

    assert (first.title, first.steps[0].text) == ("First", "spawn hero")
    begin = first.steps[1]
    assert (begin.text, begin.name) == ('hero begin {"layer": "base", "target": "Run"}', "run")
    assert begin.headers == [("Idempotency-Key", "abc")]
    assert begin.answer is not None
    assert begin.answer.words() == (["granted"], '{"token": {"generation": 1}}')
    assert begin.answer.headers == [("ETag", "*")]
    assert first.steps[2].times == 3
    assert second.steps[0].raw == '{"a": NaN}'


@pytest.mark.parametrize(
    "text",
    ["spawn hero\n", "== T\n  + granted\n", "== T\nhero begin\n  + granted\n  - stale_life\n"],
)
def test_a_file_that_breaks_the_format_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ScenarioError):
        _read(tmp_path, text)


def test_references_are_looked_up_outside_of_strings_only() -> None:
    def look(name: str, path: str, plus: str | None) -> object:
        return [name, path, plus]

    assert filled('{"a": $g1.token.seal+1, "b": "$g1 \\" $g1"}', look) == {
        "a": ["g1", ".token.seal", "1"],
        "b": '$g1 " $g1',
    }
    assert filled_text("x?after=$page", lambda *_: 7) == "x?after=7"


def test_spread_and_absent_make_changed_copies() -> None:
    value = {"token": {"...": {"a": 1, "b": 2, "c": 3}, "b": 9, "c": "<absent>"}}

    assert composed(value) == {"token": {"a": 1, "b": 9}}


def test_raw_bodies_can_hold_any_bytes() -> None:
    assert raw_bytes(r'{"a": "\xff\ud800é"}') == b'{"a": "\xff\\ud800\xc3\xa9"}'
    assert raw_bytes(r"\*3([)1\*3(])") == b"[[[1]]]"
    assert raw_bytes(r"\*2(\xc3\xa9)") == "éé".encode()


def test_outcomes_are_found_in_single_answers_and_batches(tmp_path: Path) -> None:
    text = """== T
hero begin {}
  + granted
despawn hero?life=2
  - stale_life
batch [{"command": "spawn"}, {"command": "play", "token": $x.token}]
  = 200 {"answers": [{"outcome": "spawned"}, {"problem": {}}]}
"""

    assert outcomes(_read(tmp_path, text)) == {("begin", "granted"), ("despawn", "stale_life"), ("spawn", "spawned")}


def test_a_repeated_step_is_numbered_and_its_answers_are_named(tmp_path: Path) -> None:
    text = """== T
hero begin {"target": "#"} as g# x2
  + granted {"target": "#"}
hero complete {"token": $g2.token, "all": $g1}
"""
    sent: list[dict[str, object]] = []

    _play(_read(tmp_path, text)[0], sent)

    assert [body.get("target") for body in sent[:2]] == ["1", "2"]
    assert sent[2]["token"] == "t2"
    assert sent[2]["all"] == _answer(sent[0], number=1)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("+ kept", 'answer.outcome: expected "kept", came "granted"'),
        ("- granted", "answer.accepted: expected false, came true"),
        ('+ granted {"token": "t9"}', 'answer.token: expected "t9", came "t1"'),
        ("! 422 invalid", "status: expected 422, came 200"),
        ("= 201", "status: expected 201, came 200"),
        ("+ granted\n  @ ETag: *", "header ETag: expected *, came None"),
        ("+ granted\n  @ X-Life: !1", "header X-Life: expected !1, came 1"),
    ],
)
def test_a_wrong_answer_is_told_with_its_place(tmp_path: Path, answer: str, told: str) -> None:
    text = f'== T\n\nhero begin {{"target": "Run"}}\n  {answer}\n'

    with pytest.raises(AssertionError) as failure:
        _play(_read(tmp_path, text)[0], [])

    assert "told.txt:3: hero begin" in str(failure.value)
    assert told in str(failure.value)


@pytest.mark.parametrize("content", [b'{"a": NaN}', b'{"a": 1, "a": 2}', b'{"a": "\\ud800"}', b'{"a": "\xff"}'])
def test_an_answer_that_is_no_strict_json_is_refused(tmp_path: Path, content: bytes) -> None:
    scenario = _read(tmp_path, "== T\nGET x\n  = 200\n")[0]

    with pytest.raises((AssertionError, ValueError)):
        play(scenario, lambda *_: Response(200, {"Content-Type": "application/json"}, content), "s")


def _read(tmp_path: Path, text: str) -> list[Scenario]:
    path = tmp_path / "told.txt"
    path.write_text(text, encoding="utf-8")
    return read(path)


def _play(scenario: Scenario, sent: list[dict[str, object]]) -> None:
    def send(method: str, path: str, headers: dict[str, str], body: bytes | None) -> Response:
        assert (method, path) in [("POST", f"/v1/scenes/s/characters/hero/{verb}") for verb in ("begin", "complete")]
        sent.append(json.loads(body or b"null"))
        content = json.dumps(_answer(sent[-1], number=len(sent))).encode()
        return Response(200, {"Content-Type": "application/json", "X-Life": "1"}, content)

    play(scenario, send, "s")


def _answer(asked: dict[str, object], *, number: int) -> dict[str, object]:
    return {
        "accepted": True,
        "outcome": "granted",
        "retryable": False,
        "sequence": number,
        "revision": number,
        "token": f"t{number}",
        "target": asked.get("target"),
    }
