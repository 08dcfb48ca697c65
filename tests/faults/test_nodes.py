"""Several nodes serve the same scenes from three servers, while nodes and servers fail in every way we know.

Commands come through HAProxy, which gives each to another node than the one before; where there is none, or
POSEGATE_NODE_BALANCER is `none`, the writers alternate by themselves, and so come to nodes that are not ready too.
POSEGATE_NODE_ROUNDS and POSEGATE_FAULT_SEED make it as long as is wished; a few rounds are run else.
"""

import math
import os
import random
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from app.journal import connect_journal
from tests.faults.hammer import Hammer
from tests.faults.nodes import Nodes, running
from tests.faults.perils import PERILS, drawn, stopped

SEED = int(os.environ.get("POSEGATE_FAULT_SEED", "20261130"))
ROUNDS = int(os.environ.get("POSEGATE_NODE_ROUNDS", "0"))
IS_BALANCED = os.environ.get("POSEGATE_NODE_BALANCER") != "none"
BRIEF = ["leader killed", "node killed", "bad wire"]
"""What is tried where no number of rounds is given: together within a minute."""

BEFORE, AFTER = 60, 60
"""How many answers come before a peril, and after it."""

BACK_S = {"node restarted": 1.0, "server restarted": 1.0, "leader killed": 15.0, "quorum back": 15.0}
"""How long writes may be away after what happened, seconds; what took longer is counted."""


def shown(what: str, times: Sequence[float]) -> str:
    """Say how long nobody was answered, each time that something was done."""
    ordered = sorted(times)
    nearly_all = ordered[math.ceil(0.95 * len(ordered)) - 1]
    return (
        f"without an answer after {what}: median {statistics.median(ordered):.2f} s, "
        f"95th percentile {nearly_all:.2f} s, longest {ordered[-1]:.2f} s, "
        f"{sum(each > BACK_S[what] for each in ordered)} of {len(ordered)} above {BACK_S[what]:g} s"
    )


async def round_of(cluster: Nodes, peril: str, number: int) -> Hammer:
    """Hammer one scene over one peril, and hold what was told against what is kept."""
    chance = random.Random(f"{SEED}, round {number}")
    hammer = Hammer(f"round-{number}", f"{SEED}, round {number}", cluster.doors, watched=cluster.urls)
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
    happened, unanswered, problems, back_s = Counter[str](), 0, Counter[str](), dict[str, list[float]]()
    chosen: dict[str, int] | None = None
    async with running(tmp_path, balanced=IS_BALANCED) as cluster:
        for number, peril in enumerate(perils, 1):
            hammer = await round_of(cluster, peril, number)
            happened[peril] += 1
            unanswered += hammer.client.unanswered
            problems += hammer.client.problems
            for what, times in hammer.back_s.items():
                back_s.setdefault(what, []).extend(times)
            print(
                f"round {number} of {len(perils)}, {peril}: {hammer.answers} requests, "
                f"{hammer.client.unanswered} tries without an answer, {dict(hammer.client.problems)}",
                flush=True,
            )
        if cluster.balancer is not None:
            chosen = cluster.balancer.chosen()

    print(f"{dict(happened)}; {unanswered} tries without an answer, {dict(problems)}, seed {SEED}")
    print("each writer alternated by itself" if chosen is None else f"the balancer chose {chosen}")
    for what, times in back_s.items():
        print(shown(what, times))
    assert sum(happened.values()) == len(perils)
    assert chosen is None or min(chosen.values()) > 0, "the balancer left a node out"
    assert unanswered + problems.total() > 0 or "leader killed" not in happened, "nobody noticed any of it"
