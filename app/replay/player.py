"""The player: one trace through one scene, a batch for each tick of the engine."""

import re
import time
from collections.abc import Callable

from msgspec import Struct

from app.replay.adapter import Adapter, Ask, Body, NotYet, Played, played, spawns
from app.replay.ledger import Ledger
from app.replay.report import Report
from app.replay.service import Service
from app.replay.trace import Trace

BATCH_COMMANDS_MAX = 1_000
"""How many commands go into one batch; a tick of more is cut."""

SCENE_CHARACTERS_MAX = 128


class SceneTaken(Exception):
    """The scene holds characters of this trace already, so nothing of the comparison would mean anything."""


class _Waiting(Struct, frozen=True):
    """A line whose turn has come, and the command for it; None where there is nothing to ask."""

    line: Played
    command: Body | None


class Player:
    """Plays one trace. The commands of a character keep their order, and each has a key of its own.

    `run` must be new for each replay: keys are `run` and the number of the line, so that a batch that is sent again
    is answered as the first time, and the next replay is decided afresh.
    """

    def __init__(
        self,
        service: Service,
        trace: Trace,
        *,
        scene: str,
        run: str,
        advance: Callable[[int], None] = lambda lines: None,
    ) -> None:
        self._service = service
        self._trace = trace
        self._scene = scene
        self._run = run
        self._advance = advance
        self._lines = played(trace)
        self._adapter = Adapter()
        self._ledger = Ledger(self._lines)
        self._waiting: list[_Waiting] = []

    async def play(self) -> Report:
        """Spawn the characters, play every line, read the end state, and report.

        Raises:
            ServiceError: The service was lost on the way. What it decided stays decided.
            SceneTaken: A character was alive in the scene before. Nothing was played.
        """
        characters = await self._spawn()
        requests_before, retries_before, started = self._service.requests, self._service.retries, time.perf_counter()
        tick: int | None = None
        for number, line in enumerate(self._lines):
            if line.tick != tick or len(self._waiting) >= BATCH_COMMANDS_MAX:
                await self._flush()
                tick = line.tick
            await self._take(number, line)
        await self._flush()
        elapsed_s = time.perf_counter() - started
        requests, retries = self._service.requests - requests_before, self._service.retries - retries_before
        finals = {character: await self._service.character(self._scene, character) for character in characters}
        return Report(
            trace=self._trace.name,
            engine=f"{self._trace.engine} {self._trace.version}",
            scenario=self._trace.scenario,
            scene=self._scene,
            characters=len(characters),
            gates=self._ledger.gates,
            events=self._ledger.events(finals),
            disagreements=self._ledger.close(finals),
            requests=requests,
            retries=retries,
            elapsed_s=elapsed_s,
        )

    async def _spawn(self) -> list[str]:
        commands = [{**command, "key": f"{self._run}.spawn{i}"} for i, command in enumerate(spawns(self._lines))]
        for start in range(0, len(commands), BATCH_COMMANDS_MAX):
            chunk = commands[start : start + BATCH_COMMANDS_MAX]
            for command, answer in zip(chunk, await self._service.batch(self._scene, chunk), strict=True):
                if answer.get("outcome") != "spawned" or answer.get("created") is False:
                    said = answer["problem"]["detail"] if "problem" in answer else "it is alive already"
                    raise SceneTaken(
                        f"scene {self._scene}: {command['character']} cannot be spawned ({said}); name another --scene"
                    )
        return [str(command["character"]) for command in commands]

    async def _take(self, number: int, line: Played) -> None:
        step = self._adapter.step(line)
        if isinstance(step, NotYet):
            await self._flush()
            step = self._adapter.step(line)
            assert not isinstance(step, NotYet), "nothing waits, so every answer is known"
        command = {**step.command, "key": f"{self._run}.{number:08}"} if isinstance(step, Ask) else None
        self._waiting.append(_Waiting(line, command))

    async def _flush(self) -> None:
        """Send what waits as one batch, and take its answers in order."""
        waiting, self._waiting = self._waiting, []
        commands = [each.command for each in waiting if each.command is not None]
        answers = iter(await self._service.batch(self._scene, commands) if commands else [])
        for each in waiting:
            answer = None if each.command is None else next(answers)
            if answer is not None:
                self._adapter.learn(each.line, answer)
            self._ledger.record(each.line, answer)
        self._advance(len(waiting))


def scene_of(name: str, end: str) -> str:
    """Give a scene name that a path takes: a name as far as it goes, and an end that tells it from others."""
    start, end = (re.sub(r"[^A-Za-z0-9._~-]+", "-", part) for part in (name, end))
    return f"{start.lstrip('._~-')[: SCENE_CHARACTERS_MAX - len(end) - 1] or 'trace'}-{end}"
