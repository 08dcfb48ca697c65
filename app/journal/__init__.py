"""The durable memory of scenes: the port, the codec, and the journals behind `open_journal`."""

from app.journal.open import connect_journal, is_remote, open_journal, open_moving, open_salvage, shown_url

__all__ = ["connect_journal", "is_remote", "open_journal", "open_moving", "open_salvage", "shown_url"]
