"""The codec: turns and checkpoints as the journal stores them, each with a format number, nothing ever skipped."""

from collections.abc import Generator
from typing import Any, Union

import msgspec
from msgspec import UNSET, Raw, Struct

from app.gates.bundle import Answered, Bundled
from app.gates.candidate import WIDE, concerned, finished
from app.gates.catalogue import COMMANDS, word_of
from app.gates.consequence import Consequences
from app.gates.decision import Command, Refused, Undecided, name_of
from app.gates.event_commands import Enqueue, Play
from app.gates.identity import Granted
from app.gates.lives import Remains
from app.gates.receipt import Mark, Receipt
from app.gates.scene import OpenTicks, Record, SceneState
from app.gates.tally import Tally
from app.gates.tick import Applied, Sealed, TickAnswers, TickApplied, Ticked, Ticks
from app.gates.transition import Begin
from app.journal.port import JournalDamaged
from app.journal.slices import PACED, decoded_in_steps, encoded_in_steps

FORMAT = 2
"""The layout of entries and checkpoints. Another number is refused, never guessed at."""

RULES = 2
"""The version of the rules that decided an entry, so that `posegate verify` can tell a changed rule from damage."""


class Traced(Struct, frozen=True, array_like=True, gc=False):
    """The decisions `first` to `last` (sequences, inclusive) of one traced request, and its `traceparent` (W3C)."""

    first: int
    last: int
    traceparent: str


class TracedGrant(Struct, frozen=True, array_like=True, gc=False):
    """A granted token, and the `traceparent` of the request that was granted it."""

    character: str
    layer: str
    epoch: int
    generation: int
    traceparent: str


class Entry(Struct, frozen=True):
    """One turn: its time (ms since 1970), the sequence of its first decision, and the decisions in order.

    `traced` says which of them came from traced requests, in order.
    """

    rules: int
    at: int
    first: int
    records: list[Record]
    traced: list[Traced] = []

    @property
    def last(self) -> int:
        """Give the sequence of the last decision."""
        return self.first + len(self.records) - 1


class EntryHead(Struct, frozen=True, array_like=True):
    """What an entry says of itself before its decisions are read; `characters` are the ids it touched."""

    format: int
    rules: int
    at: int
    first: int
    characters: list[str]
    records: Raw
    traced: list[Traced] = []


class _StoredEntry(Struct, frozen=True, array_like=True, gc=False):
    format: int
    rules: int
    at: int
    first: int
    characters: list[str]
    records: list[Record]


class _TracedEntry(_StoredEntry, frozen=True, array_like=True, gc=False):
    """An entry with traced requests: one member longer, which an entry without them does not pay for."""

    traced: list[Traced]


class _StoredRecord(Struct, frozen=True, array_like=True, gc=False):
    character: str | None
    command: Union[tuple(COMMANDS)]  # type: ignore[valid-type]  # noqa: UP007  # the union of all in the catalogue
    answer: Raw
    revision: int
    mark: Mark | None = None
    consequences: Consequences | None = None


class _Outcome(Struct, frozen=True, gc=False):
    outcome: str


class CheckpointHead(Struct, frozen=True, array_like=True):
    """A scene apart from its characters, as of a checkpoint."""

    format: int
    state: SceneState
    receipts: dict[str, dict[bytes, Receipt]]
    closed: bool
    open_ticks: OpenTicks = OpenTicks()
    traced: list[TracedGrant] = []


class StoredCharacter(Struct, frozen=True, array_like=True, gc=False):
    """One id in a checkpoint: a living character's frozen value with its tally, or a dead one's remains."""

    living: bytes | None
    remains: Remains | None
    tally: Tally | None


_OPENED: frozenset[type[Struct]] = frozenset(
    {CheckpointHead, SceneState, OpenTicks, Ticks, Sealed, TickAnswers, _StoredEntry, _TracedEntry}
)
"""What is packed part by part."""

_HOLDS_OTHERS = frozenset({Bundled, Ticked})
"""The answers that hold others."""

_UNREADABLE = (msgspec.DecodeError, RecursionError)
"""What bytes raise that nobody can have written here: no value of the type, or one nested without end."""

_encode = msgspec.msgpack.Encoder().encode
_decode_head = msgspec.msgpack.Decoder(EntryHead).decode
_decode_outcome = msgspec.msgpack.Decoder(_Outcome).decode
_decode_refused = msgspec.msgpack.Decoder(Refused).decode
_decode_granted = msgspec.msgpack.Decoder(Granted).decode
_decode_character = msgspec.msgpack.Decoder(StoredCharacter).decode
_ANSWERS: dict[type[Command], dict[str, Any]] = {
    command: dict.fromkeys(map(str, entry.refusals), _decode_refused)
    | {word_of(fact): msgspec.msgpack.Decoder(fact).decode for fact in entry.facts}
    for command, entry in COMMANDS.items()
}


_INNER: dict[str, dict[str, Any]] = {
    name_of(command): dict.fromkeys(map(str, entry.refusals), Refused) | {word_of(fact): fact for fact in entry.facts}
    for command, entry in COMMANDS.items()
}
"""What an answer inside another is read as, by the name of its command and its own outcome."""


def encode_entry(*, at: int, first: int, records: list[Record], traced: list[Traced] | None = None) -> bytes:
    """Pack one turn. A refused command is stored without its payload or data: only what explains the refusal."""
    touched = dict[str, None]()
    return _encode(_stored_entry(at, first, _kept(records, touched), touched, traced))


def encode_entry_in_steps(
    *, at: int, first: int, records: list[Record], traced: list[Traced]
) -> Generator[None, None, bytes]:
    """Pack one turn as `encode_entry` does, with a step after every few decisions."""
    touched, stored = dict[str, None](), list[Record]()
    for start in range(0, len(records), PACED):
        stored += _kept(records[start : start + PACED], touched)
        yield
    return (yield from encoded_in_steps(_stored_entry(at, first, stored, touched, traced), _OPENED))


def _kept(records: list[Record], touched: dict[str, None]) -> list[Record]:
    """Give decisions as they are stored, and note whom they touched."""
    touched.update(dict.fromkeys([record.character for record in records if record.character is not None]))
    for record in records:
        if record.consequences is not None or type(record.command) in WIDE:
            touched.update(dict.fromkeys(concerned(record)))
    return [record if type(record.answer) is not Refused else _without_payload(record) for record in records]


def _stored_entry(
    at: int, first: int, stored: list[Record], touched: dict[str, None], traced: list[Traced] | None
) -> "_StoredEntry":
    if traced:
        return _TracedEntry(FORMAT, RULES, at, first, list(touched), stored, traced)
    return _StoredEntry(FORMAT, RULES, at, first, list(touched), stored)


def decode_head(blob: bytes) -> EntryHead:
    """Read an entry's head only.

    Raises:
        JournalDamaged: The bytes are no entry, or one of a format that this version does not know.
    """
    try:
        head = _decode_head(blob)
    except _UNREADABLE as error:
        raise JournalDamaged(f"an entry cannot be read: {error}") from error
    _require_known_format(head, "an entry")
    return head


def _require_known_format(head: EntryHead | CheckpointHead, what: str) -> None:
    """See that the format is the one that this version writes."""
    if head.format != FORMAT:
        raise JournalDamaged(f"{what} has format {head.format}; this version reads format {FORMAT}")


def decode_entry(blob: bytes) -> Entry:
    """Read a whole entry.

    Raises:
        JournalDamaged: As `decode_head`, or a decision in it has a command or answer that this version does not know.
    """
    return finished(decode_entry_in_steps(blob))


def decode_entry_in_steps(blob: bytes) -> Generator[None, None, Entry]:
    """Read a whole entry as `decode_entry` does, with a step after every few decisions, and within a long one."""
    head = decode_head(blob)
    records = list[Record]()
    try:
        for number, stored in enumerate((yield from decoded_in_steps(head.records, list[_StoredRecord])), 1):
            answer = _answer(stored)
            if type(answer) in _HOLDS_OTHERS:
                answer = yield from _revived(answer)
            records.append(
                Record(stored.character, stored.command, answer, stored.revision, stored.mark, stored.consequences)
            )
            if number % PACED == 0:
                yield
    except _UNREADABLE as error:
        raise JournalDamaged(f"the decisions from sequence {head.first} on cannot be read: {error}") from error
    return Entry(head.rules, head.at, head.first, records, head.traced)


def _answer(stored: _StoredRecord) -> Any:
    outcome = _decode_outcome(stored.answer).outcome
    decode = _ANSWERS[type(stored.command)].get(outcome)
    if decode is None:
        kind: type[Command] = type(stored.command)
        raise JournalDamaged(f"this version does not know {outcome!r} as an answer to {name_of(kind)}")
    return decode(stored.answer)


def _revived(answer: Any) -> Generator[None, None, Any]:
    """Give an answer whose inner answers, which say by name what they answer, are what they were when encoded."""
    if type(answer) is Bundled:
        answers = list[Answered]()
        for number, given in enumerate(answer.answers, 1):
            answers.append((yield from _revived_answered(given)))
            if number % PACED == 0:
                yield
        return Bundled(answers)
    if type(answer) is Ticked and answer.seal is not UNSET:
        ticks = list[TickApplied]()
        for tick in answer.seal.ticks:
            ticks.append(msgspec.structs.replace(tick, applied=(yield from _revived_applied(tick.applied))))
        return msgspec.structs.replace(answer, seal=msgspec.structs.replace(answer.seal, ticks=ticks))
    return answer


def _revived_applied(applied: list[Applied]) -> Generator[None, None, list[Applied]]:
    revived = list[Applied]()
    for number, each in enumerate(applied, 1):
        revived.append(Applied(each.source, each.number, (yield from _revived_answered(each.answered))))
        if number % PACED == 0:
            yield
    return revived


def _revived_answered(given: Answered) -> Generator[None, None, Answered]:
    answer = given.answer if type(given.answer) is dict else {}
    if "problem" in answer:
        return msgspec.structs.replace(given, answer=msgspec.convert(answer, Undecided))
    outcome = answer.get("outcome")
    kind = _INNER.get(given.command, {}).get(outcome) if type(outcome) is str else None
    if kind is None:
        raise JournalDamaged(f"this version does not know {outcome!r} as an answer to {given.command!r}")
    revived = msgspec.convert(answer, kind)
    if kind in _HOLDS_OTHERS:
        revived = yield from _revived(revived)
    return Answered(given.character, given.command, revived, given.revision, given.consequences)


def _without_payload(record: Record) -> Record:
    command = record.command
    match command:
        case Enqueue() if command.payload is not UNSET:
            stripped: Command = msgspec.structs.replace(command, payload=UNSET)
        case Begin() | Play() if command.data is not UNSET:
            stripped = msgspec.structs.replace(command, data=UNSET)
        case _:
            return record
    return msgspec.structs.replace(record, command=stripped)


def encode_checkpoint(
    state: SceneState,
    receipts: dict[str, dict[bytes, Receipt]],
    ticks: OpenTicks,
    *,
    closed: bool,
    traced: list[TracedGrant] | None = None,
) -> bytes:
    """Pack the head of a checkpoint."""
    return _encode(CheckpointHead(FORMAT, state, receipts, closed, ticks, traced or []))


def encode_checkpoint_in_steps(
    state: SceneState,
    receipts: dict[str, dict[bytes, Receipt]],
    ticks: OpenTicks,
    *,
    closed: bool,
    traced: list[TracedGrant],
) -> Generator[None, None, bytes]:
    """Pack the head of a checkpoint as `encode_checkpoint` does, in steps: nobody changes its parts in between."""
    return encoded_in_steps(CheckpointHead(FORMAT, state, receipts, closed, ticks, traced), _OPENED)


def decode_checkpoint(blob: bytes) -> CheckpointHead:
    """Read the head of a checkpoint.

    Raises:
        JournalDamaged: The bytes are no checkpoint, or one of a format that this version does not know.
    """
    return finished(decode_checkpoint_in_steps(blob))


def decode_checkpoint_in_steps(blob: bytes) -> Generator[None, None, CheckpointHead]:
    """Read the head of a checkpoint as `decode_checkpoint` does, with a step after every few of what it holds."""
    try:
        head: CheckpointHead = yield from decoded_in_steps(blob, CheckpointHead)
    except _UNREADABLE as error:
        raise JournalDamaged(f"a checkpoint cannot be read: {error}") from error
    _require_known_format(head, "a checkpoint")
    ticks, answered = head.open_ticks.ticks, dict[int, TickAnswers]()
    try:
        for tick, answers in ticks.answered.items():
            answered[tick] = TickAnswers(answers.sequence, (yield from _revived_applied(answers.applied)))
    except _UNREADABLE as error:
        raise JournalDamaged(f"the answers of a tick in a checkpoint cannot be read: {error}") from error
    open_ticks = msgspec.structs.replace(head.open_ticks, ticks=msgspec.structs.replace(ticks, answered=answered))
    return msgspec.structs.replace(head, open_ticks=open_ticks)


def encode_granted(granted: Granted) -> bytes:
    """Pack what had been granted before a repair."""
    return _encode(granted)


def decode_granted(blob: bytes) -> Granted:
    """Read what had been granted before a repair.

    Raises:
        JournalDamaged: The bytes are nothing of the kind.
    """
    try:
        return _decode_granted(blob)
    except _UNREADABLE as error:
        raise JournalDamaged(f"what was granted before a repair cannot be read: {error}") from error


def encode_character(stored: StoredCharacter) -> bytes:
    """Pack one id of a checkpoint."""
    return _encode(stored)


def decode_character(blob: bytes) -> StoredCharacter:
    """Read one id of a checkpoint.

    Raises:
        JournalDamaged: The bytes are no character.
    """
    try:
        return _decode_character(blob)
    except _UNREADABLE as error:
        raise JournalDamaged(f"a character in a checkpoint cannot be read: {error}") from error
