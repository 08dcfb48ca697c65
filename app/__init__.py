"""posegate: the one place that owns the right to commit animation state."""

__version__ = "0.1.0"
