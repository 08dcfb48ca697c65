"""The mix: what a game server sends a batch at a time, the same on every side, and how posegate is asked for it."""

from itertools import count
from typing import Any

import httpx
import msgspec

from bench import load
from bench.load import JSON, Caller, HttpReading, Reading, connected
from bench.servers import Address

BATCH_CONNECTIONS, BATCH_COMMANDS, CHARACTERS = 4, 1000, 100
SCENE = "bench"

LAYERS = {name: {"initial": "Idle"} for name in ("base", "upper", "face")}
PARAMETERS = {f"Parameter{number:02}": {"type": "float", "default": number / 7} for number in range(30)}
RIG = {"layers": LAYERS, "parameters": {"declared": PARAMETERS}}
"""The rig of the characters that are counted in thousands."""

_OWN = CHARACTERS // BATCH_CONNECTIONS
_instances = count(1)


class Mix:
    """A begin or its complete, two parameters, two events, the end of a loop: again and again, over all characters.

    Each connection has characters of its own. Every other batch completes what the one before was granted; what is no
    use to it any more is left to be superseded, as in a game. A mix has a clip instance of its own.
    """

    def __init__(self, *, keyed: bool = False) -> None:
        self._clip_instance = next(_instances)
        self._is_keyed = keyed
        self._turns: dict[int, int] = {}

    def commands(self, number: int, tokens: dict[str, Any]) -> list[dict[str, Any]]:
        """Give a connection's next batch; `tokens` are the newest that it was granted, by character."""
        turn = self._turns[number] = self._turns.get(number, 0) + 1
        completes = tokens.copy() if turn % 2 == 0 else {}
        commands: list[dict[str, Any]] = []
        for index in range(BATCH_COMMANDS // 5):
            character = f"c{number * _OWN + index % _OWN}"
            commands += self._commands(character, turn * 8 + index // _OWN, completes)
        if self._is_keyed:
            for index, command in enumerate(commands):
                command["key"] = f"{self._clip_instance}-{number}-{turn}-{index:04}"
        return commands

    def _commands(self, character: str, loop: int, completes: dict[str, Any]) -> list[dict[str, Any]]:
        token = completes.pop(character, None)
        first: dict[str, Any] = (
            {"command": "begin", "character": character, "layer": "base", "target": "Run"}
            if token is None
            else {"command": "complete", "character": character, "token": token}
        )
        place = {"character": character, "clip_instance": self._clip_instance, "loop": loop}
        event = {"command": "enqueue", **place, "kind": "footstep"}
        values = [{"name": "Speed", "value": loop / 7}, {"name": "Turn", "value": -0.5}]
        return [
            first,
            {"command": "commit-parameters", "character": character, "values": values},
            {**event, "frame": 12},
            {**event, "frame": 42},
            {"command": "commit-loop", **place},
        ]


class Batches:
    """The mix as posegate's batches, in JSON or MessagePack."""

    def __init__(self, *, keyed: bool = False, media_type: str = JSON) -> None:
        self._mix = Mix(keyed=keyed)
        self._media_type = media_type
        coder: Any = msgspec.json if media_type == JSON else msgspec.msgpack
        self._encode, self._decode = coder.encode, coder.decode

    def reading(self) -> Reading:
        """Give what reads the answers of one connection."""
        return HttpReading()

    def following(self, number: int, answer: Any) -> bytes:
        """Give a connection's next batch; what it may complete it takes from the last answer."""
        answers = [] if answer is None else self._decode(answer)["answers"]
        tokens = {each["token"]["character"]: each["token"] for each in answers if each.get("outcome") == "granted"}
        commands = self._mix.commands(number, tokens)
        body = self._encode({"commands": commands})
        return load.request(f"/v1/scenes/{SCENE}/batch", body, self._media_type)


def batch_of(commands: list[dict[str, Any]], scene: str) -> bytes:
    """Give the request of one batch."""
    return load.request(f"/v1/scenes/{scene}/batch", msgspec.json.encode({"commands": commands}))


async def spawned(
    address: Address, scene: str, characters: range, rig: dict[str, Any] | None = None, *, connections: int = 1
) -> None:
    """Spawn characters c0 … in batches, with a rig that is declared first.

    Raises:
        RuntimeError: One of them was not spawned.
    """
    spawn = {} if rig is None else {"rig": "bench"}
    if rig is not None:
        async with httpx.AsyncClient(base_url=f"http://{address.host}:{address.port}") as client:
            (await client.put(f"/v1/scenes/{scene}/rigs/bench", json=rig)).raise_for_status()
    asked = (
        batch_of(
            [
                {"command": "spawn", "character": f"c{index}", **spawn}
                for index in range(start, min(start + 1000, characters.stop))
            ],
            scene,
        )
        for start in range(characters.start, characters.stop, 1000)
    )
    await sent(address, asked, connections=connections)


async def opened(address: Address, scene: str) -> None:
    """Have a command answered in a scene, which is read for it."""
    caller = await connected(address.host, address.port, Caller(HttpReading()))
    path = f"/v1/scenes/{scene}/characters/c0/begin"
    await caller.ask(load.request(path, b'{"layer":"base","target":"Run"}'))
    caller.close()


async def sent(address: Address, requests: Any, *, connections: int = 1) -> None:
    """Send batches, the next when one is answered, and see that each command was accepted.

    Raises:
        RuntimeError: One was not.
    """

    def following(number: int, answer: Any) -> bytes | None:
        if answer is not None and (b'"accepted":false' in answer or b'"problem"' in answer):
            raise RuntimeError(f"not accepted: {answer[:600]!r}")
        return next(requests, None)

    await load.run(address.host, address.port, connections=connections, following=following)
