"""The actor: one character's commands, one at a time, through whatever has them decided."""

from collections.abc import Sequence

from app.gates.decision import Problem, Undecided
from app.sequencing.actor import Actor
from app.sequencing.mailbox import Addressed, Result
from tests.support.sequenced import RUN, SPAWN


async def test_a_command_is_addressed_to_its_character_with_its_key_and_its_caller():
    told = Undecided(Problem.UNKNOWN_SCENE, "there is none")
    heard: list[tuple[str, list[Addressed], str]] = []

    async def submit(scene: str, commands: Sequence[Addressed], *, caller: str = "") -> list[Result]:
        heard.append((scene, list(commands), caller))
        return [told]

    actor = Actor(submit, "room", "hero")

    answer = await actor.submit(RUN, key="key-one", caller="somebody", asked=SPAWN)

    assert answer is told
    assert heard == [("room", [Addressed("hero", RUN, "key-one", asked=SPAWN)], "somebody")]
