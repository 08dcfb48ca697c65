"""The sync watch: a scene's decisions as they become visible, resumed where a connection was lost."""

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

import httpx

from posegate_client.call import Reply
from posegate_client.feed import FeedItem
from posegate_client.sending import WATCH_HEADERS, said_by
from posegate_client.watching import Watching


class Watch:
    """An iterator over what is decided in a scene. Close it, or use it in `with`.

    It holds the items of one piece of the stream and nothing more: who takes slowly keeps nobody waiting. A break of
    the iteration leaves it where it is; to iterate again goes on there. One thread at a time may iterate.
    """

    def __init__(self, http: httpx.Client, state: Watching, present: Callable[[], int]) -> None:
        self._http = http
        self._state = state
        self._present = present
        self._response: httpx.Response | None = None
        self._chunks: Iterator[bytes] | None = None
        self._is_closed = False

    @property
    def place(self) -> int | None:
        """The sequence up to which everything was given: where another watch goes on. None before the first."""
        return self._state.given

    def __enter__(self) -> Self:
        """Begin now: what is decided from here on is told. Without `with` it begins when the first item is asked for.

        Raises:
            ProblemError, Unanswered, NotPosegate: As for an item.
        """
        while self._chunks is None and not self._state.items:
            self._step()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Watch no more. A second close does nothing."""
        self._is_closed = True
        self._let_go()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> FeedItem:
        """Give the next item, and wait until there is one; end when the scene was closed or the watch is.

        Raises:
            ProblemError: The scene may not be watched, or not any more.
            Unanswered: The service was not there for `resume_s_max`.
            NotPosegate: What came is no feed.
        """
        state = self._state
        while not state.items:
            if self._is_closed or state.place.is_over:
                self._let_go()
                raise StopIteration
            self._step()
        return state.take()

    def _step(self) -> None:
        """Read on, or connect, or wait for a while before that."""
        pause, is_read = 0.0, False
        try:
            self._read()
            is_read = True
        except httpx.TransportError as error:
            pause = self._state.lost(said_by(error), time.monotonic())
        finally:
            if not is_read:
                self._let_go()
        if pause:
            time.sleep(pause)

    def _read(self) -> None:
        """Read one piece of the stream, after the connection is made where there is none."""
        if self._chunks is None:
            self._open()
            return
        chunk = next(self._chunks, None)
        if chunk is None:
            raise httpx.RemoteProtocolError("the stream ended")
        self._state.came(chunk)

    def _open(self) -> None:
        state = self._state
        if state.needs_place:
            state.place.reached(self._present())
        request = self._http.build_request("GET", state.path, params=state.queries(), headers=WATCH_HEADERS)
        self._response = response = self._http.send(request, stream=True)
        content = b"" if response.status_code == 200 else response.read()
        pause = state.opened(Reply(response.status_code, response.headers, content), time.monotonic())
        if pause is None:
            self._chunks = response.iter_bytes()
        else:
            self._let_go()
            time.sleep(pause)

    def _let_go(self) -> None:
        response, self._response, self._chunks = self._response, None, None
        if response is not None:
            response.close()
