"""A scene without a journal: every command is decided, recorded, and adopted as a turn of its own."""

from typing import Any

from app.gates.bundle import Bundle, Member
from app.gates.candidate import Candidate, replay
from app.gates.catalogue import outcome_of, refusal_of
from app.gates.character import Answer, Character
from app.gates.decision import Command, Undecided
from app.gates.lives import Despawn, Spawn
from app.gates.receipt import Mark
from app.gates.rig import Rig
from app.gates.scene import Bounds, Record, Scene
from app.gates.tick import Request, Tick
from app.gates.transition import Begin, Complete
from app.journal.codec import decode_entry, encode_entry

SECRET = b"a secret of thirty-two bytes    "


class Played:
    """Plays commands on a scene, keeps every entry as the journal would, and can replay them into another scene."""

    def __init__(self, *, bounds: Bounds | None = None, at: int = 1_000, name: str = "room") -> None:
        self.bounds = bounds or Bounds()
        self.scene = Scene(name, SECRET, self.bounds)
        self.at = at
        self.entries: list[bytes] = []

    def turn(self, *asked: tuple[str | None, Command] | tuple[str | None, Command, Mark]) -> list[Any]:
        """Decide commands in one turn; give each one's answer."""
        candidate = Candidate(self.scene, self.at)
        decided = [candidate.decide(*one) for one in asked]
        if candidate.records:
            self.entries.append(encode_entry(at=candidate.at, first=candidate.first, records=candidate.records))
            self.scene.adopt(candidate)
        return [one.answer if isinstance(one, Record) else one for one in decided]

    def ask(self, command: Command, who: str | None = "hero", mark: Mark | None = None) -> Any:
        """Decide one command; a refusal must leave every character as it was, and one for the scene the ticks too.

        The double of an event that was rolled back is refused, and yet it came again: that may be noted.
        """
        before, may_return = self.held(with_ticks=who is None), bool(self.scene.ticks.unreturned)
        [answer] = self.turn((who, command) if mark is None else (who, command, mark))
        if not may_return and (isinstance(answer, Undecided) or refusal_of(answer) is not None):
            assert self.held(with_ticks=who is None) == before, "a refusal leaves the gates equal"
        return answer

    def word(self, command: Command, who: str | None = "hero") -> str:
        """Decide one command; give its outcome, or the problem's name."""
        return word(self.ask(command, who))

    def spawn(self, rig: Rig | None = None, who: str = "hero") -> Any:
        """Start a life, with a rig of its own or the default."""
        return self.ask(Spawn(inline=rig), who)

    def respawn(self, rig: Rig | None = None, who: str = "hero") -> Any:
        """End a life and start the next."""
        self.ask(Despawn(), who)
        return self.spawn(rig, who)

    def begin(self, target: str = "Run", who: str = "hero", layer: str = "base", **fields: Any) -> Any:
        """Begin a transition; give its token."""
        return self.ask(Begin(layer=layer, target=target, **fields), who).token

    def complete(self, token: Any) -> str:
        """Complete a token; give the outcome."""
        return self.word(Complete(token=token), token.character)

    def bundle(self, *members: Member, link: bool = False, **fields: Any) -> Any:
        """Decide a bundle."""
        return self.ask(Bundle(commands=list(members), link=link, **fields), None)

    def tick(self, **parts: Any) -> Any:
        """Decide a tick of the parts that are given."""
        return self.ask(Tick(**parts), None)

    def hero(self, who: str = "hero") -> Character:
        """Give a character that must be alive."""
        held = self.scene.roster.get(who)
        assert held is not None
        return held

    def current(self, who: str = "hero", layer: str = "base") -> str:
        """Give the committed state of a layer."""
        return self.hero(who).layers[layer].current

    def pending(self, who: str = "hero", layer: str = "base") -> str | None:
        """Give what is pending on a layer, by its target."""
        pending = self.hero(who).layers[layer].pending
        return None if pending is None else pending.to

    def held(self, *, with_ticks: bool = True) -> dict[str, Any]:
        """Give what a refusal must leave as it was: all that is adopted, sequence and time aside."""
        scene = self.scene
        return {
            "characters": {name: scene.roster.blob(name) for name in scene.roster.names()},
            "remains": dict(scene.remains),
            "exists": scene.state.exists,
            "rigs": scene.state.rigs,
            "floor": scene.state.floor,
            "ticks": scene.open_ticks() if with_ticks else None,
        }

    def replayed(self) -> Scene:
        """Replay every entry from the first into a fresh scene."""
        fresh = Scene(self.scene.name, SECRET, self.bounds)
        for blob in self.entries:
            entry = decode_entry(blob)
            replay(fresh, entry.first, entry.at, entry.records)
        return fresh

    def check(self) -> None:
        """Hold the scene equal to what its entries say: replayed byte for byte, and decided again to the same."""
        assert_same_scene(self.scene, self.replayed())
        fresh = Scene(self.scene.name, SECRET, self.bounds)
        for blob in self.entries:
            entry = decode_entry(blob)
            candidate = Candidate(fresh, entry.at)
            for record in entry.records:
                assert candidate.answer(record.character, record.command) == record.answer, record
                assert candidate.apply(record).revision == record.revision
            fresh.adopt(candidate)
        assert_same_scene(self.scene, fresh)


def member(who: str, command: Command, **references: int) -> Member:
    """Give one command of a bundle; `references` name the fields that an earlier answer gives."""
    return Member(who, command, references)  # type: ignore[arg-type]  # a command of one character


def request(
    tick: int, command: Command, who: str | None = "hero", *, source: str = "ai", number: int = 1, priority: int = 0
) -> Request:
    """Give one request of a tick."""
    return Request(tick, source, number, priority, who, command)  # type: ignore[arg-type]  # one that is held


def word(answer: Answer | Undecided) -> str:
    """Give the word of an answer: a refusal's or a fact's outcome, or a problem's name."""
    return str(answer.problem) if isinstance(answer, Undecided) else outcome_of(answer)


def assert_same_scene(one: Scene, other: Scene) -> None:
    """Hold two scenes equal byte for byte, tallies aside."""
    assert one.roster.names() == other.roster.names()
    for name in one.roster.names():
        assert one.roster.blob(name) == other.roster.blob(name), name
    assert one.state == other.state
    assert one.remains == other.remains
    assert list(one.remains) == list(other.remains)
    assert one.open_ticks() == other.open_ticks()
    one.receipts.expire(at=one.state.at)
    other.receipts.expire(at=other.state.at)
    assert one.receipts.dump() == other.receipts.dump()
