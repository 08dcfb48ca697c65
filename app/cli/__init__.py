"""The command line: serve, replay, verify, openapi. Each command is a module that enters itself into the frame."""

from app.cli import documents, journals, replaying, serving
from app.cli.frame import cli, main

__all__ = ["cli", "documents", "journals", "main", "replaying", "serving"]
