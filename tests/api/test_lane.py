"""The fast lane answers as the application does: the same bytes, counts and ends, whatever comes in what pieces."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.api.test_decode import BODIES, MALFORMED
from tests.api.test_doors import asked
from tests.support.keyed import KEYS, LOBBY, MATCH, OPS
from tests.support.twins import Twins, twins
from tests.support.wire import chunk, request

DRAWN = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
HERO = "/v1/scenes/{scene}/characters/hero"
JSON = "Content-Type: application/json\r\n"
RUN = b'{"layer": "base", "target": "Run"}'
TARGETS = [
    *(f"{HERO}/begin?", f"{HERO}/begin?life=1", f"{HERO}/begin#here", f"{HERO}/begin/", f"{HERO}//begin", f"{HERO}/no"),
    *("/v1/scenes/{scene}/characters/%68ero/begin", "/v1/scenes/{scene}/characters/he%2Fro/begin"),
    *("/v1/scenes/{scene}/characters/../begin", "/v1/scenes/{scene}/characters/-/begin", f"{HERO}/../hero/begin"),
    *("/v1/scenes/{scene}/characters/nobody/begin", "/v1/scenes/nowhere/characters/hero/begin", f"{HERO}/Begin"),
    *(f"/v1/scenes/{{scene}}/characters/{'x' * 128}/begin", f"/v1/scenes/{{scene}}/characters/{'x' * 129}/begin"),
    *("/v2/scenes/{scene}/characters/hero/begin", "/V1/scenes/{scene}/characters/hero/begin", "*", "/"),
    *(f"http://posegate{HERO}/begin", "v1/scenes/{scene}/characters/hero/begin", f"{HERO}/batch", HERO, "/livez"),
]
FIELDS = [
    *("Connection: close", "Connection: keep-alive", "Connection: Close, x", "Connection: upgrade\r\nUpgrade: h2c"),
    *("Idempotency-Key: key-of-eight", 'Idempotency-Key: "key-of-eight"', "Idempotency-Key: short", "Idempotency-Key:"),
    *("Idempotency-Key: another-key", "Idempotency-Key: key \xe9\xe9\xe9\xe9\xe9", 'Idempotency-Key: "half-quoted'),
    *("X-Request-Id: mine", "X-Request-Id: \xe9", "X-Request-Id:", f"X-Request-Id: {'x' * 129}", "x-request-id: mine"),
    *("Expect: 100-continue", "Expect: a miracle", f"traceparent: 00-{'a' * 32}-{'b' * 16}-01", "traceparent: no"),
    *("Authorization: Bearer nothing", "Authorization: Basic a", "Authorization:", "Content-Encoding: gzip"),
    *("Content-Type: text/plain", "Content-Type: application/json", "Content-Type:", "Transfer-Encoding: identity"),
    *(f"X: {'y' * 3000}", "X: y\r\n" * 40 + "X: y", "No colon", "Content-Length: 7", "Cookie: a=b", ": nameless"),
]
MEDIA_TYPES = [
    *(
        "application/json; charset=utf-8",
        "APPLICATION/JSON",
        " application/json\t",
        "application/json;",
        ";",
        "text/json",
    ),
    *("application/json\xa0", "application/jsonx", "application/msgpack", ""),
]


@pytest.fixture(scope="module")
def both() -> Iterator[Twins]:
    with twins(target_bytes_max=600, head_bytes_max=2_048, header_items_max=32, body_bytes_max=8_192) as served:
        yield served


def post(scene: str, name: str, body: Any, *, headers: str = "", version: str = "1.1") -> bytes:
    """Give the bytes of one command for `hero`."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = request("POST", HERO.format(scene=scene) + f"/{name}", content, headers=headers)
    return sent.replace(b"HTTP/1.1", f"HTTP/{version}".encode(), 1)


def statuses(said: bytes) -> list[int]:
    """Give the statuses of the answers, in order."""
    return [int(each[:3]) for each in said.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.parametrize("name", sorted(BODIES))
def test_every_command_has_the_same_answer(both: Twins, name: str):
    scene = both.scene()

    said = both.say(post(scene, name, BODIES[name]), post(scene, name, {**BODIES[name], "life": 7}))

    assert statuses(said) == [200, 200]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("method", ["POST", "GET", "PUT", "post"])
def test_every_target_leads_to_the_same(both: Twins, target: str, method: str):
    scene = both.scene()

    said = both.say(request(method, target.format(scene=scene), RUN), post(scene, "begin", RUN))

    assert said


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: ascii(field)[:40])
@pytest.mark.parametrize("version", ["1.1", "1.0", "2.0"])
def test_every_field_has_the_same_effect(both: Twins, field: str, version: str):
    scene = both.scene()
    command = post(scene, "begin", RUN, headers="{field}\r\n", version=version).replace(
        b"{field}", field.encode("latin-1")
    )

    both.say(command, post(scene, "begin", RUN))
    both.say(command + post(scene, "begin", RUN))
    both.say(command.replace(b"{field}", b"{field}\r\n{field}"), command)


@pytest.mark.parametrize("media_type", MEDIA_TYPES)
def test_every_media_type_is_taken_or_not_by_both(both: Twins, media_type: str):
    scene = both.scene()
    command = post(scene, "begin", RUN).replace(b"application/json", media_type.encode("latin-1"))

    both.say(command, command)


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_a_broken_body_is_told_the_same_problem(both: Twins, body: bytes):
    scene = both.scene()

    said = both.say(post(scene, "begin", body), post(scene, "begin", RUN))

    assert 200 in statuses(said)


@pytest.mark.parametrize("size", [8_191, 8_192, 8_193, 70_000])
@pytest.mark.parametrize("piece_bytes", [1_000, 100_000])
def test_a_large_body_is_taken_up_to_the_same_limit(both: Twins, size: int, piece_bytes: int):
    scene = both.scene()
    sent = post(scene, "begin", RUN.ljust(size))

    both.say(*(sent[at : at + piece_bytes] for at in range(0, len(sent), piece_bytes)))


def test_a_chunked_body_with_trailers_is_taken_the_same(both: Twins):
    target = HERO.format(scene=both.scene()) + "/begin"
    head = f"POST {target} HTTP/1.1\r\nHost: a\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n".encode()

    both.say(head + chunk(RUN[:9]) + chunk(RUN[9:]) + b"0\r\nTrailer: x\r\n\r\n", head, chunk(RUN) + chunk(b""))


@st.composite
def sent(draw: st.DrawFn) -> bytes:
    """Give a request to `{scene}`, a command more often than not, with more or less wrong about it."""
    name, fields = draw(asked())
    body = json.dumps(fields).encode()
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(body)))
        body = (
            body[:at]
            + draw(st.sampled_from([b"", b"\xff", b"\0", b"}", b'"', b"[" * 70, b"\r\n\r\n"]))
            + body[at + 1 :]
        )
    odd = draw(st.integers(0, 3)) == 0
    target = draw(st.sampled_from(TARGETS)) if odd and draw(st.booleans()) else f"{HERO}/{name}"
    method = draw(st.sampled_from(["POST", "GET", "PUT", "DELETE", "BREW"])) if odd and draw(st.booleans()) else "POST"
    drawn = draw(st.lists(st.sampled_from(FIELDS), max_size=3 if odd else 1))
    lines = "".join(f"{field}\r\n" for field in drawn).encode("latin-1")
    head, _, rest = request(method, target, body).partition(b"\r\n")
    if odd and draw(st.booleans()):
        head = head.replace(b"HTTP/1.1", draw(st.sampled_from([b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.2", b"HTCPCP/1.0"])))
    if odd and draw(st.booleans()):
        rest = rest.replace(
            b"Content-Length: ", draw(st.sampled_from([b"Content-Length: 1", b"Content-length:", b"X: "]))
        )
    return head + b"\r\n" + lines + rest


@st.composite
def conversations(draw: st.DrawFn) -> tuple[bytes, list[int]]:
    """Give requests one behind the other, and where they are cut into pieces, in thousandths of the whole."""
    asked_for = draw(st.lists(sent(), min_size=1, max_size=5))
    return b"".join(asked_for), draw(st.lists(st.integers(1, 999), unique=True, max_size=4))


CLOSING = request("POST", f"{HERO}/begin", RUN, headers="Connection: close\r\n") + request("GET", "/livez")


@DRAWN
@given(conversations())
@example((request("POST", f"{HERO}/begin", RUN) + b"\x16\x03\x01 noise\r\n\r\n", []))
@example((request("POST", f"{HERO}/begin", b"{") + b"\x16\x03\x01 noise\r\n\r\n", []))
@example((CLOSING, []))
@example((CLOSING.replace(RUN, RUN[:-1] + b"]"), [500]))
@example((request("POST", f"{HERO}/begin", RUN) * 3, [300, 330, 360]))
def test_a_conversation_goes_the_same_way(both: Twins, drawn: tuple[bytes, list[int]]):
    """It goes so again over another connection, where the heads that came whole are known."""
    whole = drawn[0].replace(b"{scene}", both.scene().encode())
    ends = [0, *sorted(len(whole) * cut // 1000 for cut in drawn[1]), len(whole)]
    pieces = [piece for at, to in pairwise(ends) if (piece := whole[at:to])]

    both.say(*pieces)
    both.say(*pieces)


@pytest.mark.parametrize("spelled", ["Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY", "Idempotency-Key:"])
def test_a_head_that_was_read_before_means_the_same_again(both: Twins, spelled: str):
    scene = both.scene()

    def keyed(key: str, body: bytes = RUN) -> bytes:
        return post(scene, "begin", body, headers=f"{spelled}: {key}\r\n")

    keys = [
        "first-key",
        "other-key",
        "first-key",
        "a key",
        "key\tkey",
        "kurz",
        '"first-key"',
        "first-key ",
        "",
        " " * 9,
    ]
    for key in keys:
        both.say(keyed(key), keyed(key), keyed(key)[:-3], keyed(key) + keyed(key))
    both.say(post(scene, "begin", RUN), keyed("third-key"), keyed("third-key", RUN.replace(b"Run", b"Hit")))
    both.say(keyed("fourth-key").replace(b"-key\r\n", b"-key\r\n folded\r\n"), keyed("fourth-key"))
    both.say(keyed("fifth-key").replace(b"-key\r\n", b"-key\n"), keyed("fifth-key") + b"\r\n")
    both.say(b"\r\n" + keyed("sixth-key"), keyed("sixth-key").replace(b"\r\n\r\n", b"\r\n\r\n\r\n"))


def test_a_known_head_with_more_or_less_behind_it_is_read_as_ever(both: Twins):
    scene = both.scene()
    command = post(scene, "begin", RUN)
    both.say(command, command)

    both.say(command + command, command[:-1], command[-1:] + command)
    both.say(command + request("GET", "/livez") + command, command + b"noise")
    both.say(command[:60], command[60:] + command[:150], command[150:])


def test_answers_come_in_the_order_of_the_requests_whoever_gives_them(both: Twins):
    scene = both.scene()
    mixed = b"".join(
        [
            *(post(scene, "begin", RUN), request("GET", f"/v1/scenes/{scene}"), post(scene, "begin", b"{")),
            *(post(scene, "play", BODIES["play"]), post(scene, "begin", RUN, headers="traceparent: no\r\n")),
            *(request("GET", "/nowhere"), post(scene, "ack", BODIES["ack"]), post(scene, "begin", RUN)),
        ]
    )

    at_once, in_two = both.say(mixed), both.say(mixed[:-20], mixed[-20:])

    assert statuses(at_once) == statuses(in_two) == [200, 200, 400, 200, 200, 404, 200, 200]


def test_every_caller_may_the_same():
    with twins(keys=json.dumps(KEYS)) as both:
        scene = both.scene(prefix="match-", authorization=f"Bearer {MATCH}")
        session = both.session(scene, MATCH, begin_layers=["base"])
        found = set[int]()
        for credential in (MATCH, LOBBY, OPS, session, f"{session[:-2]}xx", "nothing", ""):
            headers = f"Authorization: Bearer {credential}\r\n"
            for name, body in BODIES.items():
                command = post(scene, name, body, headers=headers)
                found.update(statuses(both.say(command, command, command[:-2], command * 2)))

        assert found >= {200, 401, 403}


def test_whoever_was_known_by_a_head_is_looked_at_again():
    """The key is revoked between two requests."""
    with twins(keys=json.dumps(KEYS)) as both:
        bearer = f"Bearer {MATCH}"
        scene = both.scene(prefix="match-", authorization=bearer)
        command = post(scene, "begin", RUN, headers=f"Authorization: {bearer}\r\n")

        before = both.say(command, command)
        for service in (both.fast, both.slow):
            service.app.state.security._keyring._callers.clear()
        after = both.say(command, command)

        assert (statuses(before), statuses(after)) == ([200, 200], [401, 401])


@pytest.mark.parametrize("limit", ["session_commands_per_s_max", "session_refusals_per_minute_max"])
def test_both_have_the_same_budgets(limit: str):
    """How long to wait for the next window is not the same for two who ask one after the other."""
    with twins(keys=json.dumps(KEYS), **{limit: 4}) as both:
        scene = both.scene(prefix="match-", authorization=f"Bearer {MATCH}")
        session = both.session(scene, MATCH, begin_layers=["base"])
        refused = post(scene, "retire", {"clip_instance": 9}, headers=f"Authorization: Bearer {session}\r\n")

        said = [both.run(service.say([refused] * 40)) for service in (both.fast, both.slow)]

        assert [set(statuses(each)) for each in said] == [{200, 429}] * 2
        without_wait = [re.sub(rb"content-length.*|retry.after.*", b"", each) for each in said]
        assert set(without_wait[0].splitlines()[-3:]) == set(without_wait[1].splitlines()[-3:])


def test_a_session_whose_scene_is_not_open_is_answered_too():
    with twins(keys=json.dumps(KEYS)) as both:
        scene = both.scene(prefix="match-", authorization=f"Bearer {MATCH}")
        session = both.session(scene, MATCH, begin_layers=["base"])
        command = post(scene, "begin", RUN, headers=f"Authorization: Bearer {session}\r\n")
        both.say(command)
        both.run(both.closed(scene))

        assert statuses(both.say(command, command)) == [200, 200]
