"""Who follows which scene on JetStream: told of entries that other nodes appended, and never of its own."""

from collections.abc import Callable

from app.journal.jetstream_api import DIGITS_MAX
from app.journal.jetstream_forms import token_of
from app.journal.jetstream_known import Knowledge
from app.journal.jetstream_streams import Streams
from app.journal.nats_wire import Message, Wire
from app.journal.port import Moved


class Followed:
    """One scene that is followed: who is told, and the newest hint that came while an own append was under way."""

    __slots__ = ("appends", "followers", "held", "stop")

    def __init__(self, stop: Callable[[], None]) -> None:
        self.stop = stop
        self.followers: dict[object, Moved] = {}
        self.appends = 0
        self.held: int | None = None


class Following:
    """All who follow.

    Bound: one subscription a followed scene, and one hint held back.
    """

    def __init__(self, wire: Wire, streams: Streams, knowledge: Knowledge) -> None:
        self._wire = wire
        self._streams = streams
        self._knowledge = knowledge
        self._followed: dict[str, Followed] = {}

    def follow(self, scene: str, moved: Moved) -> Callable[[], None]:
        """Have `moved` called for each entry of the scene by another hand; give what ends that."""
        followed = self._followed.get(scene)
        if followed is None:
            stop_listening = self._wire.listen(
                self._streams.hint(token_of(scene)), lambda hint: self._hear(scene, hint)
            )
            followed = self._followed[scene] = Followed(stop_listening)
        me = object()
        followed.followers[me] = moved

        def stop() -> None:
            if followed.followers.pop(me, None) is not None and not followed.followers:
                followed.stop()
                self._followed.pop(scene, None)

        return stop

    def begin_append(self, scene: str) -> Followed | None:
        """Hold back hints while an own append is under way: which of them is its echo is known when it is done."""
        followed = self._followed.get(scene)
        if followed is not None:
            followed.appends += 1
        return followed

    def end_append(self, scene: str, followed: Followed) -> None:
        """End what `begin_append` began, and tell of what was held back unless it was the echo."""
        followed.appends -= 1
        if not followed.appends and followed.held is not None:
            newest, followed.held = followed.held, None
            self._tell(scene, followed, newest)

    def tell_all(self) -> None:
        """Tell everybody: hints may have been lost."""
        for followed in list(self._followed.values()):
            for moved in list(followed.followers.values()):
                moved()

    def stop(self) -> None:
        """End all following."""
        for followed in self._followed.values():
            followed.stop()
        self._followed.clear()

    def _hear(self, scene: str, hint: Message) -> None:
        """Take one hint: the headers of an entry that JetStream has stored."""
        followed = self._followed.get(scene)
        if followed is None:
            return
        told = hint.header(b"Nats-Sequence")
        position = int(told) if told is not None and told.isdigit() and len(told) <= DIGITS_MAX else 0
        if followed.appends:
            followed.held = max(position, followed.held or 0)
            return
        self._tell(scene, followed, position)

    def _tell(self, scene: str, followed: Followed, position: int) -> None:
        """Tell who follows, unless the entry is this node's own, or lies before one of its own."""
        known = self._knowledge.of(scene)
        if position and position <= known.appended:
            return
        # Anybody may write to the subject of hints, so that is where to look and nothing that is known.
        known.hinted = max(known.hinted, position)
        for moved in list(followed.followers.values()):
            moved()
