import httpx
import msgspec
import pytest

from app.replay.service import ATTEMPTS_MAX, WAIT_S_MAX, Service, ServiceError

COMMANDS = [{"command": "begin", "key": "k1"}, {"command": "begin", "key": "k2"}]
DECIDED = {"answers": [{"accepted": True}, {"accepted": False}]}
LATER = {"answers": [{"problem": {"retryable": True, "status": 503, "retry_after": 2}}] * 2}


class Scripted:
    """A server that gives one answer after the other, and a pause that only writes down how long it would be."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.bodies = []
        self.pauses = []

    def __call__(self, request):
        self.bodies.append(request.content)
        answer = self.answers.pop(0)
        if isinstance(answer, httpx.TransportError):
            raise answer
        return answer

    async def pause(self, seconds):
        self.pauses.append(seconds)

    def service(self):
        client = httpx.AsyncClient(transport=httpx.MockTransport(self), base_url="http://posegate.test")
        return Service(client, pause=self.pause)


def answer(body, status=200, **headers):
    return httpx.Response(status, content=msgspec.json.encode(body), headers=headers)


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


@pytest.mark.parametrize("status", [503, 429])
async def test_a_busy_service_is_asked_again_after_the_time_it_names(status: int):
    script = Scripted(answer({"detail": "draining"}, status, **{"Retry-After": "3"}), answer(DECIDED))

    assert await script.service().batch("match-7", COMMANDS) == DECIDED["answers"]
    assert script.pauses == [3.0]


async def test_no_pause_is_longer_than_the_bound():
    script = Scripted(answer({}, 503, **{"Retry-After": "86400"}), answer(DECIDED))

    await script.service().batch("match-7", COMMANDS)

    assert script.pauses == [WAIT_S_MAX]


async def test_a_date_in_retry_after_is_read_as_no_time():
    script = Scripted(answer({}, 503, **{"Retry-After": "Mon, 30 Nov 2026 10:00:00 GMT"}), answer(DECIDED))

    await script.service().batch("match-7", COMMANDS)

    assert script.pauses == [0.1]


async def test_a_batch_of_which_nothing_was_decided_is_sent_again():
    script = Scripted(answer(LATER), answer(DECIDED))

    assert await script.service().batch("match-7", COMMANDS) == DECIDED["answers"]
    assert script.pauses == [2.0]
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
    assert len(script.pauses) == ATTEMPTS_MAX - 1


async def test_asking_again_ends_with_the_problems_where_nothing_is_ever_decided():
    script = Scripted(*[answer(LATER)] * ATTEMPTS_MAX)

    assert await script.service().batch("match-7", COMMANDS) == LATER["answers"]
    assert len(script.bodies) == ATTEMPTS_MAX


async def test_a_problem_of_the_whole_request_says_where_and_why():
    script = Scripted(answer({"title": "Too large", "detail": "the batch has 10001 commands"}, 413))

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
    script = Scripted(answer({"detail": "send a key"}, status))

    with pytest.raises(ServiceError, match=advice):
        await script.service().batch("match-7", COMMANDS)
    assert len(script.bodies) == 1


@pytest.mark.parametrize("said", [httpx.Response(200, text="<html>"), answer({"hello": 1}), answer({"answers": [{}]})])
async def test_another_service_is_noticed(said):
    with pytest.raises(ServiceError, match=r"http://posegate\.test"):
        await Scripted(said).service().batch("match-7", COMMANDS)


async def test_a_service_is_reached_when_it_says_that_it_is_ready():
    script = Scripted(answer({"ready": False}, 503), answer({"ready": True}))

    await script.service().reach()

    assert not script.answers


async def test_nobody_there_is_noticed_soon():
    script = Scripted(httpx.ConnectError("refused"), httpx.ConnectError("refused"))

    with pytest.raises(ServiceError, match="is posegate running there"):
        await script.service().reach()


async def test_a_character_is_read_as_the_gates_hold_it():
    script = Scripted(answer({"character": "hero"}))

    assert await script.service().character("match-7", "hero") == {"character": "hero"}
