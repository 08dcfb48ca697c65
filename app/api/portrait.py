"""Portraits: a whole scene as of one sequence, in pieces of a bounded size."""

import msgspec

from app.api.inspect import scene_view
from app.api.views import character_view
from app.sequencing.pace import Pace
from app.sequencing.present import Present

PIECE_BYTES = 65_536
"""How large a piece grows before it ends with the character it is at, bytes."""


class Portrait:
    """Shows one present, piece by piece; only the piece that was asked for is held.

    A piece is a JSON object: `sequence`, `characters` (each as inspected), `more`. The first has `scene` besides (as
    inspected), and `reason` where one was given. With `character`, only that one is shown, where it is alive.
    Order: of characters: none that is promised; each is shown once.
    """

    def __init__(
        self, present: Present, *, tick_hz: int, character: str | None = None, reason: str | None = None
    ) -> None:
        self._present = present
        self._tick_hz = tick_hz
        self._reason = reason
        roster = present.roster
        self._names = iter(roster) if character is None else iter([character] if character in roster else [])
        self._next = next(self._names, None)
        self._is_begun = False

    @property
    def sequence(self) -> int:
        """Give the one sequence that it shows the scene at."""
        return self._present.sequence

    @property
    def has_more(self) -> bool:
        """Say whether there is another piece."""
        return not self._is_begun or self._next is not None

    async def piece(self, pace: Pace) -> bytes:
        """Give the next piece; others run in between as `pace` says."""
        shown, size = list[bytes](), 0
        while self._next is not None and size < PIECE_BYTES:
            shown.append(self._character(self._next))
            size += len(shown[-1])
            self._next = next(self._names, None)
            if pace.is_due:
                await pace.pause()
        first = b"" if self._is_begun else self._first()
        self._is_begun = True
        more = b"false" if self._next is None else b"true"
        return b'{"sequence":%d,%b"characters":[%b],"more":%b}' % (self.sequence, first, b",".join(shown), more)

    def _first(self) -> bytes:
        """Give the members that only the first piece has."""
        reason = b"" if self._reason is None else b'"reason":%b,' % msgspec.json.encode(self._reason)
        return b'%b"scene":%b,' % (reason, scene_view(self._present, tick_hz=self._tick_hz).model_dump_json().encode())

    def _character(self, name: str) -> bytes:
        present = self._present
        character = present.roster.get(name)
        assert character is not None, "nobody leaves a roster that is kept still"
        view = character_view(present.name, name, character, present.sequence, present.tally(name))
        return view.model_dump_json().encode()
