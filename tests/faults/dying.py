"""The launcher: serving processes that die at a named point, started by fork from one that has imported the service.

A start costs some hundredths of a second this way, so that a test can afford hundreds of kills.
"""

import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any

from app.cli import main
from tests.faults.points import CELLS, Doom, lay
from tests.support.process import READY, ROOT, START_S_MAX, STOP_S_MAX

_forks = multiprocessing.get_context("forkserver")
# The test runner is the main module, which every forked process imports again.
_forks.set_forkserver_preload(["app.cli", "app.main", "tests.faults.dying", "pytest"])


class Died(Exception):
    """The process died while it started, at the point it was told."""


class Dying:
    """One serving process; `url` is where it listens, `doom` where it is to die."""

    def __init__(self, child: ForkServerProcess, doom: Doom, url: str) -> None:
        self._child = child
        self.doom = doom
        self.url = url

    def kill(self) -> None:
        """Kill it from outside, wherever it is."""
        self._child.kill()
        self._child.join(STOP_S_MAX)

    def died(self, wait_s: float = STOP_S_MAX) -> None:
        """Wait for its death at the point it was told. Raises AssertionError when it does not die, or otherwise."""
        self._child.join(wait_s)
        assert self._child.exitcode is not None, "the process lives"
        assert self.doom.has_struck, f"the process ended with {self._child.exitcode}, not at its point"


@contextmanager
def dying(
    journal: str, settings: dict[str, str] | None = None, *, at: tuple[str, int] | None = None
) -> Iterator[Dying]:
    """Serve from `journal` on a free port, as `posegate serve` does, with settings by name.

    `at` is the point, and which passage of it, at which the process dies; it may be told later too. When the block
    ends the process is killed if it still runs.

    Raises:
        Died: It died before it was ready.
    """
    doom = Doom(_forks.RawArray("q", CELLS))
    if at is not None:
        doom.tell(*at)
    said, says = _forks.Pipe(duplex=False)
    child = _forks.Process(target=_serve, args=(doom._cells, says, journal, settings or {}), daemon=True)
    with chdir(ROOT):
        # The one who forks is started with the first child, and imports from where it is started.
        child.start()
    says.close()
    with said:
        try:
            yield Dying(child, doom, _address(said, child, doom))
        finally:
            child.kill()
            child.join(STOP_S_MAX)
            child.close()


def _address(said: Connection, child: ForkServerProcess, doom: Doom) -> str:
    """Read the address that the process prints once it is ready."""
    line = b""
    while not line.endswith(b"\n"):
        assert said.poll(START_S_MAX), f"not ready within {START_S_MAX} s; said {line!r}"
        part = os.read(said.fileno(), 4096)
        if not part:
            child.join(STOP_S_MAX)
            if doom.has_struck:
                raise Died
            raise AssertionError(f"ended with code {child.exitcode} before it was ready; said {line!r}")
        line += part
    assert line.startswith(READY), line
    return line.removeprefix(READY).decode().strip()


def _serve(cells: Any, says: Connection, journal: str, settings: dict[str, str]) -> None:
    """Be `posegate serve`, with every point laid."""
    os.dup2(says.fileno(), sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
    says.close()
    for name in [name for name in os.environ if name.startswith("POSEGATE_")]:
        del os.environ[name]
    os.environ.update({f"POSEGATE_{name.upper()}": value for name, value in settings.items()})
    disk = lay(Doom(cells))
    sys.argv = ["posegate", "serve", "--port", "0", "--journal", journal]
    try:
        main()
    finally:
        del disk
