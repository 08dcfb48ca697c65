"""What a route is handed: identifiers that are none are invalid, bodies have a type and a limit, keys are visible."""

import asyncio
import json
from collections.abc import Iterable
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from starlette.requests import Request

from app.api.deps import body_of, key_of
from app.api.problems import ProblemError
from app.settings import Settings
from tests.support.caller import Caller

LIMIT = 4 * 1024 * 1024
NO_IDENTIFIERS = [
    *(".hidden", "-", "~", "_", "a b", "a/b", "..", "a\0", "\0", "%", "a%2fb", "x" * 129, "é", "\uff48ero"),
    *("he\u0301ro", "hero\n", " hero", "h\u0435ro", "😀", "a:b", "a\\b", "a?b", "a#b", "a+b", "a,b"),
]


@pytest.mark.parametrize("name", NO_IDENTIFIERS, ids=ascii)
@pytest.mark.parametrize(
    ("method", "path", "at"),
    [
        ("POST", "/v1/scenes/{}/characters/hero/begin", "scene"),
        ("POST", "characters/{}/begin", "character"),
        ("PUT", "characters/{}", "character"),
        ("PUT", "rigs/{}", "rig"),
        ("GET", "/v1/scenes/{}/history", "scene"),
        ("GET", "characters/{}/parameters", "character"),
    ],
)
def test_what_is_no_identifier_is_refused_in_a_path(call: Caller, method: str, path: str, at: str, name: str):
    """A slash, percent-encoded or not, makes another path; a dot segment is sent as it is and must not climb."""
    before = call.state()

    reply = call.ask(method, path.format(quote(name, safe="")), None if method == "GET" else b"{}")

    if "/" in name:
        assert reply.problem == ("invalid", 422, "path")
    elif name == "..":
        assert reply.problem[0] in {"not-found", "invalid", "method-not-allowed"}
    else:
        assert reply.problem == ("invalid", 422, at)
    assert call.state() == before


@pytest.mark.parametrize("name", NO_IDENTIFIERS, ids=ascii)
def test_what_is_no_identifier_is_refused_in_a_batch(call: Caller, name: str):
    command = {"command": "begin", "character": name, "layer": "base", "target": "Run"}

    answer = call.ask("POST", "batch", {"commands": [command]}).body["answers"][0]

    assert (answer["problem"]["type"], answer["problem"]["at"]) == ("/problems/invalid", "character")


@pytest.mark.parametrize("name", ["h", "0", "x" * 128, "a.b_c~d-e", "A..", "9-"])
def test_an_identifier_is_kept_byte_by_byte(call: Caller, name: str):
    assert call.spawn(name, {}).body["character"] == name
    assert call.ask("GET", f"characters/{name.swapcase()}").status == (200 if name == name.swapcase() else 404)


@pytest.mark.parametrize(
    "media_type",
    ["", "text/plain", "application/problem+json", "application/jsonx", "application/x-www-form-urlencoded", "json"],
)
@pytest.mark.parametrize("path", ["characters/hero/begin", "batch"])
def test_another_content_type_is_not_taken(call: Caller, path: str, media_type: str):
    reply = call.ask("POST", path, b"{}", content_type=media_type)

    assert reply.problem == ("unsupported-media-type", 415, None)


@pytest.mark.parametrize(
    "media_type", ["application/json", "application/json; charset=utf-8", "Application/JSON", "application/json;v=1"]
)
def test_json_is_taken_in_every_spelling(call: Caller, media_type: str):
    assert call.command("begin", {"layer": "base", "target": "Run"}, content_type=media_type).status == 200


@pytest.mark.parametrize("key", ["k" * 8, "k" * 255, "!~!~!~!~", '"quoted-1"', 'a"b"c"d!', "'single'"])
def test_a_key_is_8_to_255_visible_characters_quoted_or_bare(call: Caller, key: str):
    first = call.accepted("begin", {"layer": "base", "target": "Run"}, idempotency_key=key)
    again = call.accepted("begin", {"layer": "base", "target": "Run"}, idempotency_key=key)

    assert first == again


def test_the_quotes_are_no_part_of_a_key(call: Caller):
    quoted = call.accepted("begin", {"layer": "base", "target": "Run"}, idempotency_key='"12345678"')
    bare = call.accepted("begin", {"layer": "base", "target": "Run"}, idempotency_key="12345678")
    command = {"command": "begin", "character": "hero", "layer": "base", "target": "Run", "key": "12345678"}
    batched = call.ask("POST", "batch", {"commands": [command]}).body["answers"][0]

    assert quoted == bare == batched


@pytest.mark.parametrize(
    "key", ["", "k" * 7, "k" * 256, '"k234567"'[:8], "with space", "tab\tinside", '"half-open', 'half-open"', '""', '"']
)
def test_a_key_that_is_none_is_invalid_at_every_door(call: Caller, key: str):
    command = {"command": "begin", "character": "hero", "layer": "base", "target": "Run", "key": key}

    single = call.command("begin", {"layer": "base", "target": "Run"}, idempotency_key=key)
    spawned = call.ask("PUT", "characters/other", {}, idempotency_key=key)
    ended = call.ask("DELETE", "characters/hero", idempotency_key=key)
    batched = call.ask("POST", "batch", {"commands": [command]}).body["answers"][0]

    assert single.problem == spawned.problem == ended.problem == ("invalid", 422, "key")
    assert batched["problem"] == single.body


@pytest.mark.parametrize("key", [1234567890, True, ["12345678"], {"key": "12345678"}, "ключ-ключ", "12345678\0"])
def test_a_key_of_the_wrong_kind_is_invalid_in_a_batch(call: Caller, key: object):
    command = {"command": "begin", "character": "hero", "layer": "base", "target": "Run", "key": key}

    answer = call.ask("POST", "batch", {"commands": [command]}).body["answers"][0]

    assert (answer["problem"]["type"], answer["problem"]["at"]) == ("/problems/invalid", "key")


def test_a_body_of_exactly_the_limit_is_taken_and_one_byte_more_is_not(call: Caller):
    text = json.dumps({"layer": "base", "target": "Run"}).encode()

    fits = call.command("begin", text.ljust(LIMIT))
    too_large = call.command("begin", text.ljust(LIMIT + 1))

    assert fits.status == 200
    assert too_large.problem == ("too-large", 413, None)
    assert too_large.body["limit"] == LIMIT


def request(chunks: Iterable[bytes], **headers: str) -> Request:
    """Give a request whose body comes in chunks, without a Content-Length unless it is given."""
    app = FastAPI()
    app.state.settings = Settings(journal="memory:", body_bytes_max=10)
    waiting = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    waiting.append({"type": "http.request", "body": b"", "more_body": False})
    given = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    raw = [(name.encode(), value.encode("latin-1")) for name, value in given.items()]

    async def receive() -> dict[str, object]:
        return waiting.pop(0)

    return Request({"type": "http", "app": app, "headers": raw, "method": "POST", "path": "/"}, receive)


def test_a_body_in_chunks_is_put_together():
    assert asyncio.run(body_of(request([b"01234", b"", b"56789"]))) == b"0123456789"


@pytest.mark.parametrize("headers", [{}, {"content_length": "3"}, {"content_length": "²"}, {"content_length": "-1"}])
def test_a_body_in_chunks_is_counted_whatever_its_length_is_said_to_be(headers: dict[str, str]):
    with pytest.raises(ProblemError) as raised:
        asyncio.run(body_of(request([b"01234", b"56789", b"0"], **headers)))

    assert (raised.value.name, raised.value.limit) == ("too-large", 10)


@pytest.mark.parametrize("length", ["11", "9" * 5000])
def test_a_body_that_says_it_is_too_large_is_not_read(length: str):
    with pytest.raises(ProblemError) as raised:
        asyncio.run(body_of(request([], content_length=length)))

    assert raised.value.name == "too-large"


def test_a_request_without_a_key_has_none():
    assert key_of(request([])) is None
