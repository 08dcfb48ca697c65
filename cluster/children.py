"""One process of a cluster: how it is started, held still, told to stop and killed."""

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

READY_S_MAX = 60.0
"""How long a process may take until it serves: a node gives its journal 30 s."""

LOOKS_S = 0.05
_SHOWN_BYTES = 3_000


class ClusterError(Exception):
    """The cluster cannot be run. The text says what to do; whatever was started is stopped."""


class Child(ABC):
    """One process, started from a command; what it prints is added to `log`. It is started again only when told.

    It is the leader of a process group of its own, so that a Ctrl-C of the terminal does not reach it: whoever started
    it stops it, in order. `prefix` comes before the command, such as `ip netns exec NAME`, and must become the command.
    It may be changed while the process does not run.
    """

    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    """What tells it to stop in order."""
    stop_s_max: ClassVar[float] = 60.0
    """How long that may take."""

    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self.log = log
        self.prefix: Sequence[str] = ()
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def start(self) -> None:
        """Start it; `ready` waits until it serves.

        Raises:
            ClusterError: It cannot be started.
        """

    @abstractmethod
    def ready(self) -> None:
        """Wait until it serves.

        Raises:
            ClusterError: It ended, or it is not so after a minute. It is left as it is.
        """

    def restart(self) -> None:
        """Stop it in order, start it again, and wait until it serves."""
        self.stop()
        self.start()
        self.ready()

    def stop(self) -> None:
        """Tell it to stop, and wait for its end; one that is held still goes on for that.

        Raises:
            ClusterError: It still runs at the end of its time, and goes on.
        """
        self.signal(self.stop_signal)
        self.resume()
        if self._process is not None:
            self.ended(self.stop_s_max)

    def spawn(self, command: Sequence[str], environment: Mapping[str, str], cwd: Path) -> None:
        """Start a command in a folder, with what is all of its environment; it may not serve yet.

        Raises:
            ClusterError: It runs already, or there is no such program.
        """
        if self.is_running:
            raise ClusterError(f"{self.name} runs already")
        with self.log.open("ab") as log:
            try:
                self._process = subprocess.Popen(  # noqa: S603  # a program of ours
                    [*self.prefix, *command],
                    env=environment,
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    process_group=0,
                )
            except OSError as error:
                raise ClusterError(f"{self.name} cannot be started: {error}") from error

    @property
    def is_running(self) -> bool:
        """Say whether the process was started and has not ended; one that is held still runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The number of the process, as long as it runs."""
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def exit_code(self) -> int | None:
        """With what it ended; minus the signal that ended it. None while it runs and before it is started."""
        return None if self._process is None else self._process.poll()

    def until(self, is_so: Callable[[], bool], what: str, limit_s: float = READY_S_MAX) -> None:
        """Wait until something is so.

        Raises:
            ClusterError: The process ended meanwhile, or the time is over. It is left as it is.
        """
        deadline = time.monotonic() + limit_s
        while not is_so():
            if not self.is_running:
                raise ClusterError(f"{self.name} ended with code {self.exit_code} before it {what}.\n{self.said()}")
            if time.monotonic() > deadline:
                raise ClusterError(f"{self.name} has not {what} within {limit_s:.0f} s.\n{self.said()}")
            time.sleep(LOOKS_S)

    def said(self) -> str:
        """Give the end of its log."""
        with suppress(OSError):
            return f"The end of {self.log}:\n{self.log.read_bytes()[-_SHOWN_BYTES:].decode(errors='replace')}"
        return f"{self.log} cannot be read."

    def kill(self) -> None:
        """End it at once, as a power cut would (SIGKILL), and wait for its end. One that does not run is left alone."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def pause(self) -> None:
        """Hold it still (SIGSTOP), and wait until it is: its connections stay open, and nothing is answered."""
        self.signal(signal.SIGSTOP)
        if self._process is not None and self.is_running:
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal. One that does not run gets none."""
        if self._process is not None and self.is_running:
            os.kill(self._process.pid, number)

    def ended(self, limit_s: float) -> int:
        """Wait for its end; give its exit code.

        Raises:
            ClusterError: It still runs at the end of the time, and goes on.
        """
        assert self._process is not None
        try:
            return self._process.wait(limit_s)
        except subprocess.TimeoutExpired as error:
            raise ClusterError(f"{self.name} still runs {limit_s:.0f} s after it was told to stop") from error
