"""posegate: the one place that owns the right to commit animation state."""
