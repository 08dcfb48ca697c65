"""The page: bench/RESULTS.md, made of what the sections found and of notes that say what bounds the rest."""

import platform
import re
import subprocess
import time
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import apsw

from bench.rounds import Findings, Line

RESULTS = Path(__file__).with_name("RESULTS.md")
NOTES = Path(__file__).with_name("notes.toml")
LIBRARIES = ("fastapi", "uvicorn", "uvloop", "httptools", "msgspec", "picows", "websockets", "redis", "hiredis")

HEAD = """# Bench results

Written by `make bench` on {date}: {machine}.

Versions: {versions}.

Server on one core, load on the other; medians of {rounds} rounds, in each of which every contender is measured in turn.
What is compared with what, and why, is told in [decision 24](../docs/decisions/0024-bench.md).

| what | posegate | beside | measured | to reach | reached |
| --- | ---: | ---: | ---: | ---: | --- |
{lines}
"""


def memory() -> str:
    """Give how much memory the machine has."""
    found = re.search(r"MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    return "unknown memory" if found is None else f"{int(found[1]) / 1024 / 1024:.0f} GiB"


def cpu() -> str:
    """Name the processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


def machine(cores: int) -> str:
    """Name the machine: architecture, processor, cores, memory, system."""
    return f"{platform.machine()}, {cpu()}, {cores} cores, {memory()}, {platform.system()} {platform.release()}"


def versions() -> dict[str, str]:
    """Give the versions of all that the figures depend on."""
    found = {"Python": platform.python_version(), "SQLite": apsw.sqlite_lib_version()}
    said = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=False).stdout
    number = re.search(r"v=(\S+)", said)
    found["redis-server"] = "none" if number is None else number[1]
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def notes() -> dict[str, str]:
    """Give the notes by line."""
    return {key: str(note) for key, note in tomllib.loads(NOTES.read_text()).items()}


def row(line: Line) -> str:
    """Give one line as a row of the table."""
    # A figure is shown as its target is: a ratio, or with its unit.
    unit = line.shown.lstrip("≤ ").partition(" ")[2]
    measured = f"{line.measured:,.2f} {unit}".strip()
    reached = "yes" if line.is_reached else "**no**"
    return f"| {line.what} | {line.ours} | {line.beside} | {measured} | {line.shown} | {reached} |"


def rendered(found: dict[str, Findings], *, rounds: int, cores: int, loop_ms: tuple[float, float]) -> str:
    """Give everything as a page."""
    lines = [line for each in found.values() for line in each.lines]
    page = HEAD.format(
        date=time.strftime("%Y-%m-%d"),
        machine=machine(cores),
        versions=", ".join(f"{name} {number}" for name, number in versions().items()),
        rounds=rounds,
        lines="\n".join(map(row, lines)),
    )
    missed, said = [line for line in lines if not line.is_reached], notes()
    if missed:
        page += "\n## What bounds the lines that are not reached\n\n"
        page += (
            "\n".join(f"- {line.what} ({line.key}): {said.get(line.key, 'not looked into yet.')}" for line in missed)
            + "\n"
        )
    page += "\n## Everything that was measured\n"
    for section, findings in found.items():
        rows = "\n".join(f"| {name} | {value:,.{digits(value)}f} |" for name, value in findings.figures.items())
        page += f"\n### {section}\n\n| what | median |\n| --- | ---: |\n{rows}\n"
    page += "\nHow steady the machine was: one fixed loop, a thousand times on the server's core, took "
    return page + f"{loop_ms[0]:.2f} ms at best and {loop_ms[1]:.2f} ms in the median.\n"


def digits(value: float) -> int:
    """Give how many digits behind the point a figure is worth."""
    return 0 if value >= 1000 else 1 if value >= 100 else 3
