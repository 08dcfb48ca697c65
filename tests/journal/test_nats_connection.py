import asyncio
import random
from pathlib import Path

import pytest
from nats import errors

from app.journal import nats_connection
from app.journal.nats_address import Address, Server, parse_address
from app.journal.nats_connection import Connection, Repetition
from tests.support.nats_servers import NatsServers, fresh_name
from tests.support.simulated_loop import SimulatedLoop
from tests.support.tcp_proxy import tcp_proxy
from tests.support.wire import until


class Ends:
    """How often a connection said that it was lost."""

    def __init__(self) -> None:
        self.count = 0
        self.refusals: list[str] = []

    async def lost(self) -> None:
        self.count += 1


async def opened(address: Address, ends: Ends, server: Server | None = None) -> Connection:
    connection = Connection(ends.refusals.append)
    await connection.open(server or address.servers[0], address, None, ends.lost)
    return connection


class Paper(Connection):
    """A connection to nobody: `written` is when something was written, seconds since it was made."""

    def __init__(self) -> None:
        super().__init__(lambda said: None)
        self._since = asyncio.get_running_loop().time()
        self.written: list[float] = []

    def write(self, *chunks: bytes) -> None:
        assert chunks == (b"PUB x 0\r\n", b"\r\n")
        self.written.append(asyncio.get_running_loop().time() - self._since)


def test_what_is_repeated_is_written_after_twice_as_long_each_time_until_it_is_stopped():
    async def repeated() -> list[float]:
        paper = Paper()
        repetition = Repetition(paper, (b"PUB x 0\r\n", b"\r\n"), 0.25)
        await asyncio.sleep(5.0)
        repetition.stop()
        await asyncio.sleep(60.0)
        return paper.written

    loop = SimulatedLoop(random.Random(1))  # type: ignore[abstract]  # what of a loop nobody here asks for
    written = loop.run(repeated())

    assert written == pytest.approx([0.25, 0.75, 1.75, 3.75], abs=0.1)


async def test_what_is_written_is_heard_by_who_listens(alone: NatsServers):
    ends, heard = Ends(), asyncio.Queue[tuple[bytes, bytes, bytes]]()
    connection = await opened(parse_address(alone.url("x")), ends)
    subject = fresh_name()

    number = connection.listen(subject, lambda *message: heard.put_nowait(message))
    connection.write(b"HPUB %b 12 14\r\n" % subject.encode(), b"NATS/1.0\r\n\r\n", b"hi", b"\r\n")

    assert await heard.get() == (subject.encode(), b"NATS/1.0\r\n\r\n", b"hi")
    connection.unlisten(number)
    connection.unlisten(number)
    connection.write(b"PUB %b 2\r\nho\r\n" % subject.encode())
    await connection.flush()
    assert heard.empty()
    await connection.close()
    assert ends.count == 1


async def test_a_wrong_password_is_an_error_and_nobody_is_told_of_a_loss(alone: NatsServers):
    ends = Ends()
    address = parse_address(alone.url("x"))._replace(password="wrong")

    with pytest.raises(errors.Error, match="Authorization Violation"):
        await opened(address, ends)

    assert ends.count == 0


async def test_a_server_that_is_not_there_is_an_error(alone: NatsServers):
    with pytest.raises(OSError, match=r"refused|Connect"):
        await opened(parse_address(alone.url("x")), Ends(), Server("127.0.0.1", 1))


async def test_a_password_is_not_sent_to_a_server_that_speaks_no_tls(alone: NatsServers):
    address = parse_address(alone.url("x").replace("nats://", "tls://"))
    connection = Connection(lambda _: None)

    with pytest.raises(errors.Error, match="does not ask for TLS"):
        await connection.open(address.servers[0], address, address.context(), Ends().lost)


async def test_a_file_of_credentials_that_is_none_is_an_error(alone: NatsServers, tmp_path: Path):
    """nats-py alone would read it for ever."""
    (tmp_path / "user.creds").write_text("no credentials", encoding="utf-8")
    address = parse_address(alone.url("x", creds=str(tmp_path / "user.creds")))

    with pytest.raises(ValueError, match="holds no JWT and seed"):
        await opened(address, Ends())


async def test_a_cut_connection_is_told_once_and_takes_nothing_more(alone: NatsServers):
    ends = Ends()
    async with tcp_proxy(alone[0].address) as proxy:
        host, _, port = proxy.address.rpartition(":")
        connection = await opened(parse_address(alone.url("x")), ends, Server(host, int(port)))

        proxy.cut()
        await until(lambda: ends.count == 1)

        assert not connection.is_connected
        connection.write(b"PUB x 0\r\n\r\n")
        assert connection.listen("x", lambda *_: None) > 0
        assert connection.unsent_bytes == 0


async def test_a_server_that_stands_still_is_given_up_although_much_is_unsent(
    alone: NatsServers, monkeypatch: pytest.MonkeyPatch
):
    """nats-py alone would wait until all of it is sent, for ever."""
    monkeypatch.setattr(nats_connection, "PING_S", 0.1)
    ends = Ends()
    async with tcp_proxy(alone[0].address) as proxy:
        host, _, port = proxy.address.rpartition(":")
        connection = await opened(parse_address(alone.url("x")), ends, Server(host, int(port)))

        proxy.hold_questions()
        block = b"x" * (1024 * 1024)
        for _ in range(32):
            connection.write(b"PUB x %d\r\n" % len(block), block, b"\r\n")
        assert connection.unsent_bytes > 0
        await until(lambda: ends.count == 1)

        assert connection.unsent_bytes == 0


async def test_what_a_server_refuses_ends_the_connection(alone: NatsServers):
    ends = Ends()
    connection = await opened(parse_address(alone.url("x")), ends)

    connection.write(b"NONSENSE\r\n")
    await until(lambda: ends.count == 1)

    assert ends.refusals == ["unknown protocol operation"]
    assert connection.is_closed
