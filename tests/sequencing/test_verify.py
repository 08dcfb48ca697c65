import asyncio
from collections.abc import Callable

import msgspec
import pytest

from app.gates.decision import Command, Refused
from app.gates.event_commands import CommitLoop, Enqueue
from app.gates.lives import CloseScene, Despawn, Spawn
from app.gates.transition import Begin, Complete, TransitionGranted
from app.journal.codec import RULES, decode_entry, encode_entry
from app.journal.memory import MemoryJournal
from app.journal.port import START, JournalDamaged, StoredEntry
from app.sequencing.mailbox import Addressed, Decided
from app.sequencing.registry import Registry
from app.sequencing.verify import CHANGED_RULE, DAMAGE, SceneReport, verify
from app.settings import Settings

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


async def reports(journal: MemoryJournal) -> list[SceneReport]:
    async with asyncio.timeout(10):
        return [report async for report in verify(journal, SETTINGS)]


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
    assert report.differences[0].meaning == DAMAGE
    assert "sequence 4 is missing" in report.differences[0].detail


async def test_bytes_that_are_no_entry_are_damage():
    journal = await rewritten(
        await kept(), lambda stored: stored._replace(blob=b"\xff") if stored.first == 5 else stored
    )

    [report] = await reports(journal)

    assert report.found == 1
    assert report.differences[0].meaning == DAMAGE
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
