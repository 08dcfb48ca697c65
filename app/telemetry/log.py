"""Log lines: one JSON object each, never a token, key or body."""

import logging
import sys

import structlog

log: structlog.stdlib.BoundLogger = structlog.get_logger("posegate")
"""The one logger. Events are short words joined by dashes; what they concern is in fields."""


def configure(level: str) -> None:
    """Write lines of `level` and above to standard error."""
    number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
