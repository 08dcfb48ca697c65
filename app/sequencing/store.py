"""The scene's store: opening from a checkpoint and the tail behind it, checkpoints of what changed, retention."""

from collections.abc import Callable, Sequence

from app.gates.candidate import Candidate
from app.gates.identity import Sealer
from app.gates.lives import Remains
from app.gates.scene import Bounds, Scene
from app.gates.tally import NOTHING, Tally, copied, count, counts, prune
from app.gates.tick import Tick
from app.journal.codec import (
    Entry,
    StoredCharacter,
    Traced,
    decode_character,
    decode_checkpoint_in_steps,
    decode_entry_in_steps,
    decode_granted,
    encode_character,
    encode_checkpoint,
    encode_checkpoint_in_steps,
)
from app.journal.port import (
    START,
    CommitUnknown,
    Journal,
    JournalDamaged,
    JournalUnavailable,
    SealSecret,
    StoredEntry,
    Superseded,
)
from app.sequencing.compression import CommonCompression
from app.sequencing.pace import Pace
from app.sequencing.traced_grants import TracedGrants
from app.settings import Settings
from app.telemetry.log import log

PACED = 64
"""After how many characters of a checkpoint, or decisions of an entry, the work looks whether others should run."""

COOLED_MAX = 1_024
"""How many characters go to sleep after one turn, so that a long one is not followed by a longer rest."""

ENTRIES_READ_MAX = 256
"""How many entries one read of the tail asks for."""


def bounds_of(settings: Settings) -> Bounds:
    """Give the bounds of a scene as the settings name them."""
    return Bounds(
        hot_characters_max=settings.hot_characters_max,
        remains_max=settings.remains_max,
        receipts_max=settings.receipts_max,
        receipts_ms=settings.receipts_ms,
        rigs_max=settings.rigs_max,
        characters_max=settings.characters_max,
        character_bytes_max=settings.character_bytes_max,
        rollback_ticks=settings.rollback_ticks,
        tick_window=settings.tick_window_ticks,
        tick_requests_max=settings.tick_requests_max,
        scene_requests_max=settings.scene_requests_max,
        tick_deliveries_max=settings.tick_deliveries_max,
    )


def sealer_of(scene: str, secret: bytes, secrets: Sequence[SealSecret]) -> Sealer:
    """Give the sealer of a scene: under the journal's secret, or the newest of those that repairs made.

    Raises:
        JournalDamaged: A repair's record of what had been granted cannot be read.
    """
    sealer = Sealer(scene, secret)
    for repaired in secrets:
        sealer = Sealer(scene, repaired.secret, earlier=(sealer, decode_granted(repaired.granted)))
    return sealer


async def cooled(scene: Scene, pace: Pace) -> None:
    """Let characters go to sleep after a turn was adopted, as far as more are live than should be; others may run."""
    for _ in range(COOLED_MAX // PACED):
        if not scene.roster.is_warm:
            return
        scene.roster.cool(PACED)
        if pace.is_due:
            await pace.pause()


class Gap(JournalDamaged):
    """What was read does not follow on the scene: it is damage, unless others trimmed what lies between."""


Told = Callable[[StoredEntry, Candidate, bool], None]
"""Hears of an entry that was replayed: it, what was adopted of it, and whether the scene existed before."""


def _told_nobody(stored: StoredEntry, candidate: Candidate, existed: bool) -> None:
    """Hear of an entry that nobody waits for."""


async def entry_of(journal: Journal, scene: str, sequence: int) -> Entry:
    """Read the entry that holds a decision.

    Raises:
        JournalUnavailable: It cannot be read, or is no longer kept.
        JournalDamaged: What is there cannot have been written here.
    """
    after = await journal.seek(scene, sequence=sequence)
    stored = await journal.read(scene, after=after, limit=1)
    if not stored or not stored[0].first <= sequence <= stored[0].last:
        raise JournalUnavailable("the first answer is no longer kept; make a new key")
    return await Pace().through(decode_entry_in_steps(stored[0].blob))


class SceneStore:
    """What one scene needs of the journal besides appending, and the tallies that are stored with its characters.

    `position` is the last entry's that was adopted.

    Bound:     as many remembered changes as the scene has characters; a checkpoint is due every
               `checkpoint_decisions` decisions.
    Senders:   one, the scene's sequencer.  Thread-safe: no.
    """

    def __init__(self, name: str, journal: Journal, settings: Settings) -> None:
        self._name = name
        self._journal = journal
        self._settings = settings
        # Names alone: of a dictionary of them, and not of a set, the collector knows that it need not walk over it.
        self._changed: dict[str, None] = {}
        self._decisions = 0
        self._is_behind = False
        self.position = START
        self._closed_at = START
        self._saw_closing = False
        self._tallies: dict[str, Tally] = {}
        self._lent: set[str] = set()
        self.grants = TracedGrants(settings.traced_grants_max)

    def tally(self, character: str) -> Tally:
        """Give what a character's gates refused in this life. Do not change it."""
        return self._tallies.get(character, NOTHING)

    def tallies(self) -> dict[str, Tally]:
        """Give all tallies as they are now; they stay so, whatever is counted later."""
        self._lent = set(self._tallies)
        return self._tallies.copy()

    def _tally_to_count(self, character: str) -> Tally:
        """Give a tally to count into, which nobody reads."""
        held = self._tallies.get(character)
        if held is None or character in self._lent:
            self._lent.discard(character)
            held = self._tallies[character] = Tally({}, {}, {}) if held is None else copied(held)
        return held

    @property
    def is_due(self) -> bool:
        """Say whether enough was decided here since the last checkpoint: what others decided, they store.

        In a scene that was seen to be closed and begins again, any decision is enough, until what was closed is
        forgotten.
        """
        return self._decisions >= (1 if self._saw_closing else self._settings.checkpoint_decisions)

    @property
    def has_changes(self) -> bool:
        """Say whether anything was decided here, or a scene closed elsewhere, since the journal took all of it."""
        return self._decisions > 0 or self._is_behind

    async def open(self) -> tuple[Scene, int]:
        """Read the newest checkpoint and replay the entries behind it; give the scene and its last position.

        Raises:
            JournalUnavailable, JournalDamaged: Nothing was changed.
        """
        gap_behind: int | None = None
        while True:
            scene = await self.checkpointed()
            began = self.position
            try:
                await self.read_tail(scene, _told_nobody)
            except Gap:
                if began == gap_behind:
                    raise
                # Another node may have stored a later checkpoint and trimmed behind it since this one was read.
                gap_behind = began
            else:
                return scene, self.position

    async def read_tail(self, scene: Scene, told: Told, *, to_the_end: bool = True, is_own: bool = True) -> int:
        """Replay onto a scene the entries behind what it shows, each in one step; give how many they were.

        `told` hears of each in that step. Without `to_the_end`, one read that gives some is enough. With `is_own` they
        count as decided here: they make a checkpoint due.

        Raises:
            Gap: What is behind does not follow on the scene.
            JournalUnavailable, JournalDamaged: The scene is as far as it was read until then, and stays right.
        """
        found, pace = 0, Pace()
        while entries := await self._journal.read(self._name, after=self.position, limit=ENTRIES_READ_MAX):
            for stored in entries:
                entry = await pace.through(decode_entry_in_steps(stored.blob))
                if entry.first != scene.sequence + 1:
                    raise Gap(f"scene {self._name!r}: sequence {scene.sequence + 1} is missing before {entry.first}")
                existed, candidate = scene.state.exists, Candidate(scene, entry.at)
                for number, record in enumerate(entry.records, 1):
                    if type(record.command) is Tick:
                        await pace.through(candidate.apply_in_steps(record))
                    else:
                        candidate.apply(record)
                    if number % PACED == 0 and pace.is_due:
                        await pace.pause()
                scene.adopt(candidate)
                self.adopted(scene, candidate, stored.position, entry.traced, is_own=is_own)
                told(stored, candidate, existed)
                found += 1
                await cooled(scene, pace)
                if pace.is_due:
                    await pace.pause()
            if not to_the_end and len(entries) < ENTRIES_READ_MAX:
                break
        return found

    async def checkpointed(self) -> Scene:
        """Read the newest checkpoint only; an empty scene where there is none.

        Raises:
            JournalUnavailable, JournalDamaged: Nothing was changed.
        """
        scene = Scene(self._name, self._journal.secret, bounds_of(self._settings), CommonCompression())
        self._changed, self._decisions, self._tallies, self.position = {}, 0, {}, START
        self._closed_at, self._saw_closing = START, False
        self.grants.clear()
        checkpoint = await self._journal.load(self._name)
        if checkpoint is None:
            return scene
        scene.sealer = sealer_of(self._name, self._journal.secret, checkpoint.secrets)
        remains, pace = dict[str, Remains](), Pace()
        head = await pace.through(decode_checkpoint_in_steps(checkpoint.header))
        for number, (name, blob) in enumerate(checkpoint.characters.items(), 1):
            if number % PACED == 0 and pace.is_due:
                await pace.pause()
            stored = decode_character(blob)
            if stored.living is not None:
                scene.roster.load(name, stored.living)
            elif stored.remains is not None:
                remains[name] = stored.remains
            if stored.tally is not None:
                self._tallies[name] = stored.tally
        scene.restore(head.state, head.receipts, remains, head.open_ticks)
        self.grants.restore(head.traced)
        self.position = checkpoint.position
        if not scene.state.exists:
            # Whoever stored it may have died before the history was forgotten: the next checkpoint does it again.
            self._closed_at = self.position
        return scene

    def adopted(
        self, scene: Scene, candidate: Candidate, position: int, traced: list[Traced], *, is_own: bool = True
    ) -> None:
        """Note what a turn changed: whose value, whose tally; and which traced requests were granted what in it.

        One that is not `is_own` was decided elsewhere: its changes belong to the next checkpoint, and make none due.
        """
        self.position = position
        if is_own:
            self._decisions += len(candidate.records)
        elif candidate.closes:
            # Whoever closed it may have died before its history was forgotten.
            self._is_behind = True
        if candidate.closes:
            self._closed_at, self._saw_closing = position, True
            self._tallies.clear()
            self.grants.clear()
        self.grants.note(candidate.first, candidate.records, traced)
        for names in (candidate.gone, candidate.living, candidate.dead):
            self._changed.update(dict.fromkeys(names))
        for name in candidate.dead:
            self._tallies.pop(name, None)
        for who in candidate.born:
            self._tallies.pop(who, None)
        for who, command, refused in candidate.refusals:
            if counts(command) and who in scene.roster:
                count(self._tally_to_count(who), command, refused)
                self._changed[who] = None

    async def checkpoint(self, scene: Scene) -> None:
        """Store what changed since the last checkpoint, then forget history that is beyond retention.

        A journal that cannot take it now is no harm: the entries are there, and the next checkpoint holds these changes
        too. Nor is another node's later checkpoint: it holds all that changed up to here, so what is noted begins anew.
        `_changed` may be applied to any checkpoint from this store's last one on, for it names whatever changed since.
        """
        scene.receipts.expire(at=scene.state.at)
        changed, pace = dict[str, bytes | None](), Pace()
        for number, name in enumerate(self._changed, 1):
            if number % PACED == 0 and pace.is_due:
                await pace.pause()
            changed[name] = self._stored(scene, name)
        closed = not scene.state.exists
        traced = self.grants.pending(scene.roster)
        receipts, ticks = scene.receipts.dump(), scene.open_ticks()
        steps = encode_checkpoint_in_steps(scene.state, receipts, ticks, closed=closed, traced=traced)
        header = await pace.through(steps)
        noted, self._changed, self._decisions = self._changed, {}, 0
        position = self.position
        try:
            try:
                await self._journal.checkpoint(
                    self._name, position=position, header=header, changed=changed, listed=not closed
                )
            except Superseded:
                # Whoever was later may know nothing of an end before it, and then kept what was closed.
                await self._forget_closed()
            else:
                await self._forget_closed()
                await self._trim(scene)
            self._is_behind = False
        except (JournalUnavailable, JournalDamaged, CommitUnknown) as error:
            self._changed |= noted
            self._is_behind = True
            log.warning("checkpoint-failed", scene=self._name, error=str(error))

    def whole(self, scene: Scene) -> tuple[bytes, dict[str, bytes]]:
        """Give everything that a checkpoint of the scene holds: its head, and every id as it is stored."""
        traced = self.grants.pending(scene.roster)
        closed = not scene.state.exists
        header = encode_checkpoint(scene.state, scene.receipts.dump(), scene.open_ticks(), closed=closed, traced=traced)
        held = {name: self._stored(scene, name) for name in (*scene.roster, *scene.remains)}
        return header, {name: blob for name, blob in held.items() if blob is not None}

    def _stored(self, scene: Scene, name: str) -> bytes | None:
        """Give an id as a checkpoint stores it; None for one of which nothing remains."""
        living = scene.roster.blob(name)
        remains = scene.remains.get(name)
        if living is None and remains is None:
            return None
        tally = self._tallies.get(name)
        character = scene.roster.get(name)
        if tally is not None and character is not None:
            tally = self._tally_to_count(name)
            prune(tally, character.events.instances, character.layers, character.graphs)
        return encode_character(StoredCharacter(living, remains, tally))

    async def _forget_closed(self) -> None:
        """Forget the history up to the last closing of the scene, be it begun again; a checkpoint covers it."""
        if self._closed_at:
            await self._journal.trim(self._name, before=self._closed_at)
            self._closed_at, self._saw_closing = START, False

    async def _trim(self, scene: Scene) -> None:
        """Forget whole entries beyond retention: never one that a receipt still needs."""
        kept_from = scene.sequence - self._settings.history_decisions_max
        oldest = scene.receipts.oldest()
        if oldest is not None:
            kept_from = min(kept_from, oldest)
        if kept_from > 1:
            await self._journal.trim(self._name, before=await self._journal.seek(self._name, sequence=kept_from))
