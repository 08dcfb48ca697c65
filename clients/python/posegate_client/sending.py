"""Sending: what both clients do alike with httpx, which is all but the waiting."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import httpx

from posegate_client.call import Call
from posegate_client.limits import Limits
from posegate_client.problems import NotPosegate

WATCH_HEADERS = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Cache-Control": "no-store"}

_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


def checked_url(url: str) -> str:
    """Give a base URL without a slash at its end.

    Raises:
        ValueError: It is none.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{url!r} is no address: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(f"{url!r} is no address of posegate: it starts with http:// or https://")
    return url.rstrip("/")


def headers_of(key: str | None) -> dict[str, str]:
    """Give the headers that every request has.

    Raises:
        ValueError: The key is none. It is not shown.
    """
    headers = {"User-Agent": f"posegate-client/{_version()}", "Accept": "application/json, */*"}
    if key is None:
        return headers
    if not key or not all("!" <= letter <= "~" for letter in key):
        raise ValueError("a key is visible ASCII characters, without spaces")
    return headers | {"Authorization": f"Bearer {key}"}


def _version() -> str:
    try:
        return version("posegate-client")
    except PackageNotFoundError:
        return "0"


def pool_of(limits: Limits) -> httpx.Limits:
    """Give the bounds of the connections."""
    return httpx.Limits(
        max_connections=limits.connections_max, max_keepalive_connections=limits.connections_max, keepalive_expiry=5
    )


def watch_timeout(limits: Limits) -> httpx.Timeout:
    """Give how long a watch waits: its silence is longer than that of a call."""
    return httpx.Timeout(limits.attempt_s, read=limits.silence_s_max)


def request_of(call: Call[Any], attempt_s: float) -> dict[str, Any]:
    """Give a call as httpx takes it."""
    return {
        "method": call.method,
        "url": call.path,
        "params": call.sent_queries() or None,
        "headers": call.sent_headers(),
        "content": call.body,
        "timeout": attempt_s,
    }


def is_unsent(error: Exception) -> bool:
    """Say whether nothing of a request can have arrived."""
    return isinstance(error, _UNSENT)


def said_by(error: Exception) -> str:
    """Give in words why no answer came."""
    return str(error) or type(error).__name__


def garbled(error: httpx.DecodingError) -> NotPosegate:
    """Give what is raised for an answer whose encoding is broken."""
    return NotPosegate(f"the answer cannot be decoded: {error}")


def too_large(limits: Limits) -> NotPosegate:
    """Give what is raised for an answer beyond the bound."""
    return NotPosegate(f"the answer is larger than the {limits.answer_bytes_max} bytes that are read")
