"""The command line. Each of its modules enters its commands into the frame."""

from app.cli import documents, journals, keys, migrating, replaying, serving
from app.cli.frame import cli, main

__all__ = ["cli", "documents", "journals", "keys", "main", "migrating", "replaying", "serving"]
