"""A posegate service as a process of its own: started, spoken to, told to stop, or killed."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
START_S_MAX = 30.0
STOP_S_MAX = 30.0
READY = b"posegate listens on "


class Process:
    """One serving process; `url` is where it listens."""

    def __init__(self, child: "subprocess.Popen[bytes]", url: str) -> None:
        self._child = child
        self.url = url

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.url.rpartition(":")[2])

    @property
    def resident_bytes(self) -> int:
        """How much memory it has."""
        status = Path(f"/proc/{self._child.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    @property
    def files_open(self) -> int:
        """How many files it has open, connections among them."""
        return len(os.listdir(f"/proc/{self._child.pid}/fd"))  # noqa: PTH208

    def kill(self) -> None:
        """Kill it as a power cut would, with no chance to finish anything."""
        self._child.kill()
        self._child.wait(STOP_S_MAX)

    def terminate(self) -> None:
        """Tell it to stop."""
        self._child.send_signal(signal.SIGTERM)

    def ended(self) -> int:
        """Wait for its end and give its exit code."""
        return self._child.wait(STOP_S_MAX)


@contextmanager
def process(journal: str, **settings: str) -> Iterator[Process]:
    """Serve from `journal` on a free port, with `POSEGATE_…` settings; it is killed at the end if it still runs."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("POSEGATE_")}
    given = {f"POSEGATE_{name.upper()}": value for name, value in settings.items()}
    child = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "serve", "--port", "0", "--journal", journal],
        cwd=ROOT,
        env={**environment, **given},
        stdout=subprocess.PIPE,
    )
    try:
        yield Process(child, _address(child))
    finally:
        child.kill()
        child.wait(STOP_S_MAX)
        assert child.stdout is not None
        child.stdout.close()


def _address(child: "subprocess.Popen[bytes]") -> str:
    """Read the address that the process prints once it is ready."""
    assert child.stdout is not None
    said, until = b"", time.monotonic() + START_S_MAX
    while not said.endswith(b"\n"):
        ready, _, _ = select.select([child.stdout], [], [], max(0.0, until - time.monotonic()))
        assert ready, f"not ready within {START_S_MAX} s; said {said!r}"
        part = os.read(child.stdout.fileno(), 4096)
        assert part, f"ended with code {child.wait(STOP_S_MAX)} before it was ready; said {said!r}"
        said += part
    assert said.startswith(READY), said
    return said.removeprefix(READY).decode().strip()
