"""Several nodes serve the same scenes from three servers, while nodes and servers fail in every way we know.

POSEGATE_NODE_ROUNDS and POSEGATE_FAULT_SEED make it as long as is wished; a few rounds are run else.
"""

import os
import random
import statistics
from collections import Counter
from pathlib import Path

from app.journal import connect_journal
from tests.faults.hammer import Hammer
from tests.faults.nodes import Nodes, running
from tests.faults.perils import PERILS, drawn, stopped

SEED = int(os.environ.get("POSEGATE_FAULT_SEED", "20261130"))
ROUNDS = int(os.environ.get("POSEGATE_NODE_ROUNDS", "0"))
BRIEF = ["leader killed", "node killed", "bad wire"]
"""What is tried where no number of rounds is given: together within a minute."""

BEFORE, AFTER = 60, 60
"""How many answers come before a peril, and after it."""


async def round_of(cluster: Nodes, peril: str, number: int) -> Hammer:
    """Hammer one scene over one peril, and hold what was told against what is kept."""
    chance = random.Random(f"{SEED}, round {number}")
    hammer = Hammer(f"round-{number}", f"{SEED}, round {number}", cluster.urls)
    try:
        await hammer.begin()
        await hammer.answered(BEFORE)
        await PERILS[peril](cluster, hammer, chance)
        await hammer.answered(AFTER)
        await hammer.end()
        assert stopped(cluster.nodes) == []
        journal = await connect_journal(cluster.journal, read_only=True)
        try:
            await hammer.check(journal.secret, cluster.urls)
        finally:
            await journal.close()
    except BaseException as error:
        error.add_note(f"round {number}, {peril}, seed {SEED}")
        raise
    finally:
        hammer.close()
    return hammer


async def test_nothing_is_lost_doubled_or_out_of_order_whatever_fails(tmp_path: Path):
    perils = list(drawn(SEED, ROUNDS)) if ROUNDS else BRIEF
    happened, unanswered, back_s = Counter[str](), 0, dict[str, list[float]]()
    async with running(tmp_path) as cluster:
        for number, peril in enumerate(perils, 1):
            hammer = await round_of(cluster, peril, number)
            happened[peril] += 1
            unanswered += hammer.client.unanswered
            for what, times in hammer.back_s.items():
                back_s.setdefault(what, []).extend(times)
            print(
                f"round {number} of {len(perils)}, {peril}: {hammer.answers} requests, "
                f"{hammer.client.unanswered} tries without an answer",
                flush=True,
            )

    print(f"{dict(happened)}; {unanswered} tries without an answer, seed {SEED}")
    for what, times in back_s.items():
        print(
            f"without an answer after {what}: median {statistics.median(times):.2f} s, longest {max(times):.2f} s, "
            f"{len(times)} times"
        )
    assert sum(happened.values()) == len(perils)
    assert unanswered > 0, "nobody noticed any of it"
