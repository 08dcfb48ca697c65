import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import msgspec
import pytest

from app.gates.decision import Command, Refused
from app.gates.event_commands import CommitLoop, Enqueue
from app.gates.lives import CloseScene, Despawn, Spawn
from app.gates.transition import Begin, Complete, TransitionGranted
from app.journal.codec import RULES, decode_entry, encode_entry
from app.journal.jetstream import JetstreamJournal, connect
from app.journal.memory import MemoryJournal
from app.journal.port import START, Journal, JournalDamaged, StoredEntry
from app.journal.sqlite import SqliteJournal
from app.sequencing.mailbox import Addressed, Decided
from app.sequencing.registry import Registry
from app.sequencing.verify import CHANGED_RULE, DAMAGE, SceneReport, verify
from app.settings import Settings
from tests.support.jetstreams import asking, deleted
from tests.support.nats_servers import NatsServers, fresh_name

SETTINGS = Settings(journal="memory:")


async def decided(registry: Registry, character: str | None, command: Command) -> Decided:
    [result] = await registry.submit("match", [Addressed(character, command)])
    assert isinstance(result, Decided)
    return result


async def played(registry: Registry) -> None:
    """A life with an interruption, a refused double with a payload, a delivery, and a second life."""
    await decided(registry, "hero", Spawn())
    run = await decided(registry, "hero", Begin(layer="base", target="Run"))
    await decided(registry, "hero", Begin(layer="base", target="Hit", data={"clip": "hit"}))
    assert isinstance(run.record.answer, TransitionGranted)
    await decided(registry, "hero", Complete(token=run.record.answer.token))
    event = Enqueue(clip_instance=1, loop=0, frame=3, kind="step", payload={"foot": "left"})
    await decided(registry, "hero", event)
    await decided(registry, "hero", msgspec.structs.replace(event, payload={"foot": "right"}))
    await decided(registry, "hero", CommitLoop(clip_instance=1, loop=0))
    await decided(registry, "hero", Despawn())
    await decided(registry, "hero", Spawn())


async def reports(journal: Journal, settings: Settings = SETTINGS) -> list[SceneReport]:
    async with asyncio.timeout(10):
        return [report async for report in verify(journal, settings)]


async def rewritten(journal: MemoryJournal, change: Callable[[StoredEntry], StoredEntry | None]) -> MemoryJournal:
    """Copy a journal's one scene entry by entry, each as `change` makes it; None leaves it out."""
    copy = MemoryJournal()
    copy._secret = journal.secret  # the copy must know the seals of the original
    position = START
    for stored in await journal.read("match", after=START, limit=1000):
        made = change(stored)
        if made is not None:
            position = await copy.append("match", after=position, first=made.first, last=made.last, blob=made.blob)
    return copy


async def kept() -> MemoryJournal:
    """A journal whose history was played and never checkpointed."""
    journal = MemoryJournal()
    registry = Registry(journal, SETTINGS, clock=lambda: 1_000)
    await played(registry)
    return journal


async def test_a_journal_decided_again_differs_nowhere():
    journal = await kept()

    [report] = await reports(journal)

    assert (report.scene, report.decisions, report.decided_again, report.found) == ("match", 9, 9, 0)


async def test_a_checkpoint_in_the_middle_is_held_against_the_replayed_history():
    journal = MemoryJournal()
    registry = Registry(journal, Settings(journal="memory:", checkpoint_decisions=3), clock=lambda: 1_000)
    await played(registry)

    [report] = await reports(journal)

    assert report.found == 0


def with_another_refusal(stored: StoredEntry) -> StoredEntry:
    """Say that the late completion was refused as an unknown token."""
    entry = decode_entry(stored.blob)
    records = [
        msgspec.structs.replace(record, answer=Refused("unknown_token"))
        if isinstance(record.answer, Refused) and record.answer.outcome == "stale_generation"
        else record
        for record in entry.records
    ]
    return stored._replace(blob=encode_entry(at=entry.at, first=entry.first, records=records))


async def test_a_changed_outcome_is_damage_and_named_by_its_sequence():
    journal = await rewritten(await kept(), with_another_refusal)

    [report] = await reports(journal)

    assert [(found.sequence, found.meaning) for found in report.differences] == [(4, DAMAGE)]
    assert (report.differing, report.is_cut_short) == (1, False)


async def test_a_difference_under_other_rules_is_a_changed_rule(monkeypatch: pytest.MonkeyPatch):
    journal = await rewritten(await kept(), with_another_refusal)
    monkeypatch.setattr("app.sequencing.verify.RULES", RULES + 1)

    [report] = await reports(journal)

    assert [(found.sequence, found.meaning) for found in report.differences] == [(4, CHANGED_RULE)]


async def test_a_missing_entry_is_damage():
    journal = await rewritten(await kept(), lambda stored: None if stored.first == 4 else stored)

    [report] = await reports(journal)

    assert report.found == 1
    assert (report.differences[0].sequence, report.differences[0].meaning) == (4, DAMAGE)
    assert "sequence 4 is missing" in report.differences[0].detail


async def test_a_missing_beginning_is_damage_from_the_first_sequence_on():
    journal = await rewritten(await kept(), lambda stored: None if stored.first == 1 else stored)

    [report] = await reports(journal)

    assert [(found.sequence, found.meaning) for found in report.differences] == [(1, DAMAGE)]


async def test_bytes_that_are_no_entry_are_damage():
    journal = await rewritten(
        await kept(), lambda stored: stored._replace(blob=b"\xff") if stored.first == 5 else stored
    )

    [report] = await reports(journal)

    assert [(found.sequence, found.meaning) for found in report.differences] == [(5, DAMAGE)]
    assert (report.differing, report.is_cut_short) == (0, True)


async def test_a_scene_that_was_closed_and_came_back_is_decided_again_from_its_floor():
    journal = await kept()
    registry = Registry(journal, SETTINGS, clock=lambda: 2_000)
    await decided(registry, None, CloseScene())
    await decided(registry, "hero", Spawn())

    [report] = await reports(journal)

    assert (report.decisions, report.decided_again, report.found) == (1, 1, 0)


async def test_what_is_written_while_a_journal_is_verified_is_left_for_the_next_time():
    journal = await kept()
    registry = Registry(journal, SETTINGS, clock=lambda: 2_000)
    read, reading = journal.read, [True]

    async def read_and_write(scene: str, *, after: int, limit: int) -> list[StoredEntry]:
        entries = await read(scene, after=after, limit=limit)
        if not entries and reading:
            reading.clear()
            await decided(registry, "hero", Begin(layer="base", target="Late"))
        return entries

    journal.read = read_and_write  # type: ignore[method-assign]  # the moment between two reads

    [report] = await reports(journal)

    assert (report.decisions, report.found) == (9, 0)


async def test_a_journal_that_finds_damage_itself_is_believed_and_its_sequence_named():
    """The first bad sequence is the journal's to know; the other scenes are verified all the same."""

    class Torn(MemoryJournal):
        async def read(self, scene: str, *, after: int, limit: int) -> list[StoredEntry]:
            if scene == "match" and after >= 3:
                raise JournalDamaged("torn", sequence=4)
            return await super().read(scene, after=after, limit=min(limit, 3))

    journal = Torn()
    registry = Registry(journal, SETTINGS)
    for scene in ("arena", "match", "zoo"):
        await registry.submit(scene, [Addressed("hero", Spawn())])
    for _ in range(5):
        await registry.submit("match", [Addressed("hero", Begin(layer="base", target="Run"))])

    found = {report.scene: report.differences for report in await reports(journal)}

    assert list(found) == ["arena", "match", "zoo"]
    assert [(each.sequence, each.meaning, each.detail) for each in found["match"]] == [(4, DAMAGE, "torn")]
    assert found["arena"] == found["zoo"] == []
    journal._is_closed = True
    await registry.close()


async def stored(journal: Journal, settings: Settings = SETTINGS) -> None:
    """Play the histories that scenes have, store the checkpoint of each, and close the journal.

    `closed` was deleted, `again` was deleted and begun again, `match` never ended.
    """
    registry = Registry(journal, settings, clock=lambda: 1_000)
    for scene in ("again", "closed", "match"):
        for command in (Spawn(), *[Begin(layer="base", target="Run")] * 4):
            await registry.submit(scene, [Addressed("hero", command)])
    for scene in ("again", "closed"):
        await registry.submit(scene, [Addressed(None, CloseScene())])
    await registry.submit("again", [Addressed("hero", Spawn())])
    await registry.close()


@pytest.fixture
async def remote(alone: NatsServers) -> AsyncIterator[str]:
    """The URL of a journal on one NATS server."""
    url = alone.url(fresh_name())
    yield url
    await deleted(url)


@asynccontextmanager
async def looked_at(url: str) -> AsyncIterator[JetstreamJournal]:
    """Open a journal on JetStream as `posegate verify` does."""
    journal = await connect(url, read_only=True)
    yield journal
    await journal.close()


async def purged(alone: NatsServers, url: str, scene: str, *, entries: bool = False, head: bool = False) -> None:
    """Purge all of a scene's entries, or its head, from the streams behind everybody's back."""
    async with asking(alone, url.rpartition("/")[2].partition("?")[0]) as (jetstream, streams):
        if entries:
            await jetstream.purge(streams.entries, streams.entry(scene), below=1_000_000)
        if head:
            await jetstream.purge(streams.heads, streams.head(scene), below=1_000_000)


def damage(report: SceneReport) -> list[tuple[int | None, str]]:
    """Give from which sequence on each thing found is wrong, and what it is."""
    return [(found.sequence, found.meaning) for found in report.differences]


async def test_scenes_that_were_deleted_and_forgotten_on_jetstream_are_no_damage(remote: str):
    await stored(await connect(remote))

    async with looked_at(remote) as journal:
        assert await journal.everything() == ["again", "closed", "match"]
        assert [(report.scene, report.found) for report in await reports(journal)] == [("again", 0), ("match", 0)]


@pytest.mark.parametrize(("scene", "first"), [("match", 1), ("closed", 7), ("again", None)])
async def test_a_scene_whose_entries_are_all_gone_from_jetstream_is_damaged(
    alone: NatsServers, remote: str, scene: str, first: int | None
):
    """What was forgotten with a former end of the scene, nothing says that is left."""
    await stored(await connect(remote))
    await purged(alone, remote, scene, entries=True)

    async with looked_at(remote) as journal:
        found = {report.scene: damage(report) for report in await reports(journal) if report.found}

    assert found == {scene: [(first, DAMAGE)]}


async def test_a_scene_whose_last_entries_are_gone_from_jetstream_is_damaged_from_the_first_of_them_on(
    alone: NatsServers, remote: str
):
    await stored(await connect(remote))
    async with looked_at(remote) as journal:
        third = (await journal.read("match", after=START, limit=3))[-1]
    async with asking(alone, remote.rpartition("/")[2].partition("?")[0]) as (jetstream, streams):
        for later in range(third.position + 1, third.position + 100):
            await jetstream.wire.ask(f"$JS.API.STREAM.MSG.DELETE.{streams.entries}", b'{"seq":%d}' % later)

    async with looked_at(remote) as journal:
        found = {report.scene: damage(report) for report in await reports(journal) if report.found}

    assert found["match"] == [(third.last + 1, DAMAGE)]


@pytest.mark.parametrize(("scene", "found"), [("match", {}), ("again", {"again": [(1, DAMAGE)]})])
async def test_a_scene_without_its_checkpoint_on_jetstream_is_damaged_where_its_entries_do_not_tell_all(
    alone: NatsServers, remote: str, scene: str, found: dict[str, object]
):
    """What a checkpoint held can be had from the entries as long as none of them was forgotten."""
    await stored(await connect(remote))
    await purged(alone, remote, scene, head=True)

    async with looked_at(remote) as journal:
        told = {report.scene: damage(report) for report in await reports(journal) if report.found}

    assert told == found


async def test_a_scene_whose_trimmed_history_is_all_gone_from_jetstream_is_damaged_as_a_whole(
    alone: NatsServers, remote: str
):
    settings = Settings(journal="memory:", history_decisions_max=2)
    await stored(await connect(remote), settings)
    async with looked_at(remote) as journal:
        assert [report.found for report in await reports(journal, settings)] == [0, 0]
    await purged(alone, remote, "match", entries=True)

    async with looked_at(remote) as journal:
        found = {report.scene: damage(report) for report in await reports(journal, settings) if report.found}

    assert found == {"match": [(None, DAMAGE)]}


@pytest.mark.parametrize(("scene", "first"), [("match", 1), ("again", 7)])
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM entries WHERE scene_id = (SELECT id FROM scenes WHERE name = ?)",
        "DELETE FROM scenes WHERE name = ?",
    ],
)
async def test_a_scene_that_is_gone_from_a_file_is_damaged(tmp_path: Path, scene: str, first: int, statement: str):
    """Its mark tells of it. Without its row nothing tells where what is kept of it began."""
    path = f"{tmp_path}/journal.db"
    await stored(SqliteJournal(path))
    connection = apsw.Connection(path)
    connection.execute(statement, (scene,))
    connection.close()

    journal = SqliteJournal(path, read_only=True)
    found = {report.scene: damage(report) for report in await reports(journal) if report.found}
    await journal.close()

    assert found == {scene: [(first if "entries" in statement else None, DAMAGE)]}
