"""The echo: a bare ASGI application that sends every WebSocket message back, on one of uvicorn's protocols."""

import sys
import warnings
from typing import Any

import uvicorn

from bench.announcing import Announcing


async def echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Accept, and send back whatever comes."""
    if scope["type"] != "websocket":
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message.get("text"), "bytes": message.get("bytes")})


def main() -> None:
    """Serve on a free port of the loopback address and say which; the protocol is the only argument."""
    # uvicorn warns that `websockets` will be taken out one day.
    warnings.simplefilter("ignore")
    config = uvicorn.Config(
        echo,
        host="127.0.0.1",
        port=0,
        loop="uvloop",
        ws=sys.argv[1],
        ws_per_message_deflate=False,
        lifespan="off",
        log_level="error",
    )
    Announcing(config).run()


if __name__ == "__main__":
    main()
