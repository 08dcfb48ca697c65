"""Asking a process of the cluster over HTTP, on this machine, past any proxy that the environment names."""

import http.client
import json
from typing import Any


def asked(address: str, path: str, *, limit_s: float = 2.0) -> tuple[int, bytes] | None:
    """Give the status and body that `address` (`host:port`) answers to a GET; None when no whole answer comes."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=limit_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def asked_json(address: str, path: str) -> dict[str, Any]:
    """Give the JSON object that is answered with 200; an empty one when there is none."""
    answer = asked(address, path)
    if answer is None or answer[0] != http.client.OK:
        return {}
    said = json.loads(answer[1])
    return said if isinstance(said, dict) else {}
