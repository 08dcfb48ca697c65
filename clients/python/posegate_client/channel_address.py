"""The channel's address and handshake: where it is, how it is asked for, and what its refusal or its end means."""

import ssl
from collections.abc import Mapping
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidStatus

from posegate_client.call import Reply
from posegate_client.calls import scene_path
from posegate_client.limits import Limits
from posegate_client.problems import ChannelEnded, Problem

SUB_PROTOCOL = "posegate.json.v1"

_FOR_GOOD = frozenset({1002, 1003, 1007, 1008, 1009, 4401, 4403})
"""Close codes after which the same words on another connection would end the same way."""


class Address:
    """Where a scene's channel is, and how it is opened."""

    def __init__(self, url: str, headers: Mapping[str, str], limits: Limits, verify: ssl.SSLContext | bool) -> None:
        self._url = url
        self._headers = {name: value for name, value in headers.items() if name != "Accept"}
        self._verify = verify
        self.limits = limits

    def of(self, scene: str) -> str:
        """Give the address of a scene's channel."""
        return "ws" + self._url.removeprefix("http") + scene_path(scene, "channel")

    def options(self, attempt_s: float) -> dict[str, Any]:
        """Give how it is opened. Whoever does not answer pings for `silence_s_max` is lost."""
        headers = dict(self._headers)
        options: dict[str, Any] = {
            "user_agent_header": headers.pop("User-Agent", None),
            "additional_headers": headers,
            "subprotocols": [SUB_PROTOCOL],
            "compression": None,
            "open_timeout": attempt_s,
            "close_timeout": min(1.0, attempt_s),
            "ping_interval": self.limits.silence_s_max / 2,
            "ping_timeout": self.limits.silence_s_max / 2,
            "max_size": self.limits.event_bytes_max,
        }
        return options if self._url.startswith("http://") else options | {"ssl": self._context()}

    def _context(self) -> ssl.SSLContext:
        if isinstance(self._verify, ssl.SSLContext):
            return self._verify
        context = ssl.create_default_context()
        if not self._verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


def refusal_of(error: InvalidStatus) -> tuple[Problem, float | None]:
    """Give why a handshake was refused, and in how many seconds to come again, where that was said."""
    response = error.response
    headers = {name.lower(): value for name, value in response.headers.raw_items()}
    reply = Reply(response.status_code, headers, bytes(response.body or b""))
    problem = reply.problem()
    return problem, problem.retry_after if problem.retry_after is not None else reply.after_s


def end_of(error: ConnectionClosed) -> ChannelEnded | None:
    """Give why a channel ended for good; None where another connection may go on."""
    close = error.rcvd or error.sent
    if close is None or close.code not in _FOR_GOOD:
        return None
    return ChannelEnded(close.code, close.reason)
