"""Plays a scenario against a service over HTTP and says what came instead of what was expected."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.matching import differences, shown
from tests.support.scenario import (
    ABSENT,
    METHODS,
    Answer,
    Scenario,
    ScenarioError,
    Step,
    composed,
    filled,
    filled_text,
    raw_bytes,
)

RETRYABLE = frozenset({"beyond_window", "queue_full", "instances_full", "delivery_backlog", "too_early", "layer_busy"})
"""The refusals that may not stand for long; every other is final."""


@dataclass
class Response:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    content: bytes


Send = Callable[[str, str, dict[str, str], bytes | None], Response]
"""Sends (method, path, headers, body)."""


def play(scenario: Scenario, send: Send, scene: str) -> None:
    """Play every step in order.

    Raises:
        AssertionError: An answer differs; the text names the line, the request, the expectation and the answer.
    """
    named: dict[str, Any] = {"scene": scene}

    def look(name: str, path: str, plus: str | None) -> Any:
        value = named[name]
        for part in filter(None, path.split(".")):
            value = value[int(part)] if isinstance(value, list) else value[part]
        if not path and isinstance(value, dict):
            value = {key: member for key, member in value.items() if not key.startswith("@")}
        return value + int(plus) if plus else value

    for step in scenario.steps:
        for number in range(1, step.times + 1):
            one = step.numbered(number)
            try:
                method, path, headers, body = _request(one, look, scene)
                answer = _Expected(one.answer, look)
            except (ValueError, LookupError, TypeError, ScenarioError) as error:
                raise AssertionError(f"{scenario.file}:{one.line}: {one.text}\n  cannot be sent: {error!r}") from error
            response = send(method, path, headers, body)
            came = _body(response)
            if wrong := [*answer.differences(response, came)]:
                raise AssertionError(_told(scenario, one, body, response, wrong))
            if one.name:
                kept = came if isinstance(came, dict) else {"body": came}
                named[one.name] = {**kept, **{f"@{key.lower()}": value for key, value in response.headers.items()}}


def _request(step: Step, look: Any, scene: str) -> tuple[str, str, dict[str, str], bytes | None]:
    method, path, body = _asked(step)
    headers = {key: filled_text(value, look) for key, value in step.headers}
    content: bytes | None = None
    if step.raw is not None:
        content = raw_bytes(filled_text(step.raw, look))
    elif body:
        content = json.dumps(composed(filled(body, look)), ensure_ascii=False, separators=(",", ":")).encode()
    if content is not None and "content-type" not in {key.lower() for key in headers}:
        headers["Content-Type"] = "application/json"
    path = filled_text(path, look)
    if not path.startswith("/"):
        path = f"/v1/scenes/{scene}/{path}".removesuffix("/.")
    return method, path, {key: value for key, value in headers.items() if value != ABSENT}, content


def _asked(step: Step) -> tuple[str, str, str]:
    """The method, path and body that a request line stands for."""
    first, _, rest = step.text.partition(" ")
    second, _, body = rest.strip().partition(" ")
    body = body.strip()
    match first:
        case _ if first in METHODS:
            return first, second, body
        case "spawn":
            return "PUT", f"characters/{second}", body or "{}"
        case "despawn":
            return "DELETE", f"characters/{second}", body
        case "rig":
            return "PUT", f"rigs/{second}", body or "{}"
        case "batch":
            return "POST", "batch", f'{{"commands": {rest}}}' if rest else ""
        case "bundle" | "tick":
            return "POST", first, rest.strip()
        case _:
            return "POST", f"characters/{first}/{second}", body or "{}"


class _Expected:
    """An expected answer with its references looked up."""

    def __init__(self, answer: Answer | None, look: Any) -> None:
        self.mark = answer.mark if answer else ""
        self.words: list[str] = []
        self.json: Any = {}
        self.headers: list[tuple[str, str]] = []
        if answer:
            self.words, text = answer.words()
            self.json = filled(text, look) if text else {}
            self.headers = [(key, filled_text(value, look)) for key, value in answer.headers]

    def differences(self, response: Response, came: Any) -> Iterator[str]:
        """What is wrong with the response, one line each."""
        match self.mark:
            case "+" | "-":
                yield from self._of_decision(response, came)
            case "!":
                yield from self._of_problem(response, came)
            case "=":
                yield from _of_status(self.words[0], response)
                if self.json:
                    yield from differences(self.json, came)
            case _:
                yield from _of_success(response, came)
        for key, value in self.headers:
            yield from _of_header(key, value, response.headers.get(key))

    def _of_decision(self, response: Response, came: Any) -> Iterator[str]:
        outcome = self.words[0]
        decision = {
            "accepted": self.mark == "+",
            "outcome": outcome,
            "retryable": self.mark == "-" and (outcome in RETRYABLE or self._is_of_retryable()),
            "sequence": "*",
            "revision": "*",
        }
        yield from _of_status("200", response)
        yield from differences(decision, came)
        yield from differences(self.json, came)

    def _is_of_retryable(self) -> bool:
        """Say whether a bundle is expected to be refused for a command that may succeed later."""
        answers = self.json.get("answers") if isinstance(self.json, dict) else None
        last = answers[-1] if isinstance(answers, list) and answers else None
        return isinstance(last, dict) and last.get("outcome") in RETRYABLE

    def _of_problem(self, response: Response, came: Any) -> Iterator[str]:
        status, *name = self.words
        yield from _of_status(status, response)
        yield from _of_header("Content-Type", "application/problem+json", response.headers.get("Content-Type"))
        yield from problem_faults(came, response.status, name[0] if name else "*")
        yield from differences(self.json, came)


def problem_faults(came: Any, status: int, name: str) -> Iterator[str]:
    """What keeps `came` from being the problem `name` ("*": any) with this status."""
    yield from differences({"status": status, "title": "*", "detail": "*", "retryable": "*"}, came)
    if isinstance(came, dict):
        if not re.fullmatch(r"/problems/[a-z0-9-]+" if name == "*" else f"/problems/{name}", str(came.get("type"))):
            yield f'answer.type: expected "/problems/{name}", came {shown(came.get("type"))}'
        for key, kind in (("title", str), ("detail", str), ("retryable", bool)):
            if key in came and not isinstance(came[key], kind):
                yield f"answer.{key}: expected a {kind.__name__}, came {shown(came[key])}"


def _of_status(pattern: str, response: Response) -> Iterator[str]:
    if not re.fullmatch(pattern.replace("*", r"\d"), str(response.status)):
        yield f"status: expected {pattern}, came {response.status}"


def _of_success(response: Response, came: Any) -> Iterator[str]:
    """A request without an expected answer must have been accepted, and in a batch each of its commands."""
    yield from _of_status("2**", response)
    answers = came.get("answers", [came]) if isinstance(came, dict) else []
    for number, answer in enumerate(answers):
        if "problem" in answer or answer.get("accepted") is False:
            yield f"answer {number}: expected to be accepted, came {shown(answer)}"


def _of_header(key: str, expected: str, came: str | None) -> Iterator[str]:
    if expected == ABSENT:
        is_met = came is None
    elif expected == "*":
        is_met = came is not None
    elif expected.startswith("!"):
        is_met = came is not None and came != expected[1:]
    else:
        is_met = came == expected
    if not is_met:
        yield f"header {key}: expected {expected}, came {came}"


def _body(response: Response) -> Any:
    """The answer read as strictly as answers must be written."""
    if "json" not in response.headers.get("Content-Type", ""):
        return None
    text = response.content.decode("utf-8")
    value = json.loads(text, parse_constant=_refuse, object_pairs_hook=_without_doubles)
    json.dumps(value, ensure_ascii=False).encode()
    return value


def _refuse(constant: str) -> Any:
    raise AssertionError(f"an answer holds {constant}, which is no JSON")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    assert len(members) == len(pairs), f"an answer repeats a member: {[key for key, _ in pairs]}"
    return members


def _told(scenario: Scenario, step: Step, body: bytes | None, response: Response, wrong: list[str]) -> str:
    sent = "" if body is None else body[:600].decode(errors="backslashreplace")
    expected = f"{step.answer.mark} {step.answer.text}" if step.answer else "to be accepted"
    came = response.content[:1500].decode(errors="backslashreplace")
    lines = [
        f"{scenario.file}:{step.line}: {step.text[:300]}",
        f"  sent      {sent}",
        f"  expected  {expected}",
        f"  came      {response.status} {came}",
        *(f"  - {line}" for line in wrong),
    ]
    return "\n".join(lines)
