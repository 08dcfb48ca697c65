"""Servers under test: started on the first core, with the load on the second, and always stopped."""

import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


CORES = sorted(os.sched_getaffinity(0))
"""The cores this process was given when it started: a pinned parent's child would find one only."""


def pin(core: int) -> None:
    """Keep this process on one core, where the machine has more than one."""
    os.sched_setaffinity(0, {CORES[core % len(CORES)]})


@contextmanager
def served(*arguments: str, environment: dict[str, str] | None = None) -> Iterator[tuple[str, int, int]]:
    """Run `python -m …`, wait until it says where it listens, and give host, port and process id."""
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        preexec_fn=lambda: pin(0),  # noqa: PLW1509  # the bench has no threads when it starts a server
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            said = re.search(r"http://([\d.]+):(\d+)", line)
            if said:
                yield said[1], int(said[2]), process.pid
                return
        raise RuntimeError(f"{arguments} stopped before it listened")
    finally:
        process.terminate()
        process.wait(timeout=30)


def loop_times() -> tuple[float, float]:
    """Time one fixed loop many times on the server's core; give the fastest and the median, in milliseconds.

    A virtual core that shares its hardware with others has two speeds: figures of different runs differ by as much.
    """
    times = []
    pin(0)
    for _ in range(1000):
        started = time.thread_time()
        sum(number * number for number in range(20_000))
        times.append((time.thread_time() - started) * 1000)
    pin(1)
    return min(times), statistics.median(times)


def resident_bytes(pid: int) -> int:
    """Give a process's resident memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
