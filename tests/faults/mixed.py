"""Writers of mixed commands, over all four gates, in batches and bundles too: each retries what was not answered."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from tests.faults.connected import Asks
from tests.faults.load import Sent
from tests.support.caller import RIG

Body = dict[str, Any]

WRITERS = 8
HEROES = [f"hero-{number}" for number in range(4)]
TARGETS = ["Idle", "Run", "Hit", "Run", "Hit", "Fly"]
"""What is asked for; the rig knows no Fly."""

RECENT = 8
"""How many of its last answers a writer builds on."""

ENDS = ["complete", "complete", "complete", "complete", "cancel", "fail"]
EVALUATION = {"succeeded": True, "pose": "combat@0"}
OUTPUTS = ["Animator", "GameplayEvents"]
WRITTEN_MAX = 2_000


class Mixed(Sent):
    """One request by a path of its own, as a batch, or as a bundle."""

    @property
    def commands(self) -> list[Body]:
        """What it asks for, command by command, each as a batch names it; without keys."""
        if self.command == "batch":
            return [{name: value for name, value in item.items() if name != "key"} for item in self.body["commands"]]
        if self.command == "bundle":
            return [{"command": "bundle", **self.body}]
        return [{"command": self.command, "character": self.character, **self.body}]

    @property
    def answers(self) -> list[Body]:
        """What each of its commands was answered; nothing as long as the request was not."""
        if self.answer is None:
            return []
        return list(self.answer["answers"]) if self.command == "batch" else [self.answer]


class Writer:
    """One writer of a scene, over any number of kills. Two share each hero, so that tokens are superseded.

    What it asks for next follows from its chance and its own last answers, whichever process gave them.
    """

    def __init__(self, scene: str, number: int, seed: str) -> None:
        self.sent: list[Mixed] = []
        self._scene = f"/v1/scenes/{scene}"
        self._number = number
        self._hero, self._other = HEROES[number % len(HEROES)], HEROES[(number + 1) % len(HEROES)]
        self._chance = random.Random(f"{seed}, writer {number}")
        self._instance, self._loop = number * 1_000, 0

    def spawn(self, heroes: list[str]) -> None:
        """Make the heroes the first thing to be sent, before anything is written."""
        self.sent.append(self._many([{"command": "spawn", "character": hero, "rig": RIG} for hero in heroes]))

    async def retry(self, client: Asks) -> bool:
        """Send again what was not answered; say whether nothing of that is left."""
        return not self.sent or self.sent[-1].answer is not None or await self.sent[-1].send(client)

    async def write(self, client: Asks) -> None:
        """Ask for one thing after another until one is not answered."""
        for _ in range(WRITTEN_MAX):
            request = self._next()
            self.sent.append(request)
            if not await request.send(client):
                return
        raise AssertionError("the process outlived all that was written; is its point passed at all?")

    def _next(self) -> Mixed:
        deeds: dict[Callable[[], Mixed], int] = {
            self._begin: 5,
            self._end: 6,
            self._parameters: 3,
            self._event: 5,
            self._commit_loop: 3,
            self._retire: 1,
            self._acknowledge: 1,
            self._request_graph: 1,
            self._graph: 2,
            self._batch: 2,
            self._guest: 1,
            self._bundle: 2,
        }
        [deed] = self._chance.choices(list(deeds), list(deeds.values()))
        return deed()

    @property
    def _key(self) -> str:
        return f"writer-{self._number}-{len(self.sent):06}"

    def _single(self, command: str, body: Body) -> Mixed:
        return Mixed(f"{self._scene}/characters/{self._hero}/{command}", body, self._key)

    def _many(self, commands: list[Body]) -> Mixed:
        keyed = [{**item, "key": f"{self._key}-{index}"} for index, item in enumerate(commands)]
        return Mixed(f"{self._scene}/batch", {"commands": keyed}, self._key)

    def _recent(self, name: str) -> list[Any]:
        answers = [answer for request in self.sent[-RECENT:] for answer in request.answers]
        return [answer[name] for answer in answers if answer.get(name) is not None]

    def _begin(self) -> Mixed:
        layer, target = self._chance.choice([("base", self._chance.choice(TARGETS)), ("face", "Smile")])
        return self._single("begin", {"layer": layer, "target": target})

    def _end(self) -> Mixed:
        """End a token of its own, an ended one perhaps: then it is refused."""
        tokens = [token for token in self._recent("token") if token["character"] == self._hero]
        if not tokens:
            return self._begin()
        end, why = self._chance.choice(ENDS), {"why": "no clip"}
        return self._single(end, {"token": self._chance.choice(tokens), **(why if end == "fail" else {})})

    def _parameters(self) -> Mixed:
        speed = {"name": "Speed", "value": self._chance.randrange(24)}
        fired = [{"name": "Jump", "value": True}] if self._chance.random() < 0.5 else []
        return self._single("commit-parameters", {"values": [speed, *fired]})

    def _event_body(self) -> Body:
        kind = self._chance.choice(["footstep", "footstep", "footstep", "spark"])
        loop, frame = self._loop + self._chance.randrange(3), self._chance.randrange(4)
        return {"clip_instance": self._instance, "loop": loop, "frame": frame, "kind": kind}

    def _event(self) -> Mixed:
        return self._single("enqueue", self._event_body())

    def _commit_loop(self) -> Mixed:
        self._loop += self._chance.randrange(2)
        return self._single("commit-loop", {"clip_instance": self._instance, "loop": self._loop})

    def _retire(self) -> Mixed:
        retired, self._instance, self._loop = self._instance, self._instance + 1, 0
        return self._single("retire", {"clip_instance": retired})

    def _acknowledge(self) -> Mixed:
        return self._single("ack", {"through": max(self._recent("delivery"), default=0)})

    def _request_graph(self) -> Mixed:
        return self._single("request-graph", {"name": f"Combat{len(self.sent)}"})

    def _graph(self) -> Mixed:
        """Offer what was asked for, or take it back."""
        requests = self._recent("request")
        if not requests:
            return self._request_graph()
        if self._chance.random() < 0.2:
            return self._single("withdraw-graph", {"request": requests[-1]})
        offered = {"name": "Combat", "outputs": OUTPUTS, "evaluation": EVALUATION}
        return self._single("submit-candidate", {"request": self._chance.choice(requests), **offered})

    def _batch(self) -> Mixed:
        hero: Body = {"character": self._hero}
        return self._many(
            [
                {"command": "begin", **hero, "layer": "base", "target": self._chance.choice(["Run", "Hit"])},
                {"command": "commit-parameters", **hero, "values": [{"name": "Weapon", "value": len(self.sent)}]},
                {"command": "enqueue", **hero, **self._event_body()},
                {"command": "complete", **hero, "token": {"answer": 0}},
            ]
        )

    def _guest(self) -> Mixed:
        """One life of a character of its own, from spawn to despawn."""
        guest: Body = {"character": f"guest-{self._number}"}
        return self._many(
            [
                {"command": "spawn", **guest, "rig": RIG},
                {"command": "begin", **guest, "layer": "face", "target": "Smile"},
                {"command": "complete", **guest, "token": {"answer": 1}},
                {"command": "despawn", **guest},
            ]
        )

    def _bundle(self) -> Mixed:
        grab, held = self._chance.choice(TARGETS), self._chance.choice(["Hit", "Run"])
        commands: list[Body] = [
            {"command": "begin", "character": self._hero, "layer": "base", "target": grab},
            {"command": "begin", "character": self._other, "layer": "base", "target": held},
        ]
        if self._chance.random() < 0.5:
            commands.append({"command": "complete", "character": self._other, "token": {"answer": 1}})
        return Mixed(f"{self._scene}/bundle", {"commands": commands, "link": True}, self._key)


class Party:
    """All writers of one scene."""

    def __init__(self, scene: str, seed: str) -> None:
        self.scene = scene
        self.writers = [Writer(scene, number, seed) for number in range(WRITERS)]
        self.writers[0].spawn(HEROES)

    @property
    def sent(self) -> list[Mixed]:
        """Everything that was sent, writer by writer."""
        return [request for writer in self.writers for request in writer.sent]

    async def settle(self, client: Asks) -> bool:
        """Send again, all at once, what was not answered; say whether nothing of that is left."""
        return all(await asyncio.gather(*(writer.retry(client) for writer in self.writers)))

    async def write(self, client: Asks) -> None:
        """Let all write until each has something that was not answered."""
        async with asyncio.TaskGroup() as group:
            for number, writer in enumerate(self.writers):
                group.create_task(writer.write(client), name=f"writer {number}")
