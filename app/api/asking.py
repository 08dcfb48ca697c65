"""Asking: what every door does with commands before they wait for their turn, and with what became of them."""

from collections.abc import Iterable, Sequence

from msgspec import UNSET

from app.api.callers import Caller, Role
from app.api.problems import ProblemError
from app.api.quota import Quota
from app.gates.bundle import Bundle
from app.gates.decision import Refused
from app.gates.scene import Scene
from app.gates.tick import Tick
from app.journal.port import CommitUnknown, JournalDamaged, JournalUnavailable
from app.sequencing.following import SequenceAhead
from app.sequencing.mailbox import Addressed, Decided, Result
from app.sequencing.registry import Draining, MailboxFull, MemoryFull, Registry

FAILURES: dict[type[Exception], str] = {
    MailboxFull: "mailbox-full",
    MemoryFull: "memory-full",
    Draining: "draining",
    JournalUnavailable: "journal-unavailable",
    JournalDamaged: "journal-damaged",
    CommitUnknown: "commit-unknown",
    SequenceAhead: "sequence-ahead",
}
"""Why the registry decides nothing, or cannot say what it decided, and the problem that tells it."""

_OF_SEVERAL = (Bundle, Tick)

MISTAKE = ProblemError("internal-error", "the service made a mistake; its log says more")
"""What is told of a failure that nobody foresaw."""


def problem_of_failure(error: Exception) -> ProblemError:
    """Turn one of the `FAILURES` into the problem that tells it."""
    at = "min_sequence" if type(error) is SequenceAhead else None
    return ProblemError(FAILURES[type(error)], str(error), at=at)


def require_share_now(
    quota: Quota, registry: Registry, caller: Caller, scene: str, commands: Sequence[Addressed]
) -> bool:
    """See that a caller may have these commands decided; the request itself was counted at its door.

    False when the scene must be opened before that is known: nothing was counted then, and `require_share` opens it.

    Raises:
        ProblemError: `too-many-requests`, or `unauthenticated` for a session from before a repair. Nothing was decided.
        JournalDamaged: The scene was found damaged.
    """
    quota.require_refusals(caller)
    if caller.role is Role.SESSION:
        held = registry.in_memory(scene)
        if held is None:
            return False
        _require_unrepaired(held, caller)
    take_inside(quota, caller, commands)
    return True


async def require_share(
    quota: Quota, registry: Registry, caller: Caller, scene: str, commands: Sequence[Addressed]
) -> None:
    """See the same, and open the scene for it where that is needed.

    Raises:
        ProblemError: As `require_share_now`.
        Draining, JournalUnavailable, JournalDamaged: The scene cannot be opened, or was found damaged.
    """
    if require_share_now(quota, registry, caller, scene, commands):
        return
    opened = await registry.opened(scene)
    if opened is not None:
        _require_unrepaired(opened.scene, caller)
    take_inside(quota, caller, commands)


def note_refusals(quota: Quota, caller: Caller, results: Iterable[Result]) -> None:
    """Count what was refused, for each refusal is recorded."""
    refused = 0
    for result in results:
        if type(result) is Decided and type(result.record.answer) is Refused:
            refused += 1
    if refused:
        quota.note_refusals(caller, refused)


def _require_unrepaired(held: Scene, caller: Caller) -> None:
    """See that a session was not minted before a repair that lost decisions: its lives may be somebody else's now."""
    if held.state.exists and held.sealer.fingerprint != caller.under:
        raise ProblemError("unauthenticated", "the scene lost decisions since this session was minted; mint another")


def take_inside(quota: Quota, caller: Caller, commands: Sequence[Addressed]) -> None:
    """Count the commands inside of commands that are made of several."""
    within = 0
    for addressed in commands:
        if type(addressed.command) in _OF_SEVERAL:
            within += inside(addressed)
    if within:
        quota.take(caller, within)


def inside(addressed: Addressed) -> int:
    """Count the commands inside of a command that is made of several."""
    command = addressed.command
    if type(command) is Bundle:
        return len(command.commands)
    return len(command.requests) if type(command) is Tick and command.requests is not UNSET else 0
