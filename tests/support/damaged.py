"""Journals that are damaged on purpose: how one is made, what is done to its files, and what SQLite finds in them."""

import os
import random
import shutil
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec

from app.gates.decision import Command
from app.gates.lives import Despawn, Spawn
from app.gates.parameter import CommitParameters, ParameterValue
from app.gates.transition import Begin, Complete, TransitionGranted
from app.journal.port import START, Journal
from app.journal.sqlite import SqliteJournal
from app.journal.sqlite_marks import SLOT_BYTES
from app.sequencing.mailbox import Addressed, Decided
from app.sequencing.registry import Registry
from app.sequencing.store import SceneStore
from app.settings import Settings
from tests.support.sequenced import Clock, idle

SCENES = [f"scene-{number}" for number in range(6)]
HEROES = [f"hero-{number}" for number in range(4)]
SETTINGS = Settings(checkpoint_decisions=24, history_decisions_max=120)
FILES = ("journal.db", "journal.db-wal", "journal.db.mark")
DATABASE, LOG, MARKS = FILES


class Known(NamedTuple):
    """What a scene is and was: its state, byte for byte, and the entries that are kept of its history."""

    state: bytes
    entries: list[tuple[int, int, int, bytes]]

    def equals(self, written: "Known") -> bool:
        """Say whether this is what was written; more of what was trimmed may be left."""
        kept = len(written.entries)
        return self.state == written.state and (not kept or self.entries[-kept:] == written.entries)


async def known(journal: Journal, scene: str) -> Known:
    """Open a scene as a server does and read all that is kept of it. Raises JournalDamaged as the journal does."""
    opened, _ = await SceneStore(scene, journal, SETTINGS).open()
    living = {name: opened.roster.blob(name) for name in opened.roster.names()}
    state = msgspec.msgpack.encode(
        (opened.state, living, sorted(opened.remains.items()), opened.receipts.dump(), opened.open_ticks()),
        order="deterministic",
    )
    entries: list[tuple[int, int, int, bytes]] = []
    position = START
    while read := await journal.read(scene, after=position, limit=50):
        entries += [(entry.position, entry.first, entry.last, entry.blob) for entry in read]
        position = read[-1].position
    return Known(state, entries)


def drawn(chances: random.Random, tokens: list[Any]) -> Command:
    """Draw a command for a hero; `tokens` are those it was granted."""
    kind = chances.randrange(10)
    if kind < 5 or not tokens:
        return Begin(layer=chances.choice(["base", "face"]), target=f"State-{chances.randrange(9)}")
    if kind < 7:
        return Complete(token=chances.choice(tokens[-3:]))
    if kind < 9:
        return CommitParameters(values=[ParameterValue(name=f"speed-{chances.randrange(3)}", value=chances.random())])
    return Despawn()


async def play(registry: Registry, scene: str, chances: random.Random, turns: int) -> list[Any]:
    """Play turns of a few commands each; give the tokens that were granted, in order."""
    granted: list[Any] = []
    for _ in range(turns):
        asked = []
        for _ in range(chances.randrange(1, 5)):
            who = chances.choice(HEROES)
            mine = [token for token in granted if token.character == who]
            asked += [Addressed(who, Spawn()), Addressed(who, drawn(chances, mine))]
        for result in await registry.submit(scene, asked):
            if isinstance(result, Decided) and isinstance(result.record.answer, TransitionGranted):
                granted.append(result.record.answer.token)
    return granted


async def make(directory: Path, seed: int) -> None:
    """Make a journal and copy it: to `open` as a killed server leaves it, to `closed` as a stopped one, and `earlier`.

    Every scene has checkpoints, trimmed history and a tail. In `open`, half of it is in the database and half in the
    log; the last scene is in the log only, and not in `earlier`.
    """
    chances = random.Random(seed)
    live = directory / "live"
    for part in range(3):
        journal = SqliteJournal(str(live / DATABASE))
        registry = Registry(journal, SETTINGS, clock=Clock())
        for _ in range(4):
            for scene in SCENES[: len(SCENES) - (part < 2)]:
                await play(registry, scene, chances, 5)
        if part == 2:
            await idle(registry, SCENES[1])
        if part > 0:
            copied(live, directory / ("earlier" if part == 1 else "open"))
        await registry.close()
    copied(live, directory / "closed")


def copied(source: Path, target: Path) -> Path:
    """Copy a journal's files as they are, with nobody writing."""
    target.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (target / name).unlink(missing_ok=True)
        if (source / name).exists():
            shutil.copy(source / name, target / name)
    return target


def flip(path: Path, chances: random.Random, start: int = 0, end: int | None = None) -> str:
    """Flip one bit between two places of a file; say which."""
    content = bytearray(path.read_bytes()) if path.exists() else bytearray()
    if not content:
        return "nothing more"
    place = chances.randrange(start, min(len(content), end or len(content)))
    content[place] ^= 1 << chances.randrange(8)
    path.write_bytes(content)
    return f"bit flip in {path.name} at {place}"


def cut(path: Path, chances: random.Random) -> str:
    """Cut a file off somewhere."""
    size = chances.randrange(path.stat().st_size + 1)
    os.truncate(path, size)
    return f"{path.name} cut to {size}"


def _flip_in_database(journal: Path, earlier: Path, chances: random.Random) -> str:
    return flip(journal / DATABASE, chances)


def _flip_in_log(journal: Path, earlier: Path, chances: random.Random) -> str:
    return flip(journal / LOG if (journal / LOG).exists() else journal / DATABASE, chances)


def _flip_in_marks(journal: Path, earlier: Path, chances: random.Random) -> str:
    # As far as there are slots of scenes, and not in the many blank ones.
    return flip(journal / MARKS, chances, 0, SLOT_BYTES * (len(SCENES) + 1))


def _log_cut(journal: Path, earlier: Path, chances: random.Random) -> str:
    # A stopped server leaves no log: all of it is in the database.
    return cut(journal / LOG, chances) if (journal / LOG).exists() else flip(journal / DATABASE, chances)


def _log_deleted(journal: Path, earlier: Path, chances: random.Random) -> str:
    (journal / LOG).unlink(missing_ok=True)
    return "log deleted"


def _rolled_back(journal: Path, earlier: Path, chances: random.Random) -> str:
    """Put the earlier copy in place, with its log, with none, or leave the newer log beside it."""
    logs = chances.choice(["earlier", "none", "newer"])
    shutil.copy(earlier / DATABASE, journal / DATABASE)
    if logs != "newer":
        (journal / LOG).unlink(missing_ok=True)
    if logs == "earlier":
        shutil.copy(earlier / LOG, journal / LOG)
    return f"rolled back, {logs} log"


def _marks_deleted(journal: Path, earlier: Path, chances: random.Random) -> str:
    (journal / MARKS).unlink(missing_ok=True)
    return "marks deleted"


def _marks_cut(journal: Path, earlier: Path, chances: random.Random) -> str:
    if not (journal / MARKS).exists():
        return "nothing more"
    os.truncate(journal / MARKS, chances.randrange(SLOT_BYTES * (len(SCENES) + 1)))
    return "marks cut"


def _database_cut(journal: Path, earlier: Path, chances: random.Random) -> str:
    return cut(journal / DATABASE, chances)


Damage = Callable[[Path, Path, random.Random], str]

DAMAGES: Sequence[Damage] = (
    [_flip_in_database] * 8
    + [_flip_in_log] * 5
    + [_log_cut] * 4
    + [_rolled_back] * 2
    + [_flip_in_marks] * 2
    + [_log_deleted, _marks_deleted, _marks_cut, _database_cut]
)
"""What may happen to a journal, each as often as it is drawn."""


OF_MARKS: Sequence[Damage] = (_flip_in_marks, _marks_deleted, _marks_cut)


def found(journal: Path, scenes: list[str]) -> dict[str, object]:
    """Give what SQLite alone finds of each scene, by table and by index, and its mark: equal if nothing happened to it.

    Works on a copy, since looking recovers the log. What cannot be read is something that is never equal.
    """
    copy = copied(journal, journal.with_name(journal.name + "-looked-at"))
    marks = (copy / MARKS).read_bytes() if (copy / MARKS).exists() else b""
    try:
        connection = apsw.Connection(str(copy / DATABASE))
        numbers = dict(connection.execute("SELECT name, id FROM scenes NOT INDEXED"))
    except (apsw.Error, UnicodeDecodeError):
        return {scene: object() for scene in scenes}
    try:
        return {scene: _found(connection, numbers.get(scene), scene, marks) for scene in scenes}
    finally:
        connection.close()


def _found(connection: apsw.Connection, number: int | None, scene: str, marks: bytes) -> object:
    if number is None:
        return object()
    try:
        return (
            connection.execute("SELECT * FROM scenes WHERE id = ?", (number,)).fetchall(),
            connection.execute(
                "SELECT id FROM scenes INDEXED BY sqlite_autoindex_scenes_1 WHERE name = ?", (scene,)
            ).get,
            connection.execute(
                "SELECT id FROM scenes INDEXED BY scenes_listed WHERE listed AND name = ?", (scene,)
            ).get,
            connection.execute("SELECT * FROM entries NOT INDEXED WHERE scene_id = ?", (number,)).fetchall(),
            *(
                connection.execute(f"SELECT * FROM entries INDEXED BY {index} WHERE scene_id = ?", (number,)).fetchall()
                for index in ("entries_position", "entries_last")
            ),
            connection.execute("SELECT * FROM characters WHERE scene_id = ?", (number,)).fetchall(),
            marks[number * SLOT_BYTES : (number + 1) * SLOT_BYTES],
        )
    except (apsw.Error, UnicodeDecodeError, struct.error):
        return object()
