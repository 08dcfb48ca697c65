"""Limits: how long this client waits, how often it asks again, and how much it holds. All of them are bounds."""

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """The bounds of one client. Times are seconds.

    `deadline_s` is for a whole call with all its attempts and pauses, `attempt_s` for each attempt. Between attempts
    lies what the service asks for, or a pause that doubles from `pause_s_first`; never more than `pause_s_max`.
    """

    deadline_s: float = 30.0
    attempt_s: float = 10.0
    attempts_max: int = 8
    pause_s_first: float = 0.05
    pause_s_max: float = 5.0
    connections_max: int = 64
    """Most connections for calls; who finds none free waits for one, within the call's deadline."""
    answer_bytes_max: int = 64 * 1024 * 1024
    """Largest answer that is read."""
    under_way_max: int = 64
    """Most commands under way on a channel; who sends more waits."""
    feed_items_max: int = 256
    """Most items of a channel's feed that wait to be taken. Beyond, the feed is asked for again where it was left."""
    event_bytes_max: int = 8 * 1024 * 1024
    """Largest event of a watch, and largest message of a channel."""
    resume_s_max: float = 60.0
    """Longest time that a watch or a channel tries to connect again before it gives up."""
    silence_s_max: float = 60.0
    """Longest silence of a watch or a channel before its connection counts as lost. Heartbeats break it."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not getattr(self, name) > 0:
                raise ValueError(f"`{name}` must be above 0")
