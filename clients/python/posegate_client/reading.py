"""Reading: bytes that the service sent become answers and problems, whatever a newer service adds to them."""

from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from posegate_client import answers as said
from posegate_client.answers import Answer, Applied, Part, PartRefused
from posegate_client.problems import NotPosegate, Problem
from posegate_client.values import ClosedWindow, Token

Bytes = bytes | bytearray | memoryview | Raw

ValueT = TypeVar("ValueT")
PartT = TypeVar("PartT", bound=Part)

_Present = Raw | UnsetType


class _Head(Struct, frozen=True, gc=False):
    """What tells which answer it is. Outcomes are unique to a fact, but for `committed`."""

    accepted: bool = False
    outcome: str = ""
    problem: _Present = UNSET
    current: _Present = UNSET
    version: _Present = UNSET
    active: _Present = UNSET
    failed_at: _Present = UNSET
    rollback: _Present = UNSET
    requests: _Present = UNSET
    seal: _Present = UNSET
    confirm: _Present = UNSET

    @property
    def has_parts(self) -> bool:
        """Say whether it is a tick's."""
        return any(part is not UNSET for part in (self.rollback, self.requests, self.seal, self.confirm))


class _Bundle(Struct, frozen=True):
    answers: list[Raw]


class _Applied(Struct, frozen=True):
    tick: int
    source: str
    number: int
    character: str | None
    command: str
    answer: Raw


class _Seal(Struct, frozen=True):
    answers: list[Raw]


class _Requests(Struct, frozen=True):
    requests: list[Raw]


_FACTS: dict[str, type[Answer]] = {
    "granted": said.Granted,
    "kept": said.Kept,
    "cancelled": said.TransitionCancelled,
    "failed": said.TransitionFailed,
    "opened": said.InstanceOpened,
    "accepted": said.EventAccepted,
    "covered": said.SpanCovered,
    "delivered": said.LoopDelivered,
    "retired": said.InstanceRetired,
    "acknowledged": said.DeliveriesAcknowledged,
    "requested": said.GraphRequested,
    "withdrawn": said.GraphWithdrawn,
    "spawned": said.Spawned,
    "despawned": said.Despawned,
    "declared": said.RigDeclared,
}

_head = msgspec.json.Decoder(_Head).decode
_decoders: dict[Any, Any] = {}


def read(data: Bytes, kind: type[ValueT]) -> ValueT:
    """Read one JSON value of a type.

    Raises:
        NotPosegate: It is none.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        value: ValueT = decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotPosegate(f"what came is not what posegate answers: {error}") from error
    return value


def answer_of(data: Bytes) -> Answer | Problem:
    """Read one answer, or the problem in its place.

    Raises:
        NotPosegate: It is neither.
    """
    try:
        head = _head(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotPosegate(f"what came is not what posegate answers: {error}") from error
    if head.problem is not UNSET:
        return read(head.problem, Problem)
    if not head.outcome:
        raise NotPosegate("what came has no outcome, which every answer of posegate has")
    if head.has_parts:
        return _tick(data, head)
    if not head.accepted:
        return read(data, said.Refused) if head.failed_at is UNSET else _refused_bundle(data)
    if head.outcome == "bundled":
        return _bundled(data)
    return read(data, _committed(head) if head.outcome == "committed" else _FACTS.get(head.outcome, said.Accepted))


def _committed(head: _Head) -> type[Answer]:
    """Give which `committed` it is: three gates commit, and each says something else about it."""
    if head.current is not UNSET:
        return said.TransitionCommitted
    if head.version is not UNSET:
        return said.ParametersCommitted
    return said.Accepted if head.active is UNSET else said.GraphCommitted


def _with(answer: Answer | Part, kind: type[ValueT], **members: Any) -> ValueT:
    """Give an answer that holds others, made of its plain members and of those that were read one by one."""
    plain = {name: getattr(answer, name) for name in answer.__struct_fields__}
    return kind(**{**plain, **members})


def _bundled(data: Bytes) -> Answer:
    answers = tuple(answer_of(each) for each in read(data, _Bundle).answers)
    return _with(read(data, said.Accepted), said.Bundled, answers=answers)


def _refused_bundle(data: Bytes) -> Answer:
    answers = tuple(None if bytes(each) == b"null" else answer_of(each) for each in read(data, _Bundle).answers)
    failed_at = len(answers) - 1
    return _with(read(data, said.Refused), said.BundleRefused, answers=answers, failed_at=failed_at)


def _tick(data: Bytes, head: _Head) -> Answer:
    rows = None if head.requests is UNSET else read(data, _Requests).requests
    return _with(
        read(data, Answer),
        said.TickAnswer,
        rollback=None if head.rollback is UNSET else _part(head.rollback, said.RolledBack),
        requests=None if rows is None else tuple(_part(each, said.Queued) for each in rows),
        seal=None if head.seal is UNSET else _seal(head.seal),
        confirm=None if head.confirm is UNSET else _part(head.confirm, said.Confirmed),
    )


def _part(data: Raw, kind: type[PartT]) -> PartT | PartRefused:
    return read(data, kind) if read(data, Part).accepted else read(data, PartRefused)


def _seal(data: Raw) -> said.Sealed | PartRefused:
    part = read(data, Part)
    if not part.accepted:
        return read(data, PartRefused)
    rows = tuple(applied_of(row) for row in read(data, _Seal).answers)
    return _with(read(data, _SealedWithout), said.Sealed, answers=rows)


class _SealedWithout(Part, frozen=True, kw_only=True):
    tick: int
    digest: str
    expired: tuple[Token, ...] = ()
    closed: tuple[ClosedWindow, ...] = ()


def applied_of(data: Bytes) -> Applied:
    """Read one request that a tick applied, with its answer."""
    row = read(data, _Applied)
    return Applied(row.tick, row.source, row.number, row.character, row.command, answer_of(row.answer))
