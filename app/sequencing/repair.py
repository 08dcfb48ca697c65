"""Repair: what can still be trusted of a damaged scene, and the state it goes on from when the rest is given up."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable

from msgspec import Struct
from msgspec.structs import replace

from app.gates.candidate import replay
from app.gates.identity import Granted
from app.gates.scene import Scene
from app.journal.codec import decode_entry, encode_granted
from app.journal.port import START, Checkpoint, JournalDamaged, Remedy, Salvage, SealSecret, StoredEntry
from app.sequencing.store import SceneStore, bounds_of
from app.settings import Settings

ENTRIES_READ_MAX = 256
SECRET_BYTES = 32

Read = Callable[[int], Awaitable[list[StoredEntry]]]


class Finding(Struct, frozen=True):
    """A damaged scene, and what repairing it costs.

    Its state will be what the decisions up to `kept` lead to; `lost_until` is the highest sequence known, and equals
    `kept` where no decision is known to be lost. History up to `forgotten_until` cannot be read any more (0: nothing).
    With `has_new_secret`, tokens that were granted behind `kept` are unknown from now on. A scene that `is_deleted` was
    deleted by a decision that is kept: nobody misses it, and its numbers go on when it comes back.
    """

    scene: str
    damage: str
    kept: int
    lost_until: int
    forgotten_until: int
    has_new_secret: bool
    is_deleted: bool


async def repair(
    journal: Salvage, settings: Settings, *, only: str | None, accepts_loss: bool
) -> AsyncIterator[Finding]:
    """Find every damaged scene, or see whether one is; mend each in the copy when the loss is accepted.

    Raises:
        ValueError: There is no scene of the name in `only`.
        JournalUnavailable, CommitUnknown: The copy cannot be read or written. Discard it.
        JournalDamaged: A scene is still damaged after it was mended. Discard the copy.
    """
    scenes = await journal.everything()
    if only is not None and only not in scenes:
        raise ValueError(f"there is no scene {only!r}; without --scene every damaged one is told")
    for scene in scenes if only is None else [only]:
        found = await _diagnosed(journal, scene, settings)
        if found is None:
            refusal = await journal.refusal(scene)
            if refusal is not None:
                # Copying has mended it already: nothing is lost, once the copy is in place.
                kept = await _opened(journal, scene, settings)
                yield _finding(kept, refusal, kept.sequence, has_new_secret=False)
            continue
        finding, remedy = found
        if accepts_loss:
            await journal.mend(scene, remedy)
            left = await _diagnosed(journal, scene, settings)
            if left is not None:
                raise JournalDamaged(f"scene {scene!r} cannot be mended: {left[0].damage}")
        yield finding


async def _diagnosed(journal: Salvage, name: str, settings: Settings) -> tuple[Finding, Remedy] | None:
    """Say what is wrong with a scene and what would mend it; None when nothing is."""
    store = SceneStore(name, journal, settings)
    damage: JournalDamaged | None = None
    try:
        scene = await store.checkpointed()
        checkpoint = await journal.load(name)
    except JournalDamaged as error:
        damage, checkpoint = error, None
        store = SceneStore(name, journal, settings)
        scene = Scene(name, journal.secret, bounds_of(settings))
        position, _ = await _followed(store, scene, START, _from_start(journal, name))
    else:
        position = START if checkpoint is None else checkpoint.position
        position, damage = await _followed(store, scene, position, _read(journal, name))
    if damage is None and not await journal.is_marked(name):
        damage = JournalDamaged(f"scene {name!r} has no mark, so nothing says where it ended")
    if damage is not None:
        return await _with_loss(journal, store, scene, checkpoint, position, damage)
    try:
        await _walked(journal, name)
    except JournalDamaged as error:
        assert checkpoint is not None, "what lies behind no checkpoint was followed"
        floor, forgotten = await journal.forgettable(name)
        finding = _finding(scene, error, scene.sequence, forgotten, has_new_secret=False)
        return finding, Remedy(floor, position, checkpoint, listed=scene.state.exists)
    return None


async def _with_loss(
    journal: Salvage,
    store: SceneStore,
    scene: Scene,
    checkpoint: Checkpoint | None,
    position: int,
    damage: JournalDamaged,
) -> tuple[Finding, Remedy]:
    """Let a scene go on from the state it was followed to, above every sequence known, with a new secret.

    A token of the kept part stays what it is. One of the lost part was granted under a secret that is not asked about
    what came later, so it is unknown, even when its numbers are given out again.
    """
    name = scene.name
    secrets: tuple[SealSecret, ...] = ()
    floor, forgotten = START, 0
    if checkpoint is not None:
        floor, forgotten = await journal.forgettable(name)
        secrets = checkpoint.secrets
    highest = max(scene.sequence, await journal.highest(name))
    finding = _finding(scene, damage, highest, forgotten, has_new_secret=True)
    secret = SealSecret(highest + 1, os.urandom(SECRET_BYTES), encode_granted(granted(scene)))
    scene.state = replace(scene.state, sequence=highest)
    header, characters = store.whole(scene)
    mended = Checkpoint(position, header, characters, (*secrets, secret))
    return finding, Remedy(floor, position, mended, listed=scene.state.exists)


def _finding(
    scene: Scene, damage: JournalDamaged, lost_until: int, forgotten_until: int = 0, *, has_new_secret: bool
) -> Finding:
    """Say what is wrong with a scene of which what `scene` holds is kept."""
    kept = scene.sequence
    # One of which nothing is kept has no time of a last decision, however high it is numbered.
    is_deleted = kept == lost_until and scene.state.at > 0 and not scene.state.exists
    return Finding(
        scene.name, str(damage), kept, lost_until, forgotten_until, has_new_secret=has_new_secret, is_deleted=is_deleted
    )


async def _opened(journal: Salvage, name: str, settings: Settings) -> Scene:
    """Give a scene that is whole in the copy."""
    scene, _ = await SceneStore(name, journal, settings).open()
    return scene


def granted(scene: Scene) -> Granted:
    """Give what has been granted in a scene: the newest life of each id, and the newest generation of each layer."""
    lives = {name: kept.life for name, kept in scene.remains.items()}
    generations: dict[str, dict[str, int]] = {}
    for name in scene.roster:
        character = scene.roster.get(name)
        assert character is not None
        lives[name] = character.life
        generations[name] = {layer: arbiter.generation for layer, arbiter in character.layers.items()}
    return Granted(scene.state.floor.life, lives, generations)


async def _followed(store: SceneStore, scene: Scene, position: int, read: Read) -> tuple[int, JournalDamaged | None]:
    """Replay what `read` gives behind `position`; say where that ends, and by what damage if not by the end."""
    try:
        while entries := await read(position):
            for stored in entries:
                entry = decode_entry(stored.blob)
                if entry.first != scene.sequence + 1:
                    missing = f"sequence {scene.sequence + 1} is missing before {entry.first}"
                    return position, JournalDamaged(f"scene {scene.name!r}: {missing}", sequence=scene.sequence + 1)
                candidate = replay(scene, entry.first, entry.at, entry.records)
                position = stored.position
                store.adopted(scene, candidate, position, entry.traced)
    except JournalDamaged as error:
        return position, error
    return position, None


async def _walked(journal: Salvage, name: str) -> None:
    """Read all that is kept of a scene's history.

    Raises:
        JournalDamaged: Some of it is not what was written.
    """
    position = START
    while entries := await journal.read(name, after=position, limit=ENTRIES_READ_MAX):
        position = entries[-1].position


def _read(journal: Salvage, name: str) -> Read:
    return lambda position: journal.read(name, after=position, limit=ENTRIES_READ_MAX)


def _from_start(journal: Salvage, name: str) -> Read:
    return lambda position: journal.from_start(name, after=position, limit=ENTRIES_READ_MAX)
