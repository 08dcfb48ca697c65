"""The channel: commands go into a scene on one connection and answers come out of it, many under way."""

from collections import deque
from collections.abc import Sequence
from functools import partial

from picows import WSMsgType

from app.api.alarm import Alarm
from app.api.asking import note_refusals
from app.api.capacity import Capacity
from app.api.following import Following
from app.api.formats import JSON
from app.api.framing import (
    BINARY,
    CLOSE,
    GOING_AWAY,
    INVALID_TEXT,
    PING,
    PONG,
    TEXT,
    TRY_AGAIN_LATER,
    UNSUPPORTED_DATA,
    Closing,
    Framing,
    Message,
    closing_of,
)
from app.api.line import FORBIDDEN, STOPPED, UNAUTHENTICATED, Line
from app.api.problems import ProblemError
from app.api.reminding import Reminding
from app.api.talk import Outcome, Said, Talk, Wish
from app.journal.port import CommitUnknown
from app.sequencing.mailbox import Addressed
from app.sequencing.pace import WORK_S_MAX


class Group:
    """Messages that go to the scene together, until they are answered; their bytes, and the commands in them."""

    __slots__ = ("commands", "said", "size")

    def __init__(self) -> None:
        self.said: list[Said] = []
        self.size = 0
        self.commands = 0


class Channel(Line):
    """One channel.

    Bound:     as `Line`; and `channel_commands_max` commands under way, with a body's bytes at most and one message
               more. While so much is under way, nothing is read.
    Order:     commands are decided in the order they came; answers may come in another, and are told by their ids.

    However it ends: what was sent to the scene is decided, and answered if the client is still there.
    """

    def __init__(self, talk: Talk, framing: Framing, capacity: Capacity) -> None:
        super().__init__(framing, capacity, talk.service.metrics, talk.service.contained)
        self._talk = talk
        self._kind = TEXT if talk.form is JSON else BINARY
        self._waiting: deque[Message] = deque()
        self._waiting_bytes = 0
        self._groups: set[Group] = set()
        self._under_way = self._under_way_bytes = 0
        self._is_scheduled = False
        self._following = Following(self, talk, self._kind)
        self._reminding = Reminding(self, talk, self._kind)
        self._caller_alarm = Alarm(self.loop, self._look_again)

    # What comes.

    def begin(self) -> None:
        """Begin to look, now and then, whether the caller may still be here."""
        self._caller_alarm.set(self.capacity.settings.channel_caller_ms / 1000)

    def take(self, messages: Sequence[Message]) -> None:
        """Take messages, and have decided what may be."""
        self._waiting.extend(messages)
        self._waiting_bytes += sum([len(data) for _, data in messages])
        if self.account() > self.capacity.bodies_bytes_max:
            self.forget()
            self.end(Closing(TRY_AGAIN_LATER, "the bodies under way hold as much as they may together"))
        self.go_on()

    def go_on(self) -> None:
        """Have what waits decided, as far as it may be now, and not for long; then read on, or end."""
        until = self.loop.time() + WORK_S_MAX
        while self._waiting and self._may_take:
            if self.loop.time() >= until:
                if not self._is_scheduled:
                    self._is_scheduled = True
                    self.loop.call_soon(self.contained, self._go_on_later)
                break
            self._send(self._group(until))
        self.settle(may_read=not self._waiting and self._may_take)

    def _go_on_later(self) -> None:
        self._is_scheduled = False
        self.go_on()

    @property
    def _may_take(self) -> bool:
        """Say whether more may be under way."""
        return (
            not self.is_unread
            and self._under_way < self.capacity.settings.channel_commands_max
            and self._under_way_bytes < self.capacity.body_bytes_max
            and self.parted is None
        )

    def _group(self, until: float) -> Group:
        """Read what waits: as much as may be under way, and not for long."""
        group, waiting, kind, heard = Group(), self._waiting, self._kind, self._talk.heard
        room = self.capacity.settings.channel_commands_max - self._under_way
        room_bytes = self.capacity.body_bytes_max - self._under_way_bytes
        self._talk.expect(min(len(waiting), room))
        while waiting and group.commands < room and group.size < room_bytes:
            came, data = waiting.popleft()
            self._waiting_bytes -= len(data)
            if came is not kind:
                self._heed(came, data)
                continue
            said = heard(data)
            group.said.append(said)
            group.commands += said.commands
            group.size += len(data)
            if type(said.what) is not Addressed:
                self._heed_other(said, data)
            if self.loop.time() >= until:
                break
        return group

    def _heed(self, kind: WSMsgType, data: bytes) -> None:
        """Do what a message asks that is none of the sub-protocol's."""
        if kind is PING:
            self.say(PONG, data)
        elif kind is CLOSE:
            self.forget()
            self.has_client_closed = True
            self.end(closing_of(data))
        elif kind is not PONG:
            self.forget()
            taken = "text" if self._kind is TEXT else "binary"
            self.end(Closing(UNSUPPORTED_DATA, f"this sub-protocol has {taken} messages"))

    def _heed_other(self, said: Said, data: bytes) -> None:
        """Do what a message asks that is no command, or end where what could not be read is not even text."""
        if type(said.what) is Wish:
            self._following.wished(said)
        elif self._kind is TEXT:
            try:
                data.decode()
            except UnicodeDecodeError:
                self.forget()
                self.end(Closing(INVALID_TEXT, "a text message is UTF-8"))

    # What is decided.

    def _send(self, group: Group) -> None:
        """Have a group decided; it is answered at once when there is nothing to decide in it."""
        if not group.said:
            return
        self._groups.add(group)
        self._under_way += group.commands
        self._under_way_bytes += group.size
        self.metrics.channel_messages += len(group.said)
        commands = [said.what for said in group.said if type(said.what) is Addressed]
        problem = self._talk.send(commands, partial(self._replied, group)) if commands else None
        if problem is not None or not commands:
            self._finish(group, problem or [])

    def _replied(self, group: Group, outcome: Outcome) -> None:
        """Hear what became of a group, in the midst of its scene's turn: what is made of it does not belong there."""
        self.loop.call_soon(self.contained, self._answer, group, outcome)

    def _answer(self, group: Group, outcome: Outcome) -> None:
        if not isinstance(outcome, Exception):
            note_refusals(self._talk.service.security.quota, self._talk.caller, outcome)
            if group.commands > len(group.said) and self.parted is None:
                self._reminding.answered(group.said, outcome)
        self._finish(group, outcome)
        if self.parted is None:
            self.go_on()

    def _finish(self, group: Group, outcome: Outcome) -> None:
        """Answer a group, unless it was told already that nobody knows."""
        if group not in self._groups:
            return
        self._groups.discard(group)
        self._under_way -= group.commands
        self._under_way_bytes -= group.size
        if self.parted is None:
            self.account()
            self.say(self._kind, *self._talk.answers(group.said, outcome))

    # Its end.

    @property
    def is_busy(self) -> bool:
        """Say whether something came that has no answer."""
        return bool(self._waiting or self._groups)

    @property
    def unanswered_bytes(self) -> int:
        """Say how many bytes of messages without an answer are held."""
        return self._waiting_bytes + self._under_way_bytes

    def forget(self) -> None:
        """Let go of what came and was not begun."""
        self._waiting.clear()
        self._waiting_bytes = 0

    def leave(self) -> None:
        """Let go of everything."""
        self.forget()
        self._caller_alarm.stop()
        self._following.close()
        self._reminding.close()

    def expire(self) -> None:
        """Leave now; what has no answer yet is told that nobody knows."""
        self.contained(self._expire)

    def _expire(self) -> None:
        for group in list(self._groups):
            self._finish(group, CommitUnknown("the service stopped before it was known; the same key settles it"))
        self.forget()
        self.part(Closing(GOING_AWAY, STOPPED))

    def _look_again(self) -> None:
        """See that the caller may still be here."""
        self._caller_alarm.set(self.capacity.settings.channel_caller_ms / 1000)
        try:
            self._talk.look_again()
        except ProblemError as problem:
            self._caller_alarm.stop()
            code = UNAUTHENTICATED if problem.name == "unauthenticated" else FORBIDDEN
            self.break_off(Closing(code, problem.detail))
