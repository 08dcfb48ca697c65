import asyncio
import json

import httpx
import pytest

from app.cli import journals
from app.journal import open_journal
from app.main import build
from app.replay.player import Player
from app.replay.service import Service
from app.replay.trace import read_trace
from app.sequencing.verify import Difference, SceneReport
from app.settings import Settings
from tests.support.lines import is_one_line
from tests.support.recorded import TRACES

HIT = TRACES / "panda3d-hit-interrupt.jsonl"


@pytest.fixture
def journal(tmp_path):
    """A journal in which a recording was played."""
    url = f"sqlite:{tmp_path}/played.db"

    async def played():
        app = build(Settings(journal=url))
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://posegate.test") as client:
                await Player(Service(client), read_trace(HIT), scene="match-7", run="verify-me").play()

    asyncio.run(played())
    return url


def test_verify_decides_a_journal_again_and_finds_nothing(call, journal):
    code, shown, told = call("verify", journal)

    assert (code, told) == (0, "")
    assert shown == "200 decisions in 1 scene read, 200 decided again, 0 differ\n"


def test_verify_prints_an_object_for_machines(call, journal):
    code, shown, _ = call("verify", "--json", journal)

    assert code == 0
    [scene] = json.loads(shown)["scenes"]
    assert (scene["scene"], scene["decisions"], scene["found"]) == ("match-7", 200, 0)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_verify_tells_every_difference_and_fails(call, journal, monkeypatch, options):
    async def differing(opened, settings):
        differences = [Difference(41, "changed-rule", "Begin of 'hero'"), Difference(None, "damage", "the checkpoint")]
        yield SceneReport("match-7", entries=3, decisions=50, decided_again=50, found=5, differences=differences)

    monkeypatch.setattr(journals, "verify_scenes", differing)

    code, shown, told = call("verify", journal, *options)

    assert code == 1
    assert is_one_line(told)
    if options:
        assert json.loads(shown)["found"] == 5
    else:
        assert shown.splitlines() == [
            "match-7, sequence 41: changed-rule: Begin of 'hero'",
            "match-7, as a whole: damage: the checkpoint",
            "match-7: 3 more",
            "50 decisions in 1 scene read, 50 decided again, 5 differ",
        ]


def test_verify_names_a_damaged_file(call, tmp_path):
    path = tmp_path / "notes.db"
    path.write_text("these are notes, not a journal\n" * 100)

    code, _, told = call("verify", f"sqlite:{path}")

    assert code == 1
    assert is_one_line(told)


def test_verify_leaves_a_journal_as_it_was(call, journal):
    async def scenes():
        opened = open_journal(journal, read_only=True)
        try:
            return await opened.scenes(after="", limit=10)
        finally:
            await opened.close()

    call("verify", journal)

    assert asyncio.run(scenes()) == ["match-7"]
