"""What the journal asks of JetStream, and what became of it: done, certainly not done, or unknown."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from itertools import count
from math import inf
from typing import NamedTuple, TypeVar

import msgspec

from app.journal.nats_wire import Message, NoAnswer, NobodyServes, NotSent, Wire, header_block
from app.journal.port import CommitUnknown, JournalDamaged, JournalUnavailable

WRONG_LAST = 10071
WRONG_LAST_UNDER_WAY = 10164
NO_MESSAGE = 10037
NO_STREAM = 10059
OTHER_STREAM = 10058
UNDER_WAY = b'"err_code":10158'
"""What is said of a message that was sent again while its first copy is being stored: that one is answered yet."""

NOT_NOW = b'"err_code":10008'
"""What is said to a question while nobody leads JetStream, which does not last."""

CERTAINLY_NOT = frozenset({10002, 10008, 10009, 10023, 10028, 10039, 10047, 10054, 10076, 10109})
"""Refusals that are made before anything is proposed: no leader, no room, too large, not enabled, sealed."""

STORE_FAILED = 10077
FULL = ("maximum bytes exceeded", "maximum messages exceeded", "maximum messages per subject exceeded")
"""What STORE_FAILED says when a stream's own limit was the reason, looked at before anything is proposed."""

DIGITS_MAX = 20
"""How long a sequence is at most, in digits."""

HEADERS_BYTES_MAX = 512
"""Room for the headers of one message: they count towards what the servers take."""

SAID_BYTES_MAX = 200

PATIENCE_S = 4.5
"""How long what only reads is asked for again, seconds; the last time may take as long as an answer may."""

AGAIN_S = 0.25
BATCH_S = 0.5
"""After how long a question for one answer is sent once more, and one for many is given up and asked anew, seconds.

Each further time it is twice as long. What is passed over while the lead is handed over costs this; answers take
milliseconds.
"""

PUBLISHED_AGAIN_S = 0.25
"""After how long without an answer a message that has a key is sent once more, seconds, and each time twice as long."""

HANDED_OVER_S = 0.25
"""For how long a message that nobody takes is offered again, seconds: an orderly hand-over of the lead takes less."""

OFFERED_S = 0.02
PAUSE_S = 0.1
"""Between two offers of such a message, and between two questions, seconds."""

BATCHES_MAX = 16
"""How many batches are under way at once: each may hold several megabytes."""

_wrong_last = re.compile(r"wrong last sequence: (\d+)")

T = TypeVar("T")


class Conflict(Exception):
    """The subject's last message is not the one that was expected. Nothing was written; `last` says which it is.

    When it `is_of_second_copy`, the first one may be what lies there: a stream with one copy looks at the sequence
    before it looks whether it has the message already, one with three looks in the other order (server 2.15.1).
    """

    def __init__(self, last: int | None) -> None:
        super().__init__("the subject has moved on")
        self.last = last
        self.is_of_second_copy = False


class Refusal(msgspec.Struct, frozen=True):
    """Why JetStream did not do something."""

    err_code: int = 0
    description: str = ""
    code: int = 0

    def __str__(self) -> str:
        return f"{self.description[:SAID_BYTES_MAX]} ({self.err_code})"


class Found(NamedTuple):
    """One message of a stream: its sequence there, the subject, what it holds, and its key where the leader gave it."""

    sequence: int
    subject: str
    payload: bytes
    key: str = ""


class Batch(NamedTuple):
    """Messages as a replica gave them, ascending; what it says of more is only true of that replica."""

    messages: list[Found]


class _Acknowledged(msgspec.Struct, frozen=True):
    stream: str = ""
    seq: int = 0
    error: Refusal | None = None


class _Held(msgspec.Struct, frozen=True):
    subject: str
    seq: int
    data: bytes = b""
    hdrs: bytes = b""


class _Got(msgspec.Struct, frozen=True):
    message: _Held | None = None
    error: Refusal | None = None


class _Done(msgspec.Struct, frozen=True):
    error: Refusal | None = None


class StreamState(msgspec.Struct, frozen=True):
    """How a stream stands: `subjects` is a page of names with how many messages each has."""

    messages: int = 0
    last_seq: int = 0
    subjects: dict[str, int] = {}


class StreamInfo(msgspec.Struct, frozen=True):
    """A stream's configuration and state; `total` is how many subjects match, over all pages."""

    config: dict[str, object] = {}
    state: StreamState = StreamState()
    total: int = 0
    error: Refusal | None = None


class Jetstream:
    """JetStream over one wire. Every call ends within the wire's time for an answer, batches after waiting their turn.

    Bound: BATCHES_MAX batches under way; further ones wait, in order.
    """

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._batches = asyncio.Semaphore(BATCHES_MAX)

    async def publish(self, subject: str, payload: bytes, *, after: int | None, key: str = "") -> int:
        """Store one message behind the subject's message `after`; give its sequence once it is durable.

        One with a `key` and `after` is sent again when no answer comes, since it is stored once all the same: a leader
        that hands over to another may pass over a message, and whoever leads next has not heard of it. One that nobody
        takes is offered again for `HANDED_OVER_S`.

        Raises:
            Conflict: Another message is the subject's last. Nothing was written.
            JournalUnavailable: Nothing was written.
            CommitUnknown: It may or may not be there.
        """
        headers = [("Nats-Expected-Last-Subject-Sequence", str(after))] if after is not None else []
        if key:
            headers.append(("Nats-Msg-Id", key))
        answer, was_sent_twice = await self._published(subject, payload, headers, is_keyed=bool(key))
        try:
            told = msgspec.json.decode(answer.payload, type=_Acknowledged)
        except msgspec.DecodeError:
            raise CommitUnknown("the acknowledgement cannot be read") from None
        if told.error is None:
            if told.seq < 1:
                raise CommitUnknown("the acknowledgement names no message")
            return told.seq
        refused = _refused(told.error)
        if was_sent_twice:
            if isinstance(refused, JournalUnavailable):
                raise CommitUnknown(str(refused))
            if isinstance(refused, Conflict):
                refused.is_of_second_copy = True
        raise refused

    async def _published(
        self, subject: str, payload: bytes, headers: list[tuple[str, str]], *, is_keyed: bool
    ) -> tuple[Message, bool]:
        """Give what was answered, and whether that may be the answer to a second copy. Raises as `publish`."""
        clock = asyncio.get_running_loop().time
        until, block = clock() + HANDED_OVER_S, header_block(*headers) if headers else b""
        while True:
            sent_again_at = clock() + PUBLISHED_AGAIN_S if is_keyed else inf
            try:
                answer = await self.wire.ask(
                    subject,
                    payload,
                    headers=block,
                    again_s=PUBLISHED_AGAIN_S if is_keyed else None,
                    passes_over=_is_under_way if is_keyed else None,
                )
            except (NotSent, NobodyServes) as error:
                if clock() >= sent_again_at:
                    # Of one that was sent twice, this is said of the second: the first may have been stored.
                    raise CommitUnknown(str(error)) from None
                if isinstance(error, NotSent) or clock() >= until:
                    raise JournalUnavailable(str(error)) from None
                await asyncio.sleep(OFFERED_S)
            except NoAnswer as error:
                raise CommitUnknown(str(error)) from None
            else:
                return answer, clock() >= sent_again_at

    async def last(self, stream: str, subject: str) -> Found | None:
        """Give a subject's last message as the stream's leader has it; None when there is none.

        Raises (as do all that read):
            JournalUnavailable: It cannot be read now.
        """
        return await self._get(stream, {"last_by_subj": subject})

    async def next(self, stream: str, subject: str, sequence: int) -> Found | None:
        """Give a subject's first message at `sequence` or above as the stream's leader has it."""
        return await self._get(stream, {"seq": sequence, "next_by_subj": subject})

    async def batch(self, stream: str, subject: str, *, sequence: int, limit: int, bytes_max: int) -> Batch:
        """Give at most `limit` messages of a subject at `sequence` or above as some replica has them.

        At least one is given when the replica has any, however large; further ones while they fit `bytes_max`.
        """
        body = {"seq": sequence, "next_by_subj": subject, "batch": limit, "max_bytes": bytes_max}
        return await self._many(stream, body)

    async def lasts(self, stream: str, subjects: list[str]) -> Batch:
        """Give the last message of each of the subjects (at most 1,000) that has one, as some replica has them."""
        return await self._many(stream, {"multi_last": subjects, "batch": len(subjects)})

    async def purge(self, stream: str, subject: str, *, below: int) -> None:
        """Delete a subject's messages of sequences below `below`.

        Raises:
            JournalUnavailable: Nothing was deleted.
            CommitUnknown: They may be deleted or not.
        """
        try:
            body = msgspec.json.encode({"filter": subject, "seq": below})
            answer = await self.wire.ask(f"$JS.API.STREAM.PURGE.{stream}", body)
        except (NotSent, NobodyServes) as error:
            raise JournalUnavailable(str(error)) from None
        except NoAnswer as error:
            raise CommitUnknown(str(error)) from None
        refusal = _decoded(answer, _Done).error
        if refusal is not None:
            raise JournalUnavailable(f"{stream} was not purged: {refusal}")

    async def info(self, stream: str, *, subjects: str = "", offset: int = 0) -> StreamInfo | None:
        """Give how a stream stands, with one page of the subjects that match `subjects`; None when there is none."""
        body: dict[str, object] = {"subjects_filter": subjects, "offset": offset} if subjects else {}
        found = _decoded(await self._read(f"STREAM.INFO.{stream}", body), StreamInfo)
        if found.error is None:
            return found
        if found.error.err_code == NO_STREAM:
            return None
        raise JournalUnavailable(f"{stream} cannot be looked at: {found.error}")

    async def create(self, stream: str, config: dict[str, object]) -> bool:
        """Make a stream; a second node that makes the same does no harm. False: there is one that differs.

        Raises:
            JournalUnavailable: It may not be there; asking again is safe.
        """
        refusal = _decoded(await self._read(f"STREAM.CREATE.{stream}", {"name": stream, **config}), _Done).error
        if refusal is not None and refusal.err_code != OTHER_STREAM:
            raise JournalUnavailable(f"{stream} cannot be made: {refusal}")
        return refusal is None

    async def _get(self, stream: str, body: dict[str, object]) -> Found | None:
        got = _decoded(await self._read(f"STREAM.MSG.GET.{stream}", body), _Got)
        if got.message is not None:
            held = got.message
            key = Message(0, held.hdrs, b"").header(b"Nats-Msg-Id") or b""
            return Found(held.seq, held.subject, held.data, key.decode(errors="replace"))
        if got.error is not None and got.error.err_code == NO_MESSAGE:
            return None
        raise JournalUnavailable(f"{stream} cannot be read: {got.error}")

    async def _many(self, stream: str, body: dict[str, object]) -> Batch:
        question, waits = msgspec.json.encode(body), (BATCH_S * 2**tries for tries in count())

        async def ask() -> list[Message]:
            return await self.wire.ask_for_many(f"$JS.API.DIRECT.GET.{stream}", question, within_s=next(waits))

        async with self._batches:
            answers = await _patiently(ask, f"{stream} cannot be read")
        if answers[-1].status not in (204, 404):
            said = answers[-1].headers[9 : 9 + SAID_BYTES_MAX].decode(errors="replace").partition("\r\n")[0]
            raise JournalUnavailable(f"{stream} cannot be read: {said}")
        return Batch([_found(each) for each in answers[:-1]])

    async def _read(self, what: str, body: dict[str, object]) -> Message:
        """Ask what may be asked twice: who leads no more says nothing, and who leads next heard nothing yet."""
        question = msgspec.json.encode(body) if body else b""

        async def ask() -> Message:
            answer = await self.wire.ask(f"$JS.API.{what}", question, again_s=AGAIN_S)
            if NOT_NOW in answer.payload:
                raise NobodyServes("JetStream is temporarily unavailable")
            return answer

        return await _patiently(ask, f"{what} was not answered")


async def _patiently(ask: Callable[[], Awaitable[T]], what: str) -> T:
    """Ask for what is not changed by asking, as often as PATIENCE_S allows: while one server takes over from another.

    Raises:
        JournalUnavailable: There was no answer in that time, or no connection at the start.
    """
    clock = asyncio.get_running_loop().time
    until, is_first = clock() + PATIENCE_S, True
    while True:
        try:
            return await ask()
        except (NobodyServes, NotSent, NoAnswer) as error:
            if clock() > until or (is_first and isinstance(error, NotSent)):
                raise JournalUnavailable(f"{what}: {error}") from None
        is_first = False
        await asyncio.sleep(PAUSE_S)


def _refused(refusal: Refusal) -> Exception:
    """Give what a refused message means. What is not known here may have been written all the same."""
    if refusal.err_code == WRONG_LAST:
        found = _wrong_last.search(refusal.description)
        return Conflict(int(found[1]) if found else None)
    if refusal.err_code == WRONG_LAST_UNDER_WAY:
        return Conflict(None)
    if refusal.err_code in CERTAINLY_NOT or (refusal.err_code == STORE_FAILED and refusal.description in FULL):
        return JournalUnavailable(str(refusal))
    return CommitUnknown(str(refusal))


def _found(message: Message) -> Found:
    """Give a message as a batch carries it."""
    sequence, subject = message.header(b"Nats-Sequence"), message.header(b"Nats-Subject")
    if sequence is None or subject is None or not sequence.isdigit() or len(sequence) > DIGITS_MAX:
        raise JournalDamaged("a message came without its place in its stream")
    return Found(int(sequence), subject.decode(), message.payload)


def _is_under_way(message: Message) -> bool:
    return UNDER_WAY in message.payload


def _decoded(answer: Message, kind: type[T]) -> T:
    """Read an answer of JetStream's.

    Raises:
        JournalUnavailable: It is none.
    """
    try:
        return msgspec.json.decode(answer.payload, type=kind)
    except msgspec.DecodeError:
        raise JournalUnavailable("what the server answered cannot be read") from None
