"""Verification: replay a journal, decide every command again, and report each difference between then and now."""

from collections.abc import AsyncIterator, Sequence

from msgspec import Struct, structs

from app.gates.candidate import Candidate
from app.gates.decision import Refused
from app.gates.event_commands import Enqueue
from app.gates.identity import Granted
from app.gates.lives import Remains
from app.gates.scene import Record, Scene
from app.journal.codec import RULES, Entry, decode_checkpoint, decode_entry, decode_granted
from app.journal.port import START, Checkpoint, Journal, JournalDamaged, SealSecret
from app.sequencing.naming import known, listed
from app.sequencing.store import SceneStore, bounds_of, sealer_of
from app.settings import Settings

ENTRIES_READ_MAX = 256
DIFFERENCES_MAX = 100
"""How many differences of one scene are listed; the rest is only counted."""

CHANGED_RULE, DAMAGE = "changed-rule", "damage"
"""What a difference means: other rules decided then, or the journal does not say what was decided."""


class Difference(Struct, frozen=True):
    """One decision (or, without a sequence, the scene as a whole) that does not come out as it is recorded."""

    sequence: int | None
    meaning: str
    detail: str


class SceneReport(Struct):
    """What was found in one scene.

    `decided_again` counts the decisions that were decided anew; the others lie before the oldest state that is kept,
    and were only read. `differing` of them came out otherwise. `differences` lists the first of `found`. With
    `is_cut_short`, the journal is damaged, and no decision was looked at from the damage on.
    """

    scene: str
    entries: int = 0
    decisions: int = 0
    decided_again: int = 0
    differing: int = 0
    is_cut_short: bool = False
    found: int = 0
    differences: list[Difference] = []

    def report(self, sequence: int | None, meaning: str, detail: str) -> None:
        """Count a difference, and list it while there is room."""
        self.found += 1
        if len(self.differences) < DIFFERENCES_MAX:
            self.differences.append(Difference(sequence, meaning, detail))


async def verify(journal: Journal, settings: Settings) -> AsyncIterator[SceneReport]:
    """Verify every scene a journal knows of, one report after another, by name. The journal is only read.

    One that is not listed is reported only where something is found: it was deleted, or nothing is left to list it by.

    Raises:
        JournalUnavailable: The journal cannot be read at all.
    """
    names = await listed(journal)
    for name in sorted(names | await known(journal)):
        report = await verify_scene(journal, name, settings)
        if report.found or name in names:
            yield report


async def verify_scene(journal: Journal, name: str, settings: Settings) -> SceneReport:
    """Verify one scene from the oldest state that is known: its beginning, or else its newest checkpoint."""
    report = SceneReport(name, differences=[])
    scene = Scene(name, journal.secret, bounds_of(settings))
    store = SceneStore(name, journal, settings)
    try:
        stored, until = await store.open()
        replayed = await _decide_again(journal, scene, report, settings, until=until)
    except JournalDamaged as error:
        sequence = await _first_bad(journal, name, settings) if error.sequence is None else error.sequence
        report.is_cut_short = True
        report.report(sequence, DAMAGE, str(error))
        return report
    if report.decided_again == report.decisions and replayed.sequence == stored.sequence:
        _compare_states(replayed, stored, report)
    return report


async def _first_bad(journal: Journal, name: str, settings: Settings) -> int | None:
    """Give the first decision of a damaged scene that cannot be read or does not follow; None where nothing tells it.

    What lies before the damage tells it, or else what the scene must begin with.
    """
    try:
        checkpoint = await journal.load(name)
        expected = _oldest(checkpoint, settings)
    except JournalDamaged as error:
        return error.sequence
    repaired = {secret.first for secret in (() if checkpoint is None else checkpoint.secrets)}
    position = START
    try:
        while entries := await journal.read(name, after=position, limit=ENTRIES_READ_MAX):
            for stored in entries:
                # How much lies before the first that is kept, only the journal knows, once there is a checkpoint.
                is_behind = position != START or checkpoint is None
                if is_behind and stored.first != expected and stored.first not in repaired:
                    return expected
                expected = stored.first
                decode_entry(stored.blob)
                position, expected = stored.position, stored.last + 1
    except JournalDamaged as error:
        return expected if error.sequence is None else error.sequence
    return None


def _oldest(checkpoint: Checkpoint | None, settings: Settings) -> int | None:
    """Give the oldest decision that a scene must still have; None where nothing tells how much of it was forgotten.

    Raises:
        JournalDamaged: The checkpoint is none.
    """
    if checkpoint is None:
        return 1
    state = decode_checkpoint(checkpoint.header).state
    if not state.exists:
        return state.sequence + 1
    # Closing a scene forgets its history, and raises its floor above all who were in it.
    is_whole = state.floor == Remains() and state.sequence <= settings.history_decisions_max
    return 1 if is_whole else None


async def _decide_again(
    journal: Journal, scene: Scene, report: SceneReport, settings: Settings, *, until: int
) -> Scene:
    """Walk the entries up to position `until`, decide those again that follow on a known state, and give the scene.

    A server may write on meanwhile: what comes behind `until` is not looked at.
    """
    position, expected = START, 0
    trusted = scene
    checkpoint = await journal.load(scene.name)
    secrets = () if checkpoint is None else checkpoint.secrets
    while entries := await journal.read(scene.name, after=position, limit=ENTRIES_READ_MAX):
        for stored in entries:
            if stored.position > until:
                return trusted
            position = stored.position
            entry = decode_entry(stored.blob)
            if any(repaired.first == entry.first for repaired in secrets):
                _repaired(trusted, entry.first, expected, secrets, journal.secret)
            elif expected and entry.first != expected:
                report.report(entry.first, DAMAGE, f"sequence {expected} is missing")
            expected = entry.last + 1
            report.entries += 1
            report.decisions += len(entry.records)
            if entry.first == trusted.sequence + 1:
                _decide_entry(trusted, entry, report)
            elif checkpoint is not None and position > checkpoint.position:
                trusted = await _at_checkpoint(journal, scene.name, settings)
                if entry.first == trusted.sequence + 1:
                    _decide_entry(trusted, entry, report)
    return trusted


def _repaired(scene: Scene, first: int, expected: int, secrets: Sequence[SealSecret], secret: bytes) -> None:
    """Let a state that was followed up to a repair go on behind it: the sequences that it lost are not missing.

    A repair that kept nothing begins with nothing; behind any other, a state that was not followed is not known.
    """
    until = [repaired for repaired in secrets if repaired.first <= first]
    is_followed = expected == scene.sequence + 1
    is_beginning = not expected and decode_granted(until[-1].granted) == Granted()
    if is_followed or is_beginning:
        scene.state = structs.replace(scene.state, sequence=first - 1)
        scene.sealer = sealer_of(scene.name, secret, until)


async def _at_checkpoint(journal: Journal, name: str, settings: Settings) -> Scene:
    """Give the scene as its newest checkpoint holds it, without the entries behind it."""
    return await SceneStore(name, journal, settings).checkpointed()


def _decide_entry(scene: Scene, entry: Entry, report: SceneReport) -> None:
    """Decide one entry's commands again, each on the state that the recorded facts before it lead to."""
    candidate = Candidate(scene, entry.at)
    for sequence, record in enumerate(entry.records, start=entry.first):
        report.decided_again += 1
        difference = _difference(candidate, record)
        if difference is not None:
            report.report(sequence, DAMAGE if entry.rules == RULES else CHANGED_RULE, difference)
        applied = candidate.apply(record)
        if applied.revision != record.revision:
            detail = f"the revision is {applied.revision}, recorded is {record.revision}"
            report.report(sequence, DAMAGE, detail)
        report.differing += difference is not None or applied.revision != record.revision
    scene.adopt(candidate)


def _difference(candidate: Candidate, record: Record) -> str | None:
    """Say how a decision comes out otherwise than it is recorded; None when it does not."""
    again = candidate.answer(record.character, record.command)
    recorded = record.answer
    if again == recorded:
        return None
    if isinstance(record.command, Enqueue) and isinstance(recorded, Refused):
        # A refused event is stored without its payload, so what the payload decided cannot be decided again.
        if recorded.at == "payload":
            return None
        if isinstance(again, Refused) and structs.replace(again, payload_differs=recorded.payload_differs) == recorded:
            return None
    return f"{type(record.command).__name__} of {record.character!r}: recorded {recorded!r}, decided again {again!r}"


def _compare_states(scene: Scene, stored: Scene, report: SceneReport) -> None:
    """Hold the replayed scene against the one that opens from its checkpoint: they must be equal byte for byte."""
    if scene.state != stored.state or _ticks(scene) != _ticks(stored):
        report.report(None, DAMAGE, "the checkpoint's head differs from the replayed history")
    for name in sorted({*scene.roster, *stored.roster, *scene.remains, *stored.remains}):
        if scene.roster.blob(name) != stored.roster.blob(name) or scene.remains.get(name) != stored.remains.get(name):
            report.report(None, DAMAGE, f"character {name!r} in the checkpoint differs from the replayed history")


def _ticks(scene: Scene) -> tuple[int, int, int, bytes, object]:
    ticks = scene.ticks
    return ticks.sealed, ticks.confirmed, ticks.timeline, ticks.digest, ticks.held
