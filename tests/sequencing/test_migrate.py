"""A move, between journals in memory: what comes over, what goes on there, what stands in its way, and its marks."""

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import pytest

from app.gates.decision import Command, Refused
from app.gates.identity import Token
from app.gates.lives import CloseScene, Spawn
from app.gates.scene import OpenTicks, SceneState
from app.gates.transition import Begin, Complete, TransitionGranted
from app.journal.codec import encode_checkpoint
from app.journal.memory import MemoryJournal
from app.journal.moving import is_unfinished, mark_unfinished, require_finished
from app.journal.port import (
    START,
    Checkpoint,
    CommitUnknown,
    JournalDamaged,
    JournalUnavailable,
    NotTheWriter,
    SealSecret,
    StoredEntry,
)
from app.sequencing.mailbox import Addressed, Decided
from app.sequencing.migrate import COMPARING, MOVING, READING, CannotMove, Moved, MoveFailed, Progress, move, unheard
from app.sequencing.registry import Registry
from app.sequencing.verify import verify
from app.settings import Settings
from tests.support.damaged import play
from tests.support.sequenced import Clock, idle, word

SETTINGS = Settings(journal="memory:", checkpoint_decisions=24, history_decisions_max=120)
NO_PAUSES: tuple[float, ...] = (0.0, 0.0)


async def moved(source: Any, target: Any, told: Callable[[Progress], None] = unheard) -> Moved:
    return await move(source, target, SETTINGS, told=told, pauses_s=NO_PAUSES)


async def played(seed: int = 1) -> MemoryJournal:
    """A journal of scenes with a tail, without one, with history that was trimmed, and one that was deleted."""
    journal = MemoryJournal()
    chances = random.Random(seed)
    registry = Registry(journal, SETTINGS, clock=Clock())
    for turns in (3, 60):
        for scene in ("hall", "room", "yard", "gone"):
            await play(registry, scene, chances, turns)
    await play(registry, "small", chances, 1)
    await idle(registry, "yard")
    await registry.submit("gone", [Addressed(None, CloseScene())])
    if (leaving := registry._tasks.get("gone")) is not None:
        await leaving
    return journal


async def said(journal: Any) -> dict[str, tuple[Any, ...]]:
    """Everything that a journal says of its scenes, with positions as the numbers of entries."""
    listed = await journal.scenes(after="", limit=1_000)
    says = {}
    for scene in await journal.everything():
        entries = await journal.read(scene, after=START, limit=100_000)
        checkpoint = await journal.load(scene)
        at = [entry.position for entry in entries]
        if checkpoint is not None:
            before = sum(position <= checkpoint.position for position in at)
            checkpoint = checkpoint._replace(position=before)
        says[scene] = (scene in listed, [entry[1:] for entry in entries], checkpoint)
    return says


async def decided(registry: Registry, who: str | None, command: Command, key: str | None = None) -> Decided:
    [result] = await registry.submit("match", [Addressed(who, command, key)], caller="server")
    assert isinstance(result, Decided), result
    return result


async def granted(registry: Registry, target: str, key: str | None = None) -> Token:
    answer = (await decided(registry, "hero", Begin(layer="base", target=target), key)).record.answer
    assert isinstance(answer, TransitionGranted)
    return answer.token


def reopened(journal: MemoryJournal) -> MemoryJournal:
    """Open a journal again that its server has closed, as a file could be."""
    journal._is_closed = False
    return journal


async def test_everything_is_in_the_target_as_it_was():
    source, target = await played(), MemoryJournal()
    before = await said(source)

    counted = await moved(source, target)

    now = await said(target)
    assert set(now) - {"~moving"} == set(before)
    assert {scene: now[scene] for scene in before} == before
    assert target.secret == source.secret
    assert await said(source) == before
    assert (counted.scenes, counted.listed) == (5, 4)
    assert counted.entries == sum(len(entries) for _, entries, _ in before.values())
    assert counted.bytes == sum(len(entry[2]) for _, entries, _ in before.values() for entry in entries)


async def test_the_test_of_it_has_what_makes_a_move_difficult():
    """Trimmed history, a tail behind a checkpoint, none, an unlisted scene without entries, one without checkpoint."""
    before = await said(await played())

    firsts = {scene: entries[0][0] if entries else None for scene, (_, entries, _) in before.items()}
    tails = {scene: len(entries) - (saved.position if saved else 0) for scene, (_, entries, saved) in before.items()}
    assert firsts["gone"] is None
    assert (firsts["room"] or 0) > 1
    assert tails["room"] > 0
    assert tails["yard"] == 0
    assert before["small"][2] is None
    assert before["gone"][0] is False


async def test_what_was_moved_verifies():
    target = MemoryJournal()
    await moved(await played(), target)

    reports = [report async for report in verify(target, SETTINGS)]

    assert [report.scene for report in reports] == ["hall", "room", "small", "yard"]
    assert sum(report.found for report in reports) == 0


async def test_what_was_moved_can_be_moved_back():
    source, target, back = await played(), MemoryJournal(), MemoryJournal()

    await moved(source, target)
    await moved(target, back)

    now, before = await said(back), await said(source)
    assert {scene: now[scene] for scene in before} == before


async def test_the_secrets_that_repairs_made_come_along():
    source, target = await played(), MemoryJournal()
    checkpoint = await source.load("yard")
    assert checkpoint is not None
    repaired = checkpoint._replace(secrets=(SealSecret(1_000, b"s" * 32, b"\x93\x00\x80\x80"),))
    await source.place("yard", repaired, listed=True)

    await moved(source, target)

    copy = await target.load("yard")
    assert copy is not None
    assert copy.secrets == repaired.secrets


async def test_a_token_that_was_granted_before_completes_after():
    source, target = MemoryJournal(), MemoryJournal()
    former = Registry(source, SETTINGS, clock=Clock())
    await decided(former, "hero", Spawn())
    token = await granted(former, "Run")
    await former.close()
    await moved(reopened(source), target)

    registry = Registry(target, SETTINGS, clock=Clock())

    assert word(await decided(registry, "hero", Complete(token=token))) == "committed"
    await registry.close()


async def test_a_retried_key_gets_its_first_answer_after_the_move():
    source, target = MemoryJournal(), MemoryJournal()
    former = Registry(source, SETTINGS, clock=Clock())
    await decided(former, "hero", Spawn())
    first = await decided(former, "hero", Begin(layer="base", target="Run"), "key-1")
    for number in range(40):
        await decided(former, "hero", Begin(layer="face", target=f"State-{number}"))
    late = await decided(former, "hero", Begin(layer="base", target="Hit"), "key-2")
    await moved(reopened(source), target)
    registry = Registry(target, SETTINGS, clock=Clock())

    again = await decided(registry, "hero", Begin(layer="base", target="Run"), "key-1")
    late_again = await decided(registry, "hero", Begin(layer="base", target="Hit"), "key-2")

    assert (await target.load("match")) is not None, "one key is in the checkpoint, the other behind it"
    assert (again.sequence, again.record.answer) == (first.sequence, first.record.answer)
    assert (late_again.sequence, late_again.record.answer) == (late.sequence, late.record.answer)
    await registry.close()


async def test_a_scene_that_was_deleted_and_begun_again_knows_no_token_of_before():
    source, target = MemoryJournal(), MemoryJournal()
    former = Registry(source, SETTINGS, clock=Clock())
    await decided(former, "hero", Spawn())
    token = await granted(former, "Run")
    closed = await decided(former, None, CloseScene())
    await former.close()
    await moved(reopened(source), target)
    registry = Registry(target, SETTINGS, clock=Clock())

    spawned = await decided(registry, "hero", Spawn())
    fresh = await granted(registry, "Run")
    refused = (await decided(registry, "hero", Complete(token=token))).record.answer

    assert spawned.sequence == closed.sequence + 1
    assert fresh.epoch > token.epoch
    assert isinstance(refused, Refused)
    assert refused.outcome == "stale_epoch"
    await registry.close()


async def test_history_goes_on_from_where_it_was_followed_to():
    source, target = MemoryJournal(), MemoryJournal()
    former = Registry(source, SETTINGS, clock=Clock())
    await decided(former, "hero", Spawn())
    seen = [await decided(former, "hero", Begin(layer="base", target=f"State-{number}")) for number in range(30)]
    await former.close()
    await moved(reopened(source), target)
    registry = Registry(target, SETTINGS, clock=Clock())

    after = seen[9].sequence
    next_one = await decided(registry, "hero", Begin(layer="base", target="Hit"))
    read = registry.history("match", after=after, character=None)
    sequences = [sequence async for sequence, _, _ in read]

    assert sequences == [*(each.sequence for each in seen[10:]), next_one.sequence]
    await registry.close()


class Small(MemoryJournal):
    """Takes entries of 400 bytes at most."""

    @property
    def entry_bytes_max(self) -> int:
        return 400


async def test_an_entry_that_does_not_fit_is_refused_before_anything_is_written():
    source, target = await played(), Small()
    await source.append("vast", after=START, first=1, last=9, blob=b"x" * 400)
    await source.append("vaster", after=START, first=1, last=9, blob=b"x" * 401)
    own = target.secret
    with pytest.raises(CannotMove, match=r"scene '\w+' has at sequence \d+ an entry of [\d,]+ bytes.*400.*max_payload"):
        await moved(source, target)

    assert await target.everything() == []
    assert target.secret == own


async def test_a_target_that_holds_something_is_refused():
    source, target = await played(), await played(2)
    before = await said(target)

    with pytest.raises(CannotMove, match="not empty: it holds 5 scenes"):
        await moved(source, target)

    assert await said(target) == before


async def test_a_target_that_was_filled_once_is_not_filled_again():
    source, target = await played(), MemoryJournal()
    await moved(source, target)

    with pytest.raises(CannotMove, match="not empty"):
        await moved(source, target)

    assert not await is_unfinished(target)


async def test_an_empty_journal_is_moved_too():
    source, target = MemoryJournal(), MemoryJournal()

    assert await moved(source, target) == Moved()

    assert target.secret == source.secret
    assert not await is_unfinished(target)


async def test_half_a_journal_is_not_moved_from():
    source, target = await played(), MemoryJournal()
    await mark_unfinished(source)

    with pytest.raises(CannotMove, match="not all of it is there"):
        await moved(source, target)

    assert await target.everything() == []


class Damaged(MemoryJournal):
    """Cannot give the entries of `room`."""

    async def read(self, scene: str, *, after: int, limit: int) -> list[StoredEntry]:
        if scene == "room":
            raise JournalDamaged("scene 'room' is damaged", sequence=3)
        return await super().read(scene, after=after, limit=limit)


async def test_a_damaged_journal_is_to_be_repaired_first():
    source, target = Damaged(), MemoryJournal()
    await source.append("hall", after=START, first=1, last=1, blob=b"a")
    await source.append("room", after=START, first=1, last=1, blob=b"a")

    with pytest.raises(CannotMove, match="repair"):
        await moved(source, target)

    assert await target.everything() == []


class Torn(MemoryJournal):
    """Cannot say what it holds."""

    async def everything(self) -> list[str]:
        raise JournalDamaged("an index is torn")


async def test_a_target_that_is_damaged_is_refused():
    with pytest.raises(CannotMove, match=r"move into is damaged: an index is torn\. Give one that is new"):
        await moved(await played(), Torn())


TAKEN = 30


class Ending(MemoryJournal):
    """Takes a number of entries, then nothing more, until it is told to go on."""

    left = TAKEN

    async def append(self, scene: str, *, after: int, first: int, last: int, blob: bytes) -> int:
        if self.left <= 0:
            raise JournalUnavailable("nothing was written: the disk is full")
        self.left -= 1
        return await super().append(scene, after=after, first=first, last=last, blob=blob)


async def test_a_move_that_was_interrupted_is_marked_and_goes_on_where_it_was():
    source, target = await played(), Ending()
    with pytest.raises(JournalUnavailable, match="disk is full"):
        await moved(source, target)
    with pytest.raises(JournalUnavailable, match="not all of it is there"):
        await require_finished(target)
    target.left = all_entries = 10_000

    counted = await moved(source, target)

    now, before = await said(target), await said(source)
    assert {scene: now[scene] for scene in before} == before
    assert all_entries - target.left == counted.entries - TAKEN
    await require_finished(target)


async def test_it_goes_on_too_when_the_source_was_served_in_between():
    source, target = await played(), Ending()
    with pytest.raises(JournalUnavailable):
        await moved(source, target)
    registry = Registry(source, Settings(journal="memory:"), clock=Clock())
    for scene in ("small", "gone", "new"):
        await play(registry, scene, random.Random(3), 2)
    target.left = 10_000

    await moved(source, target)

    now, before = await said(target), await said(source)
    assert {scene: now[scene] for scene in before} == before


async def test_history_that_was_trimmed_in_between_needs_a_new_target():
    source, target = await played(), Ending()
    target.left = 10_000
    with pytest.raises(MoveFailed, match="not the same"):
        await moved(source, Forgetful.of(target))
    for scene in ("hall", "room", "yard"):
        saved = await source.load(scene)
        assert saved is not None
        await source.trim(scene, before=saved.position)

    with pytest.raises(MoveFailed, match=r"something else of scene .*Give one that is new"):
        await moved(source, target)

    assert await is_unfinished(target)


async def test_history_that_the_source_does_not_have_needs_a_new_target():
    source, target = await played(), Ending()
    target.left = 10_000
    with pytest.raises(MoveFailed, match="not the same"):
        await moved(source, Forgetful.of(target))
    [*_, last] = await target.read("small", after=START, limit=99)
    await target.append("small", after=last.position, first=last.last + 1, last=last.last + 1, blob=b"stray")

    with pytest.raises(MoveFailed, match=rf"something else of scene 'small' at sequence {last.last + 1}"):
        await moved(source, target)


async def test_the_target_of_another_move_is_refused():
    target = Ending()
    with pytest.raises(JournalUnavailable):
        await moved(await played(), target)
    target.left = 10_000

    with pytest.raises(CannotMove, match=r"another one was being moved.*Give one that is new"):
        await moved(await played(2), target)

    assert await is_unfinished(target)


async def test_a_target_with_a_scene_that_the_source_lacks_is_refused():
    source, target = await played(), Ending()
    with pytest.raises(JournalUnavailable):
        await moved(source, target)
    target.left = 10_000
    await target.append("stray", after=START, first=1, last=1, blob=b"a")

    with pytest.raises(CannotMove, match="'stray'"):
        await moved(source, target)


@dataclasses.dataclass
class Forgetful:
    """A journal that does not keep what it was asked to: `forgets` says what becomes of a placed checkpoint."""

    journal: MemoryJournal
    forgets: Callable[[Checkpoint], Checkpoint]

    @classmethod
    def of(cls, journal: MemoryJournal) -> "Forgetful":
        return cls(journal, lambda checkpoint: checkpoint._replace(header=EMPTY))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.journal, name)

    async def place(self, scene: str, checkpoint: Checkpoint, *, listed: bool) -> None:
        kept = checkpoint if scene == "~moving" else self.forgets(checkpoint)
        await self.journal.place(scene, kept, listed=listed)


EMPTY = encode_checkpoint(SceneState(), {}, OpenTicks(), closed=True)


@pytest.mark.parametrize(
    "forgets",
    [
        lambda checkpoint: checkpoint._replace(characters={}),
        lambda checkpoint: checkpoint._replace(header=EMPTY),
        lambda checkpoint: checkpoint._replace(secrets=(SealSecret(1, b"", b""),)),
        lambda checkpoint: checkpoint._replace(position=START),
    ],
    ids=["characters", "header", "secrets", "position"],
)
async def test_a_checkpoint_that_is_not_the_same_is_found(forgets: Callable[[Checkpoint], Checkpoint]):
    target = MemoryJournal()

    with pytest.raises(MoveFailed, match=r"scene 'yard': its checkpoints are not the same"):
        await moved(await played(), Forgetful(target, forgets))

    assert await is_unfinished(target)


class Changing(MemoryJournal):
    """Gives one entry otherwise than it was written."""

    async def read(self, scene: str, *, after: int, limit: int) -> list[StoredEntry]:
        entries = await super().read(scene, after=after, limit=limit)
        return [entry._replace(blob=b"other") if entry.last == 300 else entry for entry in entries]


async def test_an_entry_that_is_not_the_same_is_found():
    source, target = MemoryJournal(), Changing()
    position = await source.append("room", after=START, first=1, last=299, blob=b"a")
    await source.append("room", after=position, first=300, last=300, blob=b"b")

    with pytest.raises(MoveFailed, match="scene 'room': its entries are not the same at sequence 300"):
        await moved(source, target)


class Keeping(MemoryJournal):
    """Keeps the secret that it has."""

    async def adopt_secret(self, secret: bytes) -> None:
        pass


async def test_a_secret_that_is_not_the_same_is_found():
    target = Keeping()

    with pytest.raises(MoveFailed, match="the secrets are not the same"):
        await moved(await played(), target)

    assert await is_unfinished(target)


class Unlisting(MemoryJournal):
    """Lists nothing."""

    async def scenes(self, *, after: str, limit: int) -> list[str]:
        return []


async def test_a_scene_that_is_listed_on_one_side_only_is_found():
    with pytest.raises(MoveFailed, match="listed scene 'hall' is on one side only"):
        await moved(await played(), Unlisting())


async def test_an_entry_that_comes_into_the_source_meanwhile_is_found():
    source, target = await played(), MemoryJournal()
    [*_, last] = await source.read("hall", after=START, limit=1_000)
    waiting = [source.append("hall", after=last.position, first=last.last + 1, last=last.last + 1, blob=b"new")]

    def told(progress: Progress) -> None:
        if progress.doing == COMPARING and waiting:
            with pytest.raises(StopIteration):
                waiting.pop().send(None)

    with pytest.raises(MoveFailed, match=r"scene 'hall': its entries .* See that nobody uses either"):
        await moved(source, target, told)

    assert await is_unfinished(target)


async def test_a_scene_that_comes_into_the_source_meanwhile_is_found():
    source, target = await played(), MemoryJournal()
    waiting = [source.append("new", after=START, first=1, last=1, blob=b"new")]

    def told(progress: Progress) -> None:
        if progress.doing == MOVING and waiting:
            with pytest.raises(StopIteration):
                waiting.pop().send(None)

    with pytest.raises(MoveFailed, match="scene 'new' is on one side only"):
        await moved(source, target, told)


async def test_a_scene_that_cannot_be_opened_is_found():
    """It cannot be opened in the source either; a server would have refused it there."""
    source = MemoryJournal()
    await source.append("room", after=START, first=1, last=1, blob=b"no entry")

    with pytest.raises(MoveFailed, match="scene 'room' cannot be opened"):
        await moved(source, MemoryJournal())


class Uncertain(MemoryJournal):
    """Refuses one entry, as a cluster without a leader does, and writes another without being able to say so."""

    appended = 0

    async def append(self, scene: str, *, after: int, first: int, last: int, blob: bytes) -> int:
        self.appended += 1
        if self.appended == 10:
            raise JournalUnavailable("no leader")
        position = await super().append(scene, after=after, first=first, last=last, blob=blob)
        if self.appended == 20:
            raise CommitUnknown("no answer")
        return position


async def test_what_fails_for_a_moment_is_tried_again_and_nothing_comes_twice():
    source, target = await played(), Uncertain()

    await moved(source, target)

    now, before = await said(target), await said(source)
    assert {scene: now[scene] for scene in before} == before


class Undecided(MemoryJournal):
    """Places every checkpoint, and the first time cannot say so."""

    def __init__(self) -> None:
        super().__init__()
        self.placed: set[tuple[str, bool]] = set()

    async def place(self, scene: str, checkpoint: Checkpoint, *, listed: bool) -> None:
        await super().place(scene, checkpoint, listed=listed)
        which = scene, bool(checkpoint.characters)
        if which not in self.placed:
            self.placed.add(which)
            raise CommitUnknown("no answer")


async def test_a_mark_or_checkpoint_of_which_nothing_is_known_is_placed_again():
    source, target = await played(), Undecided()

    await moved(source, target)

    now, before = await said(target), await said(source)
    assert {scene: now[scene] for scene in before} == before
    assert {("~moving", True), ("~moving", False), ("room", True)} <= target.placed
    assert not await is_unfinished(target)


class Contended(MemoryJournal):
    """Somebody else is always ahead."""

    async def append(self, scene: str, *, after: int, first: int, last: int, blob: bytes) -> int:
        raise NotTheWriter(f"{scene} does not end there")


async def test_a_target_that_somebody_writes_is_given_up():
    target = Contended()

    with pytest.raises(MoveFailed, match="somebody writes the journal to move into"):
        await moved(await played(), target)

    assert await is_unfinished(target)


async def test_progress_is_told_scene_by_scene():
    heard: list[Progress] = []

    counted = await moved(await played(), MemoryJournal(), heard.append)

    ends = {progress.doing: progress for progress in heard}
    assert list(ends) == [READING, MOVING, COMPARING]
    assert all((end.scenes, end.of_scenes, end.entries) == (5, 5, counted.entries) for end in ends.values())
