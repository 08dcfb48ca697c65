"""Posegate nodes of a cluster."""

import os
import sys
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path

from cluster.asking import asked
from cluster.children import Child

ROOT = Path(__file__).resolve().parent.parent


class Node(Child):
    """One `posegate serve`. Told to stop, it drains, and answers what it was asked.

    Before it is started, and before it is started again, these may be changed: `host`, where it listens and is reached;
    `journal_url`, so that it has its own way to the servers; `prefix`; `settings`, by their names (`drain_ms`).
    """

    def __init__(self, name: str, log: Path, *, port: int, journal_url: str, settings: Mapping[str, str]) -> None:
        super().__init__(name, log)
        self.host = "127.0.0.1"
        self.port = port
        self.journal_url = journal_url
        self.settings = dict(settings)

    @property
    def address(self) -> str:
        """Where it listens: `host:port`."""
        return f"{self.host}:{self.port}"

    @property
    def listens(self) -> Sequence[tuple[str, int]]:
        """The same, as host and port."""
        return [(self.host, self.port)]

    @property
    def url(self) -> str:
        """The same for a client."""
        return f"http://{self.address}"

    def start(self) -> None:
        """Start it."""
        given = {f"POSEGATE_{name.upper()}": value for name, value in self.settings.items()}
        # The journal's URL holds a password, which everybody could read among the arguments of a process.
        given |= {"POSEGATE_HOST": self.host, "POSEGATE_PORT": str(self.port), "POSEGATE_JOURNAL": self.journal_url}
        environment = {name: value for name, value in os.environ.items() if not name.startswith("POSEGATE_")}
        self.spawn([sys.executable, "-m", "app.cli", "serve"], {**environment, **given}, ROOT)

    def ready(self) -> None:
        """Wait until it takes commands."""
        self.until(self.is_ready, "taken commands")

    def is_ready(self) -> bool:
        """Say whether it says at /readyz that it takes commands."""
        answer = asked(self.address, "/readyz")
        return answer is not None and answer[0] == HTTPStatus.OK
