import json

import pytest

from app.replay.own import own_service
from app.replay.player import SceneTaken
from app.replay.run import replay
from app.replay.service import ServiceError
from app.replay.trace import read_trace
from tests.support.keyed import KEYS, MATCH
from tests.support.process import process
from tests.support.recorded import TRACES, Recorder

HIT, RACE = (read_trace(TRACES / f"panda3d-{name}.jsonl") for name in ("hit-interrupt", "graph-race"))


async def test_traces_play_through_a_service_of_their_own_with_a_new_scene_each():
    told: dict[str, int] = {}

    def started(trace):
        return lambda lines: told.update({trace.name: told.get(trace.name, 0) + lines})

    hit, race = await replay([HIT, RACE], started=started)

    assert (hit.trace, race.trace) == ("panda3d-hit-interrupt", "panda3d-graph-race")
    assert (hit.problems, race.problems) == (0, 0)
    assert hit.scene.startswith("panda3d-hit-interrupt-")
    assert told == {"panda3d-hit-interrupt": 196, "panda3d-graph-race": 74}


async def test_a_running_service_takes_the_same_trace_twice():
    async with own_service("memory:") as url:
        [first] = await replay([HIT], url=url)
        [second] = await replay([HIT], url=url)

    assert first.scene != second.scene
    assert first.gates == second.gates


async def test_a_named_scene_is_used_and_not_used_twice():
    async with own_service("memory:") as url:
        [alone] = await replay([HIT], url=url, scene="match-7")
        both = await replay([HIT, RACE], url=url, scene="match-8")

        assert alone.scene == "match-7"
        assert [report.scene for report in both] == ["match-8-panda3d-hit-interrupt", "match-8-panda3d-graph-race"]
        with pytest.raises(SceneTaken, match="match-7"):
            await replay([HIT], url=url, scene="match-7")


async def test_a_service_with_keys_is_asked_with_one():
    with process("memory:", keys=json.dumps(KEYS)) as served:
        [played] = await replay([HIT], url=served.url, key=MATCH, scene="match-7")

        assert played.problems == 0
        with pytest.raises(ServiceError, match="401"):
            await replay([HIT], url=served.url, scene="match-8")


async def test_nobody_there_is_said():
    with pytest.raises(ServiceError, match=r"http://127\.0\.0\.1:9.*is posegate running there"):
        await replay([Recorder().trace()], url="http://127.0.0.1:9")
