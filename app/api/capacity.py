"""Capacity: what all connections of one server share: their limits, what they hold together, whether they drain."""

from collections.abc import Callable

from starlette.types import ASGIApp

from app.api.problems import ProblemError, problem_response
from app.settings import Settings

STOPPING = "the service is stopping; nothing was decided"


class Capacity:
    """The limits of connections, with times in seconds, and what is used of those that hold for all together.

    Bound:     `body_bytes` and `unread_bytes` by the settings `bodies_bytes_max` and `unread_bytes_max`; a connection
               that would go beyond is turned away.
    Senders:   the connections of one event loop.  Thread-safe: no.

    `told` hears the name of each problem that a connection tells by itself, without any route.
    """

    def __init__(self, settings: Settings, told: Callable[[str], None] = lambda _: None) -> None:
        self.settings = settings
        self.told = told
        # Read for every request, some for every field: a plain attribute is found faster than a setting.
        self.first_byte_s = settings.first_byte_ms_max / 1000
        self.idle_s = settings.idle_ms_max / 1000
        self.head_s = settings.head_ms_max / 1000
        self.body_s = settings.body_ms_max / 1000
        self.write_s = settings.write_ms_max / 1000
        self.linger_s = settings.linger_ms_max / 1000
        self.target_bytes_max = settings.target_bytes_max
        self.head_bytes_max = settings.head_bytes_max
        self.header_items_max = settings.header_items_max
        self.body_bytes_max = settings.body_bytes_max
        self.body_items_max = settings.body_items_max
        self.pipelined_requests_max = settings.pipelined_requests_max
        self.bodies_bytes_max = settings.bodies_bytes_max
        self.unread_bytes_max = settings.unread_bytes_max
        self.body_bytes = 0
        self.unread_bytes = 0
        self.is_draining = False

    def take_body(self, size: int) -> None:
        """Hold `size` more bytes of bodies that are not answered.

        Raises:
            ProblemError: `overloaded`. Nothing more is held.
        """
        if not self.has_room(size):
            limit = self.bodies_bytes_max
            raise ProblemError("overloaded", "the bodies under way hold as much as they may together", limit=limit)
        self.body_bytes += size

    def has_room(self, size: int) -> bool:
        """Say whether `size` more bytes of bodies can be held."""
        return self.body_bytes + size <= self.bodies_bytes_max

    def take_unread(self, size: int) -> bool:
        """Hold `size` more unread bytes of answers; False when that is too much, and then they are not held."""
        if self.unread_bytes + size > self.unread_bytes_max:
            return False
        self.unread_bytes += size
        return True

    def refusing(self) -> ASGIApp:
        """Give the application that answers what comes too late while the service stops."""
        return problem_response(ProblemError("draining", STOPPING), retry_after=self.settings.retry_after_s)
