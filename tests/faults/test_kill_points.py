"""A serving process is killed at every named point, under 8 writers: nothing acknowledged is lost, nothing is double.

`POSEGATE_FAULT_ROUNDS` says how many kills at least, `POSEGATE_FAULT_SEED` where the seeds begin. A failure names its
seed and point, and where every request and answer is written down.
"""

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from msgspec import Struct, field

from tests.faults.connected import Asks, connected
from tests.faults.dying import Died, dying
from tests.faults.ledger import (
    check_kept,
    check_once,
    check_twin,
    check_verified,
    history_of,
    ledger,
    log_of,
)
from tests.faults.mixed import Mixed, Party
from tests.faults.points import POINTS
from tests.support.process import ROOT

ROUNDS = int(os.environ.get("POSEGATE_FAULT_ROUNDS", "0"))
SEED = int(os.environ.get("POSEGATE_FAULT_SEED", "20261130"))
SEEDS = range(SEED, SEED + max(1, -(-ROUNDS // len(POINTS))))
"""One for each test; a test kills once at every point."""

KILLS_OF_A_SCENE = 4
SETTLED_UNDER_FIRE = 0.25
"""How often the retries after a kill are met by another one."""

FEW_PASSAGES = 6
RETRIED_AGAIN = 8
KEPT = {"checkpoint_decisions": "24"}
TRIMMED = {**KEPT, "history_decisions_max": "32", "receipts_max": "128"}
"""Receipts that are enough for what is under way, and a history that is trimmed down to them."""

REQUESTS_KEPT = 48
"""Requests whose receipts are surely among those: few are batches, which have four."""


class Kill(Struct):
    """One kill: of a process that serves this party, at its so manieth passage of the point."""

    party: Party
    point: str
    passages: int
    settings: dict[str, str]


class Figures(Struct):
    """What happened: kills by point, those while settling, and what became of the requests that were not answered."""

    kills: Counter[str] = field(default_factory=Counter)
    kills_while_settling: int = 0
    requests: int = 0
    unknown_decided: int = 0
    unknown_fresh: int = 0

    def __str__(self) -> str:
        unknown = f"{self.unknown_decided} unknown found decided, {self.unknown_fresh} decided when sent again"
        kills = f"{self.kills.total()} kills and {self.kills_while_settling} while settling"
        return f"{kills}, {self.requests} requests, {unknown}"


def kills(seed: int) -> list[Kill]:
    """Plan one kill for each point, in any order; a scene takes a few."""
    chance, planned = random.Random(seed), list[Kill]()
    by_need = [[name for name, point in POINTS.items() if point.in_trims is need] for need in (False, True)]
    for points, settings in zip(by_need, (KEPT, TRIMMED), strict=True):
        chance.shuffle(points)
        for number, point in enumerate(points):
            if number % KILLS_OF_A_SCENE == 0:
                scene = f"scene-{len(planned)}"
                party = Party(scene, f"{seed}, {scene}")
            planned.append(Kill(party, point, chance.randint(1, POINTS[point].passages_max), settings))
    return planned


async def killed(journal: str, kill: Kill, figures: Figures) -> None:
    """Start, hold what the kill before left against what its writers know, then write until this kill."""
    with dying(journal, kill.settings) as served:
        async with connected(served.url) as client:
            await check(client, kill, journal, figures)
            served.doom.tell(kill.point, kill.passages)
            await kill.party.write(client)
        served.died()
    figures.kills[kill.point] += 1


async def killed_while_settling(journal: str, kill: Kill, at: tuple[str, int], figures: Figures) -> None:
    """Start a process that is to die at a point while it starts, or while what was not answered is sent again."""
    try:
        with dying(journal, kill.settings, at=at) as served:
            async with connected(served.url) as client:
                if await kill.party.settle(client):
                    return
            served.died()
    except Died:
        pass
    figures.kills_while_settling += 1


async def check(client: Asks, kill: Kill, journal: str, figures: Figures) -> None:
    """Nothing acknowledged is lost, what is unknown settles by its key, nothing is double, the state is the twin's."""
    party, is_trimmed = kill.party, kill.settings is TRIMMED
    kept = await history_of(client, party.scene)
    check_kept(ledger(party.sent), kept, is_trimmed=is_trimmed)

    unknown = [request for request in party.sent if request.answer is None]
    assert await party.settle(client), "a retry was not answered"
    for request in unknown:
        figures.unknown_decided += request.answers[0]["sequence"] in kept
        figures.unknown_fresh += request.answers[0]["sequence"] not in kept
    rows = ledger(party.sent)
    check_once(rows)
    settled = await history_of(client, party.scene)
    check_kept([row for row in rows if row.sequence in kept], kept, is_trimmed=is_trimmed)
    check_kept(rows, settled, is_trimmed=is_trimmed)
    for request in sent_again(party, is_trimmed=is_trimmed):
        assert await request.send(client), "a retry was not answered"
    assert list(settled) == list(await history_of(client, party.scene)), "a retry was decided again"
    assert max(settled) == len(rows)
    await check_twin(client, party, rows, journal)
    await check_verified(journal, party.scene, kill.settings)


def sent_again(party: Party, *, is_trimmed: bool) -> list[Mixed]:
    """Choose requests to send once more: the newest, and some of any age of which the receipts are kept."""
    by_age = sorted(party.sent, key=lambda request: request.answers[-1]["sequence"])
    kept = by_age[-REQUESTS_KEPT:] if is_trimmed else by_age
    return kept[:: -(-len(kept) // RETRIED_AGAIN)] + by_age[-RETRIED_AGAIN:]


async def check_left(journal: str, last: Kill, figures: Figures) -> None:
    """Start once more after the last kill of a scene, and check it."""
    with dying(journal, last.settings) as served:
        async with connected(served.url) as client:
            await check(client, last, journal, figures)


async def check_everything(journal: str, parties: list[tuple[Party, bool]]) -> None:
    """After the last kill every scene still holds what its writers know, and the command line finds nothing."""
    with dying(journal, KEPT) as served:
        async with connected(served.url) as client:
            for party, is_trimmed in parties:
                check_kept(ledger(party.sent), await history_of(client, party.scene), is_trimmed=is_trimmed)
    verify = [sys.executable, "-m", "app.cli", "verify", journal]
    verified = await asyncio.to_thread(subprocess.run, verify, cwd=ROOT, capture_output=True, text=True)
    assert verified.returncode == 0, verified


@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_acknowledged_is_lost_and_nothing_double_wherever_the_process_is_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
):
    journal, chance, figures = f"sqlite:{tmp_path / 'p.db'}", random.Random(f"{seed}, settled"), Figures()
    planned = kills(seed)
    parties = {kill.party.scene: (kill.party, kill.settings is TRIMMED) for kill in planned}
    before: Kill | None = None

    try:
        for kill in planned:
            if before is not None and chance.random() < SETTLED_UNDER_FIRE:
                at = (chance.choice(list(POINTS)), chance.randint(1, FEW_PASSAGES))
                await killed_while_settling(journal, before, at, figures)
            if before is not None and before.party is not kill.party:
                await check_left(journal, before, figures)
            await killed(journal, kill, figures)
            before = kill
        await check_left(journal, planned[-1], figures)
        await check_everything(journal, list(parties.values()))
    except BaseException as error:
        log = tmp_path / "requests.jsonl"
        log.write_bytes(log_of(request for party, _ in parties.values() for request in party.sent))
        error.add_note(f"seed {seed}, to die {kill.point!r} at passage {kill.passages}; the requests are in {log}")
        raise

    figures.requests = sum(len(party.sent) for party, _ in parties.values())
    if len(SEEDS) > 1:
        with capsys.disabled():
            print(f"\nseed {seed}: {figures}", end=" ", flush=True)
    assert figures.kills == Counter(POINTS.keys())
    assert figures.unknown_decided > 0
    assert figures.unknown_fresh > 0
