"""The line: one WebSocket connection, with an end to all that it waits for and a bound to all that it holds."""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any

from picows import WSMsgType

from app.api.alarm import Alarm
from app.api.asking import MISTAKE
from app.api.capacity import Capacity
from app.api.framing import (
    CLOSE,
    GOING_AWAY,
    INTERNAL_ERROR,
    PING,
    Closing,
    Framing,
    Message,
    close_frame,
    framed,
)
from app.api.talk import Contained
from app.telemetry.log import log
from app.telemetry.metrics import Metrics

UNAUTHENTICATED, FORBIDDEN, TIMED_OUT, UNREAD = 4401, 4403, 4408, 4413
"""Close codes of our own, after the HTTP statuses that say the like."""

ABNORMAL = 1006
"""What is counted for a connection that ends without a close frame; it is never sent."""

STOPPED = "the service is stopping; go on at another node, or again when it is back"


class Line(asyncio.Protocol):
    """The half of a channel that knows its connection: frames, deadlines, back-pressure, the end.

    Bound:     the settings behind `capacity`: a message; bytes that the client does not read; how long half a message,
               a read and a pong may take.
    Order:     of messages: as they came.  Thread-safe: no.

    Whoever makes it lets it `take_over` a connection. What is said on it is the other half's to know.
    """

    wire: asyncio.Transport
    _connections: set[Any]

    def __init__(self, framing: Framing, capacity: Capacity, metrics: Metrics, contained: Contained) -> None:
        self.capacity = capacity
        self._contained = contained
        self.metrics = metrics
        self.loop = loop = asyncio.get_running_loop()
        self.is_unread = self.is_paused = self.is_deaf = False
        self.parted: Closing | None = None
        self._framing = framing
        self._ending: Closing | None = None
        self._held_bytes = self._unread_bytes = 0
        self._awaits_pong = False
        self._ping_s = capacity.settings.ping_ms / 1000
        self._is_read = asyncio.Event()
        self._is_read.set()
        self.has_client_closed = False
        self._message_alarm = Alarm(loop, self._message_overdue)
        self._unread_alarm = Alarm(loop, self._unread_overdue)
        self._pong_alarm = Alarm(loop, self._ping)
        self._end_alarm = Alarm(loop, self.abort)

    # What the other half says.

    def begin(self) -> None:
        """Begin: the handshake is answered."""
        raise NotImplementedError  # The other half says how; neither is a line without the other.

    def take(self, messages: Sequence[Message]) -> None:
        """Take messages that came."""
        raise NotImplementedError  # The other half says how; neither is a line without the other.

    def go_on(self) -> None:
        """Go on after a pause: the client has read, or the line is to end."""
        raise NotImplementedError  # The other half says how; neither is a line without the other.

    def forget(self) -> None:
        """Let go of what came and was not begun."""
        raise NotImplementedError  # The other half says how; neither is a line without the other.

    def leave(self) -> None:
        """Let go of everything: the line has ended."""
        raise NotImplementedError  # The other half says how; neither is a line without the other.

    @property
    def is_busy(self) -> bool:
        """Say whether something came that has no answer."""
        raise NotImplementedError  # The other half says how; neither is a line without the other.

    @property
    def unanswered_bytes(self) -> int:
        """Say how many bytes of messages without an answer are held."""
        raise NotImplementedError  # The other half says how; neither is a line without the other.

    # Coming and going.

    def take_over(self, wire: asyncio.Transport, connections: set[Any], *, head: bytes, early: bytes = b"") -> None:
        """Take over a connection: answer its handshake with `head`, and go on with what came `early`, behind it."""
        self.wire, self._connections = wire, connections
        connections.add(self)
        self.metrics.open_channels += 1
        wire.set_protocol(self)
        wire.write(head)
        self.is_paused = True
        if wire.is_reading():
            wire.pause_reading()
        # In a context of its own: it is no part of the request that opened it.
        self.loop.call_soon(self.contained, self._begin, early, context=Context())

    def _begin(self, early: bytes) -> None:
        if self.parted is None:
            self.begin()
            self._take(early)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give back what is held. What is under way is decided all the same, and its keys tell of it later."""
        self._connections.discard(self)
        self.parted = self.parted or Closing(ABNORMAL)
        self.is_deaf = True
        self.metrics.open_channels -= 1
        self.metrics.channel_closed(self.parted.code)
        self._be_still()
        self._end_alarm.stop()
        self.leave()
        self._give_back_unread()
        self.capacity.body_bytes -= self._held_bytes
        self._held_bytes = 0

    def contained(self, work: Callable[..., None], *given: Any) -> None:
        """Do some work; a fault in it ends this line, and nothing else."""
        fault = self._contained(work, *given)
        if fault is not None:
            log.error("fault", exc_info=fault)
            self.metrics.problem(MISTAKE.name)
            self.part(Closing(INTERNAL_ERROR, MISTAKE.detail))

    # What comes.

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        self.contained(self._take, data)

    def _take(self, data: bytes) -> None:
        framing = self._framing
        was_partial = framing.held_bytes > 0
        messages = framing.read(data)
        if self.is_deaf:
            self._look_for_close(messages)
            return
        self._awaits_pong = False
        self._pong_alarm.set(self._ping_s)
        if not framing.held_bytes:
            self._message_alarm.clear()
        elif messages or not was_partial:
            self._message_alarm.set(self.capacity.body_s)
        if framing.violation is not None:
            self.end(framing.violation)
        self.take(messages)

    def account(self) -> int:
        """Count what is held of messages without an answer, and give what all connections hold."""
        held = self._framing.held_bytes + self.unanswered_bytes
        self.capacity.body_bytes += held - self._held_bytes
        self._held_bytes = held
        return self.capacity.body_bytes

    def settle(self, *, may_read: bool) -> None:
        """Read on, or let the client wait; end, when that was asked for and there is nothing more to say."""
        must_wait = not may_read and not self.is_deaf
        if must_wait is not self.is_paused and not self.wire.is_closing():
            self.is_paused = must_wait
            if must_wait:
                self.wire.pause_reading()
            else:
                self.wire.resume_reading()
        if self._ending is not None and not self.is_busy:
            self.part(self._ending)

    def _look_for_close(self, messages: Sequence[Message]) -> None:
        """Read on only to see the other side close."""
        if any(kind is CLOSE for kind, _ in messages):
            self.has_client_closed = True
            if self.parted is not None:
                self.wire.close()

    # What goes.

    def say(self, kind: WSMsgType, *messages: bytes) -> None:
        """Send messages, unless nobody can read them any more."""
        self.send(b"".join([framed(kind, message) for message in messages]))

    def send(self, frames: bytes) -> None:
        """Send whole frames, unless nobody can read them any more."""
        if not frames or self.parted is not None or self.wire.is_closing():
            return
        if not self.is_unread or self._count_unread(len(frames)):
            self.wire.write(frames)

    async def sent(self, frames: bytes) -> None:
        """Send whole frames, and wait until the client has read enough for more."""
        self.send(frames)
        await self._is_read.wait()

    def pause_writing(self) -> None:
        """Take nothing, and say nothing that was not asked for, until the client reads; for so long."""
        self.is_unread = True
        self._is_read.clear()
        self._unread_alarm.set(self.capacity.write_s)
        self._count_unread(self.wire.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        self.is_unread = False
        self._is_read.set()
        self._unread_alarm.clear()
        self._give_back_unread()
        if self.parted is None:
            self.loop.call_soon(self.contained, self.go_on)

    def _count_unread(self, size: int) -> bool:
        """Count bytes that wait for the client; False when that is too much, which ends the line."""
        most = self.capacity.settings.channel_unread_bytes_max
        if self._unread_bytes + size > most or not self.capacity.take_unread(size):
            self.part(Closing(UNREAD, "the client does not read, and too much waits for it"))
            return False
        self._unread_bytes += size
        return True

    def _give_back_unread(self) -> None:
        self.capacity.unread_bytes -= self._unread_bytes
        self._unread_bytes = 0

    # Deadlines.

    def _message_overdue(self) -> None:
        if self.is_paused:
            # It is the service that does not read: no fault of the client.
            self._message_alarm.set(self.capacity.body_s)
            return
        limit = self.capacity.settings.body_ms_max
        self.break_off(Closing(TIMED_OUT, f"a message did not come within {limit} ms"))

    def _unread_overdue(self) -> None:
        limit = self.capacity.settings.write_ms_max
        self.part(Closing(UNREAD, f"the client did not read for {limit} ms"))

    def _ping(self) -> None:
        """Ask a silent client for a sign of life, and end the line of one that gave none."""
        settings = self.capacity.settings
        if self.is_paused:
            # It is the service that does not listen.
            self._pong_alarm.set(self._ping_s)
        elif self._awaits_pong:
            self.break_off(Closing(TIMED_OUT, f"no pong came within {settings.pong_ms_max} ms"))
        else:
            self._awaits_pong = True
            self.say(PING, b"")
            self._pong_alarm.set(settings.pong_ms_max / 1000)

    # When the service stops.

    def drain(self) -> None:
        """Go on: from now on each command is told that the service is stopping."""

    def shutdown(self) -> None:
        """Leave behind the answers to what came."""
        self.end(Closing(GOING_AWAY, STOPPED))
        self.contained(self.go_on)

    def abort(self) -> None:
        """Close without waiting for anything."""
        self.wire.abort()

    # Its end.

    def break_off(self, closing: Closing) -> None:
        """End behind the answers to what is under way; what came behind that is not begun."""
        self.end(closing)
        self.contained(self._break_off)

    def _break_off(self) -> None:
        self.forget()
        self.go_on()

    def end(self, closing: Closing) -> None:
        """Take no more, and close when all that came is answered."""
        self._ending = self._ending or closing
        self.is_deaf = True
        self._message_alarm.clear()

    def part(self, closing: Closing) -> None:
        """Say why, and close once the client has closed too, or does not in time."""
        if self.parted is not None:
            return
        self.parted, self.is_deaf = closing, True
        self._be_still()
        self.leave()
        if self.wire.is_closing():
            return
        self.wire.write(close_frame(closing))
        self._end_alarm.set(self.capacity.linger_s)
        if self.has_client_closed:
            self.wire.close()
        elif self.is_paused:
            self.is_paused = False
            self.wire.resume_reading()

    def _be_still(self) -> None:
        """Have no deadline any more but that of the end."""
        for alarm in (self._message_alarm, self._unread_alarm, self._pong_alarm):
            alarm.stop()
