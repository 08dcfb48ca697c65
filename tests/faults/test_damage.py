"""Whatever happens to a journal's files: it is noticed or it is harmless, and the scenes it did not touch serve."""

import asyncio
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.gates.lives import Spawn
from app.journal.port import JournalDamaged
from app.journal.sqlite import SqliteJournal
from app.journal.sqlite_salvage import SqliteSalvage
from app.sequencing.mailbox import Addressed, Decided
from app.sequencing.registry import Registry
from app.sequencing.repair import repair
from app.sequencing.scrubbing import Scrubber
from app.sequencing.verify import DAMAGE, verify
from app.settings import Settings
from tests.support.damaged import (
    DAMAGES,
    DATABASE,
    OF_MARKS,
    SCENES,
    SETTINGS,
    Known,
    copied,
    found,
    known,
    make,
)
from tests.support.sequenced import words

ROUNDS = int(os.environ.get("POSEGATE_FAULT_ROUNDS", "60"))
SEED = int(os.environ.get("POSEGATE_FAULT_SEED", "4"))
QUICK = Settings(scrub_pause_ms=1, checkpoint_decisions=24, history_decisions_max=120)

NOTHING_TO_OPEN = (
    "file is not a database",
    "malformed",
    "not a posegate journal",
    "journal format",
    "secret in",
    "no journal",
)
"""What a start is refused with when not even the first page can be read."""


class Written:
    """An undamaged journal, what SQLite finds in it, and what each of its scenes is."""

    def __init__(self, path: Path, scenes: dict[str, Known]) -> None:
        self.path = path
        self.found = found(path, SCENES)
        self.known = scenes


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Written]]:
    directory = tmp_path_factory.mktemp("written")

    async def read(path: Path) -> Written:
        journal = SqliteJournal(str(copied(path, directory / f"{path.name}-read") / DATABASE))
        scenes = {scene: await known(journal, scene) for scene in SCENES}
        await journal.close()
        return Written(path, scenes)

    asyncio.run(make(directory, SEED))
    yield {name: asyncio.run(read(directory / name)) for name in ("open", "closed")}
    shutil.rmtree(directory)


async def outcomes(path: Path, written: Written) -> dict[str, str]:
    """Say of every scene of a damaged journal whether it was `refused` or `whole`. Nothing else may come of it."""
    journal = SqliteJournal(str(path / DATABASE))
    told = {}
    for scene in SCENES:
        try:
            is_whole = (await known(journal, scene)).equals(written.known[scene])
        except JournalDamaged:
            told[scene] = "refused"
        else:
            assert is_whole, f"{scene} is another one than was written"
            told[scene] = "whole"
    await journal.close()
    return told


async def serves(path: Path, told: dict[str, str]) -> None:
    """See that the whole scenes and a new one take commands, that the others do not, and that it stays so."""
    for _ in range(2):
        journal = SqliteJournal(str(path / DATABASE))
        registry = Registry(journal, QUICK)
        await Scrubber(journal, QUICK, registry.damages).round()
        # An index may name one that never was; it is refused as well.
        found_now = set(registry.damages.scenes) & {*SCENES}
        assert found_now == {scene for scene, outcome in told.items() if outcome == "refused"}
        for scene, outcome in {**told, "new": "whole"}.items():
            asked = registry.submit(scene, [Addressed("late", Spawn())])
            if outcome == "refused":
                with pytest.raises(JournalDamaged):
                    await asked
            else:
                assert words(await asked) == ["spawned"]
        assert set(await registry.scenes(after="", limit=99)) >= {*told, "new"}
        await registry.close()


async def verified(path: Path) -> set[str]:
    """Give the scenes that `posegate verify` finds damage in."""
    journal = SqliteJournal(str(path / DATABASE), read_only=True)
    damaged = {
        report.scene
        async for report in verify(journal, SETTINGS)
        if any(difference.meaning == DAMAGE for difference in report.differences)
    }
    await journal.close()
    return damaged


@pytest.mark.parametrize("seed", range(SEED * 1_000_000, SEED * 1_000_000 + ROUNDS))
async def test_a_random_damage_is_noticed_or_harmless_and_only_what_it_touched_is_refused(
    written: dict[str, Written], tmp_path: Path, seed: int
):
    chances = random.Random(seed)
    before = written[chances.choice(["open", "closed"])]
    path, earlier = copied(before.path, tmp_path / "journal"), before.path.with_name("earlier")
    drawn = [chances.choice(DAMAGES) for _ in range(chances.choice([1, 1, 1, 2]))]
    # A scene of which the database and the marks were both lost is one that never was: nothing is promised then.
    alone = next((damage for damage in drawn if damage in OF_MARKS), None)
    said = [damage(path, earlier, chances) for damage in ([alone] if alone else drawn)]
    print(f"seed {seed}: {before.path.name}, {', '.join(said)}")
    after = found(path, SCENES)

    try:
        await SqliteJournal(str(path / DATABASE)).close()
    except JournalDamaged as error:
        print("not opened:", error)
        if not any(reason in str(error) for reason in NOTHING_TO_OPEN):
            raise
        return
    told = await outcomes(path, before)

    untouched = {scene for scene in SCENES if after[scene] == before.found[scene]}
    refused = {scene for scene, outcome in told.items() if outcome == "refused"}
    print(f"untouched: {len(untouched)}, refused: {sorted(refused)}")
    assert not refused & untouched
    assert refused <= await verified(path)
    to_repair = copied(path, tmp_path / "to-repair")
    await serves(path, told)
    await repaired(to_repair, before, refused, untouched)


async def repaired(path: Path, before: Written, refused: set[str], untouched: set[str]) -> None:
    """Repair a damaged journal, and see that what was refused serves from what could be trusted, the rest as it was."""
    salvage = SqliteSalvage(str(path / DATABASE))
    findings = {each.scene: each async for each in repair(salvage, SETTINGS, only=None, accepts_loss=True)}
    await (salvage.adopt() if findings else salvage.discard())
    assert not set(findings) & untouched
    # What serves whole may have an index that only a seek uses; making it anew costs nothing.
    costly = {name for name, cost in findings.items() if cost.has_new_secret or cost.forgotten_until}
    assert costly & {*SCENES} <= refused

    journal = SqliteJournal(str(path / DATABASE))
    for scene in SCENES:
        written, now = before.known[scene], await known(journal, scene)
        if scene not in refused:
            assert now.equals(written)
        elif scene in findings:
            # What is left of the history is what was written, as far as that is known; the rest was trimmed later.
            known_entries = {entry[0]: entry for entry in written.entries}
            assert all(known_entries.get(entry[0], entry) == entry for entry in now.entries)
            assert all(entry[2] <= findings[scene].kept for entry in now.entries)
    assert not await verified(path)
    registry = Registry(journal, QUICK)
    for scene in SCENES:
        [spawned] = await registry.submit(scene, [Addressed("late", Spawn())])
        assert isinstance(spawned, Decided)
        assert scene not in findings or spawned.sequence == findings[scene].lost_until + 1
    await registry.close()
    assert not await verified(path)
