import pytest

from app.journal import jetstream_names
from app.journal.jetstream_api import StreamInfo, StreamState
from app.journal.jetstream_known import Knowledge
from app.journal.jetstream_names import Names
from app.journal.port import Journal, JournalDamaged
from tests.support.jetstreams import asking, behind, nodes, saved, written
from tests.support.nats_servers import NatsServers, fresh_name


async def pages(journal: Journal, limit: int) -> list[str]:
    """List everything, page by page."""
    names: list[str] = []
    while page := await journal.scenes(after=names[-1] if names else "", limit=limit):
        assert len(page) <= limit
        names += page
    return names


async def test_all_nodes_list_the_same_scenes(servers: NatsServers):
    async with nodes(servers.url(fresh_name())) as (one, two):
        for scene in ("b.1", "a", "B", "a~"):
            await written(one, scene, 1)
        await written(two, "a-1", 1)

        assert await pages(one, 2) == await pages(two, 100) == ["B", "a", "a-1", "a~", "b.1"]


async def test_unlisted_scenes_do_not_shorten_a_page(alone: NatsServers, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jetstream_names, "HEADS_READ_MAX", 3)
    async with nodes(alone.url(fresh_name())) as (one, two):
        for number in range(20):
            [position] = await written(one, f"room-{number:02}", 1)
            if number % 4:
                await saved(one, f"room-{number:02}", position, listed=False)
                await one.trim(f"room-{number:02}", before=position)

        expected = ["room-00", "room-04", "room-08", "room-12", "room-16"]
        assert [await pages(node, limit) for node in (one, two) for limit in (1, 2, 5, 9)] == [expected] * 8


async def test_a_scene_that_another_node_begins_again_is_listed_again(servers: NatsServers):
    async with nodes(servers.url(fresh_name())) as (one, two):
        [position] = await written(one, "room", 1)
        await saved(one, "room", position, listed=False)
        await one.trim("room", before=position)
        assert await pages(two, 10) == []

        [position] = await written(two, "room", 1, after=position, first=11)
        assert [await pages(node, 10) for node in (one, two)] == [["room"], ["room"]]
        await saved(two, "room", position)
        await two.trim("room", before=position)
        assert [await pages(node, 10) for node in (one, two)] == [["room"], ["room"]]


async def test_the_pages_that_follow_are_not_read_anew(alone: NatsServers):
    url = alone.url(fresh_name())
    async with nodes(url, 1) as (one,), behind(url) as (journal, wire):
        for number in range(10):
            await written(one, f"room-{number}", 1)

        assert len(await pages(journal, 2)) == 10

        assert len([subject for subject in wire.asked if "STREAM.INFO" in subject]) == 1


async def test_a_copy_that_is_behind_does_not_bring_back_what_this_node_unlisted(alone: NatsServers):
    url = alone.url(fresh_name())
    async with nodes(url, 1), behind(url) as (journal, wire):
        [position] = await written(journal, "room", 1)
        await saved(journal, "room", position, listed=False)

        wire.behind = 1
        assert await pages(journal, 10) == []


async def test_everything_names_unlisted_scenes_too(servers: NatsServers):
    async with nodes(servers.url(fresh_name()), 1) as (one,):
        [position] = await written(one, "b.unlisted", 1)
        await saved(one, "b.unlisted", position, listed=False)
        await one.trim("b.unlisted", before=position)
        await written(one, "a", 1)
        await saved(one, "c", 0)

        assert await one.everything() == ["a", "b.unlisted", "c"]
        assert await pages(one, 10) == ["a"]


async def test_more_names_than_one_answer_holds_are_asked_for_in_several(alone: NatsServers):
    """A server gives 100,000 names at once; here it is as if it gave two."""
    name = fresh_name()
    async with nodes(alone.url(name), 1) as (one,), asking(alone, name) as (jetstream, streams):
        for number in range(5):
            await written(one, f"room-{number}", 1)
        real, offsets = jetstream.info, list[int]()

        async def short(stream: str, *, subjects: str = "", offset: int = 0) -> StreamInfo | None:
            offsets.append(offset)
            info = await real(stream, subjects=subjects, offset=offset)
            assert info is not None
            page = dict(list(info.state.subjects.items())[:2])
            return StreamInfo(state=StreamState(subjects=page), total=info.total)

        jetstream.info = short  # type: ignore[method-assign]
        names = Names(jetstream, streams, Knowledge())

        assert await names.scenes(after="", limit=10) == [f"room-{number}" for number in range(5)]
        assert offsets == [0, 2, 4]


async def test_a_head_that_cannot_be_read_is_damage_of_its_scene_only(alone: NatsServers):
    name = fresh_name()
    async with nodes(alone.url(name)) as (one, two), asking(alone, name) as (jetstream, streams):
        for scene in ("bad", "good", "unlisted"):
            [position] = await written(one, scene, 1)
        await saved(one, "unlisted", position, listed=False)
        await one.trim("unlisted", before=position)
        await jetstream.publish(streams.head("bad"), b"stray", after=0)

        assert await pages(one, 10) == await pages(two, 10) == ["bad", "good"]
        with pytest.raises(JournalDamaged, match="scene 'bad'"):
            await two.load("bad")


async def test_an_unlisted_scene_whose_head_can_be_read_no_more_is_listed(alone: NatsServers):
    """It is found to be damaged by whoever opens it, also at the node that unlisted it."""
    name = fresh_name()
    async with nodes(alone.url(name), 1) as (one,), asking(alone, name) as (jetstream, streams):
        [position] = await written(one, "bad", 1)
        await saved(one, "bad", position, listed=False)
        await one.trim("bad", before=position)
        assert await pages(one, 10) == []
        await jetstream.publish(streams.head("bad"), b"stray", after=None)

        assert await pages(one, 10) == ["bad"]
