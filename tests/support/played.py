"""A scene without a journal: every command is decided, recorded, and adopted as a turn of its own."""

from typing import Any

from app.gates.character import Answer, Character
from app.gates.decision import Command, Refused, Undecided
from app.gates.lives import Despawn, Spawn
from app.gates.receipt import Mark
from app.gates.rig import Rig
from app.gates.scene import Bounds, Candidate, Record, Scene
from app.journal.codec import decode_entry, encode_entry

SECRET = b"a secret of thirty-two bytes    "


class Played:
    """Plays commands on a scene, keeps every entry as the journal would, and can replay them into another scene."""

    def __init__(self, *, bounds: Bounds | None = None, at: int = 1_000) -> None:
        self.bounds = bounds or Bounds()
        self.scene = Scene("room", SECRET, self.bounds)
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

    def ask(self, command: Command, who: str | None = "hero") -> Any:
        """Decide one command; a refusal must leave the character as it was."""
        before = None if who is None else self.scene.roster.blob(who)
        [answer] = self.turn((who, command))
        if isinstance(answer, Refused | Undecided) and who is not None:
            assert self.scene.roster.blob(who) == before, "a refusal leaves the gates equal"
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

    def hero(self, who: str = "hero") -> Character:
        """Give a character that must be alive."""
        held = self.scene.roster.get(who)
        assert held is not None
        return held

    def replayed(self) -> Scene:
        """Replay every entry from the first into a fresh scene."""
        fresh = Scene("room", SECRET, self.bounds)
        for blob in self.entries:
            entry = decode_entry(blob)
            fresh.replay(entry.first, entry.at, entry.records)
        return fresh


def word(answer: Answer | Undecided) -> str:
    """Give the word of an answer: a refusal's or a fact's outcome, or a problem's name."""
    if isinstance(answer, Undecided):
        return str(answer.problem)
    return str(answer.outcome) if isinstance(answer, Refused) else str(answer.__struct_config__.tag)


def assert_same_scene(one: Scene, other: Scene) -> None:
    """Hold two scenes equal byte for byte, tallies aside."""
    assert one.roster.names() == other.roster.names()
    for name in one.roster.names():
        assert one.roster.blob(name) == other.roster.blob(name), name
    assert one.state == other.state
    assert one.remains == other.remains
    assert list(one.remains) == list(other.remains)
    one.receipts.expire(at=one.state.at)
    other.receipts.expire(at=other.state.at)
    assert one.receipts.dump() == other.receipts.dump()
