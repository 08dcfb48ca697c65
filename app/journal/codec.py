"""The codec: turns and checkpoints as the journal stores them, each with a format number, nothing ever skipped."""

from collections.abc import Callable
from typing import Any, TypeVar, Union

import msgspec
from msgspec import UNSET, Raw, Struct

from app.gates.catalogue import COMMANDS, name_of, word_of
from app.gates.decision import Command, Refused
from app.gates.event import Enqueue, Play
from app.gates.lives import Remains
from app.gates.receipt import Mark, Receipt
from app.gates.scene import Record, SceneState
from app.gates.tally import Tally
from app.gates.transition import Begin
from app.journal.port import JournalDamaged

FORMAT = 1
"""The layout of entries and checkpoints. Another number is refused, never guessed at."""

RULES = 1
"""The version of the rules that decided an entry, so that `posegate verify` can tell a changed rule from damage."""


class Entry(Struct, frozen=True):
    """One turn: its time (ms since 1970), the sequence of its first decision, and the decisions in order."""

    rules: int
    at: int
    first: int
    records: list[Record]

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


class _StoredEntry(Struct, frozen=True, array_like=True, gc=False):
    format: int
    rules: int
    at: int
    first: int
    characters: list[str]
    records: list[Record]


class _StoredRecord(Struct, frozen=True, array_like=True, gc=False):
    character: str | None
    command: Union[tuple(COMMANDS)]  # type: ignore[valid-type]  # noqa: UP007  # the union of all in the catalogue
    answer: Raw
    revision: int
    mark: Mark | None = None


class _Outcome(Struct, frozen=True, gc=False):
    outcome: str


class CheckpointHead(Struct, frozen=True, array_like=True):
    """A scene apart from its characters, as of a checkpoint."""

    format: int
    state: SceneState
    receipts: dict[str, dict[bytes, Receipt]]
    closed: bool


class StoredCharacter(Struct, frozen=True, array_like=True, gc=False):
    """One id in a checkpoint: a living character's frozen value with its tally, or a dead one's remains."""

    living: bytes | None
    remains: Remains | None
    tally: Tally | None


HeadT = TypeVar("HeadT", EntryHead, CheckpointHead)

_encode = msgspec.msgpack.Encoder().encode
_decode_head = msgspec.msgpack.Decoder(EntryHead).decode
_decode_records = msgspec.msgpack.Decoder(list[_StoredRecord]).decode
_decode_outcome = msgspec.msgpack.Decoder(_Outcome).decode
_decode_refused = msgspec.msgpack.Decoder(Refused).decode
_decode_checkpoint = msgspec.msgpack.Decoder(CheckpointHead).decode
_decode_character = msgspec.msgpack.Decoder(StoredCharacter).decode
_ANSWERS: dict[type[Command], dict[str, Any]] = {
    command: dict.fromkeys(map(str, entry.refusals), _decode_refused)
    | {word_of(fact): msgspec.msgpack.Decoder(fact).decode for fact in entry.facts}
    for command, entry in COMMANDS.items()
}


def encode_entry(*, at: int, first: int, records: list[Record]) -> bytes:
    """Pack one turn. A refused command is stored without its payload or data: only what explains the refusal."""
    touched = {record.character: None for record in records}
    stored = [record if type(record.answer) is not Refused else _without_payload(record) for record in records]
    return _encode(_StoredEntry(FORMAT, RULES, at, first, [name for name in touched if name is not None], stored))


def decode_head(blob: bytes) -> EntryHead:
    """Read an entry's head only.

    Raises:
        JournalDamaged: The bytes are no entry, or one of a format that this version does not know.
    """
    return _of_known_format(_decode_head, blob, "an entry")


def _of_known_format(decode: Callable[[bytes], HeadT], blob: bytes, what: str) -> HeadT:
    """Read a head, whose format number must be the one that this version writes."""
    try:
        head = decode(blob)
    except msgspec.DecodeError as error:
        raise JournalDamaged(f"{what} cannot be read: {error}") from error
    if head.format != FORMAT:
        raise JournalDamaged(f"{what} has format {head.format}; this version reads format {FORMAT}")
    return head


def decode_entry(blob: bytes) -> Entry:
    """Read a whole entry.

    Raises:
        JournalDamaged: As `decode_head`, or a decision in it has a command or answer that this version does not know.
    """
    head = decode_head(blob)
    try:
        records = [
            Record(stored.character, stored.command, _answer(stored), stored.revision, stored.mark)
            for stored in _decode_records(head.records)
        ]
    except msgspec.DecodeError as error:
        raise JournalDamaged(f"the decisions from sequence {head.first} on cannot be read: {error}") from error
    return Entry(head.rules, head.at, head.first, records)


def _answer(stored: _StoredRecord) -> Any:
    outcome = _decode_outcome(stored.answer).outcome
    decode = _ANSWERS[type(stored.command)].get(outcome)
    if decode is None:
        raise JournalDamaged(f"this version does not know {outcome!r} as an answer to {name_of(type(stored.command))}")
    return decode(stored.answer)


def _without_payload(record: Record) -> Record:
    command = record.command
    match command:
        case Enqueue() if command.payload is not UNSET:
            stripped: Command = msgspec.structs.replace(command, payload=UNSET)
        case Begin() | Play() if command.data is not UNSET:
            stripped = msgspec.structs.replace(command, data=UNSET)
        case _:
            return record
    return Record(record.character, stripped, record.answer, record.revision, record.mark)


def encode_checkpoint(state: SceneState, receipts: dict[str, dict[bytes, Receipt]], *, closed: bool) -> bytes:
    """Pack the head of a checkpoint."""
    return _encode(CheckpointHead(FORMAT, state, receipts, closed))


def decode_checkpoint(blob: bytes) -> CheckpointHead:
    """Read the head of a checkpoint.

    Raises:
        JournalDamaged: The bytes are no checkpoint, or one of a format that this version does not know.
    """
    return _of_known_format(_decode_checkpoint, blob, "a checkpoint")


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
    except msgspec.DecodeError as error:
        raise JournalDamaged(f"a character in a checkpoint cannot be read: {error}") from error
