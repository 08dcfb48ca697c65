"""The actor: one character of one scene, as a door that takes one command at a time speaks to it."""

from collections.abc import Sequence
from typing import Protocol

from app.gates.decision import Command
from app.sequencing.mailbox import Addressed, Result


class Submit(Protocol):
    """Has commands of a scene decided, as `Registry.submit` does."""

    async def __call__(self, scene: str, commands: Sequence[Addressed], *, caller: str = "") -> list[Result]:
        """Return when all of it is durable."""
        ...


class Actor:
    """One character of one scene: takes commands, has them decided one at a time, answers each."""

    def __init__(self, submit: Submit, scene: str, character: str) -> None:
        self._submit = submit
        self.scene = scene
        self.character = character

    async def submit(
        self, command: Command, *, key: str | None = None, caller: str = "", asked: Command | None = None
    ) -> Result:
        """Have one command decided; return when it is durable. Raises as `Registry.submit`; `asked` as `Addressed`."""
        addressed = Addressed(self.character, command, key, asked=asked)
        [result] = await self._submit(self.scene, [addressed], caller=caller)
        return result
