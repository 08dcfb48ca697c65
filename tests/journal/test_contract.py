"""What the port promises, asked whole of each journal."""

import asyncio
import os
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from app.journal import connect_journal, open_journal
from app.journal.port import START, Checkpoint, Journal, JournalUnavailable, NotTheWriter, StoredEntry
from tests.support.jetstreams import deleted
from tests.support.nats_servers import NatsServers, fresh_name

SERVERS = {"jetstream-1": "alone", "jetstream-3": "cluster"}


@pytest.fixture(params=["memory", "sqlite", "jetstream-1", "jetstream-3"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    url = {"memory": "memory:", "sqlite": f"sqlite:{tmp_path / 'journal.db'}"}.get(request.param)
    if url is None:
        servers: NatsServers = request.getfixturevalue(SERVERS[request.param])
        url = servers.url(fresh_name())
    opened = await connect_journal(url)
    yield opened
    await opened.close()
    if request.param in SERVERS:
        await deleted(url)


async def written(journal: Journal, scene: str, *blobs: bytes, after: int = START, first: int = 1) -> list[int]:
    """Append one entry of ten sequences for each blob; give their positions."""
    positions = []
    for blob in blobs:
        after = await journal.append(scene, after=after, first=first, last=first + 9, blob=blob)
        positions.append(after)
        first += 10
    return positions


async def all_of(journal: Journal, scene: str) -> list[StoredEntry]:
    return await journal.read(scene, after=START, limit=1_000_000)


async def saved(
    journal: Journal,
    scene: str,
    position: int,
    header: bytes = b"header",
    changed: dict[str, bytes | None] | None = None,
    *,
    listed: bool = True,
) -> None:
    await journal.checkpoint(scene, position=position, header=header, changed=changed or {}, listed=listed)


async def names(journal: Journal) -> list[str]:
    return await journal.scenes(after="", limit=1_000)


async def test_an_entry_is_read_as_it_was_written(journal: Journal):
    position = await journal.append("room", after=START, first=1, last=7, blob=b"\x00turn\xff")

    assert await all_of(journal, "room") == [StoredEntry(position, 1, 7, b"\x00turn\xff")]


async def test_positions_rise_and_entries_come_in_their_order(journal: Journal):
    positions = await written(journal, "room", b"a", b"b", b"c")

    entries = await all_of(journal, "room")

    assert positions[0] > START
    assert all(lower < higher for lower, higher in pairwise(positions))
    assert [(entry.position, entry.blob) for entry in entries] == list(zip(positions, (b"a", b"b", b"c"), strict=True))


@pytest.mark.parametrize("size", [0, 1, 4_096, 300_000, 4 * 1024 * 1024])
async def test_a_blob_of_any_size_comes_back(journal: Journal, size: int):
    blob = os.urandom(size)

    await written(journal, "room", blob)

    assert [entry.blob for entry in await all_of(journal, "room")] == [blob]


@pytest.mark.parametrize("scene", ["a", "0", "a._~-", "A-~_.", "x" * 128, "room.1", "Room.1"])
async def test_a_scene_of_odd_characters_has_a_history_of_its_own(journal: Journal, scene: str):
    await written(journal, "other", b"other")
    [position] = await written(journal, scene, b"its own")
    await saved(journal, scene, position, changed={scene: b"character"})

    assert [entry.blob for entry in await all_of(journal, scene)] == [b"its own"]
    assert await journal.load(scene) == Checkpoint(position, b"header", {scene: b"character"})
    assert await names(journal) == sorted([scene, "other"], key=str.encode)


async def test_names_are_told_apart_byte_by_byte(journal: Journal):
    await written(journal, "Room", b"upper")
    await written(journal, "room", b"lower")

    assert [entry.blob for entry in await all_of(journal, "Room")] == [b"upper"]
    assert [entry.blob for entry in await all_of(journal, "room")] == [b"lower"]


@pytest.mark.parametrize("wrong", [-1, 1], ids=["too low", "too high"])
async def test_an_append_that_is_not_behind_the_last_entry_writes_nothing(journal: Journal, wrong: int):
    *_, last = await written(journal, "room", b"a", b"b")

    with pytest.raises(NotTheWriter):
        await journal.append("room", after=last + wrong, first=21, last=21, blob=b"stray")

    assert [entry.blob for entry in await all_of(journal, "room")] == [b"a", b"b"]
    assert await written(journal, "room", b"c", after=last, first=21)


async def test_an_append_behind_an_earlier_entry_or_the_start_is_not_the_writers(journal: Journal):
    earlier, _ = await written(journal, "room", b"a", b"b")

    for after in (START, earlier):
        with pytest.raises(NotTheWriter):
            await journal.append("room", after=after, first=21, last=21, blob=b"stray")

    assert [entry.blob for entry in await all_of(journal, "room")] == [b"a", b"b"]


async def test_an_append_to_an_unknown_scene_starts_at_the_start(journal: Journal):
    with pytest.raises(NotTheWriter):
        await journal.append("room", after=START + 1, first=1, last=1, blob=b"stray")

    assert await names(journal) == []
    assert await written(journal, "room", b"a")


async def test_a_refused_append_does_not_touch_other_scenes(journal: Journal):
    results = await asyncio.gather(
        written(journal, "a", b"a"),
        journal.append("b", after=99, first=1, last=1, blob=b"stray"),
        written(journal, "c", b"c"),
        return_exceptions=True,
    )

    assert isinstance(results[1], NotTheWriter)
    assert await names(journal) == ["a", "c"]


async def test_read_gives_what_is_above_a_position_and_no_more_than_asked_for(journal: Journal):
    positions = await written(journal, "room", b"a", b"b", b"c", b"d")

    async def read(after: int, limit: int) -> list[bytes]:
        return [entry.blob for entry in await journal.read("room", after=after, limit=limit)]

    assert await read(START, 2) == [b"a", b"b"]
    assert await read(positions[1], 1) == [b"c"]
    assert await read(positions[1], 100) == [b"c", b"d"]
    assert await read(positions[3], 100) == []
    assert await read(positions[3] + 1_000, 100) == []
    assert await read(START, 0) == []


async def test_an_unknown_scene_has_nothing(journal: Journal):
    assert await journal.read("nowhere", after=START, limit=10) == []
    assert await journal.seek("nowhere", sequence=5) == START
    assert await journal.load("nowhere") is None
    await journal.trim("nowhere", before=START)
    assert await names(journal) == []


async def sought(journal: Journal, sequence: int) -> bytes | None:
    """Give the blob of the first entry that is read after seeking `sequence`."""
    after = await journal.seek("room", sequence=sequence)
    entries = await journal.read("room", after=after, limit=1)
    return entries[0].blob if entries else None


async def test_seek_leads_to_the_entry_that_holds_the_sequence(journal: Journal):
    await written(journal, "other", b"x", b"y")
    await written(journal, "room", b"1 to 10", b"11 to 20", b"21 to 30")

    assert [await sought(journal, sequence) for sequence in (1, 10, 11, 15, 20, 21, 30)] == [
        b"1 to 10", b"1 to 10", b"11 to 20", b"11 to 20", b"11 to 20", b"21 to 30", b"21 to 30",
    ]  # fmt: skip


async def test_seek_outside_of_what_is_kept_leads_to_the_oldest_or_to_nothing(journal: Journal):
    *_, last = await written(journal, "room", b"1 to 10", b"11 to 20")

    assert await sought(journal, 0) == b"1 to 10"
    assert await sought(journal, 21) is None
    await written(journal, "room", b"21 to 30", after=last, first=21)
    assert await sought(journal, 21) == b"21 to 30"


async def test_seek_below_what_was_trimmed_leads_to_the_oldest_kept(journal: Journal):
    first, *_ = await written(journal, "room", b"1 to 10", b"11 to 20", b"21 to 30")
    await saved(journal, "room", first)
    await journal.trim("room", before=first)

    assert await sought(journal, 5) == b"11 to 20"
    assert await sought(journal, 25) == b"21 to 30"


async def test_seek_in_a_scene_that_was_trimmed_whole_leads_to_what_comes_next(journal: Journal):
    *_, last = await written(journal, "room", b"1 to 10", b"11 to 20")
    await saved(journal, "room", last)
    await journal.trim("room", before=last)

    assert await sought(journal, 5) is None
    assert await sought(journal, 25) is None
    await written(journal, "room", b"21 to 30", after=last, first=21)
    assert await sought(journal, 5) == b"21 to 30"


async def test_a_scene_without_a_checkpoint_loads_none(journal: Journal):
    await written(journal, "room", b"a")

    assert await journal.load("room") is None


async def test_a_checkpoint_keeps_characters_that_did_not_change_and_drops_those_that_went(journal: Journal):
    first, second = await written(journal, "room", b"a", b"b")
    await saved(journal, "room", first, b"one", {"hero": b"1", "orc": b"1", "tree": b"1"})
    await saved(journal, "room", second, b"two", {"orc": None, "hero": b"2", "rock": b"2", "nobody": None})

    assert await journal.load("room") == Checkpoint(second, b"two", {"hero": b"2", "tree": b"1", "rock": b"2"})


async def test_a_checkpoint_at_the_same_position_replaces_the_header(journal: Journal):
    [position] = await written(journal, "room", b"a")
    await saved(journal, "room", position, b"one", {"hero": b"1"})
    await saved(journal, "room", position, b"two")

    assert await journal.load("room") == Checkpoint(position, b"two", {"hero": b"1"})


async def test_a_character_that_went_can_come_back(journal: Journal):
    [position] = await written(journal, "room", b"a")
    for value in (b"1", None, b"", b"3"):
        await saved(journal, "room", position, changed={"hero": value})

        checkpoint = await journal.load("room")
        assert checkpoint is not None
        assert checkpoint.characters == ({} if value is None else {"hero": value})


async def test_checkpoints_of_two_scenes_do_not_mix(journal: Journal):
    for scene in ("a", "b"):
        [position] = await written(journal, scene, b"x")
        await saved(journal, scene, position, scene.encode(), {"hero": scene.encode()})

    for scene in ("a", "b"):
        checkpoint = await journal.load(scene)
        assert checkpoint is not None
        assert (checkpoint.header, checkpoint.characters) == (scene.encode(), {"hero": scene.encode()})


async def test_a_checkpoint_that_falls_or_covers_what_is_not_there_changes_nothing(journal: Journal):
    first, second = await written(journal, "room", b"a", b"b")
    await saved(journal, "room", second, b"kept", {"hero": b"1"})

    for position in (first, second + 1):
        with pytest.raises(ValueError, match="checkpoint"):
            await saved(journal, "room", position, b"stray", {"hero": b"2"}, listed=False)

    assert await journal.load("room") == Checkpoint(second, b"kept", {"hero": b"1"})
    assert await names(journal) == ["room"]


async def test_a_loaded_checkpoint_belongs_to_its_caller(journal: Journal):
    [position] = await written(journal, "room", b"a")
    await saved(journal, "room", position, changed={"hero": b"1"})

    loaded = await journal.load("room")
    assert loaded is not None
    loaded.characters.clear()

    assert await journal.load("room") == Checkpoint(position, b"header", {"hero": b"1"})


async def test_scenes_are_listed_in_pages_ascending_by_bytes(journal: Journal):
    for scene in ("b", "a", "B", "a.1", "a-1", "a~"):
        await written(journal, scene, b"x")

    assert await journal.scenes(after="", limit=2) == ["B", "a"]
    assert await journal.scenes(after="a", limit=3) == ["a-1", "a.1", "a~"]
    assert await journal.scenes(after="a~", limit=3) == ["b"]
    assert await journal.scenes(after="b", limit=3) == []
    assert await journal.scenes(after="a0", limit=1) == ["a~"]
    assert await journal.scenes(after="", limit=0) == []


async def test_an_unlisted_scene_is_not_named_though_its_checkpoint_stays(journal: Journal):
    [position] = await written(journal, "room", b"a")
    await written(journal, "other", b"a")
    await saved(journal, "room", position, b"gone", listed=False)
    await journal.trim("room", before=position)

    assert await names(journal) == ["other"]
    assert await journal.load("room") == Checkpoint(position, b"gone", {})


async def test_an_unlisted_scene_is_named_again_as_soon_as_it_has_entries(journal: Journal):
    [position] = await written(journal, "room", b"a")
    await saved(journal, "room", position, listed=False)
    await written(journal, "room", b"b", after=position, first=11)

    assert await names(journal) == ["room"]


async def test_a_scene_can_come_and_go_as_often_as_it_likes(journal: Journal):
    position = START
    for first in range(1, 50, 10):
        [position] = await written(journal, "room", b"x", after=position, first=first)
        assert await names(journal) == ["room"]
        await saved(journal, "room", position, listed=False)
        assert await names(journal) == []

    await saved(journal, "room", position, listed=True)
    assert await names(journal) == ["room"]


async def test_an_unlisting_does_not_hide_the_entries_behind_it(journal: Journal):
    first, _ = await written(journal, "room", b"a", b"b")
    await saved(journal, "room", first, listed=False)

    assert await names(journal) == ["room"]


async def test_a_listed_scene_stays_named_when_all_its_entries_are_trimmed(journal: Journal):
    """What it is lies in its checkpoint now; a registry that could not name it would lose it."""
    [position] = await written(journal, "room", b"a")
    await saved(journal, "room", position)
    await journal.trim("room", before=position)

    assert await names(journal) == ["room"]


async def test_trim_forgets_up_to_and_including_a_position(journal: Journal):
    positions = await written(journal, "room", b"a", b"b", b"c")
    await written(journal, "other", b"x")
    await saved(journal, "room", positions[2])
    await journal.trim("room", before=positions[1])

    assert [entry.blob for entry in await all_of(journal, "room")] == [b"c"]
    assert [entry.blob for entry in await all_of(journal, "other")] == [b"x"]


async def test_trim_forgets_a_long_history_whole(journal: Journal):
    """More entries than one step of any journal forgets."""
    positions = await written(journal, "room", *[b"x"] * 600)
    await saved(journal, "room", positions[-1])
    await journal.trim("room", before=positions[-2])

    assert [entry.position for entry in await all_of(journal, "room")] == positions[-1:]


async def test_trim_keeps_the_last_position(journal: Journal):
    *_, last = await written(journal, "room", b"a", b"b")
    await saved(journal, "room", last)
    await journal.trim("room", before=last)

    for wrong in (START, last - 1, last + 1):
        with pytest.raises(NotTheWriter):
            await journal.append("room", after=wrong, first=21, last=21, blob=b"stray")
    [following] = await written(journal, "room", b"c", after=last, first=21)

    assert following > last
    assert [entry.blob for entry in await all_of(journal, "room")] == [b"c"]


async def test_trim_again_or_lower_changes_nothing(journal: Journal):
    positions = await written(journal, "room", b"a", b"b", b"c")
    await saved(journal, "room", positions[2])
    for before in (positions[1], positions[1], positions[0], START):
        await journal.trim("room", before=before)

    assert [entry.blob for entry in await all_of(journal, "room")] == [b"c"]


async def test_trim_beyond_the_checkpoint_forgets_nothing(journal: Journal):
    first, second = await written(journal, "room", b"a", b"b")
    with pytest.raises(ValueError, match="checkpoint"):
        await journal.trim("room", before=first)
    await saved(journal, "room", first)
    with pytest.raises(ValueError, match="checkpoint"):
        await journal.trim("room", before=second)

    assert [entry.blob for entry in await all_of(journal, "room")] == [b"a", b"b"]


async def test_fifty_scenes_written_at_once_are_each_in_order(journal: Journal):
    scenes = {f"scene-{number}": [f"{number}.{turn}".encode() for turn in range(20)] for number in range(50)}

    positions = await asyncio.gather(*(written(journal, scene, *blobs) for scene, blobs in scenes.items()))

    for (scene, blobs), its_positions in zip(scenes.items(), positions, strict=True):
        entries = await all_of(journal, scene)
        assert [entry.blob for entry in entries] == blobs
        assert [entry.position for entry in entries] == its_positions
    assert await names(journal) == sorted(scenes)


async def test_of_two_writers_of_one_scene_one_is_told(journal: Journal):
    results = await asyncio.gather(
        journal.append("room", after=START, first=1, last=1, blob=b"a"),
        journal.append("room", after=START, first=1, last=1, blob=b"b"),
        return_exceptions=True,
    )

    entries = await all_of(journal, "room")
    assert sorted(isinstance(result, NotTheWriter) for result in results) == [False, True]
    assert len(entries) == 1


async def test_all_kinds_of_writes_at_once(journal: Journal):
    async def lived(scene: str) -> None:
        positions = await written(journal, scene, b"a", b"b")
        await saved(journal, scene, positions[1], scene.encode(), {"hero": b"1"})
        await journal.trim(scene, before=positions[0])
        await written(journal, scene, b"c", after=positions[1], first=21)

    scenes = [f"scene-{number:02}" for number in range(30)]
    await asyncio.gather(*map(lived, scenes))

    for scene in scenes:
        checkpoint = await journal.load(scene)
        assert checkpoint is not None
        assert checkpoint.header == scene.encode()
        assert [entry.blob for entry in await all_of(journal, scene)] == [b"b", b"c"]


async def test_a_cancelled_caller_leaves_the_journal_working(journal: Journal):
    async with asyncio.TaskGroup() as tasks:
        callers = [tasks.create_task(written(journal, f"scene-{number}", b"x")) for number in range(20)]
        await asyncio.sleep(0)
        for caller in callers[::2]:
            caller.cancel()

    assert all(caller.done() for caller in callers)
    for number in range(20):
        entries = await all_of(journal, f"scene-{number}")
        after = entries[-1].position if entries else START
        await written(journal, f"scene-{number}", b"y", after=after, first=11)
        assert [entry.blob for entry in await all_of(journal, f"scene-{number}")][-1:] == [b"y"]


async def test_the_secret_is_32_bytes_and_stays(journal: Journal):
    secret = journal.secret
    await written(journal, "room", b"a")

    assert len(secret) == 32
    assert journal.secret == secret


async def test_two_journals_have_two_secrets(journal: Journal, tmp_path: Path):
    other = open_journal(f"sqlite:{tmp_path / 'other.db'}")

    assert other.secret != journal.secret
    await other.close()


async def test_a_closed_journal_refuses_every_call(journal: Journal):
    [position] = await written(journal, "room", b"a")
    await journal.close()

    for call in (
        journal.append("room", after=position, first=11, last=11, blob=b"b"),
        journal.read("room", after=START, limit=1),
        journal.seek("room", sequence=1),
        saved(journal, "room", position),
        journal.load("room"),
        journal.scenes(after="", limit=1),
        journal.trim("room", before=START),
    ):
        with pytest.raises(JournalUnavailable, match="closed"):
            await call


async def test_close_finishes_what_was_accepted_and_can_be_called_again(journal: Journal):
    async with asyncio.TaskGroup() as tasks:
        callers = [tasks.create_task(written(journal, f"scene-{number}", b"x")) for number in range(20)]
        await asyncio.sleep(0)
        tasks.create_task(journal.close())
        tasks.create_task(journal.close())

    assert all(caller.result() for caller in callers)
    await journal.close()
