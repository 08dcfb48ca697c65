"""The moment of a decision: which tick is open, and which ticks an event may still belong to."""

from msgspec import Struct


class Moment(Struct, frozen=True, gc=False):
    """Where the ticks of a scene stand while a command is decided.

    Events of ticks up to `confirmed` come too late; `last` is the highest tick they may name, None for any.
    """

    tick: int = 1
    confirmed: int = 0
    last: int | None = None


STILL = Moment()
"""The moment of a scene that has sealed no tick."""
