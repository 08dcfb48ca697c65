"""The bundle: commands over several characters that are accepted together, as one decision, or not at all.

Source: contract, section 8, "Bundle".
"""

from enum import StrEnum
from typing import Any, final

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from app.gates.consequence import Consequences
from app.gates.decision import Command, Fact, Problem, Undecided
from app.gates.event_commands import Acknowledge, CommitLoop, Covered, Enqueue, InstanceOpened, Play, Retire
from app.gates.graph import GraphRequested, RequestGraph, SubmitCandidate, WithdrawGraph
from app.gates.lives import Despawn, Spawn
from app.gates.parameter import CommitParameters
from app.gates.transition import Begin, Cancel, Complete, Fail, TransitionGranted, TransitionKept

MemberCommand = (
    Begin
    | Complete
    | Cancel
    | Fail
    | CommitParameters
    | Play
    | Enqueue
    | Covered
    | CommitLoop
    | Retire
    | Acknowledge
    | RequestGraph
    | SubmitCandidate
    | WithdrawGraph
    | Spawn
    | Despawn
)
"""What a bundle may hold: every command of one character."""

References = dict[str, int]
"""By field: which earlier command's answer the value is to be taken from."""


class BundleRefusal(StrEnum):
    """Why a bundle was refused."""

    MEMBER_REFUSED = "member_refused"


class Member(Struct, frozen=True, array_like=True, gc=False):
    """One command of a bundle and the character it is for. Fields in `references` hold nothing yet."""

    character: str
    command: MemberCommand
    references: References = {}


class Bundle(Command, frozen=True, tag="bundle"):
    """Decide commands in order as one. Answers: Bundled, or `member_refused` with nothing applied.

    With `link` the tokens it grants end together.
    """

    commands: list[Member]
    link: bool = False

    def __post_init__(self) -> None:
        if self.life is not UNSET:
            raise ValueError("a bundle has no life; its commands may name theirs")


class Answered(Struct, frozen=True, array_like=True, gc=False):
    """One decision inside another: who, what command, what was answered, the character's revision after it.

    `command` is the command's name, by which the journal knows what `answer` is.
    """

    character: str | None
    command: str
    answer: Any
    revision: int
    consequences: Consequences | None = None


@final
class Bundled(Fact, frozen=True, tag="bundled"):
    """All were accepted; the answers stand in the order of the commands."""

    answers: list[Answered]


def resolved(command: Command, references: References, answers: dict[int, Any]) -> Command | Undecided:
    """Put what earlier answers gave, those of `answers` by their numbers, in the place of each `{"answer": i}`."""
    given: dict[str, Any] = {}
    for field, index in references.items():
        value = _given(field, answers.get(index))
        if value is UNSET:
            return Undecided(Problem.INVALID, "the answer it refers to gives none", at=field)
        given[field] = value
    return replace(command, **given) if given else command


def _given(field: str, answer: Any) -> Any | UnsetType:
    match field, answer:
        case (("token" | "holder"), (TransitionGranted(token=token) | TransitionKept(token=token))) if (
            token is not None
        ):
            return token
        case "clip_instance", InstanceOpened(clip_instance=clip_instance):
            return clip_instance
        case "request", GraphRequested(request=request):
            return request
        case _:
            return UNSET
