"""What a move needs of both journals, asked of each; and the mark of a journal that a move into is not finished."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.gates.scene import OpenTicks, SceneState
from app.journal import connect_journal, open_moving
from app.journal.codec import encode_checkpoint
from app.journal.memory import MemoryJournal
from app.journal.moving import MARK, is_unfinished, mark_finished, mark_unfinished, require_finished
from app.journal.port import START, Checkpoint, JournalUnavailable, Moving, SealSecret, StoredEntry, Superseded
from tests.support.nats_servers import NatsServers, fresh_name

SECRET = bytes(range(32))


def header(sequence: int) -> bytes:
    """The head of a checkpoint behind a decision."""
    return encode_checkpoint(SceneState(sequence=sequence), {}, OpenTicks(), closed=False)


SECRETS = (SealSecret(5, b"s" * 32, b"granted"), SealSecret(9, b"t" * 32, b"more"))


SERVERS = {"jetstream-1": "alone", "jetstream-3": "cluster"}


@pytest.fixture(params=["memory", "sqlite", "jetstream-1", "jetstream-3"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Moving]:
    opened: Moving = MemoryJournal()
    if request.param == "sqlite":
        opened = await open_moving(f"sqlite:{tmp_path / 'journal.db'}", read_only=False)
    elif request.param in SERVERS:
        servers: NatsServers = request.getfixturevalue(SERVERS[request.param])
        opened = await open_moving(servers.url(fresh_name()), read_only=False)
    yield opened
    await opened.close()


async def written(journal: Moving, scene: str, *blobs: bytes, after: int = START, first: int = 1) -> list[int]:
    """Append one entry of ten sequences for each blob; give their positions."""
    positions = []
    for blob in blobs:
        after = await journal.append(scene, after=after, first=first, last=first + 9, blob=blob)
        positions.append(after)
        first += 10
    return positions


async def all_of(journal: Moving, scene: str) -> list[StoredEntry]:
    return await journal.read(scene, after=START, limit=1_000)


async def test_everything_names_every_scene_unlisted_ones_too(journal: Moving):
    for scene in ("room", "Room", "r.oom", "a", "gone"):
        *_, last = await written(journal, scene, b"a", b"b")
        await journal.checkpoint(scene, position=last, header=header(20), changed={}, listed=scene != "gone")
    await journal.trim("gone", before=last)

    assert await journal.everything() == ["Room", "a", "gone", "r.oom", "room"]
    assert await journal.scenes(after="", limit=9) == ["Room", "a", "r.oom", "room"]


async def test_an_empty_journal_names_nothing(journal: Moving):
    assert await journal.everything() == []


async def test_a_secret_that_was_adopted_is_the_journals_own(journal: Moving):
    await journal.adopt_secret(SECRET)

    [position] = await written(journal, "room", b"a")
    await journal.place("room", Checkpoint(position, header(10), {"hero": b"1"}), listed=True)

    assert journal.secret == SECRET
    assert [entry.blob for entry in await all_of(journal, "room")] == [b"a"]
    assert await journal.load("room") == Checkpoint(position, header(10), {"hero": b"1"})


async def test_a_journal_that_holds_a_scene_keeps_its_secret(journal: Moving):
    own = journal.secret
    await written(journal, "room", b"a")

    with pytest.raises(ValueError, match="holds"):
        await journal.adopt_secret(SECRET)

    assert journal.secret == own
    assert [entry.blob for entry in await all_of(journal, "room")] == [b"a"]


async def test_a_whole_checkpoint_is_placed_with_its_secrets(journal: Moving):
    first, last = await written(journal, "room", b"a", b"b")
    whole = Checkpoint(first, header(10), {"hero": b"1", "mage": b"2"}, SECRETS)

    await journal.place("room", whole, listed=True)

    assert await journal.load("room") == whole
    assert await written(journal, "room", b"c", after=last, first=21)
    assert [entry.blob for entry in await all_of(journal, "room")] == [b"a", b"b", b"c"]


async def test_nothing_of_the_checkpoint_before_is_left(journal: Moving):
    first, last = await written(journal, "room", b"a", b"b")
    await journal.place("room", Checkpoint(first, header(10), {"hero": b"1", "mage": b"2"}, SECRETS), listed=True)

    whole = Checkpoint(last, header(20), {"mage": b"3", "imp": b"4"})
    await journal.place("room", whole, listed=True)

    assert await journal.load("room") == whole


async def test_the_same_checkpoint_may_be_placed_again(journal: Moving):
    first, _ = await written(journal, "room", b"a", b"b")
    whole = Checkpoint(first, header(10), {"hero": b"1"}, SECRETS)

    await journal.place("room", whole, listed=True)
    await journal.place("room", whole, listed=True)

    assert await journal.load("room") == whole


async def test_the_next_checkpoint_keeps_the_secrets_and_what_did_not_change(journal: Moving):
    first, last = await written(journal, "room", b"a", b"b")
    await journal.place("room", Checkpoint(first, header(10), {"hero": b"1", "mage": b"2"}, SECRETS), listed=True)

    await journal.checkpoint("room", position=last, header=header(20), changed={"hero": b"3"}, listed=True)

    assert await journal.load("room") == Checkpoint(last, header(20), {"hero": b"3", "mage": b"2"}, SECRETS)


async def test_a_scene_whose_entries_were_all_trimmed_is_placed_at_the_start(journal: Moving):
    whole = Checkpoint(START, header(70), {"hero": b"1"}, SECRETS)

    await journal.place("room", whole, listed=False)

    assert await journal.load("room") == whole
    assert await all_of(journal, "room") == []
    assert await journal.scenes(after="", limit=9) == []
    assert await journal.everything() == ["room"]


async def test_a_scene_that_was_placed_at_the_start_goes_on(journal: Moving):
    await journal.place("room", Checkpoint(START, header(70), {}), listed=False)

    [position] = await written(journal, "room", b"a", first=71)

    assert await all_of(journal, "room") == [StoredEntry(position, 71, 80, b"a")]
    assert await journal.scenes(after="", limit=9) == ["room"]
    assert await journal.seek("room", sequence=75) == START
    await journal.checkpoint("room", position=position, header=header(80), changed={"imp": b"1"}, listed=True)
    await journal.trim("room", before=position)
    assert await journal.load("room") == Checkpoint(position, header(80), {"imp": b"1"})


async def test_entries_behind_the_checkpoint_keep_a_scene_listed(journal: Moving):
    first, _ = await written(journal, "room", b"a", b"b")

    await journal.place("room", Checkpoint(first, header(10), {}), listed=False)

    assert await journal.scenes(after="", limit=9) == ["room"]


async def test_a_place_before_an_earlier_checkpoints_is_superseded(journal: Moving):
    first, last = await written(journal, "room", b"a", b"b")
    whole = Checkpoint(last, header(20), {"hero": b"1"}, SECRETS)
    await journal.place("room", whole, listed=True)

    with pytest.raises(Superseded):
        await journal.place("room", Checkpoint(first, header(10), {"mage": b"2"}), listed=True)

    assert await journal.load("room") == whole


async def test_a_place_behind_the_last_entry_is_refused(journal: Moving):
    first, last = await written(journal, "room", b"a", b"b")
    whole = Checkpoint(first, header(10), {"hero": b"1"}, SECRETS)
    await journal.place("room", whole, listed=True)

    with pytest.raises(ValueError, match="room"):
        await journal.place("room", Checkpoint(last + 1, header(20), {}), listed=True)

    assert await journal.load("room") == whole


async def test_a_closed_journal_says_that_it_is(journal: Moving):
    await journal.close()

    for call in (
        journal.everything(),
        journal.adopt_secret(SECRET),
        journal.place("room", Checkpoint(START, header(0), {}), listed=True),
    ):
        with pytest.raises(JournalUnavailable):
            await call


async def test_a_journal_is_unfinished_between_the_two_marks(journal: Moving):
    await written(journal, "room", b"a")
    told = [await is_unfinished(journal)]

    await mark_unfinished(journal)
    told.append(await is_unfinished(journal))
    await mark_finished(journal)
    told.append(await is_unfinished(journal))

    assert told == [False, True, False]


async def test_the_mark_is_no_listed_scene(journal: Moving):
    await mark_unfinished(journal)

    assert await journal.scenes(after="", limit=9) == []
    assert await journal.everything() == [MARK]


async def test_what_is_unfinished_is_not_to_be_served(journal: Moving):
    await mark_unfinished(journal)

    with pytest.raises(JournalUnavailable, match="posegate migrate"):
        await require_finished(journal)


async def test_a_journal_in_a_file_is_served_only_once_the_move_into_it_is_finished(tmp_path: Path):
    url = f"sqlite:{tmp_path / 'journal.db'}"
    moving = await open_moving(url, read_only=False)
    await mark_unfinished(moving)
    await moving.close()

    for read_only in (False, True):
        with pytest.raises(JournalUnavailable, match="not all of it is there"):
            await connect_journal(url, read_only=read_only)

    moving = await open_moving(url, read_only=False)
    await mark_finished(moving)
    await moving.close()
    served = await connect_journal(url)
    assert await served.scenes(after="", limit=9) == []
    await served.close()
