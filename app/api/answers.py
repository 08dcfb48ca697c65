"""Answers: what a decision looks like on the wire, for whoever asked and for whoever reads it later."""

from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct
from starlette.responses import Response

from app.api.problems import problem_of
from app.gates.bundle import Answered, Bundle, Bundled
from app.gates.candidate import WIDE, finished
from app.gates.character import Answer
from app.gates.consequence import Consequences
from app.gates.decision import Command, Fact, Refused, Undecided
from app.gates.graph import GraphCommitted
from app.gates.lives import DeclareRig, Spawned
from app.gates.scene import Record
from app.gates.tick import Applied, RequestQueued, RolledBack, Tick, Ticked, TickSealed
from app.sequencing.mailbox import Decided, Result

_encode = msgspec.json.Encoder().encode
_ACCEPTED = b'{"accepted":true,"retryable":false,"sequence":%d,"revision":%d,'
_OPAQUE = ("payload", "data", "pose")
_APPLIED = b'{"tick":%d,"source":%b,"number":%d,"character":%b,"command":%b,"answer":%b}'
_REFUSED = b'{"accepted":false,"retryable":%b,"sequence":%d,"revision":%d,'


PACED = 16
"""After how many requests, or items of a list, there is a step."""


class SpawnedAnswer(Struct, frozen=True, gc=False):
    """A spawn as a batch answers it."""

    outcome: str
    life: int
    created: bool


def answer_bytes(sequence: int, record: Record) -> bytes:
    """Give a decision as a JSON object."""
    return _bytes_of(sequence, record.answer, record.revision, record.consequences)


def answer_in_steps(sequence: int, record: Record) -> Generator[None, None, bytes]:
    """Give a decision as `answer_bytes` does, with a step after every few requests that a tick sealed."""
    answer = record.answer
    return (yield from _ticked(sequence, answer)) if type(answer) is Ticked else answer_bytes(sequence, record)


def _bytes_of(sequence: int, answer: Answer, revision: int, consequences: Consequences | None) -> bytes:
    if type(answer) is Refused:
        retryable = b"true" if answer.is_retryable else b"false"
        refused = answer if answer.failed_at is UNSET else _refused_bundle(sequence, answer, answer.failed_at)
        return _REFUSED % (retryable, sequence, revision) + _encode(refused)[1:]
    if type(answer) is Ticked:
        return finished(_ticked(sequence, answer))
    shown = _fact_shown(sequence, answer) if type(answer) in _SHOWN_OTHERWISE else answer
    accepted = _ACCEPTED % (sequence, revision) + _encode(shown)[1:]
    return accepted if consequences is None else _with_consequences(accepted, answer, consequences)


_SHOWN_OTHERWISE = frozenset({Spawned, Bundled})


def _fact_shown(sequence: int, fact: Answer) -> object:
    if type(fact) is Spawned:
        return SpawnedAnswer("spawned", fact.life, fact.created)
    if type(fact) is Bundled:
        return {"outcome": "bundled", "answers": [msgspec.Raw(_inner(sequence, given)) for given in fact.answers]}
    return fact


def _with_consequences(accepted: bytes, answer: Answer, consequences: Consequences) -> bytes:
    """Add what else a decision ended: tokens in `ended`, windows in `closed`."""
    ended = [each.token for each in consequences.ended]
    more: dict[str, Any] = {"ended": ended} if ended else {}
    if consequences.windows:
        more["closed"] = closed_rows(consequences)
    if type(answer) is GraphCommitted:
        shown = msgspec.json.decode(accepted)
        return _encode({**shown, **more, "ended": [*answer.ended, *ended]})
    return accepted[:-1] + b"," + _encode(more)[1:]


def closed_rows(consequences: Consequences) -> list[dict[str, Any]]:
    """Show the windows that were closed, each with the synthetic event that ends it."""
    return [
        {"character": each.character, "kind": each.window.kind, "event": each.event, "delivery": each.delivery}
        for each in consequences.windows
    ]


def _inner(sequence: int, given: Answered) -> bytes:
    """Give a decision inside another as an answer of its own."""
    if type(given.answer) is Undecided:
        return _encode({"problem": problem_of(given.answer).body(retry_after=1)})
    return _bytes_of(sequence, given.answer, given.revision, given.consequences)


def _refused_bundle(sequence: int, answer: Refused, failed_at: int) -> dict[str, Any]:
    """Show a bundle of which nothing was applied: the answers before the refused one never came to be."""
    assert answer.refused is not UNSET, "a bundle is refused for one of its commands"
    answers = [*[None] * failed_at, msgspec.Raw(_bytes_of(sequence, answer.refused, 0, None))]
    return {"outcome": answer.outcome, "at": answer.at, "failed_at": failed_at, "answers": answers}


def _ticked(sequence: int, fact: Ticked) -> Generator[None, None, bytes]:
    return _encode((yield from _parts(sequence, fact)))


def _parts(sequence: int, fact: Ticked) -> Generator[None, None, dict[str, Any]]:
    """Show a tick: what became of the whole, then an answer for each part that was given."""
    refusal = fact.refusal()
    shown: dict[str, Any] = {
        "accepted": refusal is None,
        "outcome": "ticked" if refusal is None else refusal.outcome,
        "retryable": refusal is not None and refusal.is_retryable,
        "sequence": sequence,
        "revision": 0,
    }
    if fact.rollback is not UNSET:
        shown["rollback"] = _rolled_back(fact.rollback)
    if fact.requests is not UNSET:
        shown["requests"] = [_QUEUED if refused is None else _part(refused) for refused in fact.requests]
    if fact.seal is not UNSET:
        shown["seal"] = yield from _sealed(sequence, fact.seal)
    if fact.confirm is not UNSET:
        shown["confirm"] = _part(fact.confirm)
    for part, refused in fact.refused.items():
        shown[part] = _part(refused)
    return shown


def _rolled_back(fact: RolledBack) -> dict[str, Any]:
    shown: dict[str, Any] = {"accepted": True, "retryable": False, "outcome": "rolled_back", "tick": fact.tick}
    shown |= {"timeline": fact.timeline, "characters": fact.characters}
    if fact.consequences is not None and fact.consequences.ended:
        shown["ended"] = [each.token for each in fact.consequences.ended]
    if fact.consequences is not None and fact.consequences.windows:
        shown["closed"] = closed_rows(fact.consequences)
    return shown


def _sealed(sequence: int, fact: TickSealed) -> Generator[None, None, dict[str, Any]]:
    rows = list[msgspec.Raw]()
    for tick in fact.ticks:
        rows += yield from applied_rows_in_steps(sequence, tick.tick, tick.applied)
    shown: dict[str, Any] = {
        "accepted": True,
        "outcome": "sealed",
        "retryable": False,
        "tick": fact.tick,
        "digest": fact.digest,
        "answers": rows,
    }
    ends = [tick.expired for tick in fact.ticks if tick.expired is not None]
    if ends:
        shown["expired"] = [each.token for consequences in ends for each in consequences.ended]
    closed = [row for consequences in ends for row in closed_rows(consequences)]
    return shown | {"closed": closed} if closed else shown


def _part(answer: Fact | Refused) -> msgspec.Raw:
    """Show what became of one part of a tick."""
    retryable = b"true" if type(answer) is Refused and answer.is_retryable else b"false"
    accepted = b"false" if type(answer) is Refused else b"true"
    return msgspec.Raw(b'{"accepted":%b,"retryable":%b,' % (accepted, retryable) + _encode(answer)[1:])


_QUEUED = _part(RequestQueued())


def applied_rows(sequence: int, tick: int, applied: list[Applied]) -> list[msgspec.Raw]:
    """Show the requests that a tick applied, in order, each with its answer."""
    return finished(applied_rows_in_steps(sequence, tick, applied))


def applied_rows_in_steps(sequence: int, tick: int, applied: list[Applied]) -> Generator[None, None, list[msgspec.Raw]]:
    """Show the requests that a tick applied, as `applied_rows`, with a step after every few."""
    said, rows = _Said(), list[msgspec.Raw]()
    for number, each in enumerate(applied, 1):
        if number % PACED == 0:
            yield
        given = each.answered
        who = tick, said[each.source], each.number, said[given.character], said[given.command]
        rows.append(msgspec.Raw(_APPLIED % (*who, _inner(sequence, given))))
    return rows


class _Said(dict[str | None, bytes]):
    """Texts as JSON, each written once: a tick says a few of them many times."""

    def __missing__(self, text: str | None) -> bytes:
        self[text] = written = _encode(text)
        return written


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
    return finished(shown_in_steps(sequence, at, record))


def shown_in_steps(sequence: int, at: int, record: Record) -> Generator[None, None, dict[str, Any]]:
    """Give a decision as `shown` does, with a step after every few of the commands and answers that it holds."""
    if type(record.command) in WIDE:
        command = yield from _unsealed((yield from _asked(record.command)))
        answer = yield from _answer_shown(sequence, record)
    else:
        command = _without_seals(msgspec.to_builtins(record.command))
        answer = _without_seals(msgspec.json.decode(answer_bytes(sequence, record)))
    name = command.pop("command")
    for declared in ("inline", *(("rig",) if isinstance(record.command, DeclareRig) else ())):
        command.pop(declared, None)
    return {
        "sequence": sequence,
        "at": iso(at),
        "character": record.character,
        "command": name,
        "asked": command,
        "answer": answer,
    }


def _answer_shown(sequence: int, record: Record) -> Generator[None, None, dict[str, Any]]:
    """Give the answer of a decision that holds others, without any seal."""
    fact = record.answer
    if type(fact) is not Ticked or fact.seal is UNSET:
        whole: dict[str, Any] = yield from _unsealed(msgspec.json.decode(answer_bytes(sequence, record)))
        return whole
    parts = yield from _parts(sequence, fact)
    rows, parts["seal"]["answers"] = parts["seal"]["answers"], []
    whole = yield from _unsealed(msgspec.json.decode(_encode(parts)))
    for number, row in enumerate(rows, 1):
        whole["seal"]["answers"].append(_without_seals(msgspec.json.decode(row)))
        if number % PACED == 0:
            yield
    return whole


def _asked(command: Command) -> Generator[None, None, dict[str, Any]]:
    """Give a command's fields as they were asked, those of the commands inside it too."""
    # The many requests of a tick are given below, one after another.
    is_long = type(command) is Tick and command.requests is not UNSET
    asked: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(command, requests=[]) if is_long else command)
    if type(command) is Bundle:
        asked["commands"] = inner = list[dict[str, Any]]()
        for number, member in enumerate(command.commands, 1):
            references = {field: {"answer": index} for field, index in member.references.items()}
            inner.append({**msgspec.to_builtins(member.command), "character": member.character} | references)
            if number % PACED == 0:
                yield
    if type(command) is Tick and command.requests is not UNSET:
        asked["requests"] = inner = list[dict[str, Any]]()
        for request in command.requests:
            given = request.command
            fields = (yield from _asked(given)) if type(given) is Bundle else msgspec.to_builtins(given)
            who = {} if request.character is None else {"character": request.character}
            own = {"source": request.source, "number": request.number, "priority": request.priority}
            inner.append({**fields, "tick": request.tick, **own, **who})
            if len(inner) % PACED == 0:
                yield
    return asked


def _unsealed(value: Any) -> Generator[None, None, Any]:
    """Drop seals as `_without_seals` does, with a step after every few items of the lists that members hold."""
    if type(value) is list:
        items = list[Any]()
        for number, item in enumerate(value, 1):
            items.append(_without_seals(item))
            if number % PACED == 0:
                yield
        return items
    if type(value) is not dict:
        return value
    members = dict[str, Any]()
    for name, item in value.items():
        if name != "seal" or type(item) is not str:
            members[name] = item if name in _OPAQUE else (yield from _unsealed(item))
    return members


def _without_seals(value: Any) -> Any:
    """Drop the seal of every token in an answer; opaque JSON of callers is theirs and stays whole."""
    if type(value) is list:
        return [_without_seals(item) for item in value]
    if type(value) is not dict:
        return value
    return {
        name: item if name in _OPAQUE else _without_seals(item)
        for name, item in value.items()
        if name != "seal" or type(item) is not str
    }


def iso(at: int) -> str:
    """Give milliseconds since 1970 as RFC 3339 in UTC."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
