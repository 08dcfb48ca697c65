"""Reading: a large body read in steps gives what it gives at once, and names the same faults."""

import json

import pytest

from app.api import decode
from app.api.problems import ProblemError
from app.api.reading import AT_ONCE_BYTES, parse_in_steps
from app.settings import Settings
from tests.support.steps import taken

SETTINGS = Settings()
MANY = 3_000


def body(inner: bytes, name: bytes = b"commands", before: bytes = b"", behind: bytes = b"") -> bytes:
    whole = b'{%b"%b" : [%b]%b}' % (before, name, inner, behind)
    assert len(whole) > AT_ONCE_BYTES, "it is small, so nothing is shown"
    return whole


def items(item: str, number: int = MANY) -> bytes:
    """Give so many items, spaced as writers do; `@` in one stands for its index."""
    return b" , ".join(item.replace("@", str(index)).encode() for index in range(number))


def problem(given: bytes, settings: Settings = SETTINGS) -> ProblemError:
    with pytest.raises(ProblemError) as caught:
        taken(parse_in_steps(given, settings))
    return caught.value


@pytest.mark.parametrize(
    "given",
    [
        body(items('{"command": "begin", "character": "hero-@", "layer": "base"}')),
        body(items('{"text": "NaN, Infinity, ], \\"}", "NaN": "@"}'), b"requests", behind=b', "seal": 4'),
        body(items('{"value": [1e400, 0.5, -1, 12345678901234567890123]}'), before=b'"x": [1, [2]], '),
        body(items("[@]", 12_000), behind=b', "requests": [[3]]'),
        body(items('"@ is what fills a large body"', 6_000)),
        body(items("9" * 5_000 + "@", 200)),
    ],
    ids=["commands", "text like numbers", "numbers", "both names", "texts", "long numbers"],
)
def test_a_large_body_is_read_in_steps_as_it_is_at_once(given: bytes):
    read, steps = taken(parse_in_steps(given, SETTINGS))

    assert read == decode.parse(given, SETTINGS)
    assert steps >= 3


def test_numbers_that_are_none_are_read_where_they_stand():
    given = body(items('{"value": NaN, "other": [Infinity, -Infinity], "at": @}'))

    read, steps = taken(parse_in_steps(given, SETTINGS))

    assert repr(read) == repr(decode.parse(given, SETTINGS))
    assert steps >= 3


@pytest.mark.parametrize("given", [b"{}", b'{"commands": [1, 2]}'])
def test_a_small_body_is_read_at_once(given: bytes):
    assert taken(parse_in_steps(given, SETTINGS)) == (decode.parse(given, SETTINGS), 0)


@pytest.mark.parametrize("given", [b"[1", b'{"a": 1, "a": 2}'])
def test_what_is_wrong_with_a_small_body_is_said_as_it_is_at_once(given: bytes):
    with pytest.raises(ProblemError) as at_once:
        decode.parse(given, SETTINGS)

    assert (problem(given).name, problem(given).detail) == (at_once.value.name, at_once.value.detail)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (body(items('{"a": @}', 9_000) + b', {"a": 1, "a": 2}'), "duplicate-json-key"),
        (body(items('{"a": @}', 9_000), behind=b', "x": 1, "x": 2'), "duplicate-json-key"),
        (body(items('{"a": @}', 20_000))[:-1], "malformed-json"),
        (body(items('{"a": @}', 9_000))[:-1], "malformed-json"),
        (body(items('{"a": @}', 9_000) + b', "\\ud800"'), "malformed-json"),
        (body(items('{"a": @}', 9_000) + b', "\xff"'), "malformed-json"),
        (body(items('{"a": @}', 9_000) + b", " + b"[" * 300 + b"]" * 300), "too-large"),
    ],
    ids=["twice in an item", "twice", "cut off", "cut off, fewer", "half a letter", "no text", "deep"],
)
def test_what_is_wrong_with_a_large_body_has_the_name_that_it_has_at_once(given: bytes, name: str):
    assert problem(given).name == name
    with pytest.raises(ProblemError) as at_once:
        decode.parse(given, SETTINGS)
    assert at_once.value.name == name


def test_a_fault_in_an_item_says_behind_which_one_to_look():
    said = problem(body(items('{"a": @}', 9_000) + b', {"a": 1, "a": 2}')).detail

    assert "in `commands`, at or behind item" in said
    assert "line" not in said


@pytest.mark.parametrize(
    ("given", "at"),
    [
        (body(items("[1]") + b", {%b}" % items('"name-@": 1', 40_000)), f"commands[{MANY}]"),
        (b"{%b}" % items('"name-@": 1', 40_000), None),
        (body(items("[1]", 40_000), behind=b', "commands" : [%b]' % items("[1]", 10_000)), None),
    ],
    ids=["one item", "no list", "twice the name"],
)
def test_more_in_one_thing_than_any_command_has_is_not_read(given: bytes, at: str | None):
    found = problem(given, Settings(json_values_max=500_000))

    assert (found.name, found.at, found.limit) == ("too-large", at, decode.VALUES_SEEN_MAX)


def test_a_body_of_more_values_than_are_read_is_too_large_as_a_whole():
    given = body(items("[1]", 20_000))

    assert problem(given, Settings(json_values_max=10_000)).limit == 10_000


def test_a_list_whose_bytes_stand_twice_is_not_taken_for_the_other():
    inner = items("[@]", 8_000)
    given = b'{"note": "[%b]", "commands": [%b]}' % (inner, inner)

    read, _ = taken(parse_in_steps(given, SETTINGS))

    assert read == json.loads(given)
