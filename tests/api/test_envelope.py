"""Envelopes: commands that come with others, what ties them to each other, and the place of every fault."""

import json
from typing import Any

import pytest
from msgspec import UNSET

from app.api.envelope import addressed, addressed_in_steps, of_scene, of_scene_in_steps
from app.api.problems import ProblemError
from app.gates.bundle import Bundle, Member
from app.gates.identity import Token
from app.gates.tick import Request, Tick
from app.gates.transition import Begin, Complete
from app.sequencing.mailbox import Addressed
from app.settings import Settings
from tests.support.steps import taken

SETTINGS = Settings(bundle_commands_max=3, batch_commands_max=4)
RUN = {"command": "begin", "character": "hero", "layer": "base", "target": "Run"}
COMPLETE = {"command": "complete", "character": "hero", "token": {"answer": 0}}
REQUEST = {"tick": 3, "source": "ai", "number": 7, **RUN}
NOTHING = Token("", "", 0, 0, "", "")


def copied(value: Any) -> Any:
    """Copy as a body is read: decoding takes its members, and no two of them are the same object."""
    return json.loads(json.dumps(value))


def problem(decode: Any, *given: Any, **named: Any) -> tuple[str, str | None]:
    with pytest.raises(ProblemError) as caught:
        decode(*given, **named)
    return caught.value.name, caught.value.at


def of_batch(item: Any, index: int = 1) -> Addressed:
    return addressed(copied(item), SETTINGS, index=index)


def bundle(*commands: Any, **fields: Any) -> Any:
    return of_scene("bundle", copied({"commands": list(commands), **fields}), SETTINGS)


def tick(**fields: Any) -> Any:
    return of_scene("tick", fields, SETTINGS)


def requests(*items: dict[str, Any]) -> Any:
    return tick(requests=copied(list(items)))


def test_a_command_has_a_name_a_character_and_perhaps_a_key():
    assert of_batch(RUN) == Addressed("hero", Begin(layer="base", target="Run"))
    assert of_batch({**RUN, "key": '"12345678"'}).key == "12345678"


@pytest.mark.parametrize(
    ("item", "at"),
    [
        (4, None),
        ({**RUN, "command": 4}, "command"),
        ({**RUN, "character": "no/body"}, "character"),
        ({**RUN, "character": None}, "character"),
        ({**RUN, "key": 12345678}, "key"),
        ({**RUN, "key": "short"}, "key"),
        ({"command": "bundle", "character": "hero", "commands": []}, "character"),
        ({"command": "tick", "character": "hero", "seal": 1}, "character"),
    ],
    ids=str,
)
def test_an_envelope_that_is_none_is_invalid_at_its_member(item: Any, at: str | None):
    assert problem(of_batch, item) == ("invalid", at)


def test_a_reference_stands_for_a_token_a_holder_a_clip_instance_or_a_request():
    place = of_batch(COMPLETE)
    both = of_batch({**COMPLETE, "holder": {"answer": 1}}, index=2)
    spawn = of_batch({"command": "spawn", "character": "squire", "holder": {"answer": 0}})
    retire = of_batch({"command": "retire", "character": "hero", "clip_instance": {"answer": 0.0}})
    withdraw = of_batch({"command": "withdraw-graph", "character": "hero", "request": {"answer": 0}})

    assert (place.command, place.references) == (Complete(token=NOTHING), {"token": 0})
    assert both.references == {"token": 0, "holder": 1}
    assert (spawn.command.holder, spawn.references) == (NOTHING, {"holder": 0})
    assert (retire.references, withdraw.references) == ({"clip_instance": 0}, {"request": 0})


@pytest.mark.parametrize("answer", [1, 2, -1, 0.5, "0", None, True, 2**60])
def test_a_reference_counts_the_commands_before_it(answer: Any):
    assert problem(of_batch, {**COMPLETE, "token": {"answer": answer}}) == ("invalid", "token.answer")


@pytest.mark.parametrize(
    ("item", "at"),
    [
        ({**RUN, "layer": {"answer": 0}}, "layer"),
        ({**COMPLETE, "token": {"answer": 0, "seal": "1-0"}}, "token.answer"),
        ({**COMPLETE, "unknown": 1}, "unknown"),
        ({"command": "begin", "character": "hero", "layer": "base", "holder": {"answer": 0}}, "target"),
    ],
    ids=str,
)
def test_a_reference_excuses_no_other_fault(item: Any, at: str):
    assert problem(of_batch, item) == ("invalid", at)


def test_a_bundle_holds_members_with_their_references():
    assert bundle(RUN, COMPLETE, link=True) == Bundle(
        commands=[
            Member("hero", Begin(layer="base", target="Run")),
            Member("hero", Complete(token=NOTHING), {"token": 0}),
        ],
        link=True,
    )


@pytest.mark.parametrize(
    ("commands", "at"),
    [
        ([RUN, {**RUN, "target": 4}], "commands[1].target"),
        ([COMPLETE], "commands[0].token.answer"),
        ([RUN, {**RUN, "key": "12345678"}], "commands[1].key"),
        ([{"command": "tick", "seal": 1}], "commands[0].command"),
        ([RUN, {"command": "bundle", "commands": [RUN, {**RUN, "layer": 4}]}], "commands[1].commands[1].layer"),
    ],
    ids=str,
)
def test_a_fault_in_a_bundle_names_its_place(commands: list[Any], at: str):
    assert problem(bundle, *commands) == ("invalid", at)


@pytest.mark.parametrize(
    ("fields", "at"),
    [
        ({"link": 1}, "link"),
        ({"holder": 1}, "holder"),
        ({"key": "12345678"}, "key"),
        ({"command": "bundle"}, "command"),
    ],
    ids=str,
)
def test_a_fault_beside_the_commands_of_a_bundle_names_its_member(fields: dict[str, Any], at: str):
    assert problem(bundle, RUN, **fields) == ("invalid", at)


def test_a_bundle_and_the_requests_of_a_tick_have_a_most():
    assert len(bundle(RUN, RUN, RUN).commands) == 3
    assert problem(bundle, *[RUN] * 4) == ("too-large", "commands")
    assert problem(requests, *[REQUEST] * 5) == ("too-large", "requests")


def test_a_bundle_of_too_many_commands_in_a_request_names_both_places():
    item = {"tick": 3, "source": "ai", "number": 7, "command": "bundle", "commands": [RUN] * 4}

    assert problem(requests, item) == ("too-large", "requests[0].commands")


def test_a_tick_has_its_parts_and_a_request_its_own_envelope():
    held = requests({**REQUEST, "priority": -3})

    assert held == Tick(requests=[Request(3, "ai", 7, -3, "hero", Begin(layer="base", target="Run"))])
    assert requests(REQUEST).requests[0].priority == 0
    assert tick(rollback=1, seal=2.0, confirm=0) == Tick(rollback=1, seal=2, confirm=0)
    assert tick(requests=[]).requests == []
    assert tick(seal=1).requests is UNSET


def test_a_request_may_be_a_bundle_whose_commands_refer_to_each_other():
    [request] = requests(
        {"tick": 3, "source": "ai", "number": 7, "command": "bundle", "commands": [RUN, COMPLETE]}
    ).requests

    assert request.character is None
    assert request.command.commands[1].references == {"token": 0}


@pytest.mark.parametrize(
    ("changed", "at"),
    [
        ({"tick": None}, "tick"),
        ({"tick": -1}, "tick"),
        ({"source": ""}, "source"),
        ({"source": "a\x00"}, "source"),
        ({"source": "a" * 129}, "source"),
        ({"number": 2**53}, "number"),
        ({"priority": 0.5}, "priority"),
        ({"priority": 2**53}, "priority"),
        ({"key": "12345678"}, "key"),
        ({"character": "no/body"}, "character"),
        ({"layer": 4}, "layer"),
        ({"command": "tick"}, "character"),
        ({"holder": {"answer": 0}}, "holder.answer"),
    ],
    ids=str,
)
def test_a_fault_in_a_request_names_its_place(changed: dict[str, Any], at: str):
    assert problem(requests, REQUEST, {**REQUEST, **changed}) == ("invalid", f"requests[1].{at}")


@pytest.mark.parametrize("part", ["rollback", "seal", "confirm"])
@pytest.mark.parametrize("value", [-1, 0.5, 2**53, True, "1", None, [], {}])
def test_a_tick_that_is_no_number_is_invalid(part: str, value: Any):
    assert problem(tick, **{part: value}) == ("invalid", part)


def test_a_tick_of_nothing_and_an_unknown_part_are_invalid():
    assert problem(tick) == ("invalid", None)
    assert problem(tick, seal=1, unseal=1) == ("invalid", "unseal")
    assert problem(tick, seal=1, command="tick") == ("invalid", "command")
    assert problem(tick, requests=None) == ("invalid", "requests")


def test_what_is_nested_too_deep_is_too_large_and_not_a_fault_of_the_machine():
    item: Any = RUN
    for _ in range(60):
        item = {"command": "bundle", "commands": [dict(item)]}

    assert problem(of_batch, item)[0] in ("invalid", "too-large")


@pytest.mark.parametrize(
    ("name", "fields", "least"),
    [
        ("tick", {"requests": [{**REQUEST, "number": number} for number in range(160)]}, 10),
        ("bundle", {"commands": [RUN] * 160}, 10),
        (
            "tick",
            {"requests": [{"tick": 3, "source": "ai", "number": 1, "command": "bundle", "commands": [RUN] * 160}]},
            10,
        ),
    ],
    ids=["a tick", "a bundle", "a bundle in a tick"],
)
def test_much_is_decoded_in_steps_as_it_is_at_once(name: str, fields: dict[str, Any], least: int):
    decoded, steps = taken(of_scene_in_steps(name, copied(fields), Settings()))
    placed, as_many = taken(addressed_in_steps({"command": name, **copied(fields)}, Settings(), index=0))

    assert decoded == placed.command == of_scene(name, copied(fields), Settings())
    assert steps == as_many >= least


def test_a_fault_deep_in_what_is_decoded_in_steps_says_where_it_stands():
    requests = [{**REQUEST, "number": number} for number in range(99)]

    decode = of_scene_in_steps("tick", copied({"requests": [*requests, {**REQUEST, "command": "nothing"}]}), Settings())

    assert problem(taken, decode) == ("invalid", "requests[99].command")
