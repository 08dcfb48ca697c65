import asyncio
from typing import Any

import pytest

from app.journal import jetstream_api, jetstream_entries
from app.journal.jetstream_api import Jetstream
from app.journal.jetstream_entries import LOOKS_MAX
from app.journal.nats_wire import Message
from app.journal.port import START, Checkpoint, JournalDamaged, JournalUnavailable, NotTheWriter
from tests.support.jetstreams import asking, behind, blobs, nodes, saved, written
from tests.support.nats_servers import NatsServers, fresh_name


async def test_of_two_nodes_that_append_at_once_one_reads_what_the_other_wrote(servers: NatsServers):
    """The turns are of equal bytes, and still only one of them counts."""
    async with nodes(servers.url(fresh_name())) as (one, two):
        after = START
        for _ in range(20):
            results = await asyncio.gather(
                *(node.append("room", after=after, first=1, last=1, blob=b"same") for node in (one, two)),
                return_exceptions=True,
            )
            [position] = [result for result in results if isinstance(result, int)]
            [refused] = [result for result in results if not isinstance(result, int)]
            loser = (one, two)[results.index(refused)]

            assert isinstance(refused, NotTheWriter)
            assert [entry.position for entry in await loser.read("room", after=after, limit=10)] == [position]
            after = position

        assert await blobs(one, "room") == await blobs(two, "room") == [b"same"] * 20


async def test_an_append_whose_first_answer_is_lost_finds_its_own_entry(
    servers: NatsServers, monkeypatch: pytest.MonkeyPatch
):
    """It is sent again; a stream with one copy then says only that something lies there already."""
    async with nodes(servers.url(fresh_name())) as (one, two):
        [first] = await written(one, "room", 1)
        wire, asked = one._wire, one._wire.ask

        async def losing(subject: str, payload: bytes = b"", *, headers: bytes = b"", **more: Any) -> Message:
            if headers:
                await asked(subject, payload, headers=headers)
            return await asked(subject, payload, headers=headers)

        monkeypatch.setattr(jetstream_api, "PUBLISHED_AGAIN_S", 0.0)
        monkeypatch.setattr(wire, "ask", losing)
        second = await one.append("room", after=first, first=11, last=11, blob=b"mine")
        with pytest.raises(NotTheWriter):
            await two.append("room", after=first, first=11, last=11, blob=b"mine")

        assert [entry.position for entry in await two.read("room", after=START, limit=9)] == [first, second]


@pytest.mark.parametrize(
    "said", [b'10071,"description":"wrong last sequence: 0"', b'10164,"description":"wrong last sequence"']
)
async def test_a_refusal_that_names_nothing_behind_the_scene_passes(
    said: bytes, alone: NatsServers, monkeypatch: pytest.MonkeyPatch
):
    """Who has just begun to lead has less than was acknowledged; or something that will not be stored is under way."""
    async with nodes(alone.url(fresh_name()), 1) as (one,):
        [first] = await written(one, "room", 1)
        wire, asked, refusals = one._wire, one._wire.ask, 2

        async def refusing(subject: str, payload: bytes = b"", *, headers: bytes = b"", **more: Any) -> Message:
            nonlocal refusals
            if headers and refusals:
                refusals -= 1
                return Message(0, b"", b'{"error":{"code":400,"err_code":' + said + b'},"seq":0}')
            return await asked(subject, payload, headers=headers, **more)

        monkeypatch.setattr(wire, "ask", refusing)
        second = await one.append("room", after=first, first=11, last=11, blob=b"mine")

        assert [entry.position for entry in await one.read("room", after=START, limit=9)] == [first, second]


async def test_a_node_that_is_behind_is_refused_until_it_has_read(servers: NatsServers):
    async with nodes(servers.url(fresh_name())) as (one, two):
        first, second, third = await written(one, "room", 3)
        with pytest.raises(NotTheWriter):
            await two.append("room", after=first, first=11, last=11, blob=b"stale")

        entries = await two.read("room", after=first, limit=100)

        assert [entry.position for entry in entries] == [second, third]
        assert await two.read("room", after=third, limit=100) == []
        assert await two.append("room", after=third, first=31, last=31, blob=b"new") > third


async def test_an_empty_answer_of_a_copy_that_is_behind_is_not_the_end(alone: NatsServers):
    """The entry that was appended last comes from the leader at once; what lies before it, from a copy that has it."""
    url = alone.url(fresh_name())
    async with nodes(url, 1) as (one,), behind(url) as (late, wire):
        positions = await written(one, "room", 3)

        wire.behind = 1
        assert [entry.position for entry in await late.read("room", after=positions[1], limit=9)] == positions[2:]
        wire.behind = 2
        assert [entry.position for entry in await late.read("room", after=positions[0], limit=9)] == positions[1:]


async def test_a_copy_that_stays_behind_is_unavailable_and_never_the_end(
    alone: NatsServers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(jetstream_entries, "LOOK_PAUSE_S", 0.0)
    url = alone.url(fresh_name())
    async with nodes(url, 1) as (one,), behind(url) as (late, wire):
        positions = await written(one, "room", 3)
        wire.behind = LOOKS_MAX

        with pytest.raises(JournalUnavailable, match="behind"):
            await late.read("room", after=positions[0], limit=9)

        assert len(await late.read("room", after=positions[0], limit=9)) == 2


async def test_the_usual_catching_up_takes_two_questions(alone: NatsServers):
    """One entry behind: a conflict named it, a copy gives it, the leader says that it is the last."""
    url = alone.url(fresh_name())
    async with nodes(url, 1) as (one,), behind(url) as (other, wire):
        [first] = await written(one, "room", 1)
        assert len(await other.read("room", after=START, limit=9)) == 1
        await written(one, "room", 1, after=first, first=11)
        with pytest.raises(NotTheWriter):
            await other.append("room", after=first, first=11, last=11, blob=b"stale")
        wire.asked.clear()

        [entry] = await other.read("room", after=first, limit=9)
        assert await other.read("room", after=entry.position, limit=9) == []

        assert [subject.split(".")[2] for subject in wire.asked] == ["DIRECT", "STREAM"]


async def test_entries_that_another_node_trims_are_not_taken_for_a_history_without_them(servers: NatsServers):
    async with nodes(servers.url(fresh_name())) as (one, two):
        positions = await written(one, "room", 6)
        assert len(await two.read("room", after=START, limit=2)) == 2
        await saved(one, "room", positions[4])
        await one.trim("room", before=positions[4])

        assert [entry.position for entry in await two.read("room", after=positions[1], limit=9)] == positions[5:]
        assert await blobs(two, "room") == [b"51"]


async def test_a_history_that_was_trimmed_whole_reads_as_empty_on_every_node(servers: NatsServers):
    async with nodes(servers.url(fresh_name())) as (one, two):
        positions = await written(one, "room", 3)
        await saved(one, "room", positions[2], listed=False)
        await one.trim("room", before=positions[2])

        assert await blobs(two, "room") == []
        [following] = await written(two, "room", 1, after=positions[2], first=31)
        assert await blobs(one, "room") == [b"31"]
        assert following > positions[2]


async def test_entries_that_somebody_deleted_are_damage(alone: NatsServers, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jetstream_entries, "LOOK_PAUSE_S", 0.0)
    name = fresh_name()
    async with nodes(alone.url(name), 1) as (one,), asking(alone, name) as (jetstream, streams):
        positions = await written(one, "room", 3)
        await jetstream.purge(streams.entries, streams.entry("room"), below=positions[1])

        with pytest.raises(JournalDamaged, match="scene 'room': entries behind position 0 are gone"):
            await one.read("room", after=START, limit=9)

        assert [entry.position for entry in await one.read("room", after=positions[0], limit=9)] == positions[1:]


async def test_what_is_no_entry_is_damage(alone: NatsServers):
    name = fresh_name()
    async with nodes(alone.url(name), 1) as (one,), asking(alone, name) as (jetstream, streams):
        await jetstream.publish(streams.entry("room"), b"\x09stray", after=0)

        for call in (one.read("room", after=START, limit=9), one.seek("room", sequence=1)):
            with pytest.raises(JournalDamaged, match="scene 'room': message 1 was not written"):
                await call


async def test_an_old_decision_is_found_among_entries_of_all_scenes(servers: NatsServers):
    """Another node knows nothing of them, and finds each by halving."""
    async with nodes(servers.url(fresh_name())) as (one, two):
        scenes = {f"room-{number}": await written(one, f"room-{number}", 1) for number in range(10)}
        for number in range(1, 12):
            for scene, its in scenes.items():
                its.extend(await written(one, scene, 1, after=its[-1], first=10 * number + 1))
        positions = scenes["room-3"]
        await saved(one, "room-3", positions[2])
        await one.trim("room-3", before=positions[2])

        for sequence in (1, 30, 31, 40, 41, 77, 120):
            after = await two.seek("room-3", sequence=sequence)
            [entry] = await two.read("room-3", after=after, limit=1)
            assert entry.position == positions[max(3, (sequence - 1) // 10)]
        assert await two.read("room-3", after=await two.seek("room-3", sequence=121), limit=1) == []


async def test_a_recent_decision_is_found_without_asking(alone: NatsServers):
    url = alone.url(fresh_name())
    async with nodes(url, 1) as (_,), behind(url) as (journal, wire):
        positions = await written(journal, "room", 5)
        wire.asked.clear()

        assert [await journal.seek("room", sequence=sequence) for sequence in (11, 20, 50)] == [
            positions[0], positions[0], positions[3],
        ]  # fmt: skip
        assert wire.asked == []


async def test_a_long_history_is_read_in_parts_that_bytes_bound(alone: NatsServers):
    block = b"x" * 700_000
    async with nodes(alone.url(fresh_name()), 1) as (one,):
        after = START
        for number in range(1, 9):
            after = await one.append("room", after=after, first=number, last=number, blob=block)

        parts, after = [], START
        while entries := await one.read("room", after=after, limit=1_000):
            parts.append(len(entries))
            after = entries[-1].position

    assert sum(parts) == 8
    assert max(parts) <= 3


@pytest.mark.parametrize("left", [0, 2], ids=["nothing", "a part"])
async def test_a_scene_that_ends_before_its_checkpoint_is_damage_on_every_node(
    alone: NatsServers, monkeypatch: pytest.MonkeyPatch, left: int
):
    monkeypatch.setattr(jetstream_entries, "LOOK_PAUSE_S", 0.0)
    name = fresh_name()
    url = alone.url(name)
    async with nodes(url, 1) as (one,), asking(alone, name) as (jetstream, streams):
        positions = await written(one, "room", 3)
        await saved(one, "room", positions[2])
        for position in positions[left:]:
            await removed(jetstream, streams.entries, position)

        async with behind(url) as (fresh, _), behind(url) as (historian, _):
            assert (await fresh.load("room")) is not None
            for node in (one, fresh):
                with pytest.raises(JournalDamaged, match="scene 'room': its last entries are gone"):
                    await node.read("room", after=positions[2], limit=9)
            with pytest.raises(JournalDamaged, match="scene 'room': its last entries are gone"):
                await blobs(historian, "room")


async def removed(jetstream: Jetstream, stream: str, sequence: int) -> None:
    """Delete one message, as somebody might by hand."""
    await jetstream.wire.ask(f"$JS.API.STREAM.MSG.DELETE.{stream}", b'{"seq":%d}' % sequence)


@pytest.mark.parametrize(
    "said", [b'{"error":{"code":404,"err_code":10037}}', b""], ids=["has nothing", "has only the first"]
)
async def test_a_leader_that_has_just_begun_and_is_behind_is_no_damage(
    said: bytes, alone: NatsServers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(jetstream_entries, "LOOK_PAUSE_S", 0.0)
    name = fresh_name()
    async with nodes(alone.url(name), 1) as (one,), behind(alone.url(name)) as (fresh, wire):
        positions = await written(one, "room", 2)
        await saved(one, "room", positions[1])
        await fresh.load("room")
        asked, answers = wire.ask, LOOKS_MAX - 1

        async def late(subject: str, payload: bytes = b"", *, headers: bytes = b"", **more: Any) -> Message:
            nonlocal answers
            if subject.endswith(f"MSG.GET.{name}-entries") and answers:
                answers -= 1
                return Message(0, b"", said) if said else await asked(subject, b'{"seq":%d}' % positions[0])
            return await asked(subject, payload, headers=headers, **more)

        monkeypatch.setattr(wire, "ask", late)

        assert await fresh.read("room", after=positions[1], limit=9) == []
        assert answers == 0


async def test_a_checkpoint_at_the_start_covers_no_entry_and_needs_none(servers: NatsServers):
    """A move puts one where the entries had been forgotten, and others may come behind it."""
    async with nodes(servers.url(fresh_name())) as (one, two):
        await one.place("room", Checkpoint(START, b"head", {}), listed=True)
        assert [await blobs(node, "room") for node in (one, two)] == [[], []]

        [position] = await written(two, "room", 1)
        await saved(two, "room", position)
        assert await one.load("room") is not None
        assert await one.read("room", after=position, limit=9) == []


async def test_an_entry_that_lies_behind_an_earlier_one_than_was_read_is_damage(alone: NatsServers):
    """The last entry was deleted, and a node that never saw it wrote another behind the one before."""
    name = fresh_name()
    async with nodes(alone.url(name)) as (one, two), asking(alone, name) as (jetstream, streams):
        positions = await written(one, "room", 3)
        await removed(jetstream, streams.entries, positions[2])
        await written(two, "room", 1, after=positions[1], first=21)

        with pytest.raises(JournalDamaged, match=f"scene 'room': what follows entry {positions[2]} was"):
            await one.read("room", after=positions[2], limit=9)

        await written(two, "room", 1, after=(await two.read("room", after=positions[1], limit=9))[-1].position)
        with pytest.raises(JournalDamaged, match=f"scene 'room': what follows entry {positions[2]} was"):
            await one.read("room", after=positions[2], limit=9)


async def test_what_is_trimmed_need_not_end_with_an_entry(alone: NatsServers):
    name = fresh_name()
    async with nodes(alone.url(name)) as (one, two):
        first, _ = await written(one, "room", 1), await written(one, "other", 5)
        later = await written(one, "room", 2, after=first[0], first=11)
        await saved(one, "room", later[1])
        await one.trim("room", before=later[0] - 1)

        for node in (one, two):
            assert await blobs(node, "room") == [b"11", b"21"]
            assert len(await node.read("room", after=later[0] - 1, limit=9)) == 2
