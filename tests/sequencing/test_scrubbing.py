"""The scrubber finds what opening a scene does not read, and a damaged scene is refused while the others serve."""

import asyncio

import pytest

from app.journal.port import START, JournalDamaged, JournalUnavailable, StoredEntry
from app.sequencing import scrubbing
from app.sequencing.scrubbing import Damages, Scrubber
from app.settings import Settings
from tests.support.journal_fakes import FaultyJournal
from tests.support.sequenced import RUN, SPAWN, ask, idle, seen, served

QUICK = Settings(scrub_pause_ms=1)


class TornJournal(FaultyJournal):
    """A journal in which the first entry of some scenes is torn: whoever reads it is told."""

    torn: frozenset[str] = frozenset()

    async def read(self, scene: str, *, after: int, limit: int) -> list[StoredEntry]:
        """Read, unless it would begin with what is torn."""
        if scene in self.torn and after == START:
            raise JournalDamaged(f"{scene} is torn", sequence=1)
        return await super().read(scene, after=after, limit=limit)


@pytest.fixture
async def torn(journal: FaultyJournal) -> TornJournal:
    """Give a journal of three scenes with checkpoints, the middle one torn behind its own."""
    made = TornJournal(journal.inner)
    async with served(made) as registry:
        for scene in ("attic", "hall", "room"):
            await ask(registry, SPAWN, scene=scene)
    made = TornJournal(journal.inner)
    made.torn = frozenset({"hall"})
    return made


async def test_a_round_notes_what_is_damaged_and_goes_on(torn: TornJournal):
    damages = Damages()

    await Scrubber(torn, QUICK, damages).round()

    assert damages.scenes == ["hall"]
    with pytest.raises(JournalDamaged, match="hall is torn") as raised:
        damages.require_whole("hall")
    assert raised.value.sequence == 1
    damages.require_whole("room")


async def test_a_round_finds_a_damaged_checkpoint_too(torn: TornJournal, monkeypatch: pytest.MonkeyPatch):
    async def load(scene: str) -> None:
        raise JournalDamaged(f"{scene} has no head")

    damages = Damages()
    monkeypatch.setattr(torn, "load", load)

    await Scrubber(torn, QUICK, damages).round()

    assert damages.scenes == ["attic", "hall", "room"]


async def test_a_round_reads_every_entry_of_a_long_history(journal: FaultyJournal):
    position = START
    for first in range(1, 3 * scrubbing.ENTRIES_READ_MAX):
        position = await journal.append("room", after=position, first=first, last=first, blob=b"x")
    reads: list[int] = []
    read = journal.read

    async def noted(scene: str, *, after: int, limit: int) -> list[StoredEntry]:
        entries = await read(scene, after=after, limit=limit)
        reads.append(len(entries))
        return entries

    journal.read = noted  # type: ignore[method-assign]  # to look on

    await Scrubber(journal, QUICK, Damages()).round()

    assert reads == [32, 32, 31, 0]


async def test_a_journal_that_cannot_be_read_now_is_tried_again_and_is_no_damage(
    torn: TornJournal, monkeypatch: pytest.MonkeyPatch
):
    damages = Damages()
    scrubber = Scrubber(torn, QUICK, damages)
    rounds: list[str] = []
    done = asyncio.Event()

    async def round_(self: Scrubber) -> None:
        rounds.append("round")
        if len(rounds) == 3:
            done.set()
        raise JournalUnavailable("the disk is away")

    async def passed(seconds: float) -> None:
        await yielded(0)

    yielded = asyncio.sleep
    monkeypatch.setattr(Scrubber, "round", round_)
    monkeypatch.setattr(asyncio, "sleep", passed)

    task = asyncio.ensure_future(scrubber.run())
    await done.wait()
    task.cancel()

    assert damages.scenes == []


async def test_a_damaged_scene_gets_no_command_and_no_read_and_the_others_serve(torn: TornJournal):
    async with served(torn, scrub_pause_ms=1) as registry:
        assert await ask(registry, RUN, scene="hall") == "granted"
        assert len([item async for item in registry.history("hall", after=1, character=None)]) == 1

        await Scrubber(torn, QUICK, registry.damages).round()

        with pytest.raises(JournalDamaged, match="hall is torn"):
            await ask(registry, RUN, scene="hall")
        with pytest.raises(JournalDamaged, match="hall is torn"):
            await registry.opened("hall")
        with pytest.raises(JournalDamaged, match="hall is torn"):
            [item async for item in registry.history("hall", after=0, character=None)]
        assert await ask(registry, RUN, scene="room") == "granted"
        assert (await seen(registry, "attic")).state.exists


@pytest.mark.parametrize("by", ["history", "opening"])
async def test_whoever_comes_upon_damage_makes_the_scene_refused(torn: TornJournal, by: str):
    if by == "opening":
        await torn.append("cellar", after=START, first=1, last=1, blob=b"no entry")
    async with served(torn) as registry:
        scene = "hall" if by == "history" else "cellar"

        async def read() -> None:
            assert [item async for item in registry.history(scene, after=0, character=None)]

        with pytest.raises(JournalDamaged):
            await (read() if by == "history" else ask(registry, RUN, scene=scene))

        assert registry.damages.scenes == [scene]
        with pytest.raises(JournalDamaged):
            await ask(registry, RUN, scene=scene)


async def test_an_append_into_damage_is_told_to_its_caller_and_the_scene_is_read_again(
    torn: TornJournal, monkeypatch: pytest.MonkeyPatch
):
    async with served(torn) as registry:

        async def damaged(scene: str, **_: object) -> int:
            raise JournalDamaged(f"{scene} has no room for it")

        monkeypatch.setattr(torn, "append", damaged)
        with pytest.raises(JournalDamaged, match="no room"):
            await ask(registry, RUN, scene="room")
        monkeypatch.undo()
        assert await ask(registry, RUN, scene="room") == "granted"


async def test_a_registry_scrubs_by_itself_without_any_traffic(torn: TornJournal):
    async with served(torn, scrub_pause_ms=1, scrub_interval_s=1) as registry:
        found = asyncio.Event()
        note = registry.damages.note

        def noted(scene: str, error: JournalDamaged) -> None:
            note(scene, error)
            found.set()

        registry.damages.note = noted  # type: ignore[method-assign]  # to look on
        registry.start()
        await found.wait()

        assert registry.damages.scenes == ["hall"]


async def test_a_scene_whose_checkpoint_cannot_be_written_for_damage_stays_in_use(
    torn: TornJournal, monkeypatch: pytest.MonkeyPatch
):
    async def damaged(scene: str, **_: object) -> None:
        raise JournalDamaged(f"{scene} has no room for it")

    async with served(torn) as registry:
        await ask(registry, RUN, scene="room")
        with monkeypatch.context() as patched:
            patched.setattr(torn, "checkpoint", damaged)
            await idle(registry, "room")

        assert await ask(registry, RUN, scene="room") == "granted"
