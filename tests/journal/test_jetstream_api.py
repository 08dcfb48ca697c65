from collections.abc import Callable
from itertools import count

import pytest

from app.journal import jetstream_api
from app.journal.jetstream_api import Conflict, Found, Jetstream
from app.journal.nats_address import parse_address
from app.journal.nats_wire import Message, NatsWire, NoAnswer, NobodyServes, NotSent
from app.journal.port import CommitUnknown, JournalDamaged, JournalUnavailable
from tests.support.nats_servers import NatsServers, fresh_name
from tests.support.wires import ScriptedWire


def said(text: str) -> Message:
    return Message(0, b"", text.encode())


def refusal(code: int, description: str = "why") -> Message:
    return said(f'{{"error":{{"code":400,"err_code":{code},"description":"{description}"}},"stream":"x","seq":0}}')


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jetstream_api, "PATIENCE_S", 0.0)
    monkeypatch.setattr(jetstream_api, "HANDED_OVER_S", 0.0)


async def published(*answers: Message | Exception) -> int:
    return await Jetstream(ScriptedWire(answers)).publish("x.e.room", b"blob", after=4, key="k")


async def test_a_message_that_was_stored_has_its_sequence():
    wire = ScriptedWire([said('{"stream":"x","seq":17,"domain":"hub"}')])

    assert await Jetstream(wire).publish("x.e.room", b"blob", after=4, key="k") == 17
    assert wire.asked == [
        (
            "x.e.room",
            b"blob",
            b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 4\r\nNats-Msg-Id: k\r\n\r\n",
        )
    ]


@pytest.mark.parametrize("answer", [NobodyServes("no"), refusal(10008), refusal(10047)])
async def test_of_a_message_that_was_sent_twice_nobody_can_say_that_it_was_not_stored(
    answer: Message | Exception, monkeypatch: pytest.MonkeyPatch
):
    """The refusal is of the second copy; the first may have been stored by who led before."""
    monkeypatch.setattr(jetstream_api, "PUBLISHED_AGAIN_S", 0.0)

    with pytest.raises(CommitUnknown):
        await published(answer)


async def test_a_message_that_was_sent_twice_is_stored_once(servers: NatsServers):
    """One server looks at the sequence first, and says that it is another; three tell where the first copy lies."""
    name, copies = fresh_name(), len(servers)
    wire = NatsWire(parse_address(servers.url(name)))
    await wire.connect()
    try:
        jetstream = Jetstream(wire)
        config: dict[str, object] = {"num_replicas": copies, "duplicate_window": 60_000_000_000}
        await jetstream.create(name, {"subjects": [f"{name}.>"], **config})
        first = await jetstream.publish(f"{name}.room", b"a", after=0, key="a")
        second = await jetstream.publish(f"{name}.room", b"b", after=first, key="b")

        if copies == 1:
            with pytest.raises(Conflict):
                await jetstream.publish(f"{name}.room", b"a", after=0, key="a")
        else:
            assert await jetstream.publish(f"{name}.room", b"a", after=0, key="a") == first
        assert await jetstream.last(name, f"{name}.room") == Found(second, f"{name}.room", b"b", "b")
    finally:
        await wire.close()


async def test_a_message_that_nobody_takes_is_offered_again_while_the_lead_is_handed_over():
    """It was certainly not stored, so that whoever leads next takes the first copy of it."""
    nobody = NobodyServes("nobody")

    assert await published(nobody, nobody, said('{"stream":"x","seq":17}')) == 17
    with pytest.raises(Conflict) as conflict:
        await published(nobody, refusal(10071, "wrong last sequence: 12"))
    assert not conflict.value.is_of_second_copy


async def test_what_nobody_knows_of_is_not_offered_again():
    with pytest.raises(CommitUnknown):
        await published(NoAnswer("lost"), said('{"stream":"x","seq":17}'))


async def test_a_conflict_says_whether_the_message_was_sent_twice(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(Conflict) as once:
        await published(refusal(10071, "wrong last sequence: 12"))
    monkeypatch.setattr(jetstream_api, "PUBLISHED_AGAIN_S", 0.0)
    with pytest.raises(Conflict) as twice:
        await published(refusal(10071, "wrong last sequence: 12"))

    assert (once.value.is_of_second_copy, twice.value.is_of_second_copy) == (False, True)


async def test_a_message_that_may_lie_anywhere_has_no_headers():
    wire = ScriptedWire([said('{"stream":"x","seq":1}')])

    await Jetstream(wire).publish("x.p.room", b"", after=None)

    assert wire.asked == [("x.p.room", b"", b"")]


@pytest.mark.parametrize(
    ("answer", "last"),
    [
        (refusal(10071, "wrong last sequence: 12"), 12),
        (refusal(10071, "said otherwise"), None),
        (refusal(10164, "wrong last sequence"), None),
    ],
)
async def test_another_last_message_is_a_conflict(answer: Message, last: int | None):
    with pytest.raises(Conflict) as conflict:
        await published(answer)

    assert conflict.value.last == last


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize(
    "answer",
    [
        NotSent("not connected"),
        NobodyServes("nobody"),
        refusal(10008),
        refusal(10009),
        refusal(10023),
        refusal(10047),
        refusal(10054),
        refusal(10077, "maximum bytes exceeded"),
    ],
    ids=str,
)
async def test_what_certainly_did_not_happen_is_unavailable(answer: Message | Exception):
    with pytest.raises(JournalUnavailable):
        await published(answer)


@pytest.mark.parametrize(
    "answer",
    [
        NoAnswer("lost"),
        refusal(10158),
        refusal(10077, "write failed"),
        refusal(10999),
        said(""),
        said("[]"),
        said('{"stream":"x","seq":0}'),
        said('{"stream":"x"}'),
    ],
    ids=str,
)
async def test_whatever_else_is_said_may_have_happened(answer: Message | Exception):
    with pytest.raises(CommitUnknown):
        await published(answer)


READS: list[Callable[[Jetstream], object]] = [
    lambda jetstream: jetstream.last("x", "x.e.room"),
    lambda jetstream: jetstream.next("x", "x.e.room", 5),
    lambda jetstream: jetstream.info("x"),
    lambda jetstream: jetstream.batch("x", "x.e.room", sequence=1, limit=1, bytes_max=1),
    lambda jetstream: jetstream.lasts("x", ["x.e.room"]),
    lambda jetstream: jetstream.create("x", {}),
]


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(
    "answer", [NotSent("no"), NobodyServes("no"), NoAnswer("no"), refusal(10008), said("?")], ids=str
)
async def test_what_cannot_be_read_however_often_it_is_asked_for_is_unavailable(
    read: Callable[[Jetstream], "object"], answer: Message | Exception
):
    with pytest.raises(JournalUnavailable):
        await read(Jetstream(ScriptedWire([answer] * 4)))  # type: ignore[misc]  # each gives what can be awaited


async def test_what_may_be_asked_for_twice_is_asked_for_again():
    """While one server takes over from another nobody answers, or says that nobody is there."""
    there = said('{"message":{"subject":"x.e.room","seq":4,"data":"YQ=="}}')

    for lost in (NoAnswer("lost"), NobodyServes("nobody"), refusal(10008)):
        found = await Jetstream(ScriptedWire([lost, there])).last("x", "x.e.room")
        assert found == Found(4, "x.e.room", b"a")


async def test_a_batch_that_does_not_come_is_asked_for_with_more_and_more_time():
    """What a server passed over costs little, and a slow wire has its answer all the same."""
    nothing = Message(404, b"NATS/1.0 404 Message Not Found\r\n\r\n", b"")
    wire, lost = ScriptedWire([NoAnswer("lost"), NoAnswer("lost"), nothing]), jetstream_api.BATCH_S

    await Jetstream(wire).batch("x", "s", sequence=1, limit=1, bytes_max=1)

    assert wire.times_given == [lost, 2 * lost, 4 * lost]


async def test_what_is_not_there_is_none():
    assert await Jetstream(ScriptedWire([refusal(10037)])).last("x", "x.e.room") is None
    assert await Jetstream(ScriptedWire([refusal(10059)])).info("x") is None
    nothing = Message(404, b"NATS/1.0 404 Message Not Found\r\n\r\n", b"")
    batch = await Jetstream(ScriptedWire([nothing])).batch("x", "s", sequence=1, limit=1, bytes_max=1)
    assert batch.messages == []


async def test_a_message_of_a_batch_without_its_place_is_damage():
    lost = Message(0, b"NATS/1.0\r\nNats-Subject: x.e.room\r\n\r\n", b"")
    end = Message(204, b"NATS/1.0 204 EOB\r\n\r\n", b"")

    with pytest.raises(JournalDamaged, match="its place"):
        await Jetstream(ScriptedWire([lost, end])).batch("x", "s", sequence=1, limit=1, bytes_max=1)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(NotSent("no"), JournalUnavailable), (NoAnswer("no"), CommitUnknown), (refusal(10008), JournalUnavailable)],
    ids=str,
)
async def test_a_purge_that_may_have_happened_is_told_from_one_that_did_not(
    answer: Message | Exception, kind: type[Exception]
):
    with pytest.raises(kind):
        await Jetstream(ScriptedWire([answer])).purge("x", "x.e.room", below=4)


async def test_a_stream_that_differs_is_told_from_one_that_was_made():
    assert await Jetstream(ScriptedWire([said('{"config":{}}')])).create("x", {})
    assert not await Jetstream(ScriptedWire([refusal(10058)])).create("x", {})


async def test_batches_under_way_are_bounded():
    """Each may hold several megabytes."""
    wire = ScriptedWire(Message(204, b"NATS/1.0 204 EOB\r\n\r\n", b"") for _ in count())
    jetstream = Jetstream(wire)

    await wire.crowd(lambda: jetstream.batch("x", "s", sequence=1, limit=1, bytes_max=1), 100)

    assert 1 < wire.most_at_once <= 16
