import asyncio
import json
from pathlib import Path

import apsw
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
from posegate_client import AsyncPosegate
from tests.support.jetstreams import asking, deleted
from tests.support.lines import is_one_line
from tests.support.nats_servers import fresh_name
from tests.support.recorded import TRACES

HIT = TRACES / "panda3d-hit-interrupt.jsonl"


def played(url: str, *requests: tuple[str, str]) -> None:
    """Send requests to a service on a journal."""

    async def sent():
        app = build(Settings(journal=url))
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://posegate.test") as client:
                for method, path in requests:
                    (await client.request(method, path, json={})).raise_for_status()

    asyncio.run(sent())


@pytest.fixture
def journal(tmp_path):
    """A journal in which a recording was played."""
    url = f"sqlite:{tmp_path}/played.db"

    async def played():
        app = build(Settings(journal=url))
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app=app)
            async with AsyncPosegate("http://posegate.test", transport=transport) as posegate:
                await Player(Service(posegate), read_trace(HIT), scene="match-7", run="verify-me").play()

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
        report = SceneReport("match-7", entries=3, decisions=50, decided_again=50, found=5, differences=differences)
        report.differing = 4
        yield report

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
            "50 decisions in 1 scene read, 50 decided again, 4 differ",
        ]


def test_verify_counts_damage_apart_and_names_the_way_out(call, journal):
    damage(journal, "UPDATE entries SET blob = x'00' WHERE first > 100")

    code, shown, told = call("verify", journal)

    assert code == 1
    assert shown.endswith("0 differ; 1 scene damaged, and not read from the damage on\n")
    assert f"`posegate repair {journal}`" in told
    assert "back-up" in told
    assert is_one_line(told)


def test_verify_of_what_other_rules_decided_does_not_lead_to_a_repair(call, journal, monkeypatch):
    async def differing(opened, settings):
        yield SceneReport("match-7", found=1, differing=1, differences=[Difference(41, "changed-rule", "Begin")])

    monkeypatch.setattr(journals, "verify_scenes", differing)

    _, _, told = call("verify", journal)

    assert "the version that wrote it" in told
    assert "repair" not in told


@pytest.mark.parametrize("command", ["verify", "repair"])
@pytest.mark.parametrize(
    ("url", "right", "wrong"),
    [
        ("memory:", "`sqlite:PATH`", "Stop"),
        ("nowhere:", "accepted is `sqlite:PATH`.", "made when it is missing"),
        ("sqlite:absent.db", "absent.db: there is no such file; name the one", "Stop"),
    ],
)
def test_a_journal_that_is_none_is_told_with_the_advice_for_it_alone(call, command, url, right, wrong):
    code, _, told = call(command, url)

    assert code == 2
    assert right in told
    assert wrong not in told
    assert is_one_line(told)


@pytest.mark.parametrize("command", ["verify", "repair"])
@pytest.mark.parametrize("is_emptied", [False, True])
def test_a_database_that_is_gone_beside_its_marks_is_told_as_serve_tells_it(call, journal, command, is_emptied):
    path = Path(journal.removeprefix("sqlite:"))
    path.unlink()
    if is_emptied:
        path.touch()

    code, _, told = call(command, journal)

    assert code == 1
    assert f"{path} holds no journal, but {path}.mark says that it did" in told
    assert told.count("Bring back") == 1
    assert is_one_line(told)
    assert path.exists() is is_emptied


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


def damage(url: str, statement: str) -> None:
    connection = apsw.Connection(url.removeprefix("sqlite:"))
    connection.execute(statement)
    connection.close()


def test_verify_names_the_first_bad_sequence_and_goes_on_with_the_others(call, journal):
    async def another():
        opened = open_journal(journal)
        await opened.append("a-scene", after=0, first=1, last=1, blob=b"x")
        await opened.append("z-scene", after=0, first=1, last=1, blob=b"x")
        await opened.close()

    asyncio.run(another())
    damage(journal, "UPDATE entries SET blob = x'00' WHERE first = 101 OR last = 101")

    code, shown, told = call("verify", "--json", journal)

    scenes = {scene["scene"]: scene for scene in json.loads(shown)["scenes"]}
    assert code == 1
    assert is_one_line(told)
    assert list(scenes) == ["a-scene", "match-7", "z-scene"]
    [difference] = scenes["match-7"]["differences"]
    assert (difference["meaning"], difference["sequence"] <= 101) == ("damage", True)
    assert f"from sequence {difference['sequence']} on" in difference["detail"]


def test_repair_finds_nothing_in_a_whole_journal(call, journal):
    assert call("repair", journal) == (0, "nothing is damaged\n", "")
    assert call("repair", journal, "--accept-loss") == (0, "nothing is damaged\n", "")


def test_repair_says_what_would_be_lost_and_then_loses_it(call, journal):
    damage(journal, "DELETE FROM entries WHERE position = (SELECT max(position) FROM entries)")
    damage(journal, "UPDATE scenes SET header = x'00'")

    code, shown, told = call("repair", journal)
    again = call("repair", journal)

    assert (code, again) == (1, (code, shown, told))
    assert shown.startswith("match-7: scene 'match-7' is damaged: the head of its checkpoint is not what was written.")
    assert "With --accept-loss: sequences 197 to 200 would be lost; tokens granted after sequence 196 would be" in shown
    assert " are " not in shown
    assert told == "posegate: nothing was changed. To repair at this price, give --accept-loss.\n"

    code, repaired, told = call("repair", journal, "--accept-loss")

    assert (code, told) == (0, "")
    assert "Repaired: sequences 197 to 200 are lost; tokens granted after sequence 196 are unknown" in repaired
    assert "would be" not in repaired
    assert "repaired; the former database is" in repaired
    assert call("verify", journal)[0] == 0
    assert call("repair", journal) == (0, "nothing is damaged\n", "")


def test_repair_prints_an_object_for_machines(call, journal):
    damage(journal, "UPDATE scenes SET header = x'00'")

    _, refused, _ = call("repair", journal, "--json", "--scene", "match-7")
    code, shown, _ = call("repair", journal, "--json", "--accept-loss")

    assert json.loads(refused)["repaired"] is False
    assert code == 0
    told = json.loads(shown)
    assert told["repaired"] is True
    assert told["former"].endswith(".damaged")
    [scene] = told["scenes"]
    assert (scene["scene"], scene["kept"], scene["lost_until"], scene["has_new_secret"]) == ("match-7", 200, 200, True)


def test_repair_of_a_journal_in_use_or_of_a_scene_that_is_none_is_a_wrong_call(call, journal):
    code, _, told = call("repair", journal, "--scene", "attic")

    assert code == 2
    assert "there is no scene 'attic'; without --scene" in told
    assert "Stop" not in told
    assert is_one_line(told)

    serving = open_journal(journal)
    code, _, told = call("repair", journal)
    asyncio.run(serving.close())

    assert code == 2
    assert told.endswith("Stop that process first.\n")
    assert told.count("Stop") == 1
    assert is_one_line(told)


def test_a_deleted_scene_that_only_repair_names_is_said_to_be_deleted(call, journal):
    """Without its marks a journal says of no scene where it ended, of the deleted ones neither."""
    played(journal, ("PUT", "/v1/scenes/old/characters/hero"), ("DELETE", "/v1/scenes/old"))
    Path(journal.removeprefix("sqlite:") + ".mark").unlink()

    _, verified, _ = call("verify", journal)
    _, shown, _ = call("repair", journal)

    assert "in 1 scene read" in verified
    assert [line.partition(":")[0] for line in shown.splitlines()] == ["match-7", "old (deleted)"]


@pytest.mark.parametrize("url", ["nats://posegate:hidden@127.0.0.1:1/posegate", "tls://127.0.0.1:1/posegate"])
def test_a_journal_on_jetstream_is_not_repaired_but_restored(call, url):
    code, shown, told = call("repair", url)

    assert (code, shown) == (2, "")
    assert "a journal on JetStream is not repaired: restore a back-up of it." in told
    assert "hidden" not in told
    assert is_one_line(told)


def test_verify_names_a_scene_whose_entries_are_all_gone_from_jetstream(call, alone):
    name = fresh_name()
    url = alone.url(name)

    async def purged():
        async with asking(alone, name) as (jetstream, streams):
            await jetstream.purge(streams.entries, streams.entry("match-8"), below=1_000)

    played(url, *[("PUT", f"/v1/scenes/match-{number}/characters/hero") for number in (7, 8)])
    asyncio.run(purged())
    code, shown, told = call("verify", url)
    asyncio.run(deleted(url))

    damaged, summary = shown.splitlines()
    assert code == 1
    assert damaged.startswith("match-8, sequence 1: damage: scene 'match-8': its last entries are gone")
    assert "in 2 scenes read" in summary
    assert "1 scene damaged" in summary
    assert "Restore a back-up" in told
    assert is_one_line(told)
