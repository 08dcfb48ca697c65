"""Intake: what the client of one connection sends, taken piece by piece, and how much of it is too much."""

from enum import Enum, auto

import httptools
from uvicorn._types import HTTPScope
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.api.alarm import Alarm
from app.api.capacity import Capacity
from app.api.lane import LaneRequest
from app.api.problems import ProblemError
from app.api.switching import SWITCHES

_OF_AN_UPGRADE = (b"upgrade", b"http2-settings", b"connection")


class Phase(Enum):
    """What a connection waits for from its client."""

    SILENCE = auto()
    """Nothing, or the first byte of a request."""
    HEAD = auto()
    """The rest of a head."""
    BODY = auto()
    """The rest of a body."""
    LEAVING = auto()
    """Its end: what comes is dropped, and nothing is sent any more."""


SILENCE, HEAD, BODY, LEAVING = Phase
"""The same by name: to look a member up in its class is a call, for every field of every request."""


class LastRequest(Exception):
    """No request behind the newest one is taken from this connection."""


class Intake(HttpToolsProtocol):
    """The reading half of a connection: uvicorn's parser callbacks, each within its bound.

    Bound:     the settings behind `capacity`. What goes beyond is told to `take_no_more`, and nothing is read after it.
    """

    capacity: Capacity
    alarm: Alarm
    phase = SILENCE
    url = b""
    is_deaf = False
    held_bytes = 0
    _is_brief = False
    _head_bytes = 0
    _unended_bytes = 0
    _body_bytes = 0
    _body_items = 0
    _dropped_bytes = 0
    _asks_to_switch = False
    held_back: bytes | None = None

    def take_no_more(self, why: BaseException | None) -> None:
        """End the reading: because of a problem, because the newest request is the last, or because it is no HTTP."""
        raise NotImplementedError  # The half that writes says how; there is no reading without it.

    def data_received(self, data: bytes) -> None:
        """Take what came, or drop it when nothing more is taken."""
        if self.is_deaf:
            self._drop(data)
            return
        if self.held_back is not None:
            self._hold_back(data)
            return
        was, request, body_bytes = self.phase, self.headers, self._body_bytes
        # No head that begins and ends in so little can be too large: then nobody counts, field by field.
        self._is_brief = was is SILENCE and len(data) <= self.capacity.head_bytes_max
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._go_on_without_upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError as error:
            self.is_deaf = True
            self.take_no_more(error.__context__)
            return
        if self.phase is SILENCE:
            return
        if self._is_brief:
            self._head_bytes += sum(len(name) + len(value) for name, value in self.headers)
        if self.phase is not was or self.headers is not request:
            self.alarm.set(self.capacity.head_s if self.phase is HEAD else self.capacity.body_s)
        elif self._body_bytes == body_bytes:
            self._count_unended(len(data))

    def on_message_begin(self) -> None:
        """Begin a request, unless those before it are as many as wait here, or said that they are the last.

        Raises:
            LastRequest: Neither this request nor any behind it is taken.
        """
        if self.is_deaf:
            raise LastRequest
        newest = self.cycle
        if newest is not None and not newest.response_complete:  # type: ignore[redundant-expr]  # it starts as None
            if len(self.pipeline) >= self.capacity.pipelined_requests_max:
                newest.keep_alive = False
            if not newest.keep_alive:
                raise LastRequest
        self.url, self.headers, self.expect_100_continue = b"", [], False
        self.phase = HEAD
        self._head_bytes = self._unended_bytes = self._body_bytes = self._body_items = 0

    def on_url(self, url: bytes) -> None:
        """Take a part of the target.

        Raises:
            ProblemError: `target-too-long`.
        """
        self.url += url
        limit = self.capacity.target_bytes_max
        if len(self.url) > limit:
            raise ProblemError("target-too-long", f"the target is longer than {limit} bytes", limit=limit)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field of the head; one behind the body is counted and dropped, for the route has read the head.

        Raises:
            ProblemError: `head-too-large`, or `too-large` for what a body says of itself.
        """
        if not self._is_brief or self.phase is not HEAD:
            self._head_bytes += len(name) + len(value)
            if self._head_bytes > self.capacity.head_bytes_max:
                raise self._head_too_large()
            if self.phase is not HEAD:
                return
            self._require_few_fields(len(self.headers) + 1)
        name = name.lower()
        self.headers.append((name, value))
        if name == b"content-length":
            if int(value) > self.capacity.body_bytes_max:
                raise self._body_too_large()
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True

    def on_headers_complete(self) -> None:
        """Start the request, unless it asks for another protocol: the parser says that once more behind the head.

        Raises:
            ProblemError: `malformed-http` for a tunnel, `head-too-large` for too many fields.
        """
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise ProblemError("malformed-http", "there is no tunnel here")
            return
        self._require_few_fields(len(self.headers))
        self.begin_request()
        self.phase, self._unended_bytes = BODY, 0
        if self.expect_100_continue:
            # Told no at once, such a client may or may not send the body: what comes next could be either.
            self.cycle.keep_alive = False

    def begin_request(self) -> None:
        """Have the request whose head is complete answered by the application, in its turn."""
        self.scope = self.scope_of(self.headers)
        if self._asks_to_switch:
            self.scope["extensions"] = {SWITCHES: {"capacity": self.capacity}}
        super().on_headers_complete()

    def scope_of(self, headers: list[tuple[bytes, bytes]]) -> HTTPScope:
        """Give the scope of a request with these fields, as uvicorn begins it; what is being read stays as it is."""
        reading = self.url, self.headers, self.expect_100_continue, self.scope
        super().on_message_begin()
        begun = self.scope
        self.url, self.headers, self.expect_100_continue, self.scope = reading
        begun["headers"] = headers
        return begun

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body; its bytes and its pieces are counted, for each piece costs time.

        Raises:
            ProblemError: `too-large`, or `overloaded` when all bodies together are.
        """
        size = len(body)
        self._unended_bytes = 0
        self._body_bytes += size
        self._body_items += 1
        if self._body_bytes > self.capacity.body_bytes_max:
            raise self._body_too_large()
        if self._body_items > (limit := self.capacity.body_items_max):
            raise ProblemError("too-large", f"the body comes in more than {limit} pieces", limit=limit)
        cycle = self.cycle
        if cycle.response_complete:
            return
        self.capacity.take_body(size)
        self.held_bytes += size
        cycle.body += body
        if type(cycle) is LaneRequest:
            return
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        """End a request: the next may begin when it is answered, or before."""
        if self.parser.should_upgrade():
            return
        self.phase = SILENCE
        cycle = self.cycle
        if cycle.response_complete:
            self.alarm.set(self.capacity.idle_s)
            return
        self.alarm.clear()
        if type(cycle) is LaneRequest:
            cycle.complete()
            return
        cycle.more_body = False
        cycle.message_event.set()

    def give_back_body(self) -> None:
        """Let go of the bodies that were held."""
        self.capacity.body_bytes -= self.held_bytes
        self.held_bytes = 0

    def _drop(self, data: bytes) -> None:
        """Drop what comes too late: as much as a body may be, then let the client wait for the end."""
        self._dropped_bytes += len(data)
        if self._dropped_bytes > self.capacity.body_bytes_max:
            self.flow.pause_reading()

    def _count_unended(self, size: int) -> None:
        """Count what came without ending anything: the parser tells of a field only when the next begins."""
        self._unended_bytes += size
        if self._unended_bytes > self.capacity.head_bytes_max:
            self.is_deaf = True
            self.take_no_more(self._head_too_large())

    def _require_few_fields(self, count: int) -> None:
        limit = self.capacity.header_items_max
        if count > limit:
            raise ProblemError("head-too-large", f"the head has more than {limit} fields", limit=limit)

    def _head_too_large(self) -> ProblemError:
        limit = self.capacity.head_bytes_max
        return ProblemError("head-too-large", f"the fields of the head are larger than {limit} bytes", limit=limit)

    def _body_too_large(self) -> ProblemError:
        limit = self.capacity.body_bytes_max
        return ProblemError("too-large", f"the body is larger than {limit} bytes", limit=limit)

    def _go_on_without_upgrade(self, rest: bytes) -> None:
        """Take a request as if it had not asked for another protocol, which a server may pass over.

        The parser passes over the body of a request that asks for one, so it gets the head anew, without the question.
        Whether a WebSocket begins is its route's to say: what comes behind such a request waits for that.
        """
        self._asks_to_switch = self._get_upgrade() == b"websocket" and self.parser.get_method() == b"GET"
        fields = [(name, value) for name, value in self.headers if name not in _OF_AN_UPGRADE]
        line = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        head = line + b"".join(b"%b: %b\r\n" % field for field in fields)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        if not self._asks_to_switch:
            self.data_received(head + b"\r\n" + rest)
            return
        self.data_received(head + b"\r\n")
        self._asks_to_switch = False
        if not self.is_deaf:
            self._hold_back(rest)

    def _hold_back(self, data: bytes) -> None:
        """Hold what comes behind a request that asks for a WebSocket, and let the client wait."""
        self.held_back = (self.held_back or b"") + data
        self.flow.pause_reading()

    def read_held_back(self) -> None:
        """Take what was held back: there is no WebSocket."""
        held, self.held_back = self.held_back, None
        if held:
            self.data_received(held)
