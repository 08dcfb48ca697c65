"""What is fuzzed: each target takes any bytes, and raises only when the service breaks a promise on them.

An input starts with one byte that says which way it goes; the rest is what a caller, or a damaged file, would give.
"""

import asyncio
import base64
import hmac
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from pydantic import ValidationError
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol

from app.api import batch, decode, envelope
from app.api.bodies import RigBody
from app.api.callers import ANYBODY, Role
from app.api.formats import JSON, MSGPACK
from app.api.framing import BINARY, CLOSE, TEXT, Framing, Message, closing_of
from app.api.keys import Keyring, digest_of
from app.api.problems import ProblemError, problem_response
from app.api.quota import Quota
from app.api.security import Security
from app.api.sessions import SessionBody, Sessions
from app.api.talk import Service, Talk, Wish
from app.gates.bundle import Bundle, resolved
from app.gates.candidate import Candidate
from app.gates.catalogue import COMMANDS, outcome_of
from app.gates.decision import Undecided, name_of
from app.gates.event_commands import CommitLoop, Enqueue, Play
from app.gates.graph import RequestGraph
from app.gates.identity import Sealer, Token
from app.gates.lives import CloseScene, DeclareRig, Spawn
from app.gates.receipt import mark
from app.gates.scene import Scene
from app.gates.tick import Tick
from app.gates.transition import Begin
from app.journal.codec import (
    CheckpointHead,
    Entry,
    decode_character,
    decode_checkpoint,
    decode_entry,
    decode_head,
    encode_character,
    encode_checkpoint,
    encode_entry,
)
from app.journal.memory import MemoryJournal
from app.journal.port import JournalDamaged
from app.sequencing.mailbox import Addressed
from app.sequencing.registry import Registry
from app.sequencing.store import bounds_of
from app.settings import Settings
from app.telemetry.metrics import Metrics

SECRET = b"a secret of thirty-two bytes    "
SETTINGS = Settings(journal="memory:")
RIG = {
    "layers": {"base": {"initial": "Idle", "states": ["Idle", "Run", "Hit"]}, "face": {"initial": "Neutral"}},
    "parameters": {
        "declared": {
            "Speed": {"type": "float", "min": 0, "max": 20},
            "Weapon": {"type": "int"},
            "Grounded": {"type": "bool"},
            "Jump": {"type": "trigger"},
        }
    },
    "events": {
        "kinds": {
            "footstep": "presentation",
            "spark": "immediate",
            "damage_on": {"class": "gameplay", "ends": "damage_off"},
            "damage_off": "gameplay",
        }
    },
    "clips": {"Walk": {"frames": 30, "events": [{"frame": 12, "kind": "footstep", "mark": "left"}]}},
    "graphs": {"main": {"required_outputs": ["Animator"], "layers": ["base"], "bind_pose": "tpose"}},
}
"""A rig with one of every part, so that what is decoded meets rules."""

CHARACTER_COMMANDS = [name_of(command) for command in COMMANDS if command not in (DeclareRig, CloseScene, Bundle, Tick)]


Came = frozenset[tuple[str, str]]
"""What came of an input, so that a corpus can hold one of each: commands with their outcomes, or a problem's name."""

NOTHING: Came = frozenset()
Target = Callable[[bytes], Came]


def scene() -> Scene:
    """Make a scene in which something is under way: two characters, a running blend, a waiting event, open ticks."""
    made = Scene("room", SECRET, bounds_of(SETTINGS))
    candidate = Candidate(made, 1_000)
    rig = RigBody.model_validate(RIG).to_rig()
    for who, command in (
        (None, DeclareRig(name="humanoid", rig=rig)),
        ("hero", Spawn(rig="humanoid")),
        ("villain", Spawn()),
        ("hero", Begin(layer="base", target="Run")),
        ("hero", Play(clip="Walk", layer="base")),
        ("hero", Enqueue(clip_instance=1, loop=0, frame=12, kind="footstep")),
        ("hero", Enqueue(clip_instance=1, loop=0, frame=13, kind="damage_on", tick=3)),
        ("villain", CommitLoop(clip_instance=7, loop=57)),
        ("hero", RequestGraph(name="CombatV8")),
        (None, Tick(seal=1)),
        (None, Tick(seal=2, confirm=1)),
    ):
        decided = candidate.decide(who, command)
        assert not isinstance(decided, Undecided), (command, decided)
    made.adopt(candidate)
    return made


SCENE = scene()


def decided(places: list[Addressed]) -> Came:
    """Decide what was decoded, in one turn that is dropped; whatever can be decided can be recorded and read again."""
    candidate = Candidate(SCENE, 2_000)
    answers: list[Any] = []
    for place in places:
        mark("caller", place.key or "a-key-of-its-own", place.character, place.command, place.references)
        command = resolved(place.command, place.references, dict(enumerate(answers)))
        record = command if isinstance(command, Undecided) else candidate.decide(place.character, command)
        answers.append(None if isinstance(record, Undecided) else record.answer)
    blob = encode_entry(at=candidate.at, first=candidate.first, records=candidate.records)
    assert len(decode_entry(blob).records) == len(candidate.records)
    return frozenset((name_of(type(record.command)), outcome_of(record.answer)) for record in candidate.records)


def _of_character(name: str, fields: dict[str, Any]) -> list[Addressed]:
    return [Addressed("hero", decode.command(name, fields, SETTINGS))]


def _of_scene(name: str, fields: dict[str, Any]) -> list[Addressed]:
    return [Addressed(None, envelope.of_scene(name, fields, SETTINGS))]


def _batch(fields: dict[str, Any]) -> list[Addressed]:
    places = asyncio.run(batch.decoded(fields, SETTINGS, ANYBODY))
    for place in places:
        if isinstance(place, ProblemError):
            told(place)
    return [place for place in places if not isinstance(place, ProblemError)]


def _rig(fields: dict[str, Any]) -> list[Addressed]:
    decode.check_extent(fields)
    try:
        body = RigBody.model_validate(fields)
    except ValidationError as error:
        raise decode.invalid(error, fields, SETTINGS) from error
    body.model_dump_json(by_alias=True)
    return [Addressed(None, DeclareRig(name="drawn", rig=body.to_rig()))]


DOORS: dict[str, Callable[[dict[str, Any]], list[Addressed]]] = {
    **{name: partial(_of_character, name) for name in CHARACTER_COMMANDS},
    "rig": _rig,
    "bundle": partial(_of_scene, "bundle"),
    "tick": partial(_of_scene, "tick"),
    "batch": _batch,
}
"""The ways a body can go, by name."""


def told(problem: ProblemError) -> Came:
    """A problem can be answered, and is none that the service is to blame for."""
    response = problem_response(problem, retry_after=1)
    assert 400 <= response.status_code < 500, problem
    msgspec.json.decode(response.body)
    return frozenset({(problem.name, "")})


def body(data: bytes) -> Came:
    """Take a request body, from its bytes to a decision: it is a problem of the caller's, or it is decided."""
    way = list(DOORS.values())[data[0] % len(DOORS)]
    try:
        places = way(decode.members(decode.parse(data[1:], SETTINGS), SETTINGS))
    except ProblemError as problem:
        return told(problem)
    return decided(places)


def _entry(blob: bytes) -> Entry:
    head, entry = decode_head(blob), decode_entry(blob)
    assert (head.at, head.first, head.rules) == (entry.at, entry.first, entry.rules)
    return entry


def _entry_bytes(entry: Entry) -> bytes:
    return encode_entry(at=entry.at, first=entry.first, records=entry.records)


def _checkpoint_bytes(head: CheckpointHead) -> bytes:
    return encode_checkpoint(head.state, head.receipts, head.open_ticks, closed=head.closed)


CODECS: dict[str, tuple[Callable[[bytes], Any], Callable[[Any], bytes]]] = {
    "entry": (_entry, _entry_bytes),
    "checkpoint": (decode_checkpoint, _checkpoint_bytes),
    "character": (decode_character, encode_character),
}
"""The kinds of blob in a journal, each with its reader and its writer."""


def same(first: Any, second: Any) -> bool:
    """Say whether two values are equal, where a NaN equals itself."""
    if isinstance(first, msgspec.Struct):
        return type(first) is type(second) and same(msgspec.structs.astuple(first), msgspec.structs.astuple(second))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(value, second[name]) for name, value in first.items())
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second or (first != first and second != second))


def codec(data: bytes) -> Came:
    """Take a blob of the journal: it is damaged, or what was read is written so that it reads the same."""
    decoded, encoded = list(CODECS.values())[data[0] % len(CODECS)]
    try:
        held = decoded(data[1:])
    except JournalDamaged:
        return NOTHING
    once = decoded(encoded(held))
    assert same(decoded(encoded(once)), once)
    records = held.records if isinstance(held, Entry) else []
    return frozenset((name_of(type(record.command)), outcome_of(record.answer)) for record in records)


def _key(text: bytes) -> None:
    bare = decode.key(text.decode("latin-1"))
    assert 8 <= len(bare) <= 255
    assert all("!" <= letter <= "~" for letter in bare)
    assert decode.key(f'"{bare}"') == bare


SEALER = Sealer("room", SECRET)


def _token(text: bytes) -> None:
    token = decode.fitted(decode.members(decode.parse(text, SETTINGS), SETTINGS), Token, SETTINGS)
    life = SEALER.life_of(token)
    for claimed in {1, 2} if life is None else {life, 1, 2}:
        seal = SEALER.seal(claimed, token.character, token.layer, token.epoch, token.generation, token.from_, token.to)
        has_zero = "\0" in f"{token.character}{token.layer}{token.from_}{token.to}"
        assert SEALER.life_of(msgspec.structs.replace(token, seal=seal)) == (None if has_zero else claimed)
        assert (life == claimed) == (token.seal == seal and not has_zero)


SERVER_KEY, OPS_KEY = "posegate_server", "posegate_ops"
KEYS = [
    {"name": "match", "role": "server", "prefixes": ["match-"], "sha256": digest_of(SERVER_KEY)},
    {"name": "eyes", "role": "ops", "sha256": digest_of(OPS_KEY)},
]
SESSIONS = Sessions(SECRET, clock=lambda: 1_000_000.0)
SECURITY = Security(Keyring(given=json.dumps({"keys": KEYS}), clock=lambda: 0.0), SESSIONS, Quota(SETTINGS))
SESSION, _ = SESSIONS.mint(
    SessionBody(sub="player", characters={"hero": 1}, begin_layers=["face"], ttl_s=60),
    scene="match-7",
    under=SEALER.fingerprint,
    minter=SECURITY.caller(f"Bearer {SERVER_KEY}"),
)
"""A session token that is genuine and always the same."""

KNOWN = [SECURITY.caller(f"Bearer {credential}") for credential in (SERVER_KEY, OPS_KEY, SESSION)]


def _bearer(text: bytes) -> None:
    """Whatever the header, it names somebody who was let in, or nobody."""
    assert SECURITY.caller(text.decode("latin-1")) in KNOWN


def _signed(text: bytes) -> None:
    """A header and claims that are signed rightly, whatever they say: they make a session, or nobody."""
    head, _, claims = text.partition(b"\n")
    signed = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in (head, claims))
    seal = hmac.digest(SESSIONS._secret, signed, "sha256")
    token = b".".join([signed, base64.urlsafe_b64encode(seal).rstrip(b"=")])
    caller = SECURITY.caller(f"Bearer {token.decode()}")
    assert caller.role is Role.SESSION
    assert caller.name.startswith("session/match/")


TOKENS: dict[str, Callable[[bytes], None]] = {"key": _key, "token": _token, "bearer": _bearer, "signed": _signed}
"""The texts that stand for a right, by name."""


def tokens(data: bytes) -> Came:
    """Take a text that stands for a right: it is refused as a problem of the caller's, or it is exactly genuine."""
    way = list(TOKENS.values())[data[0] % len(TOKENS)]
    try:
        way(data[1:])
    except ProblemError as problem:
        return told(problem)
    return NOTHING


FRAMED_BYTES_MAX, FRAGMENTS_MAX = 2_000, 64
FORMATS = (JSON, MSGPACK)
LOOP = asyncio.new_event_loop()
"""What takes frames apart wants to be within an event loop, though it never waits."""


def frames(data: bytes) -> Came:
    """Take what a channel's client sends: what is read is what another library reads, and each message is answered."""
    return LOOP.run_until_complete(_framed(data[0], data[1:]))


async def _framed(way: int, data: bytes) -> Came:
    whole, pieces = _framing(), _framing()
    messages = whole.read(data)
    size = 1 + way // 2
    in_pieces = [each for at in range(0, len(data), size) for each in pieces.read(data[at : at + size])]
    assert in_pieces == messages
    assert pieces.violation == whole.violation
    assert pieces.held_bytes == whole.held_bytes <= len(data) or whole.violation is not None
    _see_that_another_reads_the_same(data, whole, messages)
    talk = Talk(SERVICE, scene="room", caller=ANYBODY, authorization=[], form=FORMATS[way % 2])
    came: Came = frozenset() if whole.violation is None else frozenset({("closed", str(whole.violation.code))})
    for kind, message in messages:
        came |= _heard(talk, message) if kind in (TEXT, BINARY) else frozenset({(kind.name, "")})
        if kind is CLOSE:
            closing_of(message)
    return came


def _framing() -> Framing:
    return Framing(message_bytes_max=FRAMED_BYTES_MAX, fragments_max=FRAGMENTS_MAX)


def _see_that_another_reads_the_same(data: bytes, ours: Framing, messages: list[Message]) -> None:
    """Up to a close frame, or to what one of the two does not take, both read the same."""
    other = ServerProtocol(state=State.OPEN, max_size=FRAMED_BYTES_MAX)
    other.receive_data(data)
    theirs, fragments = list[tuple[int, bytes]](), list[bytes]()
    kind = 0
    for event in other.events_received():
        assert isinstance(event, Frame)
        if event.opcode in (Opcode.PING, Opcode.PONG, Opcode.CLOSE):
            theirs.append((int(event.opcode), bytes(event.data)))
            continue
        kind = kind if event.opcode is Opcode.CONT else int(event.opcode)
        fragments.append(bytes(event.data))
        if event.fin:
            theirs.append((kind, b"".join(fragments)))
            fragments = []
    read = [(each.value, message) for each, message in messages]
    close = next((at for at, (each, _) in enumerate(read) if each == CLOSE.value), len(read) - 1)
    read = read[: close + 1]
    shared = min(len(read), len(theirs))
    assert read[:shared] == theirs[:shared]
    if ours.violation is None and other.parser_exc is None:
        assert len(read) == len(theirs)


def _heard(talk: Talk, message: bytes) -> Came:
    said = talk.heard(message)
    if isinstance(said.what, ProblemError):
        return told(said.what)
    return frozenset({("said", said.what.name if isinstance(said.what, Wish) else name_of(type(said.what.command)))})


SERVICE = Service(Registry(MemoryJournal(), SETTINGS), SECURITY, SETTINGS, Metrics(), lambda work, *given: work(*given))


TARGETS: dict[str, Target] = {"body": body, "codec": codec, "frames": frames, "tokens": tokens}
"""Every target, by its name. No input is empty."""
