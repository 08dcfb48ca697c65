"""Consequences: what else a decision ended, because it was tied to what the decision was about.

Source: contract, section 8: tokens of one link end together, and a window whose holder is lost is closed.
"""

from msgspec import Struct

from app.gates.clip import Event, OpenWindow
from app.gates.identity import Token


class TokenEnded(Struct, frozen=True, array_like=True, gc=False):
    """A linked token that ended with another, and how: one letter, as `app.gates.transition` names them."""

    token: Token
    how: str


class WindowClosed(Struct, frozen=True, array_like=True, gc=False):
    """A window whose end the gate itself gives: the synthetic event, and its delivery.

    `delivery` is None when the event waits: for its tick to be confirmed, or behind an opening that waits itself; or
    when it `is_again`, delivered before a rollback already.
    """

    character: str
    window: OpenWindow
    event: Event
    delivery: int | None
    is_again: bool = False


class Consequences(Struct, frozen=True, array_like=True, gc=False):
    """All that one decision ended besides what it was about, in the order it ended."""

    ended: list[TokenEnded] = []
    windows: list[WindowClosed] = []
