import asyncio

import pytest

from app.journal import jetstream_streams
from app.journal.jetstream_api import Jetstream, StreamInfo
from app.journal.jetstream_streams import DUPLICATE_WINDOW_NS, Streams, Unfit, prepare
from app.journal.nats_address import Address, parse_address
from app.journal.port import JournalDamaged, JournalUnavailable
from tests.support.jetstreams import asking
from tests.support.nats_servers import MAX_PAYLOAD_BYTES, NatsServers, fresh_name


async def prepared(jetstream: Jetstream, address: Address, *, seconds: float = 10, read_only: bool = False) -> bytes:
    until = asyncio.get_running_loop().time() + seconds
    return await prepare(jetstream, Streams(address.name), address, until=until, read_only=read_only)


async def test_many_nodes_that_start_at_once_make_one_journal(servers: NatsServers):
    name = fresh_name()
    address = parse_address(servers.url(name))
    async with asking(servers, name) as (one, streams), asking(servers, name) as (two, _):
        secrets = await asyncio.gather(*(prepared(each, address) for each in (one, two) * 5))

        assert len(set(secrets)) == 1
        assert len(secrets[0]) == 32
        for stream in (streams.entries, streams.pieces, streams.heads):
            info = await one.info(stream)
            assert info is not None
            assert info.config["num_replicas"] == len(servers)
            assert info.config["duplicate_window"] == DUPLICATE_WINDOW_NS
            assert info.config["storage"] == "file"


async def test_what_is_only_read_is_not_made(alone: NatsServers):
    name = fresh_name()
    async with asking(alone, name) as (jetstream, streams):
        with pytest.raises(JournalUnavailable, match=f"no stream {name}-entries"):
            await prepared(jetstream, parse_address(alone.url(name)), read_only=True)

        assert await jetstream.info(streams.entries) is None


async def test_a_journal_that_is_there_is_read_as_it_is(alone: NatsServers):
    name = fresh_name()
    async with asking(alone, name) as (jetstream, _):
        secret = await prepared(jetstream, parse_address(alone.url(name)))

        # Other copies than it was made with are for whoever keeps the servers to change.
        for replicas in (1, 3):
            for read_only in (True, False):
                address = parse_address(alone.url(name, replicas=replicas))
                assert await prepared(jetstream, address, read_only=read_only) == secret


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_age", 3_600_000_000_000),
        ("max_msgs", 1_000),
        ("discard", "old"),
        ("allow_direct", False),
        ("republish", None),
        ("subjects", ["elsewhere.*"]),
        ("retention", "interest"),
        ("storage", "memory"),
        ("max_msgs_per_subject", 5),
        ("deny_purge", True),
    ],
)
async def test_a_stream_that_could_lose_what_it_is_given_is_refused_at_once(
    alone: NatsServers, field: str, value: object
):
    name = fresh_name()
    async with asking(alone, name) as (jetstream, streams):
        config = {**streams.configurations(1)[streams.entries], field: value}
        if value is None:
            del config[field]
        await jetstream.create(streams.entries, config)

        with pytest.raises(Unfit, match=f"{name}-entries has {field} .* is needed"):
            await prepared(jetstream, parse_address(alone.url(name)))


async def test_bounds_that_an_operator_set_are_left_alone(alone: NatsServers):
    name = fresh_name()
    async with asking(alone, name) as (jetstream, streams):
        config = {**streams.configurations(1)[streams.entries], "max_bytes": 10_000_000, "compression": "s2"}
        await jetstream.create(streams.entries, config)

        assert len(await prepared(jetstream, parse_address(alone.url(name)))) == 32


async def test_more_copies_than_servers_are_waited_for_and_then_told(alone: NatsServers):
    address = parse_address(alone.url(fresh_name(), replicas=3))
    async with asking(alone, address.name) as (jetstream, _):
        with pytest.raises(JournalUnavailable, match=f"{address.name}-entries cannot be made: .*replicas"):
            await prepared(jetstream, address, seconds=0.3)


async def test_a_secret_that_is_none_is_damage(alone: NatsServers):
    name = fresh_name()
    async with asking(alone, name) as (jetstream, streams):
        for stream, config in streams.configurations(1).items():
            await jetstream.create(stream, config)
        await jetstream.publish(streams.secret, b"short", after=0)

        with pytest.raises(JournalDamaged, match="secret is not one"):
            await prepared(jetstream, parse_address(alone.url(name)))


async def removed(jetstream: Jetstream, stream: str) -> None:
    """Delete a stream, as somebody might by hand."""
    await jetstream.wire.ask(f"$JS.API.STREAM.DELETE.{stream}")


@pytest.mark.parametrize("read_only", [False, True], ids=["served", "read-only"])
@pytest.mark.parametrize("part", ["entries", "pieces"])
async def test_a_journal_of_which_a_stream_is_gone_is_refused_and_not_made_anew(
    alone: NatsServers, monkeypatch: pytest.MonkeyPatch, part: str, read_only: bool
):
    monkeypatch.setattr(jetstream_streams, "PAUSE_S", 0.0)
    name = fresh_name()
    async with asking(alone, name) as (jetstream, streams):
        secret = await prepared(jetstream, parse_address(alone.url(name)))
        stream = getattr(streams, part)
        await removed(jetstream, stream)

        with pytest.raises(JournalDamaged, match=f"its stream {stream} is gone; restore .* from a back-up"):
            await prepared(jetstream, parse_address(alone.url(name)), read_only=read_only)

        assert await jetstream.info(stream) is None
        await jetstream.create(stream, streams.configurations(1)[stream])
        assert await prepared(jetstream, parse_address(alone.url(name)), read_only=read_only) == secret


@pytest.mark.parametrize("whole", [False, True], ids=["secret", "stream"])
async def test_a_journal_whose_secret_is_gone_is_refused_and_given_no_other(
    alone: NatsServers, monkeypatch: pytest.MonkeyPatch, whole: bool
):
    monkeypatch.setattr(jetstream_streams, "PAUSE_S", 0.0)
    name = fresh_name()
    async with asking(alone, name) as (jetstream, streams):
        await prepared(jetstream, parse_address(alone.url(name)))
        await jetstream.publish(streams.entry("room"), b"entry", after=0)
        if whole:
            await removed(jetstream, streams.heads)
        else:
            await jetstream.purge(streams.heads, streams.secret, below=1_000)

        with pytest.raises(JournalDamaged, match=f"{name}-entries holds messages, but the journal's secret is gone"):
            await prepared(jetstream, parse_address(alone.url(name)))

        if whole:
            assert await jetstream.info(streams.heads) is None
        else:
            assert await jetstream.last(streams.heads, streams.secret) is None


async def test_a_journal_that_is_being_made_is_waited_for(alone: NatsServers, monkeypatch: pytest.MonkeyPatch):
    """Who looks meanwhile may see no streams, and then a secret: another node made them all in between."""
    monkeypatch.setattr(jetstream_streams, "PAUSE_S", 0.0)
    name = fresh_name()
    async with asking(alone, name) as (one, streams), asking(alone, name) as (two, _):
        real, secrets = one.info, list[bytes]()

        async def overtaken(stream: str, *, subjects: str = "", offset: int = 0) -> StreamInfo | None:
            info = await real(stream, subjects=subjects, offset=offset)
            if stream == streams.pieces and not secrets:
                secrets.append(await prepared(two, parse_address(alone.url(name))))
            return info

        one.info = overtaken  # type: ignore[method-assign]
        assert [await prepared(one, parse_address(alone.url(name)))] == secrets


async def test_a_stream_that_takes_less_than_the_servers_do_is_refused(alone: NatsServers):
    name = fresh_name()
    async with asking(alone, name) as (jetstream, streams):
        config = streams.configurations(1)[streams.entries]
        await jetstream.create(streams.entries, {**config, "max_msg_size": MAX_PAYLOAD_BYTES - 1})
        with pytest.raises(Unfit, match=f"{name}-entries has max_msg_size {MAX_PAYLOAD_BYTES - 1} where -1 is needed"):
            await prepared(jetstream, parse_address(alone.url(name)))

        await removed(jetstream, streams.entries)
        await jetstream.create(streams.entries, {**config, "max_msg_size": MAX_PAYLOAD_BYTES})
        assert len(await prepared(jetstream, parse_address(alone.url(name)))) == 32
