"""Batches of 1000 commands, four under way: posegate, Redis raw and through redis-py, and the bare handler."""

import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial

from redis import Redis

from bench.agreement import require_agreement
from bench.load import MSGPACK, Sender, volleys
from bench.mix import BATCH_COMMANDS, BATCH_CONNECTIONS, CHARACTERS, SCENE, Batches, spawned
from bench.redis_rules import RedisMix, scripted
from bench.rounds import Findings, Plan, at_least, interleaved
from bench.servers import Address, posegate, redis, served

KEYED, UNKEYED, MEMORY = "posegate keyed, SQLite FULL", "posegate, SQLite FULL", "posegate, memory"
BARE = "bare handler"


async def batched(address: Address, sender: Callable[[], Sender], seconds: float) -> float:
    """Send raw bytes that were made ahead; give commands a second."""
    rate = await volleys(address.host, address.port, sender(), connections=BATCH_CONNECTIONS, seconds=seconds)
    return rate * BATCH_CONNECTIONS * BATCH_COMMANDS


async def piped(address: Address, *, same_work: bool, seconds: float) -> float:
    """Send pipelines of 1000 through redis-py, as its user would, one after another; give commands a second.

    The calls are made ahead; what redis-py makes of them is its work, and measured.
    """
    mix, answers, busy, done = RedisMix(same_work=same_work), None, 0.0, -1
    with Redis(host=address.host, port=address.port) as client:
        while busy < seconds:
            calls = mix.calls(0, answers)
            started = time.perf_counter()
            pipeline = client.pipeline(transaction=False)
            for call in calls:
                pipeline.execute_command(*call)
            answers = pipeline.execute()
            if done >= 0:
                busy += time.perf_counter() - started
            done += 1
    return done * BATCH_COMMANDS / busy


def of_redis(address: Address, form: str, seconds: float) -> dict[str, Callable[[], Awaitable[float]]]:
    """Give what is measured of one Redis."""
    contenders: dict[str, Callable[[], Awaitable[float]]] = {}
    for same_work, work in ((False, "rules only"), (True, "same work")):
        name = f"Redis {work}, {form}"
        contenders[f"{name}, raw"] = partial(batched, address, partial(RedisMix, same_work=same_work), seconds)
        contenders[f"{name}, redis-py"] = partial(piped, address, same_work=same_work, seconds=seconds)
    return contenders


async def measured(plan: Plan) -> Findings:
    """Measure batches on every side."""
    with ExitStack() as servers:
        enter, seconds = servers.enter_context, plan.seconds
        sqlite, memory = enter(posegate(f"sqlite:{plan.directory}/batches.db")), enter(posegate("memory:"))
        always, none = enter(redis(plan.directory, always=True)), enter(redis(plan.directory, always=False))
        bare = enter(served("bench.peer"))
        for address in (sqlite, memory):
            await spawned(address, SCENE, range(CHARACTERS))
        for address in (always, none):
            await scripted(address)
        for is_keyed in (False, True):
            await require_agreement(memory, none, keyed=is_keyed)
        ours = (
            (KEYED, sqlite, partial(Batches, keyed=True)),
            (UNKEYED, sqlite, Batches),
            (MEMORY, memory, Batches),
            (f"{KEYED}, MessagePack", sqlite, partial(Batches, keyed=True, media_type=MSGPACK)),
            (f"{UNKEYED}, MessagePack", sqlite, partial(Batches, media_type=MSGPACK)),
            (f"{MEMORY}, MessagePack", memory, partial(Batches, media_type=MSGPACK)),
        )
        figures = await interleaved(
            plan,
            "batches",
            {name: partial(batched, address, sender, seconds) for name, address, sender in ours}
            | of_redis(always, "always", seconds)
            | of_redis(none, "no AOF", seconds)
            | {BARE: partial(batched, bare, Batches, seconds)},
        )
    keyed, unkeyed = "batch of 1000, JSON, keyed, SQLite FULL", "batch of 1000, JSON, unkeyed"
    lines = [
        at_least("batch-keyed-raw", keyed, figures, KEYED, "Redis same work, always, raw", 2),
        at_least("batch-keyed-redis-py", keyed, figures, KEYED, "Redis same work, always, redis-py", 6),
        at_least("batch-unkeyed", f"{unkeyed}, SQLite FULL", figures, UNKEYED, "Redis rules only, always, raw", 1.5),
        at_least("batch-memory", f"{unkeyed}, memory journal", figures, MEMORY, "Redis rules only, no AOF, raw", 1),
    ]
    return Findings(lines, figures)
