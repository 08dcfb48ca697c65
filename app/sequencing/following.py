"""Following: what a sequencer knows of other hands that write its scene, and who waits until it has read them."""

import asyncio
from collections.abc import Callable

from app.journal.port import Journal, JournalUnavailable, alone
from app.telemetry.log import log

REACHED_S_MAX = 2.0
"""How long a reader waits for a decision that another node may have written, seconds."""


class SequenceAhead(Exception):
    """A reader asked for a decision that is not visible here, and is not in the journal. Nothing was changed."""


class Following:
    """The hints that a scene's history became longer elsewhere: many are as good as one, and none is lost.

    `has_moved`: there may be something to read. `is_owed`: a hint came, and nothing was found or nothing could be read,
    so the next look is a thorough one; so is a look that `is_due` by its time. `is_asked`: somebody waits, so even the
    next turn begins with reading.

    Bound:     one flag for any number of hints; waiters are requests, each with a deadline of its own.
    Senders:   the journal, in the event loop.  Receivers: one, the scene's sequencer.  Thread-safe: no.
    """

    def __init__(self, scene: str, journal: Journal, wake: Callable[[], None]) -> None:
        self._scene = scene
        self._journal = journal
        self._wake = wake
        self._stop: Callable[[], None] | None = None
        self._appending: asyncio.Task[object] | None = None
        self._had_moved = False
        self._has_failed = False
        self.has_moved = self.is_owed = self.is_due = self.is_asked = False
        self.waiting: list[tuple[int, asyncio.Future[None]]] = []

    def begin(self) -> None:
        """Be told from now on. A second call does nothing."""
        if self._stop is None:
            self._stop = self._journal.follow(self._scene, self.moved)

    def end(self, said: str) -> None:
        """Be told no longer; who waits hears that nothing more is read here. A second call does nothing."""
        if self._stop is not None:
            self._stop()
        self._stop = alone
        for _, reached in self.waiting:
            if not reached.done():
                reached.set_exception(JournalUnavailable(said))
        self.waiting.clear()

    @property
    def is_shared(self) -> bool:
        """Say whether other hands may write the journal at all; False before `begin`."""
        return self._stop is not None and self._stop is not alone

    @property
    def wants_look(self) -> bool:
        """Say whether what is behind should be read although no command waits."""
        return self.has_moved or self.is_due

    def moved(self) -> None:
        """Take a hint. One that the scene's own append gives, from within, says nothing new."""
        if self._appending is not None and asyncio.current_task() is self._appending:
            return
        self.has_moved = True
        self._wake()

    def look_again(self) -> None:
        """Let the sequencer look thoroughly, as soon as it has nothing to decide."""
        self.is_due = True
        self._wake()

    def reading(self) -> None:
        """Take note that reading begins: what was hinted until now will be found by it."""
        self.has_moved = self.is_due = self.is_owed = self.is_asked = False

    def has_read(self, sequence: int) -> None:
        """Take note that reading went well, up to a decision."""
        self._has_failed = False
        self.reached(sequence)

    def failed(self, error: Exception) -> None:
        """Take note that nothing could be read: it is tried again at the next look, and said once."""
        self.is_owed = True
        if not self._has_failed:
            self._has_failed = True
            log.warning("scene-cannot-be-followed", scene=self._scene, error=str(error))

    def appending(self) -> None:
        """Take note that an append begins in this task: when it succeeds, nothing was behind before it."""
        self._appending = asyncio.current_task()
        self._had_moved, self.has_moved = self.has_moved, False

    def appended(self, *, succeeded: bool) -> None:
        """Take note that the append ended; one that did not succeed proves nothing about the hints before it."""
        self._appending = None
        if succeeded:
            self.is_owed = False
        else:
            self.has_moved = self.has_moved or self._had_moved

    def reached(self, sequence: int) -> None:
        """Tell who waits for a decision that is visible by now."""
        if self.waiting:
            self.waiting = [(wanted, each) for wanted, each in self.waiting if not self._told(wanted, each, sequence)]

    async def until(self, sequence: int, *, seen: int) -> None:
        """Wait until a decision is visible; `seen` is the newest that is.

        Raises:
            SequenceAhead: It was not within `REACHED_S_MAX`, or nobody else can have written it.
            JournalUnavailable: The sequencer stopped.
        """
        if seen >= sequence:
            return
        ahead = f"the scene is at sequence {seen}, as far as is known here; {sequence} is not decided"
        if not self.is_shared:
            raise SequenceAhead(ahead)
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((sequence, reached))
        try:
            async with asyncio.timeout(REACHED_S_MAX):
                await reached
        except TimeoutError:
            raise SequenceAhead(ahead) from None
        finally:
            reached.cancel()
            self.waiting = [(wanted, each) for wanted, each in self.waiting if each is not reached]
            # A scene that does not exist stays in memory for those who wait: it may leave now.
            self._wake()

    @staticmethod
    def _told(wanted: int, reached: asyncio.Future[None], sequence: int) -> bool:
        if sequence < wanted:
            return False
        if not reached.done():
            reached.set_result(None)
        return True
