"""Posegate as `posegate serve` runs it, which also writes down how long its garbage collector paused it.

SIGUSR1 asks for a full collection, which by itself may be hours away.
"""

import gc
import json
import os
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Any

from app.cli import main as posegate


class Pauses:
    """Every pause of the collector: when it began (monotonic seconds), its generation, how long, whether asked for."""

    def __init__(self) -> None:
        self._taken: list[tuple[float, int, float, bool]] = []
        self._began = 0.0
        self._is_asked = False

    def note(self, phase: str, info: dict[str, Any]) -> None:
        """Note where a collection begins and ends."""
        if phase == "start":
            self._began = time.monotonic()
        else:
            took = time.monotonic() - self._began
            self._taken.append((self._began, int(info["generation"]), took, self._is_asked))

    def collect(self, signum: int, frame: FrameType | None) -> None:
        """Collect everything now, because somebody asks."""
        self._is_asked = True
        gc.collect()
        self._is_asked = False

    def write(self, path: Path) -> None:
        """Write all of them down."""
        path.write_text(json.dumps(self._taken))


def main() -> None:
    """Serve, and at the end write the pauses to where BENCH_PAUSES says."""
    pauses = Pauses()
    gc.callbacks.append(pauses.note)
    signal.signal(signal.SIGUSR1, pauses.collect)
    try:
        posegate()
    finally:
        pauses.write(Path(os.environ["BENCH_PAUSES"]))


if __name__ == "__main__":
    main()
