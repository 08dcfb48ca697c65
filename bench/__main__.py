"""`python -m bench`: measures posegate beside a bare FastAPI handler, interleaved, and writes bench/RESULTS.md."""

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import fastapi
import httpx
import msgspec
import uvicorn
import uvloop

from bench import load
from bench.servers import loop_times, pin, resident_bytes, served
from bench.ticks import CHARACTERS as TICK_CHARACTERS
from bench.ticks import HZ, ROLLBACK_TICKS, ticking

SINGLE_SECONDS, BATCH_SECONDS, TICK_SECONDS = 2.0, 2.0, 10
CONNECTIONS, BATCH_CONNECTIONS, BATCH_COMMANDS, CHARACTERS = 64, 4, 1000, 100
FEW, MANY = 1_000, 100_000
LAYERS = {name: {"initial": "Idle"} for name in ("base", "upper", "face")}
PARAMETERS = {f"Parameter{number:02}": {"type": "float", "default": number / 7} for number in range(30)}
RIG = {"layers": LAYERS, "parameters": {"declared": PARAMETERS}}

Address = tuple[str, int, int]


def say(text: str) -> None:
    """Show progress, on standard error so that `--json` stays clean."""
    print(text, file=sys.stderr, flush=True)


async def single(address: Address, scene: str, seconds: float, characters: int = CHARACTERS) -> load.Measured:
    """Post `begin` on kept connections, one command a request, over all characters in turn."""
    ends = time.perf_counter() + seconds
    body = json.dumps({"layer": "base", "target": "Run"}).encode()
    sent = 0

    def following(number: int, answer: bytes | None) -> bytes | None:
        nonlocal sent
        if time.perf_counter() >= ends:
            return None
        sent += 1
        return load.request(f"/v1/scenes/{scene}/characters/c{sent * 7919 % characters}/begin", body)

    return await load.run(*address[:2], connections=CONNECTIONS, following=following)


_instances = count(1)


class Batches:
    """Batches as a game server sends them: a begin or its complete, parameters, two events, the end of a loop."""

    def __init__(self, scene: str) -> None:
        self.scene = scene
        self.clip_instance = next(_instances)
        self.tokens: dict[int, list[dict[str, Any]]] = {}
        self.round: dict[int, int] = {}

    def following(self, number: int, answer: bytes | None) -> bytes:
        """Give a connection's next batch; what it may complete it takes from the last answer."""
        if answer is not None:
            answers = msgspec.json.decode(answer)["answers"]
            self.tokens[number] = [given["token"] for given in answers if given["outcome"] == "granted"]
        turn = self.round[number] = self.round.get(number, 0) + 1
        completes = {token["character"]: token for token in self.tokens.get(number, ())} if turn % 2 == 0 else {}
        commands = [
            command
            for index in range(BATCH_COMMANDS // 5)
            for command in self._commands(f"c{number * 25 + index % 25}", turn * 8 + index // 25, completes)
        ]
        body = msgspec.json.encode({"commands": commands})
        return load.request(f"/v1/scenes/{self.scene}/batch", body)

    def _commands(self, character: str, loop: int, completes: dict[str, Any]) -> list[dict[str, Any]]:
        token = completes.pop(character, None)
        first: dict[str, Any] = (
            {"command": "begin", "character": character, "layer": "base", "target": "Run"}
            if token is None
            else {"command": "complete", "character": character, "token": token}
        )
        place = {"character": character, "clip_instance": self.clip_instance, "loop": loop}
        event = {"command": "enqueue", **place, "kind": "footstep"}
        values = [{"name": "Speed", "value": loop / 7}, {"name": "Turn", "value": -0.5}]
        return [
            first,
            {"command": "commit-parameters", "character": character, "values": values},
            {**event, "frame": 12},
            {**event, "frame": 42},
            {"command": "commit-loop", **place},
        ]


async def batch(address: Address, scene: str, seconds: float) -> float:
    """Send batches of 1000 on kept connections; give commands a second.

    Bodies are made ahead of the clock, and every one is answered before its connection's next is made.
    """
    batches = Batches(scene)
    busy, commands = 0.0, 0
    ready = {number: batches.following(number, None) for number in range(BATCH_CONNECTIONS)}
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        volley = Volley(ready)
        started = time.perf_counter()
        await load.run(*address[:2], connections=BATCH_CONNECTIONS, following=volley.following)
        busy += time.perf_counter() - started
        commands += BATCH_CONNECTIONS * BATCH_COMMANDS
        ready = {number: batches.following(number, answer) for number, answer in volley.answers.items()}
    return commands / busy


class Volley:
    """One request on each connection."""

    def __init__(self, ready: dict[int, bytes]) -> None:
        self._ready = ready
        self.answers: dict[int, bytes] = {}

    def following(self, number: int, answer: bytes | None) -> bytes | None:
        """Send the connection's request, then keep its answer and end."""
        if answer is None:
            return self._ready[number]
        self.answers[number] = answer
        return None


async def spawned(address: Address, scene: str, characters: int, rig: dict[str, Any] | None = None) -> None:
    """Spawn characters c0 … in batches, with a rig that is declared first."""
    spawn = {} if rig is None else {"rig": "bench"}
    if rig is not None:
        async with httpx.AsyncClient(base_url=f"http://{address[0]}:{address[1]}") as client:
            (await client.put(f"/v1/scenes/{scene}/rigs/bench", json=rig)).raise_for_status()
    bodies = [
        msgspec.json.encode(
            {
                "commands": [
                    {"command": "spawn", "character": f"c{index}", **spawn}
                    for index in range(start, min(start + 1000, characters))
                ]
            }
        )
        for start in range(0, characters, 1000)
    ]
    waiting = iter(bodies)

    def following(number: int, answer: bytes | None) -> bytes | None:
        body = next(waiting, None)
        return None if body is None else load.request(f"/v1/scenes/{scene}/batch", body)

    await load.run(*address[:2], connections=1, following=following)


def posegate(journal: str) -> Any:
    """Run posegate with a journal."""
    return served("app.cli", "serve", "--port", "0", environment={"POSEGATE_JOURNAL": journal})


async def against_peer(rounds: int, directory: str) -> dict[str, Any]:
    """Measure single commands and batches, posegate and peer in turn, and give medians."""
    rates: dict[str, list[float]] = {}
    latencies: dict[str, list[float]] = {}
    with posegate(f"sqlite:{directory}/bench.db") as ours, posegate("memory:") as memory, served("bench.peer") as peer:
        for address in (ours, memory):
            await spawned(address, "bench", CHARACTERS)
        targets: list[tuple[str, Address]] = [("sqlite", ours), ("memory", memory), ("peer", peer)]
        for number in range(rounds):
            for name, address in targets:
                measured = await single(address, "bench", SINGLE_SECONDS)
                rates.setdefault(f"single {name}", []).append(measured.rate)
                latencies.setdefault(name, []).append(measured.percentile(0.5))
                rates.setdefault(f"batch {name}", []).append(await batch(address, "bench", BATCH_SECONDS))
            shown = ", ".join(f"{key} {value[-1]:,.0f}/s" for key, value in rates.items())
            say(f"round {number + 1} of {rounds}: {shown}")
    return {
        "rates": {key: statistics.median(values) for key, values in rates.items()},
        "p50_ms": {key: statistics.median(values) * 1000 for key, values in latencies.items()},
    }


async def many_characters(rounds: int, directory: str) -> dict[str, Any]:
    """Measure what a sleeping character weighs, and what 100,000 of them cost a command."""
    latencies: dict[int, list[float]] = {FEW: [], MANY: []}
    with posegate(f"sqlite:{directory}/many.db") as address:
        await spawned(address, "few", FEW, RIG)
        before = resident_bytes(address[2])
        say(f"spawning {MANY:,} characters of 3 layers and 30 parameters")
        await spawned(address, "many", MANY, RIG)
        grown = resident_bytes(address[2]) - before
        for number in range(rounds):
            for scene, count in (("few", FEW), ("many", MANY)):
                measured = await single(address, scene, SINGLE_SECONDS / 2, count)
                latencies[count].append(measured.percentile(0.5))
            few, many = (latencies[count][-1] * 1000 for count in (FEW, MANY))
            say(f"round {number + 1} of {rounds}: median {few:.2f} ms with {FEW:,} and {many:.2f} ms with {MANY:,}")
    medians = {count: statistics.median(values) for count, values in latencies.items()}
    return {
        "resident_bytes_per_character": grown / MANY,
        "p50_ms": {str(count): value * 1000 for count, value in medians.items()},
        "latency_ratio": medians[MANY] / medians[FEW],
    }


async def ticks(rounds: int, directory: str) -> dict[str, Any]:
    """Measure what a scene at 60 ticks a second with rollbacks takes of the server's core."""
    shares = []
    for number in range(rounds):
        with posegate(f"sqlite:{directory}/ticks{number}.db") as address:
            measured = await ticking(address, "ticks", TICK_SECONDS)
        shares.append(measured["share_of_a_core"])
        late = f"{measured['late_ticks']} of {measured['ticks']} ticks late"
        say(f"round {number + 1} of {rounds}: {shares[-1]:.2f} of a core, {late}")
    return {"share_of_a_core": statistics.median(shares)}


ROWS = (
    ("batch of 1000, SQLite FULL, commands a second", "batch sqlite", "batch peer"),
    ("batch of 1000, memory journal, commands a second", "batch memory", "batch peer"),
    ("single `begin`, 64 connections, SQLite FULL, a second", "single sqlite", "single peer"),
    ("single `begin`, 64 connections, memory journal, a second", "single memory", "single peer"),
)

PAGE = """# Bench results

Written by `make bench` on {date}: {machine}, {cpu}, Python {python}, fastapi {fastapi}, uvicorn {uvicorn},
msgspec {msgspec}, SQLite {sqlite}.

Server on one core, load on the other; medians of {rounds} interleaved rounds. The peer is a bare FastAPI handler with
pydantic models of the same fields, which decides nothing and keeps nothing.

| what | posegate | peer | ratio |
| --- | ---: | ---: | ---: |
{rows}

Median latency of a single command at 64 connections: SQLite {sqlite_ms:.2f} ms, memory journal {memory_ms:.2f} ms,
peer {peer_ms:.2f} ms.

{many:,} characters of 3 layers and 30 parameters: {bytes:,.0f} bytes resident each; median latency {many_ms:.2f} ms
against {few_ms:.2f} ms with {few:,} characters, a ratio of {ratio:.2f}.

A scene of {tick_characters} characters at {hz} ticks a second, 3 requests a character and tick, a rollback of {back}
ticks every second, SQLite FULL: {share:.2f} of the server's core.

How steady the machine was: one fixed loop, a thousand times on the server's core, took {loop_min:.2f} ms at best and
{loop_median:.2f} ms in the median.
"""


def rendered(results: dict[str, Any], rounds: int) -> str:
    """Give the results as a page."""
    rates, latency, many = results["peer"]["rates"], results["peer"]["p50_ms"], results["many"]
    rows = [
        f"| {what} | {rates[ours]:,.0f} | {rates[peer]:,.0f} | {rates[ours] / rates[peer]:.2f} |"
        for what, ours, peer in ROWS
    ]
    return PAGE.format(
        date=time.strftime("%Y-%m-%d"),
        machine=platform.machine(),
        cpu=results["cpu"],
        python=platform.python_version(),
        fastapi=fastapi.__version__,
        uvicorn=uvicorn.__version__,
        msgspec=msgspec.__version__,
        sqlite=apsw.sqlite_lib_version(),
        rounds=rounds,
        rows="\n".join(rows),
        sqlite_ms=latency["sqlite"],
        memory_ms=latency["memory"],
        peer_ms=latency["peer"],
        many=MANY,
        few=FEW,
        bytes=many["resident_bytes_per_character"],
        many_ms=many["p50_ms"][str(MANY)],
        few_ms=many["p50_ms"][str(FEW)],
        ratio=many["latency_ratio"],
        tick_characters=TICK_CHARACTERS,
        hz=HZ,
        back=ROLLBACK_TICKS,
        share=results["ticks"]["share_of_a_core"],
        loop_min=results["loop_ms"][0],
        loop_median=results["loop_ms"][1],
    )


def cpu() -> str:
    """Name the processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


def main() -> None:
    """Run everything, print the page (or JSON), and keep it beside this file."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Example: python -m bench --rounds 5 --json")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds; the median counts")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the page")
    arguments = parser.parse_args()
    pin(1)
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as directory:
        results: dict[str, Any] = {
            "cpu": cpu(),
            "loop_ms": loop_times(),
            "peer": uvloop.run(against_peer(arguments.rounds, directory)),
            "many": uvloop.run(many_characters(arguments.rounds, directory)),
            "ticks": uvloop.run(ticks(arguments.rounds, directory)),
        }
    page = rendered(results, arguments.rounds)
    (Path(__file__).parent / "RESULTS.md").write_text(page)
    print(json.dumps(results, indent=2) if arguments.json else page)


if __name__ == "__main__":
    main()
