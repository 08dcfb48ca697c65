"""Framing: the WebSocket frames of one connection, taken apart by picows on a transport that sends nothing."""

import logging
from http import HTTPStatus
from struct import Struct
from typing import Any, NamedTuple

from picows import WSAutoPingStrategy, WSFrame, WSListener, WSMsgType, WSTransport
from picows.picows import WSProtocol  # type: ignore[attr-defined]  # its stubs leave it out; its own server uses it so

TEXT, BINARY, CONTINUATION = WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.CONTINUATION
PING, PONG, CLOSE = WSMsgType.PING, WSMsgType.PONG, WSMsgType.CLOSE

BUFFER_BYTES = 2_048
"""How much a new reader holds, the least there is; it grows with what comes."""

BUFFER_KEPT_BYTES_MAX = 131_072
"""A reader that has held more than this is let go when it holds nothing: it would never shrink."""

PIECE_BYTES = 32_768
"""How much a reader is fed at once, so that many small frames do not make it grow."""

REASON_BYTES_MAX = 123
"""How long the reason in a close frame may be, as RFC 6455 has it."""

NO_STATUS = 1005
"""What stands for the code of a close frame that has none; it is never sent."""

NORMAL, GOING_AWAY, PROTOCOL_ERROR, UNSUPPORTED_DATA = 1000, 1001, 1002, 1003
INVALID_TEXT, MESSAGE_TOO_BIG, INTERNAL_ERROR, TRY_AGAIN_LATER = 1007, 1009, 1011, 1013

_CODE_MAX = 4999
_NEVER_SENT = (0, 1006)
"""The codes that no close frame may have, and that a reader lets through all the same."""

_FIRST = {kind: 0x80 | kind.value for kind in WSMsgType}
_SHORT_MAX, _MEDIUM_MAX = 125, 65_535
_MEDIUM, _LARGE = Struct("!BBH"), Struct("!BBQ")
_ANY_KEY = "AAAAAAAAAAAAAAAAAAAAAA=="
_HEAD = (
    b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %b\r\n\r\n"
)

# The library logs whatever a client does wrong; here the client is told, and it is counted.
_unheard = logging.getLogger("picows.unheard")
_unheard.setLevel(logging.CRITICAL + 1)
_silent = logging.LoggerAdapter(_unheard)
"""For a logger itself, the library would make another for each connection."""


class NotAKey(Exception):
    """A handshake's `Sec-WebSocket-Key` is none."""


class Closing(NamedTuple):
    """Why a connection ends: the code and the reason of a close frame."""

    code: int
    reason: str = ""


Message = tuple[WSMsgType, bytes]
"""A whole message, its fragments joined, or a control frame."""


class Framing:
    """Takes the bytes of one connection apart into messages.

    Bound:     a message has at most `message_bytes_max`, and at most `fragments_max` fragments; `held_bytes` says how
               much is held of one that is not whole.
    Order:     of messages: of their last frames; a control frame may come between the fragments of a message.
    Thread-safe: no.

    A client's frames must be masked, and no reserved bit set, for no extension is ever agreed upon. `accept` is what
    the handshake answers to the client's `key`. `violation` says what was none of the protocol, once something was:
    then nothing more is read.

    Raises:
        NotAKey: `key` is none.
    """

    def __init__(self, key: str = _ANY_KEY, *, message_bytes_max: int, fragments_max: int) -> None:
        self._message_bytes_max = message_bytes_max
        self._fragments_max = fragments_max
        self._frames = _Frames()
        self._reader = self._reader_for(key)
        self.accept: str = self._reader.transport.response.headers["Sec-WebSocket-Accept"]
        self._kind: WSMsgType | None = None
        self._fragments: list[bytes] = []
        self._fragments_bytes = 0
        self._partial_bytes = 0
        self._has_grown = False
        self.violation: Closing | None = None

    @property
    def held_bytes(self) -> int:
        """Say how many bytes are held of a message that is not whole."""
        return self._partial_bytes + self._fragments_bytes

    def read(self, data: bytes) -> list[Message]:
        """Give the messages that are whole now."""
        messages: list[Message] = []
        frames, rest = self._frames, memoryview(data) if self.violation is None else memoryview(b"")
        while len(rest) > 0:
            room = self._reader.get_buffer(-1)
            size = min(len(room), len(rest), PIECE_BYTES)
            room[:size] = rest[:size]
            rest = rest[size:]
            self._partial_bytes += size
            self._reader.buffer_updated(size)
            self._has_grown = self._has_grown or self._partial_bytes > BUFFER_KEPT_BYTES_MAX
            if frames.come:
                self._partial_bytes = frames.tail_bytes
                self._join(frames.come, messages)
                frames.come.clear()
            if self._reader.transport.is_close_frame_sent and self.violation is None:
                # The reader has found something that is no frame, and believes to have said so.
                sent = self._reader.transport.close_handshake.sent
                self.violation = Closing(int(sent.code), _shortened(sent.reason))
            if self.violation is not None:
                break
            if self._has_grown and not self._partial_bytes:
                self._reader, self._has_grown = self._reader_for(_ANY_KEY), False
        return messages

    def _join(self, frames: "list[_Frame]", messages: list[Message]) -> None:
        """Add the messages that are whole with these frames, until one is a violation."""
        for kind, data, is_final, is_reserved in frames:
            if is_reserved:
                self.violation = Closing(PROTOCOL_ERROR, "a reserved bit is set, and no extension was agreed upon")
            elif kind is TEXT or kind is BINARY:
                if self._kind is not None:
                    self.violation = Closing(PROTOCOL_ERROR, "a message begins before the fragments of another end")
                elif is_final:
                    messages.append((kind, data))
                else:
                    self._kind = kind
                    self._keep(data)
            elif kind is not CONTINUATION:
                messages.append((kind, data))
            elif self._kind is None:
                self.violation = Closing(PROTOCOL_ERROR, "a fragment continues nothing")
            else:
                self._keep(data)
                if is_final and self.violation is None:
                    messages.append((self._kind, b"".join(self._fragments)))
                    self._let_go()
            if self.violation is not None:
                self._let_go()
                return

    def _keep(self, data: bytes) -> None:
        self._fragments.append(data)
        self._fragments_bytes += len(data)
        if self._fragments_bytes > self._message_bytes_max:
            self.violation = Closing(MESSAGE_TOO_BIG, f"a message has at most {self._message_bytes_max} bytes")
        elif len(self._fragments) > self._fragments_max:
            self.violation = Closing(MESSAGE_TOO_BIG, f"a message has at most {self._fragments_max} fragments")

    def _let_go(self) -> None:
        self._kind, self._fragments, self._fragments_bytes = None, [], 0

    def _reader_for(self, key: str) -> Any:
        """Give a reader of frames: picows' protocol of a server behind its handshake."""
        reader = WSProtocol(
            None,  # host and path are a client's
            None,
            False,
            lambda _: self._frames,
            _silent,
            False,  # no failure of ours to be answered by it
            None,  # no deadline, ping or pong of its own
            False,
            1,
            1,
            WSAutoPingStrategy.PING_WHEN_IDLE,
            False,
            self._message_bytes_max,
            None,
            BUFFER_BYTES,
        )
        reader.connection_made(_Nowhere())
        if len(key) != len(_ANY_KEY) or not key.isascii():
            raise NotAKey
        head = _HEAD % key.encode("ascii")
        reader.get_buffer(-1)[: len(head)] = head
        reader.buffer_updated(len(head))
        if reader.transport.response.status != HTTPStatus.SWITCHING_PROTOCOLS:
            raise NotAKey
        return reader


_Frame = tuple[WSMsgType, bytes, bool, bool]


class _Frames(WSListener):
    """Collects the frames that a reader finds: their kinds and bytes, whether they are final, and wrongly marked."""

    def __init__(self) -> None:
        self.come: list[_Frame] = []
        self.tail_bytes = 0

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """Take one frame, whose bytes are there only now."""
        self.tail_bytes = frame.tail_size
        is_reserved = frame.rsv1 or frame.rsv2 or frame.rsv3
        self.come.append((frame.msg_type, frame.get_payload_as_bytes(), frame.fin, is_reserved))


class _Nowhere:
    """The transport that a reader believes it has. What the library would send is said elsewhere, or not at all.

    It claims to be encrypted, so that the library does not write to a socket behind a transport's back.
    """

    def get_extra_info(self, name: str) -> Any:
        """Give itself for the socket and the encryption, and nothing else."""
        return self if name in ("socket", "ssl_object") else None

    def setsockopt(self, *_: int) -> None:
        """Be a socket without options."""

    def getsockopt(self, *_: int) -> int:
        """Be a socket without options."""
        return 0

    def fileno(self) -> int:
        """Be no file."""
        return -1

    def get_write_buffer_size(self) -> int:
        """Hold nothing."""
        return 0

    def write(self, data: bytes) -> None:
        """Drop it."""

    def close(self) -> None:
        """Have nothing to close."""


def framed(kind: WSMsgType, data: bytes) -> bytes:
    """Give one whole frame of a server."""
    size, first = len(data), _FIRST[kind]
    if size <= _SHORT_MAX:
        return bytes((first, size)) + data
    if size <= _MEDIUM_MAX:
        return _MEDIUM.pack(first, _SHORT_MAX + 1, size) + data
    return _LARGE.pack(first, _SHORT_MAX + 2, size) + data


def close_frame(closing: Closing) -> bytes:
    """Give the frame that says why a connection ends; one without a status says nothing."""
    if closing.code == NO_STATUS:
        return framed(CLOSE, b"")
    return framed(CLOSE, closing.code.to_bytes(2, "big") + _shortened(closing.reason).encode())


def closing_of(data: bytes) -> Closing:
    """Read a client's close frame, which a reader has let through; a code that nobody defines is a violation."""
    if not data:
        return Closing(NO_STATUS)
    code = int.from_bytes(data[:2], "big")
    if code > _CODE_MAX or code in _NEVER_SENT:
        return Closing(PROTOCOL_ERROR, "a close frame has a code that there is none of")
    return Closing(code, data[2:].decode("utf-8", "replace"))


def _shortened(reason: str) -> str:
    return reason.encode()[:REASON_BYTES_MAX].decode("utf-8", "ignore")
