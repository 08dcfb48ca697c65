"""History: why a character is in its state, decision by decision, accepted and refused."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from msgspec import UNSET, Struct
from pydantic import BaseModel
from starlette.responses import Response

from app.api.answers import shown_in_steps
from app.api.deps import OpenedDep, RegistryDep, SceneName
from app.api.inspect import After, Limit, page_size
from app.api.problems import ProblemError
from app.api.security import GuardedRoute
from app.gates.bundle import Bundle
from app.gates.candidate import concerned
from app.gates.catalogue import COMMANDS, outcome_of, refusal_of, word_of
from app.gates.decision import Command, name_of
from app.gates.event_commands import Play
from app.gates.graph import GraphCommitted
from app.gates.scene import Record
from app.gates.tick import Tick
from app.gates.transition import Begin, Cancel, Complete, Fail
from app.sequencing.pace import Pace

router = APIRouter(route_class=GuardedRoute, prefix="/v1/scenes/{scene}", tags=["inspection"])

SCANNED_MAX = 20_000
"""How many decisions one page looks at before it gives what it found and says where to go on."""

PAGE_BYTES = 1_048_576
"""How large a page grows before it ends with the decision it is at, bytes."""

_COMMANDS = frozenset(map(name_of, COMMANDS))
_OUTCOMES = frozenset(
    word
    for entry in COMMANDS.values()
    for word in (*map(word_of, entry.facts), *(str(refusal) for refusal in entry.refusals))
)

Word = Annotated[str | None, Query(max_length=128)]
CommandWord = Annotated[str | None, Query(json_schema_extra={"enum": sorted(_COMMANDS)})]
OutcomeWord = Annotated[str | None, Query(json_schema_extra={"enum": sorted(_OUTCOMES)})]


class DecisionView(BaseModel):
    """One decision: what was asked and what was answered, without any seal."""

    sequence: int
    at: str
    character: str | None
    command: str
    asked: dict[str, Any]
    answer: dict[str, Any]


class HistoryPage(BaseModel):
    """Decisions in order; `next` is the sequence to read after, null at the end."""

    decisions: list[DecisionView]
    next: int | None


class Wanted(Struct, frozen=True):
    """Which decisions a reader wants; None and False want all."""

    character: str | None
    layer: str | None
    command: str | None
    outcome: str | None
    refused: bool

    def takes(self, record: Record) -> bool:
        """Say whether a decision is one of them."""
        return (
            (self.character is None or record.character == self.character or self.character in concerned(record))
            and (self.command is None or name_of(type(record.command)) == self.command)
            and (self.outcome is None or outcome_of(record.answer) == self.outcome)
            and (not self.refused or refusal_of(record.answer) is not None)
            and (self.layer is None or self.layer in layers_of(record))
        )


def layers_of(record: Record) -> set[str]:
    """Name the layers a decision concerns, those of the commands inside it and of what it ended too."""
    layers = _layers_of(record.command)
    if isinstance(record.answer, GraphCommitted):
        layers |= record.answer.epochs.keys()
    for ended in () if record.consequences is None else record.consequences.ended:
        layers.add(ended.token.layer)
    return layers


def _layers_of(command: Command) -> set[str]:
    match command:
        case Begin(layer=layer):
            return {layer}
        case Complete(token=token) | Cancel(token=token) | Fail(token=token):
            return {token.layer} - {""}
        case Play(layer=layer) if layer is not UNSET:
            return {layer}
        case Bundle(commands=members):
            return set().union(*(_layers_of(member.command) for member in members))
        case Tick(requests=requests) if requests is not UNSET:
            return set().union(*(_layers_of(request.command) for request in requests))
    return set()


@router.get("/history", response_model=HistoryPage)
async def history(
    request: Request,
    scene: SceneName,
    opened: OpenedDep,
    registry: RegistryDep,
    after: After = 0,
    limit: Limit = None,
    character: Word = None,
    layer: Word = None,
    command: CommandWord = None,
    outcome: OutcomeWord = None,
    refused: bool = False,
) -> Response:
    """Read decisions after a sequence, filtered. A page may hold fewer than asked for and still have a `next`."""
    if outcome is not None and outcome not in _OUTCOMES:
        raise ProblemError("invalid", "no command is answered with that word", at="outcome")
    if command is not None and command not in _COMMANDS:
        raise ProblemError("invalid", "there is no command of that name", at="command")
    wanted = Wanted(character, layer, command, outcome, refused)
    most = page_size(request, limit)
    found: list[bytes] = []
    last = opened.scene.sequence
    seen, scanned, size, pace = after, 0, 0, Pace()
    async for sequence, at, record in registry.history(scene, after=after, character=character):
        if sequence > last or len(found) >= most or scanned >= SCANNED_MAX or size > PAGE_BYTES:
            break
        scanned += 1
        seen = sequence
        if pace.is_due:
            await pace.pause()
        if record is not None and wanted.takes(record):
            found.append(msgspec.json.encode(await pace.through(shown_in_steps(sequence, at, record))))
            size += len(found[-1])
    else:
        seen = last
    following = msgspec.json.encode(seen if seen < last else None)
    content = b'{"decisions":[' + b",".join(found) + b'],"next":' + following + b"}"
    return Response(content, media_type="application/json")
