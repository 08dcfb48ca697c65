"""Watching: one writer and 200 readers of the same scene; what they are told in all, and what the writer waits."""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.load import Caller, HttpReading, connected, percentile
from bench.mix import CHARACTERS, SCENE, batch_of, spawned
from bench.rounds import NOTHING, TIMES, Findings, Line, Plan, at_most, say
from bench.servers import ROOT, Address, posegate

READERS = 200
TURN_COMMANDS, TURNS_PER_S = 20, 50
"""The paced writer: 1,000 decisions a second, which for 200 readers are the 200,000 that are to be reached."""

FULL_COMMANDS = 200
"""The writer that does not wait: how many commands it sends at a time."""

SECONDS = 4
"""How often the plan's time each part is measured: a p99 needs more of it than a rate."""


class Readers:
    """The process that reads."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdout is not None
        if process.stdout.readline().strip() != "watching":
            raise RuntimeError("the readers could not watch")

    def decisions(self) -> int:
        """Give how many decisions all of them were told."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def reading(address: Address) -> Iterator[Readers]:
    """Have the scene watched by 200."""
    program = [sys.executable, "-m", "bench.readers", address.host, str(address.port), SCENE, str(READERS)]
    process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        yield Readers(process)
    finally:
        process.terminate()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


def turn_of(commands: int, number: int) -> bytes:
    """Give a batch that is one turn: a begin for one character after another."""
    asked: list[dict[str, Any]] = [
        {
            "command": "begin",
            "character": f"c{(number * commands + index) % CHARACTERS}",
            "layer": "base",
            "target": "Run",
        }
        for index in range(commands)
    ]
    return batch_of(asked, SCENE)


async def paced(address: Address, seconds: float) -> list[float]:
    """Write a turn 50 times a second; give how long each answer took from when it was due, seconds, ascending."""
    writer = await connected(address.host, address.port, Caller(HttpReading()))
    latencies, began = list[float](), time.perf_counter()
    for number in range(int(seconds * TURNS_PER_S)):
        asked, due = turn_of(TURN_COMMANDS, number), began + number / TURNS_PER_S
        wait = due - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
            # A timer that fires late is no answer that came late.
            due = time.perf_counter()
        await writer.ask(asked)
        latencies.append(time.perf_counter() - due)
    writer.close()
    return sorted(latencies)


async def unpaced(address: Address, readers: Readers, seconds: float) -> float:
    """Write as fast as it is answered; give how many decisions a second all readers were told together."""
    writer = await connected(address.host, address.port, Caller(HttpReading()))
    before, began, number = readers.decisions(), time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        await writer.ask(turn_of(FULL_COMMANDS, number))
        number += 1
    rate = (readers.decisions() - before) / (time.perf_counter() - began)
    writer.close()
    return rate


async def measured(plan: Plan) -> Findings:
    """Measure the writer alone, then with readers; and what the readers are told while it does not wait."""
    alone, beside, told, paced_rates = list[float](), list[float](), list[float](), list[float]()
    seconds = plan.seconds * SECONDS
    for number in range(plan.rounds):
        with posegate(f"sqlite:{plan.directory}/watch{number}.db") as address:
            await spawned(address, SCENE, range(CHARACTERS))
            alone.append(percentile(await paced(address, seconds), 0.99) * 1000)
            with reading(address) as readers:
                before, began = readers.decisions(), time.perf_counter()
                beside.append(percentile(await paced(address, seconds), 0.99) * 1000)
                paced_rates.append((readers.decisions() - before) / (time.perf_counter() - began))
                told.append(await unpaced(address, readers, seconds / 2))
        shown = f"{told[-1]:,.0f} decisions a second; p99 {beside[-1]:.2f} ms with readers, {alone[-1]:.2f} ms without"
        say(f"watch, round {number + 1} of {plan.rounds}: {shown}")
    figures = {
        f"decisions a second to {READERS} readers, writer that does not wait": statistics.median(told),
        f"decisions a second to {READERS} readers, writer of {TURN_COMMANDS * TURNS_PER_S:,}/s": statistics.median(
            paced_rates
        ),
        "p99 of the paced writer without readers, ms": statistics.median(alone),
        f"p99 of the paced writer with {READERS} readers, ms": statistics.median(beside),
    }
    return Findings(_lines(list(figures.values())), figures)


def _lines(values: list[float]) -> list[Line]:
    told, _, alone, beside = values
    return [
        Line(
            "watch-rate",
            f"watch, 1 writer, {READERS} readers, decisions a second in all",
            f"{told:,.0f}/s",
            NOTHING,
            told,
            200_000,
            "200,000 /s",
        ),
        at_most(
            "watch-writer",
            f"watch, p99 of a writer of {TURN_COMMANDS * TURNS_PER_S:,} commands a second",
            f"{beside:.2f} ms",
            f"without readers: {alone:.2f} ms",
            beside / alone,
            1.5,
            f"≤ 1.5 {TIMES}",
        ),
    ]
