"""Wanted: which decisions somebody who watches wants to be told."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import UNSET, Struct

from app.api.history import layers_of
from app.api.problems import ProblemError
from app.gates.bundle import Bundle
from app.gates.candidate import concerned
from app.gates.catalogue import COMMANDS
from app.gates.decision import Command, name_of
from app.gates.identity import NAME_LENGTH_MAX, is_identifier
from app.gates.scene import Record
from app.gates.tick import Tick, Ticked

GATES = tuple(dict.fromkeys(entry.gate for entry in COMMANDS.values()))
"""The gates that decisions can be narrowed to."""

_GATES: Mapping[str, str] = {name_of(command): entry.gate for command, entry in COMMANDS.items()}


class Wanted(Struct, frozen=True):
    """Which decisions a watcher wants; None wants all. Two that want the same share what is made for them."""

    character: str | None = None
    layer: str | None = None
    gate: str | None = None
    accepted: bool | None = None

    @property
    def is_everything(self) -> bool:
        """Say whether nothing is left out."""
        return self == EVERYTHING

    def takes(self, record: Record) -> bool:
        """Say whether a decision is wanted: also for what it did to others, and for the commands inside it."""
        return (
            (self.accepted is None or record.accepted is self.accepted)
            and (self.character is None or record.character == self.character or self.character in concerned(record))
            and (self.gate is None or self.gate in gates_of(record))
            and (self.layer is None or self.layer in layers_of(record))
        )


EVERYTHING = Wanted()


def wanted_of(members: Mapping[str, Any]) -> Wanted:
    """Read what somebody wants from the members of a request: `character`, `layer`, `gate`, `accepted`.

    Raises:
        ProblemError: `invalid`, with the member in `at`. Other members are not looked at.
    """
    character, layer = members.get("character"), members.get("layer")
    gate, accepted = members.get("gate"), members.get("accepted")
    if character is not None and not (type(character) is str and is_identifier(character)):
        raise ProblemError("invalid", "this is no character's id", at="character")
    if layer is not None and not (type(layer) is str and 0 < len(layer) <= NAME_LENGTH_MAX):
        raise ProblemError("invalid", f"a layer's name is text of 1 to {NAME_LENGTH_MAX} characters", at="layer")
    if gate is not None and gate not in GATES:
        raise ProblemError("invalid", f"the gates are {', '.join(GATES)}", at="gate")
    if accepted is not None and type(accepted) is not bool:
        raise ProblemError("invalid", "`accepted` is true or false", at="accepted")
    return Wanted(character, layer, gate, accepted)


def gates_of(record: Record) -> set[str]:
    """Name the gates that a decision was made by: of the commands inside it and of the requests it applied too."""
    gates = set(_gates_of(record.command))
    answer = record.answer
    for tick in answer.seal.ticks if type(answer) is Ticked and answer.seal is not UNSET else ():
        gates.update(_GATES[applied.answered.command] for applied in tick.applied)
    return gates


def _gates_of(command: Command) -> Iterator[str]:
    yield COMMANDS[type(command)].gate
    if type(command) is Bundle:
        for member in command.commands:
            yield from _gates_of(member.command)
    if type(command) is Tick and command.requests is not UNSET:
        for request in command.requests:
            yield from _gates_of(request.command)
