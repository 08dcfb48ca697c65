"""Quotas: how much each caller may ask, and how many refusals it may have recorded."""

import math
import time

from limits import RateLimitItem, RateLimitItemPerMinute, RateLimitItemPerSecond
from limits.strategies import FixedWindowRateLimiter

from app.api.callers import Caller, Role
from app.api.counters import Counters
from app.api.problems import ProblemError
from app.settings import Settings

GRANT_COMMANDS = 64
"""How many commands are counted ahead for a caller, so that not every one is counted by itself."""

CALLERS_MAX = 10_000
"""Of how many callers it is remembered what was counted ahead, or that they are over; beyond, it is looked up again."""


class _Granted:
    """What was counted ahead for one caller, and until when it may be used (seconds since 1970)."""

    __slots__ = ("left", "until")

    def __init__(self, left: int, until: float) -> None:
        self.left = left
        self.until = until


class Quota:
    """Counts what each caller asks and what it is refused, in windows of a second and of a minute.

    Bound:     a counter for each caller and window, forgotten some time after the window ended (`Counters`).
    A caller beyond its quota is told when the next window begins; nothing of its request was decided. Up to
    `GRANT_COMMANDS`, or a sixteenth of the limit, are counted ahead: by so much a window may end early for a caller.
    """

    def __init__(self, settings: Settings) -> None:
        self._windows = FixedWindowRateLimiter(Counters())
        self._granted: dict[str, _Granted] = {}
        self._over: dict[str, float] = {}
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
        granted = self._granted.get(caller.name)
        if granted is not None and granted.left >= commands and time.time() < granted.until:
            granted.left -= commands
            return
        limit = self._commands[caller.role is Role.SESSION]
        if commands > limit.amount:
            raise ProblemError("too-large", f"{commands} commands at once are beyond the rate", limit=limit.amount)
        ahead = max(commands, min(GRANT_COMMANDS, limit.amount // 16))
        if not self._windows.hit(limit, caller.name, cost=ahead):
            raise self._too_many(limit, self._reset(limit, caller), f"beyond {limit.amount} commands a second")
        if len(self._granted) >= CALLERS_MAX:
            self._granted.clear()
        self._granted[caller.name] = _Granted(ahead - commands, self._reset(limit, caller))

    def require_refusals(self, caller: Caller) -> None:
        """See that a caller may still have refusals recorded: each costs a synced write.

        Raises:
            ProblemError: `too-many-requests`.
        """
        until = self._over.get(caller.name)
        if until is None:
            return
        if time.time() < until:
            limit = self._refusals[caller.role is Role.SESSION]
            raise self._too_many(limit, until, f"beyond {limit.amount} recorded refusals a minute")
        del self._over[caller.name]

    def note_refusals(self, caller: Caller, refused: int) -> None:
        """Count refusals that were recorded for a caller."""
        if not refused:
            return
        limit = self._refusals[caller.role is Role.SESSION]
        self._windows.hit(limit, caller.name, cost=refused)
        if not self._windows.test(limit, caller.name):
            if len(self._over) >= CALLERS_MAX:
                self._over.clear()
            self._over[caller.name] = self._reset(limit, caller)

    def _reset(self, limit: RateLimitItem, caller: Caller) -> float:
        return self._windows.get_window_stats(limit, caller.name).reset_time

    def _too_many(self, limit: RateLimitItem, until: float, detail: str) -> ProblemError:
        wait_s = max(1, math.ceil(until - time.time()))
        return ProblemError("too-many-requests", detail, limit=limit.amount, retry_after=wait_s)
