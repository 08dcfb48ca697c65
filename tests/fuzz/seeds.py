"""Where fuzzing starts: what the scenarios send and what a journal then holds, and the words that both are made of."""

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from app.gates.catalogue import COMMANDS, word_of
from app.gates.identity import Token
from app.journal import open_journal
from app.journal.port import START
from app.settings import Settings
from tests.fuzz import targets
from tests.support import scenario
from tests.support.player import Response, play
from tests.support.served import served

SCENARIOS = Path(__file__).parents[1] / "scenarios"


def seeds() -> dict[str, list[bytes]]:
    """Play every scenario; give the inputs that came of it, a target each."""
    bodies: list[bytes] = []
    keys: list[str] = []
    with TemporaryDirectory() as folder:
        journal = f"sqlite:{folder}/seeds.db"
        with served(Settings(journal=journal, checkpoint_decisions=3)) as send:

            def recorded(method: str, path: str, headers: dict[str, str], body: bytes | None) -> Response:
                way = _way(path)
                if body is not None and way is not None:
                    bodies.append(bytes([way]) + body)
                keys.extend(value for name, value in headers.items() if name.lower() == "idempotency-key")
                return send(method, path, headers, body)

            for number, each in enumerate(scenario.read_all(SCENARIOS)):
                # An answer that is not the expected one is for another test; what was sent until then is a seed too.
                with suppress(AssertionError):
                    play(each, recorded, f"seed-{number}")
        blobs = asyncio.run(_blobs(journal))
    kinds = list(targets.CODECS)
    return {
        "body": bodies,
        "codec": [bytes([kinds.index(kind)]) + blob for kind, blob in blobs],
        "frames": list(_frames()),
        "tokens": [*_tokens(), *(bytes([0]) + key.encode("latin-1", "replace") for key in keys)],
    }


def _way(path: str) -> int | None:
    """Give the number of the door that a path is."""
    parts = path.partition("?")[0].strip("/").split("/")
    name = {"rigs": "rig", "characters": "spawn"}.get(parts[-2], parts[-1]) if len(parts) > 3 else ""
    return list(targets.DOORS).index(name) if name in targets.DOORS else None


async def _blobs(url: str) -> list[tuple[str, bytes]]:
    """Give what a journal holds, each blob with its kind."""
    blobs: list[tuple[str, bytes]] = []
    journal = open_journal(url, read_only=True)
    for scene in await journal.scenes(after="", limit=10_000):
        blobs += [("entry", entry.blob) for entry in await journal.read(scene, after=START, limit=10_000)]
        checkpoint = await journal.load(scene)
        if checkpoint is not None:
            blobs += [("checkpoint", checkpoint.header)]
            blobs += [("character", blob) for blob in checkpoint.characters.values()]
    await journal.close()
    return blobs


def _tokens() -> Iterator[bytes]:
    token = {"character": "hero", "layer": "base", "epoch": 1, "generation": 1, "from": "Idle", "to": "Run"}
    seal = targets.SEALER.seal(1, "hero", "base", 1, 1, "Idle", "Run")
    for given in (token, {**token, "seal": seal}, {**token, "seal": "1-0"}, {**token, "seal": f"0{seal}"}):
        yield bytes([1]) + json.dumps(given).encode()
    for credential in (targets.SERVER_KEY, targets.OPS_KEY, targets.SESSION):
        yield b"\x02Bearer " + credential.encode()
    head, claims = (base64.urlsafe_b64decode(part + "==") for part in targets.SESSION.split(".")[:2])
    yield b"\x03" + head + b"\n" + claims


def _frames() -> Iterator[bytes]:
    """Give what clients of channels send, under a mask of zeros, so that the fuzzer can read it."""

    def frame(first: int, data: bytes) -> bytes:
        size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
        return bytes([first]) + size + b"\0\0\0\0" + data

    said: list[dict[str, object]] = [
        {"id": 1, "command": "begin", "character": "hero", "layer": "base", "target": "Run", "key": "a-key-of-mine"},
        {"id": 2, "watch": {"after": 1}},
        {"unwatch": True},
        {"id": 3, "command": "tick", "seal": 1},
        {"id": 4, "command": "bundle", "commands": [{"command": "ack", "character": "hero", "through": 0}]},
    ]
    for message in said:
        yield b"\x00" + frame(0x81, json.dumps(message).encode())
        yield b"\x01" + frame(0x82, msgspec.msgpack.encode(message))
    yield b"\x10" + frame(0x01, b'{"id":1,') + frame(0x89, b"ping") + frame(0x00, b"") + frame(0x80, b'"watch":{}}')
    yield b"\x00" + frame(0x8A, b"") + frame(0x88, b"\x03\xe8bye") + frame(0x81, b"late")
    yield b"\xff" + frame(0x82, b"x" * 200)[:150]
    yield b"\x02" + frame(0x81, b"x" * 2_500)
    for first in (0x83, 0xC1, 0x09, 0x80):
        yield b"\x04" + frame(0x81, b"{}") + frame(first, b"x") + frame(0x81, b"{}")


def words() -> Iterator[str]:
    """Give the words that inputs are made of: commands, fields, outcomes."""
    fields = {name for command in COMMANDS for name in command.__struct_encode_fields__}
    outcomes = {str(refusal) for entry in COMMANDS.values() for refusal in entry.refusals}
    facts = {word_of(fact) for entry in COMMANDS.values() for fact in entry.facts}
    shared = {"command", "commands", "answer", "key", "problem", "outcome", "NaN", "Infinity", "1e400"}
    yield from sorted(fields | outcomes | facts | shared | set(targets.DOORS) | set(Token.__struct_encode_fields__))
