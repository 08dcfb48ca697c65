"""When a call is sent again, over sockets and with both clients: a service that is busy, stops, lies or goes away."""

import socket

import pytest

from posegate_client import (
    Forbidden,
    Invalid,
    Limits,
    NotPosegate,
    NotThere,
    Problem,
    Unanswered,
    Unauthenticated,
    Unavailable,
    commands,
)
from tests.client.scripted import HANG_UP, HOLD, answered, problem, scripted

QUICK = Limits(deadline_s=5, attempt_s=2, attempts_max=3, pause_s_first=0.001, pause_s_max=0.01)
GRANTED = {
    "accepted": True,
    "retryable": False,
    "sequence": 2,
    "revision": 2,
    "outcome": "granted",
    "superseded": None,
    "token": {"character": "hero", "layer": "base", "epoch": 1, "generation": 1, "from": "Idle", "to": "Run"},
}
BUSY = answered(503, problem("mailbox-full", 503, retryable=True, retry_after=1), Retry_After="1")


def begun(connect, script, limits=QUICK):
    return connect(script.url, limits=limits).scene("m").character("hero").begin("base", "Run")


@pytest.mark.parametrize(
    "first",
    [
        BUSY,
        answered(429, problem("too-many-requests", 429, retryable=True)),
        answered(408, problem("request-timeout", 408, retryable=True)),
        answered(503, problem("commit-unknown", 503, retryable=True)),
        answered(503, b"<html>a proxy"),
        answered(502, b""),
        HANG_UP,
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 20",
    ],
    ids=["busy", "quota", "slow", "unknown", "proxy", "gateway", "hung-up", "half-a-body", "half-a-head"],
)
def test_a_command_is_sent_again_with_its_key_when_that_may_help(connect, first):
    with scripted(first, answered(200, GRANTED)) as script:
        granted = begun(connect, script)

    assert granted.token.generation == 1
    assert script.heard[0] == script.heard[1]
    assert len(set(script.keys)) == 1
    assert len(script.keys) == 2


@pytest.mark.parametrize(
    ("name", "status", "kind"),
    [
        ("invalid", 422, Invalid),
        ("too-large", 413, Invalid),
        ("unauthenticated", 401, Unauthenticated),
        ("forbidden", 403, Forbidden),
        ("unknown-scene", 404, NotThere),
        ("journal-damaged", 503, Unavailable),
    ],
)
def test_a_problem_that_stays_is_raised_at_once(connect, name: str, status: int, kind):
    with scripted(answered(status, problem(name, status, at="layer"))) as script, pytest.raises(kind) as raised:
        begun(connect, script)

    assert len(script.heard) == 1
    assert (raised.value.problem.name, raised.value.problem.at) == (name, "layer")


def test_a_refusal_is_never_sent_again_though_it_may_be_accepted_later(connect):
    refused = {"accepted": False, "retryable": True, "sequence": 2, "revision": 1, "outcome": "too_early"}
    with scripted(answered(200, refused), answered(200, GRANTED)) as script:
        assert begun(connect, script).outcome == "too_early"
        assert len(script.heard) == 1


def test_asking_again_ends_and_says_what_came_last(connect):
    with scripted(BUSY, BUSY, BUSY, answered(200, GRANTED)) as script, pytest.raises(Unavailable) as raised:
        begun(connect, script)

    assert len(script.heard) == 3
    assert raised.value.problem.name == "mailbox-full"
    assert raised.value.may_be_decided is False


def test_a_lost_answer_leaves_the_command_with_its_key_to_be_asked_again(connect):
    with scripted(HANG_UP, HANG_UP, HANG_UP, answered(200, GRANTED)) as script:
        scene = connect(script.url, limits=QUICK).scene("m")
        with pytest.raises(Unanswered) as raised:
            scene.character("hero").begin("base", "Run")
        granted = scene.ask(raised.value.command)

    assert raised.value.may_be_decided is True
    assert granted.outcome == "granted"
    assert len(set(script.keys)) == 1
    assert len(script.keys) == 4


def test_nobody_there_is_said_and_nothing_can_be_decided(connect):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"

    with pytest.raises(Unanswered, match="3 times") as raised:
        connect(url, limits=QUICK).scene("m").character("hero").begin("base", "Run")

    assert raised.value.may_be_decided is False


def test_silence_ends_with_the_attempt(connect):
    limits = Limits(deadline_s=5, attempt_s=0.2, attempts_max=2, pause_s_first=0.001)
    with scripted(HOLD, answered(200, GRANTED)) as script, pytest.raises(Unanswered) as raised:
        begun(connect, script, Limits(deadline_s=0.2, attempt_s=0.2, attempts_max=1))
    assert raised.value.may_be_decided is True
    with scripted(HANG_UP, answered(200, GRANTED)) as script:
        assert begun(connect, script, limits).outcome == "granted"


def test_no_pause_goes_beyond_the_deadline(connect):
    later = answered(503, problem("draining", 503, retryable=True, retry_after=3600))
    limits = Limits(deadline_s=2, attempts_max=5, pause_s_max=60)
    with scripted(later, answered(200, GRANTED)) as script, pytest.raises(Unavailable) as raised:
        begun(connect, script, limits)

    assert len(script.heard) == 1
    assert raised.value.problem.retry_after == 3600


def test_the_end_of_a_scene_is_not_sent_twice_once_it_may_have_arrived(connect):
    """It has no key: sent again, it could close the scene that somebody made meanwhile."""
    with scripted(HANG_UP, answered(204)) as script, pytest.raises(Unanswered) as raised:
        connect(script.url, limits=QUICK).scene("m").close()
    assert len(script.heard) == 1
    assert raised.value.may_be_decided is True
    with scripted(BUSY, answered(204)) as script:
        assert connect(script.url, limits=QUICK).scene("m").close() is None


def test_a_batch_is_sent_again_as_long_as_nothing_of_it_was_decided(connect):
    waiting = {"problem": problem("mailbox-full", 503, retryable=True, retry_after=0)}
    asked = [commands.begin("hero", "base", "Run"), commands.begin("hero", "base", "Hit")]
    nothing, half = {"answers": [waiting, waiting]}, {"answers": [GRANTED, waiting]}
    with scripted(answered(200, nothing), answered(200, half)) as script:
        answers = connect(script.url, limits=QUICK).scene("m").batch(asked)

    assert script.heard[0] == script.heard[1]
    assert answers[0].outcome == "granted"
    assert isinstance(answers[1], Problem)


def test_a_batch_of_which_nothing_is_ever_decided_ends_with_its_problems(connect):
    waiting = {"answers": [{"problem": problem("mailbox-full", 503, retryable=True)}]}
    with scripted(*[answered(200, waiting)] * 3) as script:
        [answer] = connect(script.url, limits=QUICK).scene("m").batch([commands.begin("hero", "base", "Run")])

    assert answer.name == "mailbox-full"


@pytest.mark.parametrize(
    "said",
    [
        answered(200, b"<html>hello"),
        answered(200, {"hello": 1}),
        answered(200, b'{"accepted":true,"outcome":"granted"}'),
        answered(200, b"\xff\xfe"),
        answered(302, b"", Location="/elsewhere"),
        answered(422, {"hello": 1}),
        answered(200, b"no gzip at all", Content_Encoding="gzip"),
    ],
    ids=["html", "other", "half", "no-text", "redirect", "no-problem", "broken-encoding"],
)
def test_what_is_no_posegate_is_noticed(connect, said):
    with scripted(said) as script, pytest.raises(NotPosegate):
        begun(connect, script)


def test_a_batch_with_too_few_answers_is_noticed(connect):
    with scripted(answered(200, {"answers": []})) as script, pytest.raises(NotPosegate, match="0 answers"):
        connect(script.url, limits=QUICK).scene("m").batch([commands.begin("hero", "base", "Run")])


def test_an_answer_beyond_the_bound_is_not_read(connect):
    limits = Limits(answer_bytes_max=1000)
    with scripted(answered(200, b"x" * 2000)) as script, pytest.raises(NotPosegate, match="1000 bytes"):
        begun(connect, script, limits)


def test_the_key_of_the_client_is_sent_and_told_to_nobody(connect):
    with scripted(answered(200, GRANTED)) as script:
        client = connect(script.url, key="posegate_secret")
        client.scene("m").character("hero").begin("base", "Run")

    assert b"Authorization: Bearer posegate_secret\r\n" in script.heard[0]


@pytest.mark.parametrize("url", ["", "localhost:8080", "ftp://localhost", "http://", "/v1"])
def test_what_is_no_address_is_the_callers_mistake(connect, url: str):
    with pytest.raises(ValueError, match="address"):
        connect(url)


@pytest.mark.parametrize("key", ["", "a b", "a\nb", "é"])
def test_a_key_that_no_header_takes_is_the_callers_mistake_and_is_not_told(connect, key: str):
    with pytest.raises(ValueError, match="visible ASCII") as raised:
        connect("http://127.0.0.1:9", key=key)
    assert not key or key not in str(raised.value)


@pytest.mark.parametrize("key", ["short", "with space", "é" * 8, "k" * 256, "new\nline"])
def test_an_idempotency_key_that_posegate_does_not_take_is_not_sent(key: str):
    with pytest.raises(ValueError, match="8 to 255"):
        commands.begin("hero", "base", "Run", key=key)


@pytest.mark.parametrize("limits", [{"deadline_s": 0}, {"attempts_max": 0}, {"under_way_max": -1}])
def test_a_bound_of_nothing_is_none(limits):
    with pytest.raises(ValueError, match="above 0"):
        Limits(**limits)
