"""The wires between a node and its servers, which can be slow, silent in either direction, or cut.

python -m tests.faults.severed LISTEN ADDRESS      passes all that comes to one address on to another
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from tests.support.tcp_proxy import TcpProxy

UP, DOWN = "up", "down"
"""From the node to its servers, and back."""


class Wires:
    """A proxy for each of some addresses."""

    def __init__(self, proxies: Sequence[TcpProxy]) -> None:
        self._proxies = proxies

    @property
    def addresses(self) -> list[str]:
        """Where they listen."""
        return [proxy.address for proxy in self._proxies]

    def slow(self, delay_s: float) -> None:
        """Let everything take so much longer, in either direction."""
        for proxy in self._proxies:
            proxy.delay_s = delay_s

    def silence(self, direction: str) -> None:
        """Hold back what is said in a direction, which neither side can see."""
        for proxy in self._proxies:
            if direction == UP:
                proxy.hold_questions()
            else:
                proxy.hold_answers()

    def cut(self) -> None:
        """Break every connection that there is; new ones are taken."""
        for proxy in self._proxies:
            proxy.cut()

    def heal(self) -> None:
        """Pass everything at once again, what was held back too."""
        self.slow(0.0)
        for proxy in self._proxies:
            proxy.release()


@asynccontextmanager
async def wires(addresses: Sequence[str], *, host: str = "127.0.0.1") -> AsyncIterator[Wires]:
    """Give wires to some addresses for the block."""
    proxies = [TcpProxy(address, listen=f"{host}:0") for address in addresses]
    async with AsyncExitStack() as stack:
        for proxy in proxies:
            await proxy.start()
            stack.push_async_callback(proxy.stop)
        yield Wires(proxies)


async def _relay(listen: str, address: str) -> None:
    """Pass everything on, until killed."""
    await TcpProxy(address, listen=listen).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_relay(*sys.argv[1:]))
