import httpx
import msgspec
import pytest

from app.replay.service import Service, ServiceError
from posegate_client import AsyncPosegate, Limits

ATTEMPTS_MAX = 3
QUICK = Limits(attempts_max=ATTEMPTS_MAX, pause_s_first=0.001, pause_s_max=0.002)
"""Pauses are the client's, and tested there."""

COMMANDS = [{"command": "begin", "key": "k1"}, {"command": "begin", "key": "k2"}]
DECIDED = {"answers": [{"accepted": True}, {"accepted": False}]}
WAITING = {"type": "/problems/mailbox-full", "title": "Full", "status": 503, "retryable": True, "retry_after": 2}
LATER = {"answers": [{"problem": WAITING}] * 2}


class Scripted:
    """A server that gives one answer after the other."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.bodies = []

    def __call__(self, request):
        self.bodies.append(request.content)
        answer = self.answers.pop(0)
        if isinstance(answer, httpx.TransportError):
            raise answer
        return answer

    def service(self):
        posegate = AsyncPosegate("http://posegate.test", transport=httpx.MockTransport(self))
        return Service(posegate, QUICK)


def answer(body, status=200, **headers):
    return httpx.Response(status, content=msgspec.json.encode(body), headers=headers)


def problem(name, status, detail, **more):
    """A whole problem, as the service answers it."""
    body = {"type": f"/problems/{name}", "title": name, "status": status, "detail": detail, **more}
    return answer(body, status, **{"Content-Type": "application/problem+json"})


async def test_a_batch_is_answered_in_order():
    script = Scripted(answer(DECIDED))

    answers = await script.service().batch("match-7", COMMANDS)

    assert answers == DECIDED["answers"]
    assert msgspec.json.decode(script.bodies[0]) == {"commands": COMMANDS}


@pytest.mark.parametrize(
    "lost",
    [
        httpx.ConnectError("refused"),
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("closed"),
        httpx.ReadTimeout("late"),
    ],
)
async def test_a_batch_is_sent_again_as_it_was_after_a_lost_connection(lost):
    """Its keys make that safe: what was decided already is answered the same."""
    script = Scripted(lost, answer(DECIDED))
    service = script.service()

    assert await service.batch("match-7", COMMANDS) == DECIDED["answers"]
    assert script.bodies[0] == script.bodies[1]
    assert (service.requests, service.retries) == (2, 1)


@pytest.mark.parametrize(("name", "status"), [("draining", 503), ("too-many-requests", 429)])
async def test_a_busy_service_is_asked_again(name: str, status: int):
    script = Scripted(problem(name, status, "later", retryable=True), answer(DECIDED))

    assert await script.service().batch("match-7", COMMANDS) == DECIDED["answers"]
    assert script.bodies[0] == script.bodies[1]


async def test_a_batch_of_which_nothing_was_decided_is_sent_again():
    script = Scripted(answer(LATER), answer(DECIDED))

    assert await script.service().batch("match-7", COMMANDS) == DECIDED["answers"]
    assert script.bodies[0] == script.bodies[1]


async def test_a_batch_of_which_something_was_decided_is_not():
    """Sent again, a command could be decided behind a later one of its character."""
    half = {"answers": [LATER["answers"][0], {"accepted": True}]}
    script = Scripted(answer(half))

    assert await script.service().batch("match-7", COMMANDS) == half["answers"]


async def test_asking_again_ends():
    script = Scripted(*[httpx.ConnectError("refused")] * ATTEMPTS_MAX)

    with pytest.raises(ServiceError, match=f"refused.*{ATTEMPTS_MAX} times.*posegate serve"):
        await script.service().batch("match-7", COMMANDS)
    assert len(script.bodies) == ATTEMPTS_MAX


async def test_asking_again_ends_with_the_problems_where_nothing_is_ever_decided():
    script = Scripted(*[answer(LATER)] * ATTEMPTS_MAX)

    assert await script.service().batch("match-7", COMMANDS) == LATER["answers"]
    assert len(script.bodies) == ATTEMPTS_MAX


async def test_a_problem_of_the_whole_request_says_where_and_why():
    script = Scripted(problem("too-large", 413, "the batch has 10001 commands"))

    with pytest.raises(ServiceError, match=r"POST http://posegate\.test/v1/scenes/match-7/batch.*413, the batch has"):
        await script.service().batch("match-7", COMMANDS)


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, r"send a key\. The API key that is sent is the one in --key or POSEGATE_KEY\."),
        (403, r"prefixes; --scene"),
    ],
)
async def test_a_service_with_keys_that_refuses_says_which_option_is_at_fault(status: int, advice: str):
    script = Scripted(problem("unauthenticated", status, "send a key"))

    with pytest.raises(ServiceError, match=advice):
        await script.service().batch("match-7", COMMANDS)
    assert len(script.bodies) == 1


@pytest.mark.parametrize("said", [httpx.Response(200, text="<html>"), answer({"hello": 1}), answer({"answers": [{}]})])
async def test_another_service_is_noticed(said):
    with pytest.raises(ServiceError, match=r"http://posegate\.test"):
        await Scripted(said).service().batch("match-7", COMMANDS)


async def test_a_service_is_reached_when_it_says_that_it_is_ready():
    script = Scripted(answer({"ready": False, "reasons": ["draining"]}, 503), answer({"ready": True, "reasons": []}))

    await script.service().reach()

    assert not script.answers


async def test_nobody_there_is_noticed_soon():
    script = Scripted(httpx.ConnectError("refused"), httpx.ConnectError("refused"))

    with pytest.raises(ServiceError, match="is posegate running there"):
        await script.service().reach()


async def test_a_character_is_read_as_the_gates_hold_it():
    script = Scripted(answer({"character": "hero"}))

    assert await script.service().character("match-7", "hero") == {"character": "hero"}
