"""The mark of a journal that another is being moved into: until it is taken away, nobody may serve what is there."""

from contextlib import suppress

from app.gates.scene import OpenTicks, SceneState
from app.journal.codec import StoredCharacter, encode_character, encode_checkpoint
from app.journal.port import START, Checkpoint, Journal, JournalDamaged, JournalUnavailable, Moving

MARK = "~moving"
"""The scene that is the mark. No scene of a caller can have this name, and it is never listed.

To everybody who does not know it, it is a scene that was deleted. It stays when a move is finished; what says that one
is not is a character in it, of which nothing is known.
"""

UNFINISHED = (
    "another journal is being moved into this one, and not all of it is there. Wait until `posegate migrate` is done;"
    " when it was interrupted, run it again, with the same two journals"
)

_HEAD = encode_checkpoint(SceneState(), {}, OpenTicks(), closed=True)
_MOVING = {"unfinished": encode_character(StoredCharacter(None, None, None))}


async def is_unfinished(journal: Journal) -> bool:
    """Say whether another journal is being moved into this one, or was and did not come to its end.

    Raises:
        JournalUnavailable, JournalDamaged: It cannot be told.
    """
    mark = await journal.load(MARK)
    return mark is not None and bool(mark.characters)


async def require_finished(journal: Journal) -> None:
    """See that no journal is being moved into this one.

    Raises:
        JournalUnavailable: One is, or it cannot be read.
    """
    # Where damage hides the mark, the scenes that are not damaged are to be served still.
    with suppress(JournalDamaged):
        if await is_unfinished(journal):
            raise JournalUnavailable(UNFINISHED)


async def mark_unfinished(journal: Moving) -> None:
    """Say that a move into this journal has begun. Raises as `Moving.place`."""
    await journal.place(MARK, Checkpoint(START, _HEAD, _MOVING), listed=False)


async def mark_finished(journal: Moving) -> None:
    """Say that the move is done. Raises as `Moving.place`."""
    await journal.place(MARK, Checkpoint(START, _HEAD, {}), listed=False)
