"""`python -m bench`: measures posegate beside what a user would pick instead, and writes bench/RESULTS.md."""

import argparse
import gc
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop

from bench import batches, channel, flat, idle, nodes, page, singles, start, ticks, watch
from bench.rounds import Findings, Plan, say
from bench.servers import CORES, loop_times, pin, require_redis

SECTIONS: dict[str, Callable[[Plan], Coroutine[Any, Any, Findings]]] = {
    "batches": batches.measured,
    "singles": singles.measured,
    "channel": channel.measured,
    "watch": watch.measured,
    "idle": idle.measured,
    "flat": flat.measured,
    "start": start.measured,
    "ticks": ticks.measured,
    "nodes": nodes.measured,
}

ROUNDS = 5


def main() -> None:
    """Run the sections, print the page (or JSON), and keep it beside this file when everything was measured."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Example: python -m bench --only singles --rounds 1 --seconds 0.3"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="interleaved rounds; the median counts")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long a contender is measured a round")
    parser.add_argument(
        "--only", action="append", choices=SECTIONS, help="a section; may be given again. RESULTS.md is left alone then"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the page")
    arguments = parser.parse_args()
    require_redis()
    # Whoever ends it leaves no server behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    pin(1)
    gc.set_threshold(50_000, 20, 100)
    loop_ms, found, began = loop_times(), dict[str, Findings](), time.monotonic()
    for name in arguments.only or SECTIONS:
        with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as directory:
            plan = Plan(arguments.rounds, arguments.seconds, directory)
            found[name] = uvloop.run(SECTIONS[name](plan))
        say(f"{name} is done, {time.monotonic() - began:.0f} s since the beginning")
    written = page.rendered(found, rounds=arguments.rounds, cores=len(CORES), loop_ms=loop_ms)
    if arguments.only is None and arguments.rounds >= ROUNDS:
        page.RESULTS.write_text(written)
    print(as_json(found, loop_ms) if arguments.json else written)


def as_json(found: dict[str, Findings], loop_ms: tuple[float, float]) -> str:
    """Give everything as JSON: lines with their targets, and all figures."""
    shown = {
        "versions": page.versions(),
        "machine": page.machine(len(CORES)),
        "loop_ms": loop_ms,
        "sections": {
            name: {
                "lines": [{**line._asdict(), "is_reached": line.is_reached} for line in each.lines],
                "figures": each.figures,
            }
            for name, each in found.items()
        },
    }
    return json.dumps(shown, indent=2)


if __name__ == "__main__":
    main()
