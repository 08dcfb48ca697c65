"""What a checkpoint may cover and what may be forgotten behind it: the same in every journal."""

from app.journal.port import START, Superseded


class Misuse(ValueError):
    """A request that its caller was not allowed to make. Nothing was changed."""


def require_checkpoint_between(scene: str, position: int, *, lowest: int | None, last: int) -> None:
    """See that a checkpoint at `position` is no older than the earlier one, at `lowest`, and covers only what is there.

    Raises:
        Superseded: It is older.
        Misuse: It covers more.
    """
    if lowest is not None and position < lowest:
        raise Superseded(f"the checkpoint of {scene} is at {lowest} and may not fall to {position}")
    if not START <= position <= last:
        raise Misuse(f"{scene} ends at position {last}; a checkpoint cannot be at {position}")


def require_covered(scene: str, before: int, *, checkpoint: int | None) -> None:
    """See that the entries up to `before` can be forgotten, because a checkpoint holds what they did.

    Raises:
        Misuse: None does.
    """
    if before > (START if checkpoint is None else checkpoint):
        raise Misuse(f"no checkpoint of {scene} covers position {before}, so its entries are kept")
