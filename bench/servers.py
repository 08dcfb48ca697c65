"""Servers under test: started on the first core, with the load on the second, and always stopped."""

import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

READY_S_MAX, STOP_S_MAX = 120.0, 60.0

CORES = sorted(os.sched_getaffinity(0))
"""The cores this process was given when it started: a pinned parent's child would find one only."""


class Address(NamedTuple):
    """Where a server listens, and its process."""

    host: str
    port: int
    process: int


def pin(core: int) -> None:
    """Keep this process on one core, where the machine has more than one."""
    os.sched_setaffinity(0, {CORES[core % len(CORES)]})


@contextmanager
def running(arguments: list[str], *, environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a program on the server's core, and stop it at the end."""
    process = subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        preexec_fn=lambda: pin(0),  # noqa: PLW1509  # the bench has no threads when it starts a server
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def served(*arguments: str, environment: dict[str, str] | None = None) -> Iterator[Address]:
    """Run `python -m …`, wait until it says where it listens, and give its address."""
    with running([sys.executable, "-m", *arguments], environment=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said = re.search(r"http://([\d.]+):(\d+)", line)
            if said:
                yield Address(said[1], int(said[2]), process.pid)
                return
        raise RuntimeError(f"{arguments} stopped before it listened")


@contextmanager
def posegate(journal: str, *, pauses: Path | None = None, **settings: int | str) -> Iterator[Address]:
    """Run posegate with a journal; at its end its collector's pauses are in `pauses`."""
    environment = {f"POSEGATE_{name.upper()}": str(value) for name, value in settings.items()}
    environment |= {"POSEGATE_JOURNAL": journal, "POSEGATE_LOG_LEVEL": "warning"}
    module = "app.cli"
    if pauses is not None:
        module, environment["BENCH_PAUSES"] = "bench.launcher", str(pauses)
    with served(module, "serve", "--port", "0", environment=environment) as address:
        yield address


def free_port() -> int:
    """Give a port of the loopback address that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def require_redis() -> None:
    """See that Redis is here, or say how to get it, and end."""
    if shutil.which("redis-server") is None or shutil.which("redis-benchmark") is None:
        raise SystemExit(
            "The bench compares with Redis, and there is no redis-server here.\n"
            "On Debian or Ubuntu:  sudo apt-get install redis-server   (it needs not run: the bench starts its own)"
        )


@contextmanager
def redis(directory: str, *, always: bool) -> Iterator[Address]:
    """Run Redis, with every write synced before it is answered, or with no file at all.

    Its file is never rewritten meanwhile, which would take time from what is measured.
    """
    require_redis()
    port, own = free_port(), Path(directory) / f"redis-{'always' if always else 'none'}"
    own.mkdir(exist_ok=True)
    arguments = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(own)]
    arguments += ["--loglevel", "warning", "--auto-aof-rewrite-percentage", "0"]
    arguments += ["--appendonly", "yes", "--appendfsync", "always"] if always else ["--appendonly", "no"]
    with running(arguments) as process:
        deadline = time.monotonic() + READY_S_MAX
        while time.monotonic() < deadline and process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as asking:
                asking.sendall(b"PING\r\n")
                if asking.recv(64).startswith(b"+PONG"):
                    break
            time.sleep(0.05)
        else:
            raise RuntimeError("redis-server stopped before it listened")
        yield Address("127.0.0.1", port, process.pid)


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


def resident_bytes(process: int) -> int:
    """Give a process's resident memory."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(process: int) -> float:
    """Give the processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
