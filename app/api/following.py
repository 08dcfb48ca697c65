"""Following: what a channel's client is told without asking for each: the decisions it watches."""

from collections.abc import Callable
from typing import Any

import msgspec
from picows import WSMsgType

from app.api.asking import FAILURES, problem_of_failure
from app.api.feeding import Feeding
from app.api.formats import Format
from app.api.framing import framed
from app.api.line import Line
from app.api.problems import ProblemError
from app.api.talk import Said, Talk, Wish
from app.api.wanted import wanted_of
from app.gates.identity import NUMBER_MAX

_MEMBERS = frozenset({"after", "snapshot", "character", "layer", "gate", "accepted"})
_encode = msgspec.json.Encoder().encode


class Frames:
    """How a channel packs what is watched: one message each, in its format; the same bytes for all channels of it."""

    def __init__(self, kind: WSMsgType, form: Format) -> None:
        self.name = f"channel {form.media_type}"
        self._kind = kind
        self._of_json = form.of_json

    def decisions(self, decisions: list[bytes], *, last: int) -> bytes:
        """Pack decisions of one turn."""
        return self._packed(b'{"decisions":[%b],"last":%d}' % (b",".join(decisions), last))

    def place(self, sequence: int) -> bytes:
        """Pack how far the client is, behind decisions that it did not want."""
        return self._packed(b'{"last":%d}' % sequence)

    def portrait(self, kind: str, body: bytes, *, last: int | None) -> bytes:
        """Pack a piece of a `snapshot` or a `reset`, which says itself whether it is the last."""
        return self._packed(b'{"%b":%b}' % (kind.encode(), body))

    def end(self, body: bytes) -> bytes:
        """Pack why nothing more comes."""
        return self._packed(b'{"end":%b}' % body)

    def beat(self) -> bytes:
        """Pack nothing: a channel has its pings."""
        return b""

    def _packed(self, body: bytes) -> bytes:
        return framed(self._kind, self._of_json(body))


class Straight:
    """The way to the client past the task that reads for it: what is ready is sent in the step that makes it ready."""

    def __init__(self, line: Line) -> None:
        self._line = line

    @property
    def is_open(self) -> bool:
        """Say whether the client is there and reads."""
        return not self._line.is_unread and self._line.parted is None

    def write(self, piece: bytes) -> None:
        """Send frames."""
        self._line.send(piece)


class Following:
    """What one channel watches: one thing at a time, the latest that was asked for.

    Bound:     a client that does not read is not fed: what it has not read is one piece, and a place.
    """

    def __init__(self, line: Line, talk: Talk, kind: WSMsgType) -> None:
        self._line = line
        self._talk = talk
        self._kind = kind
        self._packing = Frames(kind, talk.form)
        self._number: int | None = None
        self._is_beginning = False
        self._stop: Callable[[], object] | None = None

    def wished(self, said: Said) -> None:
        """Begin to watch, or stop, as a message asks."""
        assert isinstance(said.what, Wish)
        asked = said.what.asked
        try:
            if said.what.name == "unwatch":
                if asked is not True:
                    raise ProblemError("invalid", "`unwatch` is true, or not there", at="unwatch")
                self.close()
                self._say(said.number, {"unwatched": True})
                return
            work = self._begun(said.number, **self._read(asked))
        except ProblemError as problem:
            self._tell(said.number, problem)
            return
        self.close()
        self._number, self._is_beginning = said.number, True
        self._stop = self._talk.service.registry.attend(f"channel watches {self._talk.scene}", work)

    def close(self) -> None:
        """Stop watching. One that had not begun yet is told so."""
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()
        if self._is_beginning:
            self._is_beginning = False
            self._say(self._number, {"unwatched": True})

    def _read(self, asked: Any) -> dict[str, Any]:
        """Read what is to be watched.

        Raises:
            ProblemError: `invalid`, or `forbidden`.
        """
        self._talk.require_reader()
        if type(asked) is not dict:
            raise ProblemError("invalid", "`watch` is an object", at="watch")
        unknown = next((name for name in asked if name not in _MEMBERS), None)
        if unknown is not None:
            raise ProblemError("invalid", f"`watch` has {', '.join(sorted(_MEMBERS))}", at=f"watch.{unknown[:128]}")
        after, snapshot = asked.get("after"), asked.get("snapshot", False)
        if type(after) is float and after.is_integer():
            after = int(after)
        if after is not None and not (type(after) is int and 0 <= after <= NUMBER_MAX):
            raise ProblemError("invalid", "`after` is a sequence", at="watch.after")
        if type(snapshot) is not bool or (snapshot and after is not None):
            raise ProblemError(
                "invalid", "`snapshot` is true or false, and of now: without `after`", at="watch.snapshot"
            )
        try:
            wanted = wanted_of(asked)
        except ProblemError as problem:
            raise ProblemError(problem.name, problem.detail, at=f"watch.{problem.at}") from problem
        return {"after": after, "snapshot": snapshot, "wanted": wanted}

    async def _begun(self, number: int | None, **asked: Any) -> None:
        """Watch until the end, of the channel or of what there is to be watched."""
        talk, service = self._talk, self._talk.service
        try:
            feeding = await Feeding.begun(
                service.registry,
                service.settings,
                talk.scene,
                packing=self._packing,
                admitted=talk.require_reader,
                **asked,
            )
        except ProblemError as problem:
            self._refused(number, problem)
            return
        except tuple(FAILURES) as error:
            self._refused(number, problem_of_failure(error))
            return
        try:
            self._is_beginning = False
            self._say(number, {"watching": {"after": feeding.place}})
            feeding.straight = Straight(self._line)
            async for frames in feeding:
                await self._line.sent(frames)
        finally:
            feeding.close()

    def _refused(self, number: int | None, problem: ProblemError) -> None:
        self._is_beginning = False
        self._tell(number, problem)

    def _tell(self, number: int | None, problem: ProblemError) -> None:
        self._line.say(self._kind, self._talk.form.of_json(self._talk.problem(number, problem)))

    def _say(self, number: int | None, said: dict[str, Any]) -> None:
        named = said if number is None else {"id": number, **said}
        self._line.say(self._kind, self._talk.form.of_json(_encode(named)))
