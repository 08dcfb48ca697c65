"""What a repair keeps, what it gives up, and that nothing of the lost part is ever valid again."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from app.gates.identity import Granted, Token
from app.gates.lives import Despawn, Spawn
from app.gates.transition import Begin, Complete, TransitionGranted
from app.journal import open_journal, open_salvage
from app.journal.port import START, JournalDamaged
from app.sequencing.mailbox import Addressed, Decided
from app.sequencing.registry import Registry
from app.sequencing.repair import Finding, granted, repair
from app.sequencing.verify import verify
from app.settings import Settings
from tests.support.sequenced import Clock, idle, seen, words

SETTINGS = Settings(checkpoint_decisions=100_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[Registry]:
    registry = Registry(open_journal(f"sqlite:{path}"), SETTINGS, clock=Clock())
    yield registry
    await registry.close()


async def begun(registry: Registry, target: str = "Run", who: str = "hero", scene: str = "room") -> Token:
    """Begin a transition in an entry of its own; give its token."""
    [given] = await registry.submit(scene, [Addressed(who, Begin(layer="base", target=target))])
    assert isinstance(given, Decided)
    assert isinstance(given.record.answer, TransitionGranted)
    return given.record.answer.token


async def asked(registry: Registry, command: Any, who: str = "hero", scene: str = "room") -> str:
    return words(await registry.submit(scene, [Addressed(who, command)]))[0]


async def lived(path: Path) -> list[Token]:
    """Let a hero begin six transitions (sequences 2 to 7), with a checkpoint after the third; another scene besides."""
    async with served(path) as registry:
        for scene in ("room", "hall"):
            await asked(registry, Spawn(), scene=scene)
        tokens = [await begun(registry) for _ in range(3)]
        await idle(registry)
        tokens += [await begun(registry) for _ in range(3)]
        # What is behind the checkpoint stays there: a killed server makes no other.
        await registry._journal.close()
        for task in registry._tasks.values():
            task.cancel()
    return tokens


def change(path: Path, statement: str, *bindings: object) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(statement, bindings)
    assert connection.changes() > 0
    connection.close()


def overwrite(path: str, offset: int, content: bytes) -> None:
    with Path(path).open("r+b") as file:
        file.seek(offset)
        file.write(content)


def files(path: Path) -> dict[str, bytes]:
    """Give what lies where the journal does; the log's index is SQLite's to rebuild, and an empty log is none."""
    found = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.suffix != ".lock"}
    return {name: content for name, content in found.items() if content and not name.endswith("-shm")}


async def repaired(path: Path, *, accepts_loss: bool = True, only: str | None = None) -> list[Finding]:
    salvage = open_salvage(f"sqlite:{path}")
    findings: list[Finding] = []
    try:
        findings = [found async for found in repair(salvage, SETTINGS, only=only, accepts_loss=accepts_loss)]
    finally:
        await (salvage.adopt() if findings and accepts_loss else salvage.discard())
    return findings


async def differences(path: Path) -> list[str]:
    journal = open_journal(f"sqlite:{path}", read_only=True)
    found = [each.detail async for report in verify(journal, SETTINGS) for each in report.differences]
    await journal.close()
    return found


async def refused(path: Path, scene: str = "room") -> bool:
    async with served(path) as registry:
        try:
            await registry.opened(scene)
        except JournalDamaged:
            return True
    return False


async def test_an_undamaged_journal_is_left_as_it_is(path: Path):
    await lived(path)
    before = files(path)

    assert await repaired(path) == []
    assert files(path) == before


async def test_without_the_loss_accepted_nothing_is_changed_and_the_cost_is_told(path: Path):
    await lived(path)
    change(path, "UPDATE entries SET blob = x'00' WHERE first = 6")
    before = files(path)

    [finding] = await repaired(path, accepts_loss=False)

    assert (finding.scene, finding.kept, finding.lost_until) == ("room", 5, 7)
    assert files(path) == before
    assert await refused(path)


async def test_what_is_behind_a_bad_entry_is_lost_and_its_tokens_are_unknown_for_ever(path: Path):
    tokens = await lived(path)
    change(path, "UPDATE entries SET blob = x'00' WHERE first = 6")

    [finding] = await repaired(path)

    assert finding.damage == "scene 'room' is damaged from sequence 6 on: an entry is not what was written"
    assert (finding.kept, finding.lost_until, finding.forgotten_until) == (5, 7, 0)
    async with served(path) as registry:
        hero = (await seen(registry)).roster.get("hero")
        assert hero is not None
        assert hero.layers["base"].generation == 4
        assert [await asked(registry, Complete(token=token)) for token in tokens] == [
            *["stale_generation"] * 3, "committed", "unknown_token", "unknown_token",
        ]  # fmt: skip
        again = [await begun(registry) for _ in range(3)]
        assert [token.generation for token in again] == [5, 6, 7]
        assert [await asked(registry, Complete(token=token)) for token in tokens[3:]] == [
            "already_completed", "unknown_token", "unknown_token",
        ]  # fmt: skip
        assert await asked(registry, Complete(token=again[2])) == "committed"
        history = [sequence async for sequence, _, _ in registry.history("room", after=0, character=None)]
    assert history[:6] == [1, 2, 3, 4, 5, 8]
    assert await differences(path) == []


async def test_a_bad_entry_behind_an_intact_checkpoint_costs_history_only(path: Path):
    tokens = await lived(path)
    change(path, "UPDATE entries SET blob = x'00' WHERE first = 2 AND scene_id = 1")

    [finding] = await repaired(path)

    assert (finding.kept, finding.lost_until, finding.forgotten_until, finding.has_new_secret) == (7, 7, 2, False)
    async with served(path) as registry:
        assert await asked(registry, Complete(token=tokens[5])) == "committed"
        history = [sequence async for sequence, _, _ in registry.history("room", after=0, character=None)]
    assert history == [3, 4, 5, 6, 7, 8]
    assert await differences(path) == []


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE scenes SET header = x'00' WHERE id = 1",
        "UPDATE scenes SET seal = x'00' WHERE id = 1",
        "UPDATE scenes SET name = 'moor' WHERE id = 1",
        "DELETE FROM scenes WHERE id = 1",
        "DELETE FROM characters WHERE scene_id = 1",
    ],
)
async def test_a_damaged_checkpoint_is_made_anew_from_a_whole_history_and_costs_nothing(path: Path, damage: str):
    tokens = await lived(path)
    change(path, damage)

    [finding] = [found for found in await repaired(path) if found.scene == "room"]

    assert (finding.kept, finding.lost_until, finding.forgotten_until) == (7, 7, 0)
    async with served(path) as registry:
        assert await asked(registry, Complete(token=tokens[4])) == "stale_generation"
        assert await asked(registry, Complete(token=tokens[5])) == "committed"
        assert await registry.scenes(after="", limit=9) == ["hall", "room"]
    assert await differences(path) == []


async def test_a_scene_of_which_nothing_is_whole_starts_anew_above_all_it_ever_numbered(path: Path):
    tokens = await lived(path)
    change(path, "UPDATE scenes SET header = x'00' WHERE id = 1")
    change(path, "UPDATE entries SET blob = x'00' WHERE first = 1 AND scene_id = 1")

    [finding] = await repaired(path)

    assert (finding.kept, finding.lost_until) == (0, 7)
    async with served(path) as registry:
        assert await registry.opened("room") is None
        [spawned] = await registry.submit("room", [Addressed("hero", Spawn())])
        assert isinstance(spawned, Decided)
        assert spawned.sequence == 8
        first = await begun(registry)
        assert [await asked(registry, Complete(token=token)) for token in tokens] == ["unknown_token"] * 6
        assert await asked(registry, Complete(token=first)) == "committed"
    assert await differences(path) == []


async def test_a_journal_put_back_from_a_copy_goes_on_above_what_was_lost(path: Path):
    tokens = await lived(path)
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    async with served(path) as registry:
        tokens += [await begun(registry) for _ in range(3)]
        await asked(registry, Spawn(), scene="new")
    shutil.copy(copy, path)
    assert await refused(path)
    assert await refused(path, "new")

    findings = await repaired(path)

    assert [(found.scene, found.kept, found.lost_until) for found in findings] == [("new", 0, 1), ("room", 7, 10)]
    async with served(path) as registry:
        assert await asked(registry, Complete(token=tokens[8])) == "unknown_token"
        assert await asked(registry, Complete(token=tokens[5])) == "committed"
        assert (await seen(registry)).sequence == 12
        assert await asked(registry, Spawn(), scene="new") == "spawned"
        assert (await seen(registry, "hall")).sequence == 1
    assert await differences(path) == []


async def test_a_journal_without_its_marks_keeps_all_but_trusts_no_token_that_it_does_not_know(path: Path):
    tokens = await lived(path)
    older = path.with_name("older.db")
    shutil.copy(path, older)
    async with served(path) as registry:
        lost = await begun(registry)
    shutil.copy(older, path)
    path.with_name("journal.db.mark").unlink()

    findings = await repaired(path)

    assert [(found.scene, found.kept, found.lost_until) for found in findings] == [("hall", 1, 1), ("room", 7, 7)]
    async with served(path) as registry:
        assert (await begun(registry)).generation == lost.generation
        assert await asked(registry, Complete(token=lost)) == "unknown_token"
        assert await asked(registry, Complete(token=tokens[5])) == "stale_generation"
    assert await differences(path) == []


async def test_marks_that_are_garbage_where_no_scene_is_stand_in_nobodys_way(path: Path):
    await lived(path)
    overwrite(f"{path}.mark", 8192, b"\xff" * 4096)

    assert await differences(path) == []
    assert await repaired(path) == []


async def test_only_the_scene_that_is_named_is_repaired_and_the_other_stays_refused(path: Path):
    await lived(path)
    change(path, "UPDATE entries SET blob = x'00' WHERE first = 6")
    change(path, "UPDATE entries SET blob = x'00' WHERE first = 1 AND scene_id = 2")

    [finding] = await repaired(path, only="room")

    assert finding.scene == "room"
    assert not await refused(path)
    assert await refused(path, "hall")
    with pytest.raises(ValueError, match="there is no scene 'attic'"):
        await repaired(path, only="attic", accepts_loss=False)


async def test_repairs_can_follow_each_other_and_each_keeps_what_was_valid(path: Path):
    """Secrets by sequence range: the journal's own, then one for each repair."""
    first = await lived(path)
    change(path, "UPDATE entries SET blob = x'00' WHERE first = 7")
    await repaired(path)
    async with served(path) as registry:
        second = [await begun(registry) for _ in range(3)]
        await registry._journal.close()
        for task in registry._tasks.values():
            task.cancel()
    change(path, "UPDATE entries SET blob = x'00' WHERE first = 10")
    await repaired(path)

    async with served(path) as registry:
        third = await begun(registry)
        told = [await asked(registry, Complete(token=token)) for token in (*first, *second, third)]
    assert told[:6] == [*["stale_generation"] * 5, "unknown_token"]
    assert told[6:] == ["stale_generation", "stale_generation", "unknown_token", "committed"]
    assert await differences(path) == []


async def test_what_was_granted_is_told_by_the_newest_life_of_each_id_and_the_newest_generation_of_each_layer(
    path: Path,
):
    async with served(path) as registry:
        for who in ("hero", "orc"):
            await asked(registry, Spawn(), who)
            await begun(registry, who=who)
        await asked(registry, Despawn(), "orc")
        for command in (Despawn(), Spawn()):
            await asked(registry, command)
        await begun(registry)

        assert granted(await seen(registry)) == Granted(0, {"hero": 2, "orc": 1}, {"hero": {"base": 1}})


async def test_a_journal_that_is_served_is_not_repaired(path: Path):
    async with served(path) as registry:
        await asked(registry, Spawn())

        with pytest.raises(Exception, match="is held by process"):
            open_salvage(f"sqlite:{path}")


async def test_entries_that_are_kept_can_be_read_one_after_the_other_from_anywhere(path: Path):
    await lived(path)
    change(path, "UPDATE entries SET blob = x'00' WHERE first = 6")
    await repaired(path)
    async with served(path) as registry:
        await begun(registry)

    journal = open_journal(f"sqlite:{path}", read_only=True)
    entries = await journal.read("room", after=START, limit=99)
    assert [entry.first for entry in entries] == [1, 2, 3, 4, 5, 8]
    for number, entry in enumerate(entries):
        assert await journal.seek("room", sequence=entry.first) == (entries[number - 1].position if number else START)
        assert await journal.read("room", after=entry.position, limit=99) == entries[number + 1 :]
    await journal.close()


@pytest.mark.parametrize(
    ("index", "by"),
    [
        ("entries_position", "entries (scene_id, iif(position = 4, 400, position))"),
        ("entries_last", "entries (scene_id, iif(last = 4, 400, last))"),
        ("sqlite_autoindex_scenes_1", "scenes (replace(name, 'room', 'moor'))"),
        ("scenes_listed", "scenes (listed, replace(name, 'room', 'moor'))"),
    ],
)
async def test_an_index_that_leads_elsewhere_is_made_anew_and_costs_nothing(path: Path, index: str, by: str):
    tokens = await lived(path)
    connection = apsw.Connection(str(path))
    connection.execute(f"CREATE INDEX decoy ON {by}")
    connection.pragma("writable_schema", True)
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'decoy'").get
    connection.execute("UPDATE sqlite_schema SET rootpage = ? WHERE name = ?", (root, index))
    connection.execute("DELETE FROM sqlite_schema WHERE name = 'decoy'")
    connection.close()

    [finding] = await repaired(path)

    assert (finding.scene, finding.kept, finding.lost_until, finding.has_new_secret) == ("room", 7, 7, False)
    async with served(path) as registry:
        assert await registry.scenes(after="", limit=9) == ["hall", "room"]
        assert await asked(registry, Complete(token=tokens[5])) == "committed"
    assert await repaired(path) == []
    assert await differences(path) == []
