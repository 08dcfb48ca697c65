"""No request, however broken, gets a 500 or changes anything without an accepted answer."""

import json
from typing import Any
from urllib.parse import quote

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.api.test_decode import BODIES
from tests.api.test_doors import asked
from tests.support.caller import RIG, Caller, Reply, strict_json
from tests.support.player import Send

FUZZED = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
HERO = "characters/hero"
ROUTES = [
    *(("POST", f"{HERO}/{name}") for name in BODIES),
    *(("POST", "batch"), ("PUT", "rigs/humanoid"), ("PUT", HERO), ("PUT", "characters/other"), ("DELETE", HERO)),
    *(("GET", path) for path in ("", "characters", HERO, f"{HERO}/parameters", f"{HERO}/deliveries", "history")),
    *(("GET", path) for path in ("/v1/scenes", "/livez", "/readyz", "/metrics", "/v1/info", "/docs", "/openapi.json")),
    *(("GET", "/problems/invalid"), ("GET", "/problems/nothing"), ("GET", "/nothing"), ("PATCH", HERO)),
]
BROKEN = st.sampled_from(
    [b"\xff", b"\x00", b"NaN", b"9" * 30, rb"\ud800", b"[" * 70, b'{"a":', b"]", b"\xef\xbb\xbf", b'"']
)
ODD_TEXT = st.text(max_size=20) | st.sampled_from(
    ["..", ".", "%2f", "\0", "a/b", "\uff48ero", "he\u0301ro", "x" * 129, "~", " "]
)


@st.composite
def bytes_near_json(draw: st.DrawFn) -> bytes:
    """Give a body that was JSON until something was cut, put in or doubled."""
    name, fields = draw(asked())
    body: Any = fields
    if draw(st.booleans()):
        body = {"commands": [{"command": name, "character": "hero", **fields}]}
    text = json.dumps(draw(st.sampled_from([body, {"rig": RIG}, RIG]))).encode()
    at = draw(st.integers(0, len(text)))
    until = draw(st.integers(at, min(len(text), at + 12)))
    return text[:at] + draw(st.just(b"") | BROKEN | st.binary(max_size=6)) + text[until:]


def check(reply: Reply) -> None:
    """An answer is below 500, or a problem that says when to come back; every error is a problem; JSON is strict."""
    assert reply.status < 500 or (reply.status == 503 and reply.problem), reply
    if reply.status >= 400:
        assert reply.problem[1] == reply.status
    elif reply.media_type == "application/json":
        strict_json(reply.content)


def was_accepted(reply: Reply) -> bool:
    if reply.status >= 300 or reply.media_type != "application/json":
        return reply.status == 204
    body = reply.body
    return bool(body.get("accepted")) or any(answer.get("accepted") for answer in body.get("answers", []))


@given(st.sampled_from(ROUTES), st.binary(max_size=64) | bytes_near_json(), st.booleans())
@example(("POST", "batch"), b'{"commands": [{"command": "begin", "character": "hero", "key": "\\ud800"}]}', True)
@example(
    ("PUT", "characters/other"), b'{"rig": {"parameters": {"declared": {"a": {"type": "int", "default": 1e38}}}}}', True
)
@FUZZED
def test_no_body_gets_a_500_or_changes_anything_unless_it_was_accepted(
    send: Send, route: tuple[str, str], body: bytes, is_json: bool
):
    call = Caller(send, "fuzzed")
    call.spawn()
    before = call.state()

    reply = call.ask(*route, body, content_type="application/json" if is_json else "text/plain")

    check(reply)
    if not was_accepted(reply):
        assert call.state() == before
    if route[0] in ("POST", "PUT") and not is_json and reply.status != 405:
        assert reply.problem[0] == "unsupported-media-type"


@given(st.sampled_from(ROUTES), ODD_TEXT, st.sampled_from(["hero", "rigs/humanoid", "fuzzed"]))
@FUZZED
def test_no_path_gets_a_500(send: Send, route: tuple[str, str], text: str, place: str):
    method, path = route
    full = (path if path.startswith("/") else f"/v1/scenes/fuzzed/{path}").replace(place, quote(text, safe=""))

    check(Caller(send, "fuzzed").ask(method, full, b"{}"))


QUERIES = ["after", "limit", "cursor", "life", "character", "layer", "command", "outcome", "refused"]


@given(
    st.sampled_from([route for route in ROUTES if route[0] in ("GET", "DELETE")]),
    st.dictionaries(st.sampled_from(QUERIES), st.text(max_size=8) | st.integers().map(str) | ODD_TEXT, max_size=3),
)
@FUZZED
def test_no_query_gets_a_500(send: Send, route: tuple[str, str], query: dict[str, str]):
    call = Caller(send, "fuzzed")
    call.spawn()
    method, path = route
    text = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())

    check(call.ask(method, f"{path}?{text}"))


@given(
    st.sampled_from(
        ["content-type", "idempotency-key", "if-none-match", "content-length", "accept", "x-forwarded-for"]
    ),
    st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\0"), max_size=300),
    st.sampled_from([route for route in ROUTES if route[1].startswith("characters")]),
)
@FUZZED
def test_no_header_gets_a_500(send: Send, name: str, value: str, route: tuple[str, str]):
    call = Caller(send, "fuzzed")
    call.spawn()

    check(call.ask(*route, b'{"layer": "base", "target": "Run"}', **{name: value.encode("latin-1")}))  # type: ignore[arg-type]  # httpx takes header values of bytes
