"""Answers: what a decision looks like on the wire, for whoever asked and for whoever reads it later."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct
from starlette.responses import Response

from app.api.problems import problem_of
from app.gates.decision import RETRYABLE, Refused, Undecided
from app.gates.lives import DeclareRig, Spawned
from app.gates.scene import Record
from app.sequencing.mailbox import Decided, Result

_encode = msgspec.json.Encoder().encode
_ACCEPTED = b'{"accepted":true,"retryable":false,"sequence":%d,"revision":%d,'
_REFUSED = b'{"accepted":false,"retryable":%b,"sequence":%d,"revision":%d,'


class SpawnedAnswer(Struct, frozen=True, gc=False):
    """A spawn as a batch answers it."""

    outcome: str
    life: int
    created: bool


def answer_bytes(sequence: int, record: Record) -> bytes:
    """Give a decision as a JSON object."""
    answer = record.answer
    if type(answer) is Refused:
        retryable = b"true" if answer.outcome in RETRYABLE else b"false"
        return _REFUSED % (retryable, sequence, record.revision) + _encode(answer)[1:]
    if type(answer) is Spawned:
        return (
            _ACCEPTED % (sequence, record.revision) + _encode(SpawnedAnswer("spawned", answer.life, answer.created))[1:]
        )
    return _ACCEPTED % (sequence, record.revision) + _encode(answer)[1:]


def answer_of(result: Result, *, retry_after: int) -> bytes:
    """Give one answer of a batch: a decision, or the problem in its place."""
    if type(result) is Undecided:
        return _encode({"problem": problem_of(result).body(retry_after=retry_after)})
    return answer_bytes(result.sequence, result.record)


def answer_response(result: Result) -> Response:
    """Answer one command.

    Raises:
        ProblemError: No gate decided it.
    """
    return Response(answer_bytes(decided(result).sequence, decided(result).record), media_type="application/json")


def decided(result: Result) -> Decided:
    """Give the decision of a result.

    Raises:
        ProblemError: No gate decided it.
    """
    if type(result) is Undecided:
        raise problem_of(result)
    return result


def shown(sequence: int, at: int, record: Record) -> dict[str, Any]:
    """Give a decision as the history shows it: what was asked and answered, without any seal."""
    command = _without_seals(msgspec.to_builtins(record.command))
    name = command.pop("command")
    for declared in ("inline", *(("rig",) if isinstance(record.command, DeclareRig) else ())):
        command.pop(declared, None)
    return {
        "sequence": sequence,
        "at": iso(at),
        "character": record.character,
        "command": name,
        "asked": command,
        "answer": _without_seals(msgspec.json.decode(answer_bytes(sequence, record))),
    }


def _without_seals(value: Any) -> Any:
    """Drop the seal of every token in an answer; opaque JSON of callers is theirs and stays whole."""
    if type(value) is list:
        return [_without_seals(item) for item in value]
    if type(value) is not dict:
        return value
    return {
        name: item if name in ("payload", "data", "pose") else _without_seals(item)
        for name, item in value.items()
        if name != "seal"
    }


def iso(at: int) -> str:
    """Give milliseconds since 1970 as RFC 3339 in UTC."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
