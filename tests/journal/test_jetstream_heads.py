import asyncio
import os
from collections.abc import Awaitable, Callable

import pytest

from app.journal import jetstream_heads
from app.journal.covering import Misuse
from app.journal.jetstream import JetstreamJournal
from app.journal.jetstream_api import Jetstream
from app.journal.jetstream_forms import Head, Merged
from app.journal.jetstream_heads import CHANGES_MAX, LOOKS_MAX, Heads
from app.journal.jetstream_known import Held, Knowledge
from app.journal.jetstream_streams import Streams
from app.journal.port import START, Checkpoint, JournalDamaged, JournalUnavailable, SealSecret, Superseded
from tests.support.jetstreams import asking, behind, nodes, saved, written
from tests.support.nats_servers import NatsServers, fresh_name


async def pieces(jetstream: Jetstream, streams: Streams) -> int:
    """Give how many pieces there are."""
    info = await jetstream.info(streams.pieces)
    assert info is not None
    return info.state.messages


async def test_a_checkpoint_of_one_node_goes_on_top_of_anothers(servers: NatsServers):
    async with nodes(servers.url(fresh_name()), 3) as (one, two, three):
        first, second, third = await written(one, "room", 3)
        await saved(one, "room", first, header=b"one", hero=b"1", orc=b"1")
        await saved(two, "room", second, header=b"two", hero=b"2", tree=b"2")
        await saved(one, "room", third, header=b"three", orc=None, rock=b"3")

        whole = Checkpoint(third, b"three", {"hero": b"2", "tree": b"2", "rock": b"3"})
        assert [await node.load("room") for node in (one, two, three)] == [whole] * 3


async def test_a_checkpoint_below_another_nodes_is_superseded_and_changes_nothing(servers: NatsServers):
    async with nodes(servers.url(fresh_name())) as (one, two):
        first, second = await written(one, "room", 2)
        await saved(one, "room", first, hero=b"1")
        await saved(two, "room", second, header=b"newer", hero=b"2")

        with pytest.raises(Superseded):
            await saved(one, "room", first, header=b"older", hero=b"1", listed=False)

        assert await one.load("room") == Checkpoint(second, b"newer", {"hero": b"2"})


async def test_a_checkpoint_of_what_is_not_there_is_misuse_and_changes_nothing(alone: NatsServers):
    async with nodes(alone.url(fresh_name()), 1) as (one,):
        [first] = await written(one, "room", 1)

        with pytest.raises(Misuse):
            await saved(one, "room", first + 1)

        assert await one.load("room") is None


async def test_many_checkpoints_at_once_from_two_nodes_are_all_in_the_last(servers: NatsServers):
    """Each writes its own character at the same position, so every one has to go on top of all that came first."""
    async with nodes(servers.url(fresh_name())) as (one, two):
        [position] = await written(one, "room", 1)

        async def save(node: JetstreamJournal, name: str) -> None:
            for number in range(10):
                await node.checkpoint(
                    "room", position=position, header=b"head", changed={name: b"%d" % number}, listed=True
                )

        await asyncio.gather(save(one, "hero"), save(two, "orc"))

        for node in (one, two):
            assert await node.load("room") == Checkpoint(position, b"head", {"hero": b"9", "orc": b"9"})


async def test_superseded_pieces_are_purged_and_a_history_of_checkpoints_stays_small(alone: NatsServers):
    name = fresh_name()
    async with nodes(alone.url(name), 1) as (one,), asking(alone, name) as (jetstream, streams):
        [position] = await written(one, "room", 1)
        await saved(one, "room", position, tree=b"t")

        for number in range(5 * CHANGES_MAX):
            await saved(one, "room", position, hero=b"%d" % number)
            assert await pieces(jetstream, streams) <= CHANGES_MAX + 1

        whole = Checkpoint(position, b"head", {"tree": b"t", "hero": b"%d" % (5 * CHANGES_MAX - 1)})
        assert await one.load("room") == whole


async def test_bytes_that_are_superseded_are_bounded_by_those_that_are_not(alone: NatsServers):
    name = fresh_name()
    async with nodes(alone.url(name), 1) as (one,), asking(alone, name) as (jetstream, streams):
        [position] = await written(one, "room", 1)
        for _ in range(8):
            await saved(one, "room", position, hero=os.urandom(100_000))

        assert await pieces(jetstream, streams) <= 4


async def test_a_checkpoint_larger_than_any_message_comes_back_whole(servers: NatsServers):
    async with nodes(servers.url(fresh_name())) as (one, two):
        [position] = await written(one, "room", 1)
        header, hero = os.urandom(3_000_000), os.urandom(2_500_000)
        many = {f"c{number}": os.urandom(20_000) for number in range(100)}
        await one.checkpoint("room", position=position, header=header, changed={"hero": hero, **many}, listed=True)

        assert await two.load("room") == Checkpoint(position, header, {"hero": hero, **many})


async def test_a_load_that_another_nodes_purge_overtakes_gives_the_newer_checkpoint(alone: NatsServers):
    async with nodes(alone.url(fresh_name())) as (one, two):
        [position] = await written(one, "room", 1)
        await saved(one, "room", position, hero=b"old")
        real = two._heads._merged
        overtaken = 0

        async def overtaken_merge(scene: str, head: Head) -> Merged | None:
            """Have the other node write anew and purge between the head and its pieces."""
            nonlocal overtaken
            if overtaken < 3:
                overtaken += 1
                await saved(one, "room", position, hero=b"%d" % overtaken, listed=False)
            return await real(scene, head)

        two._heads._merged = overtaken_merge  # type: ignore[method-assign]

        assert await two.load("room") == Checkpoint(position, b"head", {"hero": b"3"})


async def test_loads_and_checkpoints_at_once_never_see_half(servers: NatsServers):
    async with nodes(servers.url(fresh_name())) as (one, two):
        [position] = await written(one, "room", 1)
        await saved(one, "room", position, header=b"0", hero=b"0", orc=b"0")

        async def save() -> None:
            for number in range(1, 40):
                value = b"%d" % number
                await saved(one, "room", position, header=value, hero=value, orc=value, listed=number % 3 > 0)

        saving = asyncio.ensure_future(save())
        while not saving.done():
            loaded = await two.load("room")
            assert loaded is not None
            assert {loaded.header} == set(loaded.characters.values())
        await saving


async def test_copies_that_are_behind_are_asked_again(alone: NatsServers, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jetstream_heads, "LOOK_PAUSE_S", 0.0)
    url = alone.url(fresh_name())
    async with nodes(url, 1) as (one,), behind(url) as (late, wire):
        [position] = await written(one, "room", 1)
        await saved(one, "room", position, hero=b"1")

        wire.behind = 2
        assert await late.load("room") == Checkpoint(position, b"head", {"hero": b"1"})
        wire.behind = LOOKS_MAX
        with pytest.raises(JournalUnavailable, match="behind"):
            await late.load("room")
        # Unlisting writes the checkpoint anew, for which it has to be read.
        wire.behind = 2
        await saved(late, "room", position, orc=b"1", listed=False)

        assert await one.load("room") == Checkpoint(position, b"head", {"hero": b"1", "orc": b"1"})


async def test_pieces_that_somebody_deleted_are_damage(alone: NatsServers, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jetstream_heads, "LOOK_PAUSE_S", 0.0)
    name = fresh_name()
    async with nodes(alone.url(name), 1) as (one,), asking(alone, name) as (jetstream, streams):
        [position] = await written(one, "room", 1)
        await saved(one, "room", position, hero=b"1")
        await jetstream.purge(streams.pieces, streams.piece("room"), below=1_000)

        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: one.load("room"),
            lambda: saved(one, "room", position, listed=False),
        ]
        for call in calls:
            with pytest.raises(JournalDamaged, match="scene 'room': piece 1 of its checkpoint is gone"):
                await call()


async def test_a_head_that_is_none_is_damage(alone: NatsServers):
    name = fresh_name()
    async with nodes(alone.url(name), 1) as (one,), asking(alone, name) as (jetstream, streams):
        [position] = await written(one, "room", 1)
        await jetstream.publish(streams.head("room"), b"stray", after=0)

        for call in (one.load("room"), saved(one, "room", position), one.trim("room", before=position)):
            with pytest.raises(JournalDamaged, match="scene 'room': its head was not written"):
                await call


async def test_a_placed_checkpoint_has_its_secrets_and_later_ones_keep_them(servers: NatsServers):
    secrets = (SealSecret(4, b"s" * 32, b"granted"), SealSecret(9, b"t" * 32, b""))
    async with nodes(servers.url(fresh_name())) as (one, two):
        first, second = await written(one, "room", 2)
        await saved(one, "room", first, gone=b"1")
        await one.place("room", Checkpoint(first, b"placed", {"hero": b"1"}, secrets), listed=True)
        assert await two.load("room") == Checkpoint(first, b"placed", {"hero": b"1"}, secrets)

        for _ in range(CHANGES_MAX + 2):
            await saved(two, "room", second, orc=b"1")
        assert await one.load("room") == Checkpoint(second, b"head", {"hero": b"1", "orc": b"1"}, secrets)
        with pytest.raises(Superseded):
            await one.place("room", Checkpoint(first, b"placed", {}, ()), listed=True)
        with pytest.raises(Misuse):
            await one.place("room", Checkpoint(second + 1, b"placed", {}, ()), listed=True)


async def test_two_nodes_that_trim_keep_the_higher_floor(servers: NatsServers):
    async with nodes(servers.url(fresh_name())) as (one, two):
        positions = await written(one, "room", 4)
        await saved(one, "room", positions[3])
        await two.trim("room", before=positions[2])
        await one.trim("room", before=positions[1])
        await one.trim("room", before=positions[2])

        for node in (one, two):
            assert [entry.position for entry in await node.read("room", after=START, limit=9)] == positions[3:]
        with pytest.raises(Misuse):
            await two.trim("room", before=positions[3] + 1)


async def test_a_trim_keeps_the_last_entry_in_the_stream_and_gives_it_no_more(alone: NatsServers):
    """Without it the stream would forget where the scene ended, and nobody could append behind that."""
    name = fresh_name()
    async with nodes(alone.url(name), 1) as (one,), asking(alone, name) as (jetstream, streams):
        positions = await written(one, "room", 3)
        await saved(one, "room", positions[2])
        await one.trim("room", before=positions[2])

        info = await jetstream.info(streams.entries)
        assert info is not None
        assert info.state.messages == 1
        assert await one.read("room", after=START, limit=9) == []


async def test_races_that_are_always_lost_end(alone: NatsServers):
    name = fresh_name()
    async with nodes(alone.url(name), 1) as (one,), asking(alone, name) as (jetstream, streams):
        [position] = await written(one, "room", 1)
        heads = Heads(jetstream, streams, Knowledge())

        async def lost(scene: str, head: Head, held: Held | None) -> bool:
            del scene, head, held
            return False

        heads._placed = lost  # type: ignore[method-assign]
        with pytest.raises(JournalUnavailable, match="came first"):
            await heads.checkpoint("room", position=position, header=b"", changed={}, listed=True)

        assert await one.load("room") is None
