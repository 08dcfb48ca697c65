"""Clients that go away: with all of a request sent, half of it, or a part of its answer read."""

import asyncio
import random
import socket
import struct

from tests.faults.drawn import Asked
from tests.support.process import Process

LATER_S_MAX = 0.01
READ_BYTES_MAX = 2_000
RECEIVED_BYTES_MAX = 4_096
"""A small window: what the service answers to much soon waits at its end."""

WAIT_S_MAX = 30.0

WAYS = ["ends", "resets", "resets later", "resets while reading", "sends half"]
"""How a client goes: after all was sent, at once or a moment later; with a part of its answer; with half a request."""

RESETS = struct.pack("ii", 1, 0)
"""What makes a close a reset: linger for 0 seconds."""


def raw(asked: Asked) -> bytes:
    """Give a request as it goes over the wire."""
    lines = [f"{asked.method} {asked.path} HTTP/1.1", "Host: posegate", f"Content-Length: {len(asked.body)}"]
    lines += [f"{name}: {value}" for name, value in asked.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + asked.body


async def go_away(served: Process, data: bytes, way: str, chance: random.Random) -> None:
    """Send a request, or a part of it, and be gone before its whole answer came."""
    loop = asyncio.get_running_loop()
    with socket.socket() as connection:
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES_MAX)
        async with asyncio.timeout(WAIT_S_MAX):
            await loop.sock_connect(connection, ("127.0.0.1", served.port))
            await loop.sock_sendall(connection, data if way != "sends half" else data[: chance.randrange(len(data))])
            if way == "resets later":
                await asyncio.sleep(chance.uniform(0, LATER_S_MAX))
            elif way == "resets while reading":
                await loop.sock_recv(connection, chance.randint(1, READ_BYTES_MAX))
        if way != "ends":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESETS)
