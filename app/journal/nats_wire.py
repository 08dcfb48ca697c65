"""The wire to a NATS cluster: questions and their answers, subjects listened to, and reconnecting for ever."""

import asyncio
import os
import random
from collections.abc import Callable
from typing import NamedTuple, Protocol

from app.journal.nats_absence import Absence
from app.journal.nats_address import Address, Server, ca_advice
from app.journal.nats_connection import FAILURES, Connection, Repetition, require_creds
from app.telemetry.log import log

ANSWER_S_MAX = 5.0
"""How long an answer is waited for, seconds."""

UNSENT_BYTES_MAX = 64 * 1024 * 1024
"""How much may wait to be taken by the network before further questions are turned away."""

WAITING_MAX = 65_536
"""How many questions may wait for their answers."""

PAUSE_S_MIN = 0.05
PAUSE_S_MAX = 1.0
"""Between two rounds over all servers, seconds; it doubles from the one to the other."""

TOLD_EVERY_S = 30.0
"""How often it is logged that no server can be reached, seconds."""

NOBODY = 503
"""The status of an answer that says that nobody serves a subject."""


class NotSent(Exception):
    """Certainly nothing was sent."""


class NoAnswer(Exception):
    """The question was sent, and nobody knows what became of it."""


class NobodyServes(Exception):
    """Nobody serves the subject, so certainly nothing was done."""


class Message(NamedTuple):
    """What was heard: `status` is 0 unless the server itself says something, `headers` are as they came."""

    status: int
    headers: bytes
    payload: bytes

    def header(self, name: bytes) -> bytes | None:
        """Give one header's value, the last one's: servers add theirs behind what was sent. None: it is not there."""
        start = self.headers.rfind(b"\r\n" + name + b": ")
        if start < 0:
            return None
        start += len(name) + 4
        end = self.headers.find(b"\r\n", start)
        return None if end < 0 else self.headers[start:end]


class Wire(Protocol):
    """What the journal needs of NATS."""

    @property
    def is_connected(self) -> bool:
        """Say whether something could be sent now."""
        ...

    @property
    def payload_bytes_max(self) -> int:
        """The largest message the servers take, headers included, bytes."""
        ...

    async def ask(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        headers: bytes = b"",
        again_s: float | None = None,
        passes_over: Callable[[Message], bool] | None = None,
    ) -> Message:
        """Send a question and give its first answer, but for those that it `passes_over`.

        With `again_s` it is sent again after so long, and each time after twice as long.

        Raises:
            NotSent, NobodyServes: Certainly nothing was done; of one that was sent again, by the last time.
            NoAnswer: It may have been done.
        """
        ...

    async def ask_for_many(self, subject: str, payload: bytes, *, within_s: float | None = None) -> list[Message]:
        """Send a question and give its answers in order; the last has a status. Raises as `ask`."""
        ...

    def listen(self, subject: str, heard: Callable[[Message], None]) -> Callable[[], None]:
        """Have `heard` called for each message on a subject, over lost connections too; give what ends that."""
        ...

    async def close(self) -> None:
        """Let go of the connection. Whoever waits for an answer hears NoAnswer."""
        ...


class _Question:
    """One question under way: who waits for it, and the answers that came so far when there are several."""

    __slots__ = ("_passes_over", "answered", "so_far")

    def __init__(self, *, many: bool, passes_over: Callable[[Message], bool] | None = None) -> None:
        self._passes_over = passes_over
        self.answered: asyncio.Future[list[Message]] = asyncio.get_running_loop().create_future()
        self.so_far: list[Message] | None = [] if many else None

    def hear(self, message: Message) -> None:
        """Take one answer; what comes once it is answered is of a question that was sent again."""
        if self.answered.done():
            return
        if self._passes_over is not None and self._passes_over(message):
            return
        if self.so_far is None:
            self._settle([message])
            return
        self.so_far.append(message)
        if message.status:
            self._settle(self.so_far)

    def fail(self, why: str) -> None:
        """Say that no answer will come."""
        if not self.answered.done():
            self.answered.set_exception(NoAnswer(why))

    def _settle(self, messages: list[Message]) -> None:
        if not self.answered.done():
            self.answered.set_result(messages)


class NatsWire:
    """A wire that makes a new connection whenever it lost one, to each of the named servers in turn, for ever.

    Only named servers are used: what a cluster tells of further ones may not be reachable from here.

    Bound:     WAITING_MAX questions, UNSENT_BYTES_MAX bytes, one subscription a subject listened to.
    When full: NotSent. Without a connection: the same, but not within WAIT_S_MAX after the loss.
    Thread-safe: no.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._tls = address.context()
        require_creds(address.creds)
        self._servers = list(address.servers)
        random.shuffle(self._servers)
        self._connection: Connection | None = None
        self._absence = Absence()
        self._inbox = f"_INBOX.{os.urandom(12).hex()}"
        self._number = 0
        self._questions: dict[int, _Question] = {}
        self._listeners: dict[object, tuple[str, Callable[[Message], None]]] = {}
        self._numbers: dict[object, int] = {}
        self._returned: list[Callable[[], None]] = []
        self._leaving: Connection | None = None
        self._keeper: asyncio.Task[object] | None = None
        self._is_closed = False
        self._payload_bytes_max = 0
        self.reason = ""

    @property
    def is_connected(self) -> bool:
        """Say whether something could be sent now."""
        return self._connection is not None and self._connection.is_connected

    @property
    def payload_bytes_max(self) -> int:
        """The largest message the server takes that was connected to last, bytes."""
        return self._payload_bytes_max

    def on_return(self, returned: Callable[[], None]) -> None:
        """Have `returned` called whenever a connection that was lost is there again. It must not raise."""
        self._returned.append(returned)

    async def connect(self) -> None:
        """Try every server until one answers. Bounded by whoever calls; `reason` says why the last did not."""
        await self._reconnect()

    async def ask(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        headers: bytes = b"",
        again_s: float | None = None,
        passes_over: Callable[[Message], bool] | None = None,
    ) -> Message:
        """Send a question and give its first answer, within ANSWER_S_MAX. Raises as `Wire.ask`."""
        question = _Question(many=False, passes_over=passes_over)
        [message] = await self._answers(subject, payload, headers, question, again_s=again_s)
        if message.status == NOBODY:
            raise NobodyServes(f"nobody serves {subject}")
        return message

    async def ask_for_many(self, subject: str, payload: bytes, *, within_s: float | None = None) -> list[Message]:
        """Send a question and give its answers. Raises as `Wire.ask`."""
        messages = await self._answers(subject, payload, b"", _Question(many=True), within_s=within_s)
        if messages[-1].status == NOBODY:
            raise NobodyServes(f"nobody serves {subject}")
        return messages

    def listen(self, subject: str, heard: Callable[[Message], None]) -> Callable[[], None]:
        """Have `heard` called for each message on a subject. A second call of what ends it does nothing."""
        me = object()
        self._listeners[me] = (subject, heard)
        if self._connection is not None and self._connection.is_connected:
            self._subscribe(self._connection, me)

        def stop() -> None:
            self._listeners.pop(me, None)
            number = self._numbers.pop(me, None)
            if number is not None and self._connection is not None:
                self._connection.unlisten(number)

        return stop

    async def close(self) -> None:
        """Let go of the connection, and of making another. A second close does nothing."""
        self._is_closed = True
        connection, self._connection = self._connection, None
        if self._keeper is not None:
            self._keeper.cancel()
        if connection is not None:
            connection.sever()
            await connection.close()
        self._absence.end()
        self._fail_all("the journal was closed")

    async def _answers(
        self,
        subject: str,
        payload: bytes,
        headers: bytes,
        question: _Question,
        *,
        within_s: float | None = None,
        again_s: float | None = None,
    ) -> list[Message]:
        """Send, wait and give what came."""
        connection = await self._connected()
        size = len(headers) + len(payload)
        if size > connection.max_payload:
            raise NotSent(f"{size} bytes are more than the {connection.max_payload} that the servers take")
        if self._waiting >= WAITING_MAX or connection.unsent_bytes > UNSENT_BYTES_MAX:
            raise NotSent("the servers do not keep up with what was sent already")
        self._number += 1
        number = self._number
        self._questions[number] = question
        start = f"{subject} {self._inbox}.{number}".encode()
        line = b"HPUB %b %d %d\r\n" % (start, len(headers), size) if headers else b"PUB %b %d\r\n" % (start, size)
        connection.write(line, headers, payload, b"\r\n")
        within_s = min(within_s or ANSWER_S_MAX, ANSWER_S_MAX)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(within_s, question.fail, f"no answer within {within_s:g} s")
        again = None if again_s is None else Repetition(connection, (line, headers, payload, b"\r\n"), again_s)
        try:
            return await question.answered
        finally:
            timer.cancel()
            if again is not None:
                again.stop()
            del self._questions[number]
            if self._leaving is not None:
                self._leave_when_idle()

    @property
    def _waiting(self) -> int:
        """How many questions wait, for their answers or for a connection."""
        return len(self._questions) + self._absence.waiting

    async def _connected(self) -> Connection:
        """Give the connection, or the next one where the last was lost just now.

        Raises:
            NotSent: There is none, or too many wait already.
        """
        if not self.is_connected and self._waiting < WAITING_MAX and not self._is_closed:
            # The loss may not have been told yet.
            self._absence.begin()
            await self._absence.wait()
        connection = self._connection
        if connection is None or not connection.is_connected:
            raise NotSent(f"no server of {self._address} is connected")
        return connection

    def _hear_answer(self, subject: bytes, headers: bytes, payload: bytes) -> None:
        """Hand an answer to its question; one that is not waited for any more is dropped."""
        question = self._questions.get(int(subject[subject.rindex(b".") + 1 :]))
        if question is not None:
            question.hear(_message(headers, payload))

    def _subscribe(self, connection: Connection, me: object) -> None:
        """Listen on a connection for one of those who listen to the wire."""
        subject, heard = self._listeners[me]
        self._numbers[me] = connection.listen(subject, lambda _, headers, payload: heard(_message(headers, payload)))

    async def _reconnect(self) -> None:
        """Try every server in turn until one is connected, with growing pauses between the rounds."""
        clock = asyncio.get_running_loop().time
        pause, told_at = PAUSE_S_MIN, -TOLD_EVERY_S
        while True:
            for _ in range(len(self._servers)):
                self._servers.append(self._servers.pop(0))
                if await self._attempt(self._servers[-1]):
                    return
            if clock() - told_at >= TOLD_EVERY_S:
                told_at = clock()
                log.warning("nats-unreachable", servers=str(self._address), reason=self.reason)
            # Jitter, so that many nodes do not come back to one server at once.
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # nothing secret hangs on it
            pause = min(pause * 2, PAUSE_S_MAX)

    async def _attempt(self, server: Server) -> bool:
        """Connect to one server and listen to all that is listened to; say whether that went well."""
        connection = Connection(
            lambda said: log.warning("nats-refused", server=str(server), text=said), lambda: self._leave(connection)
        )

        async def lost() -> None:
            await self._lost(connection, server)

        try:
            await connection.open(server, self._address, self._tls, lost)
        except FAILURES as error:
            self.reason = f"{server}: {_said(error)}"
            return False
        self._numbers.clear()
        connection.listen(f"{self._inbox}.*", self._hear_answer)
        for me in self._listeners:
            self._subscribe(connection, me)
        self._connection = connection
        self._payload_bytes_max = connection.max_payload
        self._absence.end()
        return True

    def _leave(self, connection: Connection) -> None:
        """Go to another server as soon as no answer is waited for: this one says that it is about to end."""
        if len(self._servers) > 1:
            self._leaving = connection
            self._leave_when_idle()

    def _leave_when_idle(self) -> None:
        connection = self._leaving
        if connection is not None and connection is self._connection and not self._questions:
            # Nothing is sent from here on, so that nothing can be lost without being known not to be sent.
            self._connection = None
            self._absence.begin()
            connection.sever()

    async def _lost(self, connection: Connection, server: Server) -> None:
        """Tell all who wait, then connect again. Runs in the last task of the lost connection."""
        if self._is_closed or self._connection not in (connection, None):
            return
        loop = asyncio.get_running_loop()
        since, self._connection, self._leaving = loop.time(), None, None
        self._absence.begin()
        log.warning("nats-lost", server=str(server))
        self._fail_all("the connection was lost")
        self._keeper = asyncio.current_task()
        await self._reconnect()
        self._keeper = None
        log.info("nats-connected", server=str(self._servers[-1]), seconds=round(loop.time() - since, 3))
        for returned in self._returned:
            returned()

    def _fail_all(self, why: str) -> None:
        for question in self._questions.values():
            question.fail(why)


def _message(headers: bytes, payload: bytes) -> Message:
    """Give what was heard. A server's own word stands in the first line: `NATS/1.0 503`."""
    status = int(headers[9:12]) if headers.startswith(b"NATS/1.0 ") and headers[9:12].isdigit() else 0
    return Message(status, headers, payload)


def header_block(*pairs: tuple[str, str]) -> bytes:
    """Give headers as they are sent."""
    return b"".join([b"NATS/1.0\r\n", *(f"{name}: {value}\r\n".encode() for name, value in pairs), b"\r\n"])


def _said(error: Exception) -> str:
    """Give why a server was not connected, without anything of ours: what these exceptions quote is the server's."""
    text = str(error).removeprefix("nats: ").strip("'").partition("\n")[0]
    return (text[:200] or type(error).__name__) + ca_advice(error)
