"""A posegate of one's own: started for a replay on a free loopback port, and always stopped."""

import asyncio
import os
import re
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from app.replay.service import ServiceError

START_S_MAX = 30.0
"""The longest wait until the service says where it listens."""

STOP_S_MAX = 15.0
"""The longest wait for it to stop by itself; then it is killed."""

_POLL_S = 0.02
_ADDRESS = re.compile(r"listens on (http://\S+)\n")


@asynccontextmanager
async def own_service(journal: str | None = None) -> AsyncIterator[str]:
    """Run a service in a process of its own, and give its base URL.

    Without `journal` decisions go to an SQLite file in a temporary directory, which goes away with the service.

    Raises:
        ServiceError: It did not start. The text holds the last thing it said.
    """
    with tempfile.TemporaryDirectory(prefix="posegate-replay-") as directory:
        log = Path(directory) / "serve.log"
        place = journal or f"sqlite:{directory}/posegate.db"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "app.cli", "serve", "--host", "127.0.0.1", "--port", "0", "--journal", place),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env=_environment(),
            )
            try:
                yield await _address(process, log)
            finally:
                await _stop(process)


def _environment() -> dict[str, str]:
    """Give the variables of the new process: none of the settings, keys and limits of the caller's own services."""
    # The settings are read whatever the case of their variables' names.
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("POSEGATE_")}
    return {**kept, "PYTHONPATH": _import_path()}


def _import_path() -> str:
    """Give a search path with which the new process finds the same `app`, from wherever this one was started."""
    root = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)


async def _address(process: asyncio.subprocess.Process, log: Path) -> str:
    loop = asyncio.get_running_loop()
    until = loop.time() + START_S_MAX
    while loop.time() < until:
        said = _said(log)
        found = _ADDRESS.search(said)
        if found:
            return found.group(1)
        if process.returncode is not None:
            last = (said.strip().splitlines() or ["it said nothing"])[-1]
            raise ServiceError(f"`posegate serve` ended with {process.returncode}: {last}")
        await asyncio.sleep(_POLL_S)
    raise ServiceError(f"`posegate serve` was not ready after {START_S_MAX:.0f} s")


def _said(log: Path) -> str:
    return log.read_text(errors="replace")


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), STOP_S_MAX)
    except TimeoutError:
        process.kill()
        await process.wait()
