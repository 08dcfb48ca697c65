"""A uvicorn server for peers, which says where it listens once it does."""

from typing import Any

import uvicorn


class Announcing(uvicorn.Server):
    """A server that prints its address."""

    async def startup(self, sockets: Any = None) -> None:
        """Start listening, then print the address."""
        await super().startup(sockets=sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"peer listens on http://127.0.0.1:{port}", flush=True)
