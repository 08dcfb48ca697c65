"""Requests drawn at random that a client may send more than once, and the twin that must agree on what came of them."""

import json
import random
from collections.abc import Iterable

import httpx
from msgspec import Struct, field

from tests.faults.twin import Body, shown, timeless
from tests.support.caller import RIG

HEROES = [f"hero-{number}" for number in range(4)]
INSTANCES = 2
"""Clip instances of each hero: few, so that the same event comes from several requests."""

TARGETS = ["Idle", "Run", "Hit", "Fly"]
"""What is asked for; the rig knows no Fly."""

EVALUATION = {"succeeded": True, "pose": "combat@0"}


class Asked(Struct):
    """One request with its key, as bytes; and every answer that came to it, as status and bytes."""

    method: str
    path: str
    body: bytes
    key: str
    answers: list[tuple[int, bytes]] = field(default_factory=list)

    @property
    def scene(self) -> str:
        """The path of its scene."""
        return "/".join(self.path.split("/")[:4])

    @property
    def headers(self) -> dict[str, str]:
        """The headers it is sent with."""
        return {"Content-Type": "application/json", "Idempotency-Key": self.key}

    async def send(self, client: httpx.AsyncClient) -> bool:
        """Send it and keep the answer, which must be the same as every time; say whether there was one.

        Only a service that stops, or was stopped, gives none.
        """
        try:
            response = await client.request(self.method, self.path, content=self.body, headers=self.headers)
        except httpx.TransportError:
            return False
        came = response.status_code, response.content
        if response.status_code == 503:
            assert response.json()["retryable"], (self, came)
            return False
        assert response.status_code in (200, 201), (self, came)
        assert not self.answers or came == self.answers[0], f"answered otherwise: {self}, {came}"
        self.answers.append(came)
        return True

    @property
    def decisions(self) -> list[Body]:
        """What it was answered, a decision each; a spawn's is the character that was spawned."""
        said: Body = json.loads(self.answers[0][1])
        decisions: list[Body] = said["answers"] if self.path.endswith("/batch") else [said]
        first = decisions[0]["sequence"]
        assert [each["sequence"] for each in decisions] == list(range(first, first + len(decisions)))
        return decisions


class Draw:
    """Draws requests of one scene. What they name (tokens, requests) comes from the answers that are known by then.

    None is refused for now: such an answer is not kept under its key, so a repeat may be decided.
    """

    def __init__(self, scene: str, chance: random.Random) -> None:
        self.scene = f"/v1/scenes/{scene}"
        self.asked: list[Asked] = []
        self._chance = chance
        self._sealed = 0

    async def spawn(self, client: httpx.AsyncClient) -> None:
        """Spawn the heroes, keyed as all else."""
        for asked in self.spawning():
            assert await asked.send(client)

    def spawning(self) -> list[Asked]:
        """Give the requests that spawn the heroes."""
        return [self._made("PUT", f"characters/{hero}", {"rig": RIG}) for hero in HEROES]

    def wave(self, size: int) -> list[Asked]:
        """Draw requests that do not wait for each other."""
        tokens = [token for asked in self.asked for token in _found("token", asked)]
        return [self._one(tokens) for _ in range(size)]

    def large(self, commands: int) -> Asked:
        """Draw a batch of which the answer is too large for the buffers on the way to its caller."""
        begun = [
            {**self._begin(hero), "key": f"large-{len(self.asked):06}-{place}"}
            for place, hero in enumerate(self._chance.choices(HEROES, k=commands))
        ]
        return self._made("POST", "batch", {"commands": begun})

    def _made(self, method: str, place: str, body: Body) -> Asked:
        asked = Asked(method, f"{self.scene}/{place}", json.dumps(body).encode(), f"request-{len(self.asked):06}")
        self.asked.append(asked)
        return asked

    def _one(self, tokens: list[Body]) -> Asked:
        chance, number = self._chance, len(self.asked)
        match chance.randrange(10):
            case 0:
                return self._made("POST", "batch", {"commands": self._many(number)})
            case 1:
                commands = [self._begin(hero) for hero in chance.sample(HEROES, 2)]
                return self._made("POST", "bundle", {"commands": commands, "link": True})
            case 2:
                return self._made("POST", "tick", self._tick(number))
            case 3:
                return self._made("PUT", f"characters/guest-{number}", {"rig": RIG})
            case _:
                command = self._command(tokens, number)
                return self._made("POST", f"characters/{command.pop('character')}/{command.pop('command')}", command)

    def _begin(self, hero: str) -> Body:
        return {"command": "begin", "character": hero, "layer": "base", "target": self._chance.choice(TARGETS)}

    def _command(self, tokens: list[Body], number: int) -> Body:
        chance = self._chance
        hero = chance.choice(HEROES)
        event = {"clip_instance": chance.randint(1, INSTANCES), "loop": chance.randrange(4)}
        deeds: list[Body] = [
            self._begin(hero),
            {"command": "commit-parameters", "values": [{"name": "Speed", "value": number % 24}]},
            {"command": "commit-parameters", "values": [{"name": "Jump", "value": True}]},
            {"command": "enqueue", **event, "frame": chance.randrange(3), "kind": "footstep", "payload": number},
            {"command": "enqueue", **event, "frame": chance.randrange(3), "kind": "spark"},
            {"command": "commit-loop", **event},
            {"command": "request-graph", "name": f"Combat{number}"},
            {"command": "submit-candidate", "request": 1 + chance.randrange(8), "name": "Combat"}
            | {"outputs": ["Animator", "GameplayEvents"], "evaluation": EVALUATION},
        ]
        for end in ("complete", "complete", "cancel", "fail") if tokens else ():
            token = chance.choice(tokens)
            why = {"why": "no clip"} if end == "fail" else {}
            deeds.append({"command": end, "character": token["character"], "token": token, **why})
        return {"character": hero, **chance.choice(deeds)}

    def _many(self, number: int) -> list[Body]:
        """Make a batch: a transition from begin to end, and some events; a key each."""
        begun = self._begin(self._chance.choice(HEROES)) | {"target": "Run"}
        ended = {"command": "complete", "character": begun["character"], "token": {"answer": 0}}
        commands = [begun, ended, *(self._command([], number) for _ in range(3))]
        return [{**command, "key": f"batch-{number:06}-{place}"} for place, command in enumerate(commands)]

    def _tick(self, number: int) -> Body:
        """Make a tick that holds two requests and seals, or comes too late to."""
        requests = [
            {"tick": self._sealed + 1, "source": "ai", "number": number * 10 + place, "priority": place}
            | self._command([], number)
            for place in range(2)
        ]
        self._sealed += self._chance.randrange(2)
        return {"requests": requests, "seal": self._sealed}


def _found(name: str, asked: Asked) -> list[Body]:
    """Give what the answers of a request hold under a name, those inside a bundle too."""
    decisions = asked.decisions if asked.answers else []
    told = [each for answer in decisions for each in (answer, *answer.get("answers", [])) if each is not None]
    return [each[name] for each in told if each.get(name) is not None]


async def check_twin(client: httpx.AsyncClient, other: httpx.AsyncClient, asked: Iterable[Asked], scene: str) -> None:
    """A service that is asked each once, in the order in which they were decided, answers and shows the same."""
    ordered = sorted(asked, key=lambda each: each.decisions[0]["sequence"])
    told = [answer["sequence"] for each in ordered for answer in each.decisions]
    assert told == list(range(1, len(told) + 1)), "a request was decided twice, or what was answered is lost"
    for each in ordered:
        response = await other.request(each.method, each.path, content=each.body, headers=each.headers)
        assert response.status_code == each.answers[0][0], (each, response.text)
        assert timeless(response.json()) == timeless(json.loads(each.answers[0][1])), each
    names = [*HEROES, *(each.path.rpartition("/")[2] for each in ordered if each.method == "PUT")]
    ours = await shown(client, scene, dict.fromkeys(names))
    assert ours == await shown(other, scene, dict.fromkeys(names))
    assert ours[scene]["sequence"] == len(told), "something was decided that nobody asked for"


def outcomes_of(asked: Iterable[Asked]) -> set[str]:
    """Give all outcomes there were, so that a test can see that it asked for something."""
    return {answer.get("outcome", "spawned") for each in asked for answer in each.decisions}
