"""Writers that load a serving process over HTTP, and remember what they sent and what they were told."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import httpx
from msgspec import Struct

from tests.faults.connected import ANSWER_S_MAX, Asks, connected

WRITERS = 8
CHARACTERS = 4


class Sent(Struct):
    """One request and, if it came, its answer."""

    path: str
    body: dict[str, Any]
    key: str
    answer: dict[str, Any] | None = None

    @property
    def character(self) -> str:
        """The character it is for."""
        return self.path.split("/")[5]

    @property
    def command(self) -> str:
        """The name of the command."""
        return self.path.rpartition("/")[2]

    async def send(self, client: Asks) -> bool:
        """Send it; say whether it was answered. A problem is no answer, and must be one that a retry settles."""
        try:
            response = await client.post(self.path, json=self.body, headers={"Idempotency-Key": f'"{self.key}"'})
        except httpx.TransportError:
            return False
        body: dict[str, Any] = response.json()
        if response.status_code != 200:
            assert response.status_code == 503, (self, body)
            return False
        assert self.answer is None or self.answer == body, (self, body)
        self.answer = body
        return True


class Load:
    """All writers of one scene. `answered` is called after each answer, with how many there were."""

    def __init__(self, url: str, scene: str, chance: random.Random) -> None:
        self.scene = scene
        self.sent: list[Sent] = []
        self.lost: list[Sent] = []
        self.answers = 0
        self._chance = chance
        self._url = url
        self._is_over = False

    def stop(self) -> None:
        """Send nothing more."""
        self._is_over = True

    async def run(self, answered: Callable[[int], None]) -> None:
        """Spawn the characters, then write until a request of each writer went unanswered or `stop` was called."""
        async with connected(self._url) as client:
            for number in range(CHARACTERS):
                response = await client.put(f"/v1/scenes/{self.scene}/characters/hero-{number}", json={})
                assert response.status_code == 201, response.text
            async with asyncio.timeout(ANSWER_S_MAX), asyncio.TaskGroup() as group:
                for number in range(WRITERS):
                    group.create_task(self._write(client, number, answered), name=f"writer {number}")

    async def _write(self, client: Asks, writer: int, answered: Callable[[int], None]) -> None:
        """Two writers share each character and its layer, so that tokens are superseded and events come twice."""
        path = f"/v1/scenes/{self.scene}/characters/hero-{writer % CHARACTERS}"
        step = 0

        async def ask(command: str, body: dict[str, Any]) -> dict[str, Any] | None:
            nonlocal step
            step += 1
            if self._is_over:
                return None
            sent = Sent(f"{path}/{command}", body, f"writer-{writer}-{step:06}")
            self.sent.append(sent)
            if not await sent.send(client):
                return None
            self.answers += 1
            answered(self.answers)
            return sent.answer

        loop = 0
        while True:
            target = self._chance.choice(["Idle", "Run", "Hit"])
            frame = self._chance.randrange(3)
            event = {"clip_instance": writer % CHARACTERS, "loop": loop, "frame": frame, "kind": "footstep"}
            begun = await ask("begin", {"layer": "base", "target": target})
            if begun is None:
                return
            for command, body in (
                ("commit-parameters", {"values": [{"name": f"P{writer}", "value": step}]}),
                ("enqueue", event),
                ("complete", {"token": begun["token"]}),
                ("commit-loop", {"clip_instance": writer % CHARACTERS, "loop": loop}),
            ):
                answer = await ask(command, body)
                if answer is None:
                    return
                if command == "enqueue" and answer["outcome"] == "late_loop":
                    loop += self._chance.randrange(2)
            loop += self._chance.randrange(2)
