"""Connections: how long each may take, in what order it is answered, and what it is told at its end."""

import asyncio

from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from app.api.alarm import Alarm
from app.api.capacity import STOPPING, Capacity
from app.api.channel import Channel
from app.api.intake import BODY, HEAD, LEAVING, SILENCE, Intake, LastRequest
from app.api.lane import Lane, LaneRequest
from app.api.outlet import Outlet, last_words
from app.api.problems import ProblemError
from app.api.spout import CYCLE, STREAMED
from app.api.switching import SWITCHING, switching

READS = ("GET", "HEAD", "OPTIONS")
"""Methods that ask for no decision: they are answered to the end."""

BODILESS = (*READS, "DELETE")
"""Methods whose routes wait for no body: what they ask may be decided while one is still being sent."""


class Connection(Intake):
    """One connection: uvicorn's, with an end to all that it waits for and a bound to all that it holds.

    Bound:     the settings behind `capacity`. Beyond one, the client is told the problem in its turn, after the answers
               to what it asked before, and the connection is closed.
    Order:     of answers: of requests.
    """

    lane: Lane | None = None
    _answering: RequestResponseCycle | None = None
    _parting: ProblemError | None = None
    _unread_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Take a connection, or tell it that there are too many."""
        limit = self.capacity.settings.connections_open_max
        is_one_too_many = len(self.connections) >= limit
        super().connection_made(transport)
        self._wire = transport
        self.transport = self._outlet = Outlet(transport, self.leave)
        self.alarm = Alarm(self.loop, self._overdue)
        self._unread_alarm = Alarm(self.loop, self.abort)
        if is_one_too_many:
            self.connections.discard(self)
            self._say(ProblemError("too-many-connections", "as many connections are open as may be", limit=limit))
            self._close()
            return
        transport.set_write_buffer_limits(high=self.capacity.settings.write_buffer_bytes_max)
        self.alarm.set(self.capacity.first_byte_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give back what was held; a request under way learns that nobody waits for its answer."""
        self._end_phases()
        if self._answering is not None and not self._answering.response_complete:
            self._abandon(self._answering)
        self.pipeline.clear()
        super().connection_lost(exc)
        self._release()

    # What the service answers.

    def data_received(self, data: bytes) -> None:
        """Take what came: at once, when it is a request of the lane whose head was read before, else piece by piece."""
        lane, newest = self.lane, self.cycle
        is_answered = newest is None or newest.response_complete  # type: ignore[redundant-expr]  # it starts as None
        if lane is None or not is_answered or self.phase is not SILENCE or self.is_deaf or self.held_back is not None:
            super().data_received(data)
            return
        request = None if self.capacity.is_draining else lane.take_again(self, data)
        if request is not None and self.capacity.has_room(len(request.body)):
            self.capacity.body_bytes += len(request.body)
            self.held_bytes += len(request.body)
            self.alarm.clear()
            self.cycle = self._answering = request
            request.begin()
            return
        super().data_received(data)
        if self.phase is SILENCE and self.cycle is not newest and isinstance(self.cycle, LaneRequest):
            lane.learn(self.cycle, data)

    def begin_request(self) -> None:
        """Have a request answered in its turn: in the lane where it can be, else by the application."""
        request = None if self.lane is None or self.capacity.is_draining else self.lane.take(self)
        if request is None:
            super().begin_request()
            return
        before, self.cycle = self.cycle, request
        if before is None or before.response_complete:  # type: ignore[redundant-expr]  # it starts as None
            self._answering = request
            request.begin()
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((request, self.app))

    def hand_over(self, request: LaneRequest) -> None:
        """Have the application answer a request of the lane, whose turn it is."""
        cycle = request.ordinary()
        if self.cycle is request:
            self.cycle = cycle
        self._start_asgi_task(cycle, self.app)

    def answer(self, request: LaneRequest, answer: bytes) -> None:
        """Send the whole answer of the lane to the request being answered, and go on; nothing, when its client left."""
        if request.disconnected:
            return
        request.response_started = request.response_complete = True
        if not self.transport.is_closing():
            self.transport.write(answer)
            if not request.keep_alive:
                self.leave()
        self.on_response_complete()

    def _start(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Start the answer to a request that waited behind others."""
        if isinstance(cycle, LaneRequest):
            self._answering = cycle
            # Not from within the turn that answered the one before, nor one inside the other.
            self.loop.call_soon(self._begin, cycle)
        else:
            self._start_asgi_task(cycle, app)

    def _begin(self, request: LaneRequest) -> None:
        if self.capacity.is_draining:
            self.hand_over(request)
        else:
            request.begin()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Start the answer to a request; while the service drains, commands are turned away, all else is the last."""
        self._answering = cycle
        if self.capacity.is_draining:
            cycle.keep_alive = False
            if cycle.scope["method"] not in READS:
                app = self.capacity.refusing()  # type: ignore[assignment]  # Starlette's type of the same
        if cycle.scope["path"].endswith(STREAMED):
            cycle.scope[CYCLE] = cycle  # type: ignore[literal-required]  # ours, for what streams
        if "extensions" in cycle.scope:
            app = switching(app, self._switch)  # type: ignore[arg-type,assignment]  # see above
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Go on with the next request, say what was held back, or wait for more."""
        self.server_state.total_requests += 1
        if not self.pipeline:
            self.give_back_body()
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            if self.phase is BODY:
                self.alarm.set(self.capacity.body_s)
            self._start(*self.pipeline.pop())
        elif self._parting is not None:
            self._part(self._parting)
        elif self.phase is SILENCE:
            self.alarm.set(self.capacity.idle_s)
        if self.held_back is not None and self.cycle.response_complete:
            self.read_held_back()

    def pause_writing(self) -> None:
        """Wait until the client reads: for so long, and while all such clients leave no more than so much unread."""
        super().pause_writing()
        size = self._wire.get_write_buffer_size()
        if not self.capacity.take_unread(size):
            self.abort()
            return
        self._unread_bytes += size
        self._unread_alarm.set(self.capacity.write_s)

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        self._unread_alarm.clear()
        self._give_back_unread()
        super().resume_writing()
        if isinstance(self._answering, LaneRequest):
            self._answering.resume()

    def _switch(self, to: Channel, fields: list[tuple[bytes, bytes]]) -> None:
        """Hand the connection to a channel, which its route has agreed to: its deadlines are the channel's now."""
        cycle = self.cycle
        cycle.response_started = cycle.response_complete = True
        if cycle.disconnected or self._wire.is_closing():
            return
        self.server_state.total_requests += 1
        self.connections.discard(self)
        self._end_phases()
        self._release()
        lines = b"".join(b"%b: %b\r\n" % field for field in (*self.server_state.default_headers, *fields))
        to.take_over(
            self._wire, self.connections, head=STATUS_LINE[SWITCHING] + lines + b"\r\n", early=self.held_back or b""
        )
        if self.capacity.is_draining:
            to.shutdown()

    # When the service stops.

    def drain(self) -> None:
        """Let what is answered now be the last of this connection."""
        if self._is_answering():
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        """Leave: at once, or behind the answers that are under way. Half a head is told that the service stops."""
        if self._is_answering():
            self.cycle.keep_alive = False
        elif self.phase is HEAD:
            self._fail(ProblemError("draining", STOPPING))
        else:
            self.leave()

    def expire(self) -> None:
        """Leave now. A request without an answer is told what is known: nothing came of half a body."""
        answering = self._answering
        if answering is None or answering.response_started:
            self.abort()
            return
        method = answering.scope["method"]
        is_undecided = method in READS or (answering.more_body and method not in BODILESS)
        unknown = "the service stopped before it was known; the same key settles what became of it"
        self.pipeline.clear()
        self._abandon(answering)
        self._part(ProblemError("draining", STOPPING) if is_undecided else ProblemError("commit-unknown", unknown))

    def abort(self) -> None:
        """Close without waiting for anything."""
        self._wire.abort()

    # Its end.

    def _overdue(self) -> None:
        """End what took too long."""
        if self.phase is LEAVING:
            self.abort()
        elif self.phase is SILENCE:
            self.leave()
        elif self.flow.read_paused:
            # It is the service that does not read: no fault of the client.
            self.alarm.set(self.capacity.body_s)
        else:
            settings = self.capacity.settings
            limit = settings.head_ms_max if self.phase is HEAD else settings.body_ms_max
            detail = f"the {self.phase.name.lower()} did not come within {limit} ms"
            self._fail(ProblemError("request-timeout", detail, limit=limit))

    def take_no_more(self, why: BaseException | None) -> None:
        """Tell the client the problem in its turn; behind the last request there is nothing to tell."""
        if not isinstance(why, LastRequest):
            self._fail(why if isinstance(why, ProblemError) else ProblemError("malformed-http", "this is no HTTP/1.1"))

    def _fail(self, problem: ProblemError) -> None:
        """Take no more, and tell the client why, after the answers to what it asked before."""
        self.is_deaf = True
        self.alarm.clear()
        if self.phase is BODY:
            cycle = self.cycle
            if self.pipeline and self.pipeline[0][0] is cycle:
                self.pipeline.popleft()
            elif cycle.response_started:
                self.leave()
                return
            elif cycle.scope["method"] in BODILESS:
                # It may be decided already: its answer is the truth, and the last of this connection.
                cycle.keep_alive = False
                return
            else:
                self._abandon(cycle)
        if self._is_answering():
            self._parting = problem
        else:
            self._part(problem)

    def _abandon(self, cycle: RequestResponseCycle) -> None:
        """Take a request from its route, which learns that the client has gone."""
        cycle.disconnected = True
        cycle.message_event.set()
        if isinstance(cycle, LaneRequest):
            cycle.leave()
        self._answering = None

    def _part(self, problem: ProblemError) -> None:
        """Say the last words, and leave."""
        self._say(problem)
        self.leave()

    def _say(self, problem: ProblemError) -> None:
        self.capacity.told(problem.name)
        if not self._wire.is_closing():
            headers, retry_after = self.server_state.default_headers, self.capacity.settings.retry_after_s
            self._wire.write(last_words(problem, headers, retry_after=retry_after))

    def leave(self) -> None:
        """Close; when more may come, only the sending side at first, and drop for a while what does come.

        Closed at once with bytes unread, the system would take the answer back before the client has read it.
        """
        if self.phase is LEAVING:
            return
        if (self.phase is SILENCE and not self.is_deaf) or self._wire.is_closing():
            self._close()
            return
        self._end_phases()
        self.give_back_body()
        self._wire.write_eof()
        self.flow.resume_reading()
        self.alarm.set(self.capacity.linger_s)

    def _close(self) -> None:
        """Close once all is sent, for which there is a deadline too."""
        self._end_phases()
        self._wire.close()
        self.alarm.set(self.capacity.write_s)

    def _end_phases(self) -> None:
        self.phase, self.is_deaf = LEAVING, True
        self._outlet.shut()

    def _is_answering(self) -> bool:
        return self._answering is not None and not self._answering.response_complete

    def _release(self) -> None:
        """Give back whatever is held."""
        self.alarm.stop()
        self._unread_alarm.stop()
        self.give_back_body()
        self._give_back_unread()

    def _give_back_unread(self) -> None:
        self.capacity.unread_bytes -= self._unread_bytes
        self._unread_bytes = 0


def connections(capacity: Capacity, lane: Lane | None = None) -> type[Connection]:
    """Give the class of connections that share `capacity` and a lane, as uvicorn wants it."""
    return type("Connection", (Connection,), {"capacity": capacity, "lane": lane})
