"""Quotas: how much each caller may ask, and how many refusals it may have recorded."""

import math
import time

from limits import RateLimitItem, RateLimitItemPerMinute, RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from app.api.callers import Caller, Role
from app.api.problems import ProblemError
from app.settings import Settings


class Quota:
    """Counts what each caller asks and what it is refused, in windows of a second and of a minute.

    Bound:     a counter for each caller and window, forgotten when the window ends.
    A caller beyond its quota is told when the next window begins; nothing of its request was decided.
    """

    def __init__(self, settings: Settings) -> None:
        self._windows = FixedWindowRateLimiter(MemoryStorage())
        self._commands: dict[bool, RateLimitItem] = {
            True: RateLimitItemPerSecond(settings.session_commands_per_s_max, namespace="commands"),
            False: RateLimitItemPerSecond(settings.caller_commands_per_s_max, namespace="commands"),
        }
        self._refusals: dict[bool, RateLimitItem] = {
            True: RateLimitItemPerMinute(settings.session_refusals_per_minute_max, namespace="refusals"),
            False: RateLimitItemPerMinute(settings.caller_refusals_per_minute_max, namespace="refusals"),
        }

    def take(self, caller: Caller, commands: int) -> None:
        """Count what a caller asks: a request is one, and each command of a batch behind the first is one more.

        Raises:
            ProblemError: `too-many-requests`, or `too-large` for more at once than a whole window takes.
        """
        limit = self._commands[caller.role is Role.SESSION]
        if commands > limit.amount:
            raise ProblemError("too-large", f"{commands} commands at once are beyond the rate", limit=limit.amount)
        if not self._windows.hit(limit, caller.name, cost=commands):
            raise self._too_many(limit, caller, f"beyond {limit.amount} commands a second")

    def require_refusals(self, caller: Caller) -> None:
        """See that a caller may still have refusals recorded: each costs a synced write.

        Raises:
            ProblemError: `too-many-requests`.
        """
        limit = self._refusals[caller.role is Role.SESSION]
        if not self._windows.test(limit, caller.name):
            raise self._too_many(limit, caller, f"beyond {limit.amount} recorded refusals a minute")

    def note_refusals(self, caller: Caller, refused: int) -> None:
        """Count refusals that were recorded for a caller."""
        if refused:
            self._windows.hit(self._refusals[caller.role is Role.SESSION], caller.name, cost=refused)

    def _too_many(self, limit: RateLimitItem, caller: Caller, detail: str) -> ProblemError:
        reset = self._windows.get_window_stats(limit, caller.name).reset_time
        return ProblemError(
            "too-many-requests", detail, limit=limit.amount, retry_after=max(1, math.ceil(reset - time.time()))
        )
