"""A command gets the same answer from its own path and from a batch of one, be it good or bad."""

import copy
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.test_decode import BODIES
from tests.support.caller import Caller
from tests.support.player import Send

NUMBERS = st.sampled_from([0, 1, 2, 4.0, 4.5, -1, True, 2**53 - 1, 2**53, 10**400, float("nan"), float("inf"), 1e300])
TEXTS = st.sampled_from(["", "Idle", "Run", "base", "face", "Speed", "footstep", "spark", "main", "keep", "NaN", "\0"])
ODD = st.recursive(
    st.none() | NUMBERS | TEXTS | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
FIELDS = sorted({field for body in BODIES.values() for field in body} | {"life", "data", "payload", "holder", "tick"})


def places(value: Any) -> list[tuple[Any, Any]]:
    """Give every (container, key) inside a value."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [pair for key in keys for pair in [(value, key), *places(value[key])]]


@st.composite
def asked(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Give a command and its body, as it should be or with something removed, replaced or added anywhere."""
    name = draw(st.sampled_from(sorted(BODIES)))
    body = copy.deepcopy(BODIES[name])
    for _ in range(draw(st.integers(0, 2))):
        found = places(body)
        container, key = draw(st.sampled_from(found)) if found else (body, "life")
        match draw(st.sampled_from(["remove", "replace", "add"])):
            case "remove" if found:
                del container[key]
            case "replace" if found:
                container[key] = draw(ODD)
            case _ if isinstance(container, dict):
                container[draw(st.sampled_from(FIELDS))] = draw(ODD)
            case _:
                pass
    return name, body


def without_seals(value: Any) -> Any:
    if isinstance(value, list):
        return [without_seals(item) for item in value]
    if isinstance(value, dict):
        return {name: without_seals(item) for name, item in value.items() if name != "seal"}
    return value


class Door:
    """One way in, with a scene of its own; a body's token is the newest that was granted there, as far as it is one."""

    def __init__(self, send: Send, name: str) -> None:
        self.call = Caller(send)
        self._name = name
        self._granted: dict[str, Any] = {}
        assert self.call.spawn().status == 201

    def answer(self, command: str, body: dict[str, Any]) -> Any:
        token = body.get("token")
        if isinstance(token, dict) and self._granted:
            kept = {name: value for name, value in self._granted.items() if name in token}
            body = {**body, "token": {**token, **kept} if token == BODIES["complete"]["token"] else {**kept, **token}}
        answer = self.call.through(self._name, command, json.dumps(body))
        self._granted = answer.get("token") or self._granted if "token" in answer else self._granted
        return without_seals(answer)


@given(st.lists(asked(), min_size=1, max_size=6))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_command_gets_the_same_answer_at_both_doors(send: Send, commands: list[tuple[str, dict[str, Any]]]):
    single, batch = Door(send, "single"), Door(send, "batch")

    for name, body in commands:
        assert single.answer(name, body) == batch.answer(name, body), (name, body)

    assert comparable(single.call.inspect()) == comparable(batch.call.inspect())


def comparable(inspected: dict[str, Any]) -> dict[str, Any]:
    """Leave out what two scenes may differ in: their name, and when things happened."""
    text = json.dumps({**inspected, "scene": ""})
    shown: dict[str, Any] = json.loads(text)
    for place, key in places(shown):
        if key in ("committed_at", "begun_at", "opened_at"):
            place[key] = "then"
    return shown
