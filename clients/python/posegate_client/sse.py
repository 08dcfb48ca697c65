"""Server-sent events: bytes as they come become whole events, however they are cut."""

import re
from dataclasses import dataclass

from posegate_client.problems import NotPosegate

_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True)
class Message:
    """One event, or a bare `id` (with `data` None) that only says how far the stream is."""

    event: str
    data: bytes | None
    id: str | None


class EventStream:
    """Takes a stream apart. Comments and `retry` are passed over, they only break the silence.

    Bound: an event holds at most `event_bytes_max` bytes.
    """

    def __init__(self, *, event_bytes_max: int) -> None:
        self._bytes_max = event_bytes_max
        self._rest = bytearray()
        self._seen = 0
        self._size = 0
        self._data: list[bytes] = []
        self._event = ""
        self._id: str | None = None

    def taken(self, chunk: bytes) -> list[Message]:
        """Take what came next; give the events that are whole with it, in order.

        Raises:
            NotPosegate: An event is larger than the bound.
        """
        self._rest += chunk
        found: list[Message] = []
        start, rest = 0, self._rest
        for end in _LINE_END.finditer(rest, self._seen):
            if end.end() == len(rest) and end.group() == b"\r":
                # Its other half may come with the next chunk.
                break
            message = self._line(bytes(rest[start : end.start()]))
            if message is not None:
                found.append(message)
            start = end.end()
        del rest[:start]
        self._seen = len(rest) - 1 if rest.endswith(b"\r") else len(rest)
        self._require_small(len(rest))
        return found

    def _line(self, line: bytes) -> Message | None:
        if not line:
            return self._whole()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._size += len(value)
            self._require_small(0)
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        return None

    def _whole(self) -> Message | None:
        """End the event. Unlike a browser this gives a bare `id` too: it is the place to resume from."""
        data = b"\n".join(self._data) if self._data else None
        message = Message(self._event or "message", data, self._id)
        self._data, self._event, self._id, self._size = [], "", None, 0
        return None if message.data is None and message.id is None else message

    def _require_small(self, more: int) -> None:
        if self._size + more > self._bytes_max:
            raise NotPosegate(f"an event is larger than the {self._bytes_max} bytes that are read")
