"""A journal of 1,000,000 entries: how soon a service on it is ready, and whether a command costs what it did before."""

import asyncio
import json
import sys
import time
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path

from bench.cost import Side, compared, lines_of
from bench.flat import COMMANDS, among
from bench.journals import built
from bench.mix import SCENE, opened
from bench.rounds import NOTHING, Findings, Line, Plan, at_most, interleaved, say
from bench.servers import READY_S_MAX, Address, free_port, posegate, running

CHARACTERS, ENTRIES = 100_000, 1_000_000
READY_S = 2.0
EMPTY, LONG = "an empty journal", f"{ENTRIES:,} entries"
READY, FIRST = "ready with a long journal, s", "first command in its scene answered, s"


async def measured(plan: Plan) -> Findings:
    """Make the journals, start on the long one again and again, then compare the cost with the empty one."""
    empty, long = (Path(plan.directory) / f"{name}.db" for name in ("empty", "long"))
    say(f"making a journal of {CHARACTERS:,} characters and {ENTRIES:,} entries")
    await built(str(empty), characters=CHARACTERS, entries=0)
    await built(str(long), characters=CHARACTERS, entries=ENTRIES)
    firsts = list[float]()

    async def started() -> float:
        ready, first = await _started(str(long))
        firsts.append(first)
        return ready

    figures = await interleaved(plan, "start", {READY: started}, " s")
    figures[FIRST] = sorted(firsts)[len(firsts) // 2]
    with ExitStack() as servers:
        sides = {}
        for who, path in ((EMPTY, empty), (LONG, long)):
            address = servers.enter_context(posegate(f"sqlite:{path}"))
            await opened(address, SCENE)
            sides[who] = Side(address, among(SCENE), CHARACTERS, COMMANDS, COMMANDS)
        figures |= await compared(plan, "cost", sides)
    what = f"start, ready with {ENTRIES:,} entries and {CHARACTERS:,} characters in the journal"
    ready: Line = at_most(
        "start", what, f"{figures[READY]:.2f} s", NOTHING, figures[READY], READY_S, f"≤ {READY_S:g} s"
    )
    return Findings([ready, *lines_of("flat-journal", figures, EMPTY, LONG)], figures)


async def _started(path: str) -> tuple[float, float]:
    """Start on a journal; give the seconds until it says that it is ready, and until a command is answered."""
    port = free_port()
    environment = {"POSEGATE_JOURNAL": f"sqlite:{path}", "POSEGATE_LOG_LEVEL": "warning"}
    began = time.perf_counter()
    program = [sys.executable, "-m", "app.cli", "serve", "--port", str(port)]
    with running(program, environment=environment) as process:
        while not _is_ready(port):
            if time.perf_counter() - began > READY_S_MAX or process.poll() is not None:
                raise RuntimeError("the service did not become ready")
            await asyncio.sleep(0.01)
        ready = time.perf_counter() - began
        await opened(Address("127.0.0.1", port, process.pid), SCENE)
        return ready, time.perf_counter() - began


def _is_ready(port: int) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=30) as answer:
        return bool(json.load(answer)["ready"])
    return False
