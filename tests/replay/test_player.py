import httpx
import msgspec
import pytest

from app.replay import player
from app.replay.player import Player, SceneTaken, scene_of
from app.replay.service import Service
from posegate_client import AsyncPosegate
from tests.support.recorded import Recorder


class Obliging:
    """A server that grants whatever it is asked, and writes down every batch."""

    def __init__(self, *, created=True):
        self.batches = []
        self.created = created

    def __call__(self, request):
        if request.method == "GET":
            return self.answered(
                layers={"base": {"current": "run"}},
                parameters={"values": {}},
                clip_instances=[],
                graphs={"main": {"active": None}},
            )
        commands = msgspec.json.decode(request.content)["commands"]
        self.batches.append(commands)
        return self.answered(answers=[self.answer(command) for command in commands])

    def answer(self, command):
        match command["command"]:
            case "spawn":
                return {"accepted": True, "outcome": "spawned", "created": self.created}
            case "begin":
                token = {"from": "idle", "to": command["target"], "seal": command["key"]}
                return {"accepted": True, "outcome": "granted", "token": token}
            case "complete":
                return {"accepted": True, "outcome": "committed", "current": command["token"]["to"]}
            case _:
                return {"problem": {"type": "/problems/invalid", "retryable": False}}

    @staticmethod
    def answered(**body):
        return httpx.Response(200, content=msgspec.json.encode(body))

    def names(self):
        """The commands of every batch behind the spawns, each by its name and target."""
        return [[command["command"] for command in batch] for batch in self.batches[1:]]


async def played(recorder, server, **given):
    transport = httpx.MockTransport(server)
    async with AsyncPosegate("http://posegate.test", transport=transport) as posegate:
        return await Player(Service(posegate), recorder.trace(), scene="s", run="r", **given).play()


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def server():
    return Obliging()


async def test_a_tick_is_a_batch(recorder, server):
    recorder.begin("h1", "run")
    recorder.parameters(("Speed", 1))
    recorder.tick = 5
    recorder.complete("h1", "run")

    await played(recorder, server)

    assert server.names() == [["begin", "commit-parameters"], ["complete"]]


async def test_a_command_that_needs_a_token_of_its_own_tick_goes_into_the_next_batch(recorder, server):
    recorder.begin("h1", "run")
    recorder.parameters(("Speed", 1))
    recorder.complete("h1", "run")
    recorder.begin("h2", "hit")

    await played(recorder, server)

    assert server.names() == [["begin", "commit-parameters"], ["complete", "begin"]]
    assert server.batches[2][0]["token"]["seal"] == server.batches[1][0]["key"]


async def test_a_tick_of_too_many_commands_is_cut(recorder, server, monkeypatch):
    monkeypatch.setattr(player, "BATCH_COMMANDS_MAX", 2)
    for number in range(5):
        recorder.begin(f"h{number}", "run")

    await played(recorder, server)

    assert [len(names) for names in server.names()] == [2, 2, 1]


async def test_every_command_has_a_key_of_its_own_and_the_same_in_every_attempt(recorder, server):
    recorder.begin("h1", "run")
    recorder.tick = 1
    recorder.begin("h2", "run")

    await played(recorder, server)

    keys = [command["key"] for batch in server.batches for command in batch]
    assert keys == ["r.spawn0", "r.00000000", "r.00000001"]


async def test_a_line_that_cannot_be_asked_is_counted_in_its_place(recorder, server):
    recorder.complete(None, "fly")
    recorder.begin("h1", "run")
    recorder.complete("h1", "run")

    report = await played(recorder, server)

    assert server.names() == [["begin"], ["complete"]]
    assert report.gates["transitions"].unanswerable == 1
    assert report.asked == 2
    final = {found.key: found.count for found in report.disagreements}["final_state_differs"]
    assert final == 0, "the naive client believed the completion that could not be asked before the one that could"


async def test_what_no_gate_decided_is_a_problem_of_the_report(recorder, server):
    recorder.parameters(("Speed", 1))

    report = await played(recorder, server)

    assert (report.problems, report.gates["parameters"].problems) == (1, {"invalid": 1})


async def test_progress_counts_every_line(recorder, server):
    told: list[int] = []
    recorder.begin("h1", "run")
    recorder.complete("h1", "run")
    recorder.tick = 3
    recorder.complete(None, "fly")

    await played(recorder, server, advance=told.append)

    assert sum(told) == 3


async def test_a_scene_that_holds_the_characters_already_is_not_played_in(recorder):
    """The comparison would be with what somebody else had done."""
    server = Obliging(created=False)
    recorder.begin("h1", "run")

    with pytest.raises(SceneTaken, match=r"hero cannot be spawned.*alive already.*another --scene"):
        await played(recorder, server)
    assert server.names() == []


def test_a_scene_is_named_after_its_trace_as_far_as_a_path_allows():
    assert scene_of("godot3-crowd", "ab12") == "godot3-crowd-ab12"
    assert scene_of("../my trace/é", "ab12") == "my-trace--ab12"
    assert scene_of("...", "ab12") == "trace-ab12"
    assert len(scene_of("x" * 400, "ab12")) == 128
