import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog

from app.journal import nats_absence, nats_wire
from app.journal.nats_address import Server, parse_address
from app.journal.nats_wire import Message, NatsWire, NoAnswer, NobodyServes, NotSent, header_block
from tests.support.nats_servers import MAX_PAYLOAD_BYTES, PASSWORD, NatsServers, fresh_name
from tests.support.tcp_proxy import TcpProxy, tcp_proxy
from tests.support.wire import until

STREAM = b'{"name":"%b","subjects":["%b.>"],"storage":"memory","allow_direct":true}'


@asynccontextmanager
async def wired(address: str, servers: NatsServers) -> AsyncIterator[NatsWire]:
    """Connect a wire to `host:port`, with the login of the servers."""
    host, _, port = address.rpartition(":")
    wire = NatsWire(parse_address(servers.url("x"))._replace(servers=(Server(host, int(port)),)))
    await wire.connect()
    yield wire
    await wire.close()


@pytest.fixture
async def proxy(alone: NatsServers) -> AsyncIterator[TcpProxy]:
    async with tcp_proxy(alone[0].address) as proxy:
        yield proxy


@pytest.fixture
async def wire(alone: NatsServers, proxy: TcpProxy) -> AsyncIterator[NatsWire]:
    async with wired(proxy.address, alone) as wire:
        yield wire


async def made(wire: NatsWire) -> str:
    """Make a stream; give its name."""
    name = fresh_name()
    await wire.ask(f"$JS.API.STREAM.CREATE.{name}", STREAM.replace(b"%b", name.encode()))
    return name


async def test_a_question_has_its_answer(wire: NatsWire):
    name = await made(wire)

    answers = await asyncio.gather(*(wire.ask(f"{name}.x", str(number).encode()) for number in range(100)))

    assert sorted(int(answer.payload.partition(b'"seq":')[2].strip(b"}")) for answer in answers) == list(range(1, 101))
    assert wire.payload_bytes_max == MAX_PAYLOAD_BYTES


async def test_many_answers_come_in_order_up_to_the_one_with_a_status(wire: NatsWire):
    name = await made(wire)
    for number in range(3):
        await wire.ask(f"{name}.x", b"%d" % number, headers=header_block(("Mine", str(number))))

    question = b'{"seq":1,"next_by_subj":"%b.x","batch":9}' % name.encode()
    *answers, end = await wire.ask_for_many(f"$JS.API.DIRECT.GET.{name}", question)

    assert [(answer.payload, answer.header(b"Mine")) for answer in answers] == [
        (b"0", b"0"),
        (b"1", b"1"),
        (b"2", b"2"),
    ]
    assert (end.status, end.header(b"Nats-Num-Pending")) == (204, b"0")


async def test_nobody_who_serves_is_certain(wire: NatsWire):
    with pytest.raises(NobodyServes, match="nobody serves"):
        await wire.ask(fresh_name())
    with pytest.raises(NobodyServes, match="nobody serves"):
        await wire.ask_for_many(fresh_name(), b"")


async def test_an_answer_that_is_held_back_is_none_and_its_lateness_does_no_harm(
    wire: NatsWire, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
):
    name = await made(wire)
    proxy.hold_answers()
    with monkeypatch.context() as patched:
        patched.setattr(nats_wire, "ANSWER_S_MAX", 0.1)
        with pytest.raises(NoAnswer, match=r"within 0\.1 s"):
            await wire.ask(f"{name}.x", b"lost?")
    proxy.release()

    answer = await wire.ask(f"{name}.x", b"next")

    assert b'"seq":2' in answer.payload


async def test_a_question_that_may_be_asked_twice_is_sent_again_and_has_its_first_answer(
    wire: NatsWire, alone: NatsServers
):
    """Whoever should have answered the first time was not there yet, or no more."""
    subject, heard = fresh_name(), asyncio.Queue[bytes]()
    async with wired(alone[0].address, alone) as other:
        other.listen(subject, lambda message: heard.put_nowait(message.payload))
        await other.ask("$JS.API.INFO")

        question = asyncio.ensure_future(wire.ask(subject, b"who?", again_s=0.01))
        assert [await heard.get() for _ in range(3)] == [b"who?"] * 3

        await other.close()
        with pytest.raises(NobodyServes):
            await question


async def test_an_answer_that_is_passed_over_is_none(wire: NatsWire):
    passed = list[Message]()

    def is_first(message: Message) -> bool:
        passed.append(message)
        return len(passed) == 1

    answer = await wire.ask("$JS.API.INFO", again_s=0.01, passes_over=is_first)

    assert len(passed) == 2
    assert answer is passed[1]


async def test_a_cut_connection_ends_every_question_at_once_and_is_made_again(wire: NatsWire, proxy: TcpProxy):
    name, returned = await made(wire), asyncio.Event()
    wire.on_return(returned.set)
    proxy.hold_answers()
    questions = [asyncio.ensure_future(wire.ask(f"{name}.x", b"lost?")) for _ in range(3)]
    await asyncio.sleep(0)

    proxy.cut()
    answers = await asyncio.gather(*questions, return_exceptions=True)
    with pytest.raises(NotSent, match="is connected"):
        await wire.ask(f"{name}.x", b"not sent")
    proxy.release()
    await returned.wait()

    assert [type(answer) for answer in answers] == [NoAnswer] * 3
    assert (await wire.ask(f"{name}.x", b"again")).status == 0


async def just_lost(wire: NatsWire, proxy: TcpProxy) -> None:
    """Lose a wire's connection; the next is made once the proxy is released."""
    proxy.hold_answers()
    question = asyncio.ensure_future(wire.ask("$JS.API.INFO"))
    await asyncio.sleep(0)
    proxy.cut()
    with pytest.raises(NoAnswer, match="lost"):
        await question


async def test_what_is_asked_just_after_a_loss_is_answered_over_the_next_connection(
    wire: NatsWire, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(nats_absence, "WAIT_S_MAX", 60.0)
    await just_lost(wire, proxy)
    questions = [asyncio.ensure_future(wire.ask("$JS.API.INFO")) for _ in range(3)]
    await asyncio.sleep(0)
    assert not wire.is_connected

    proxy.release()

    assert [answer.status for answer in await asyncio.gather(*questions)] == [0] * 3


async def test_a_connection_that_is_gone_for_long_is_not_waited_for(
    wire: NatsWire, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(nats_absence, "WAIT_S_MAX", 0.02)
    await proxy.stop()
    await until(lambda: not wire.is_connected)
    with pytest.raises(NotSent, match="is connected"):
        await wire.ask("x")

    question = asyncio.ensure_future(wire.ask("x"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert question.done()
    assert isinstance(question.exception(), NotSent)


async def test_questions_that_wait_for_a_connection_are_bounded(
    wire: NatsWire, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(nats_absence, "WAIT_S_MAX", 60.0)
    monkeypatch.setattr(nats_wire, "WAITING_MAX", 2)
    await just_lost(wire, proxy)
    questions = [asyncio.ensure_future(wire.ask("$JS.API.INFO")) for _ in range(2)]
    await asyncio.sleep(0)

    with pytest.raises(NotSent):
        await wire.ask("$JS.API.INFO")

    proxy.release()
    assert [answer.status for answer in await asyncio.gather(*questions)] == [0] * 2


async def test_who_waits_for_a_connection_hears_of_the_end_at_once(
    wire: NatsWire, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(nats_absence, "WAIT_S_MAX", 60.0)
    await proxy.stop()
    await until(lambda: not wire.is_connected)
    question = asyncio.ensure_future(wire.ask("x"))
    await asyncio.sleep(0)

    await wire.close()

    with pytest.raises(NotSent):
        async with asyncio.timeout(5):
            await question


async def test_who_listens_hears_on_over_a_lost_connection(wire: NatsWire, proxy: TcpProxy, alone: NatsServers):
    subject, returned = fresh_name(), asyncio.Event()
    heard = asyncio.Queue[Message]()
    stop = wire.listen(subject, heard.put_nowait)
    wire.on_return(returned.set)
    proxy.cut()
    await returned.wait()

    async with wired(alone[0].address, alone) as other:
        question = asyncio.ensure_future(other.ask(subject, b"one"))
        assert (await heard.get()).payload == b"one"
        stop()
        stop()
        await wire.ask("$JS.API.INFO")
        with pytest.raises(NobodyServes):
            await other.ask(subject, b"two")

    assert heard.empty()
    with pytest.raises(NoAnswer, match="closed"):
        await question


async def test_what_is_too_large_is_not_sent(wire: NatsWire):
    with pytest.raises(NotSent, match="more than"):
        await wire.ask("x", b"x" * (MAX_PAYLOAD_BYTES + 1))

    assert wire.is_connected


async def test_what_a_network_does_not_take_is_bounded(
    wire: NatsWire, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(nats_wire, "UNSENT_BYTES_MAX", 1024 * 1024)
    proxy.hold_questions()
    block = b"x" * MAX_PAYLOAD_BYTES
    questions = [asyncio.ensure_future(wire.ask("x", block)) for _ in range(8)]
    await asyncio.sleep(0)

    with pytest.raises(NotSent, match="do not keep up"):
        await wire.ask("x", b"")

    proxy.cut()
    proxy.release()
    ended = await asyncio.gather(*questions, return_exceptions=True)
    assert {type(each) for each in ended} <= {NoAnswer, NotSent}


async def test_of_several_servers_one_that_is_there_is_found(alone: NatsServers):
    address = parse_address(alone.url("x"))
    wire = NatsWire(address._replace(servers=(Server("127.0.0.1", 1), *address.servers, Server("127.0.0.1", 2))))

    await wire.connect()

    assert wire.is_connected
    await wire.close()


async def test_closing_ends_the_search_for_a_server(alone: NatsServers, proxy: TcpProxy):
    async with wired(proxy.address, alone) as wire:
        await proxy.stop()
        await until(lambda: not wire.is_connected)
        before = asyncio.all_tasks()
        await wire.close()
        await until(lambda: len(asyncio.all_tasks()) < len(before) or len(before) == 1)

    assert {task for task in asyncio.all_tasks() if task is not asyncio.current_task()} == set()


async def test_nothing_secret_is_logged_when_servers_refuse(alone: NatsServers):
    address = parse_address(alone.url("x"))
    wire = NatsWire(address._replace(password=f"{PASSWORD}-wrong"))
    with structlog.testing.capture_logs() as lines, pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await wire.connect()

    assert wire.reason.endswith("Authorization Violation")
    assert [line["event"] for line in lines] == ["nats-unreachable"]
    assert PASSWORD not in f"{lines} {wire.reason}"
    await wire.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [(b"", 0), (b"NATS/1.0\r\nStatus: 503\r\n\r\n", 0), (b"NATS/1.0 503\r\n\r\n", 503), (b"NATS/1.0 x\r\n\r\n", 0)],
)
def test_a_status_is_what_the_first_line_says(headers: bytes, status: int):
    assert nats_wire._message(headers, b"").status == status


def test_a_header_is_found_by_its_whole_name():
    message = Message(0, b"NATS/1.0\r\nNats-Last-Sequence: 4\r\nNats-Sequence: 5\r\n\r\n", b"")

    assert message.header(b"Nats-Sequence") == b"5"
    assert message.header(b"Sequence") is None


def test_of_two_headers_the_one_that_the_server_added_counts():
    message = Message(0, b"NATS/1.0\r\nNats-Sequence: 99\r\nNats-Sequence: 5\r\n\r\n", b"")

    assert message.header(b"Nats-Sequence") == b"5"


def test_a_header_that_does_not_end_is_none():
    assert Message(0, b"NATS/1.0\r\nNats-Sequence: 5", b"").header(b"Nats-Sequence") is None
