"""Deliveries: what a character's event gate gave out, kept so that a lost answer loses no event.

Source: contract, section 6: the last `deliveries_kept` can be read again, until they are acknowledged.
"""

from msgspec import Struct

from app.gates.clip import Event

CHUNK = 16
"""How many deliveries lie together. Adding one copies at most that many references, however many are kept."""


class Delivery(Struct, frozen=True, array_like=True, gc=False):
    """One delivery that can be read again."""

    delivery: int
    events: list[Event]


class Deliveries(Struct, frozen=True, array_like=True, gc=False):
    """Deliveries in the order of their numbers, which rise by one and go on over lives.

    `first` is the lowest number that can still be read. The oldest chunk may hold a few below it, which nobody sees.
    """

    chunks: tuple[tuple[Delivery, ...], ...] = ()
    last: int = 0
    acknowledged: int = 0
    first: int = 1

    def readable(self, after: int = 0) -> list[Delivery]:
        """List what is kept above a number, ascending."""
        lowest = max(self.first, after + 1)
        return [delivery for chunk in self.chunks for delivery in chunk if delivery.delivery >= lowest]

    def with_events(self, events: list[Event], *, kept: int) -> "Deliveries":
        """Add the next delivery; beyond `kept` the oldest makes room."""
        number = self.last + 1
        delivery = Delivery(number, events)
        chunks = self.chunks
        if chunks and len(chunks[-1]) < CHUNK:
            chunks = (*chunks[:-1], (*chunks[-1], delivery))
        else:
            chunks = (*chunks, (delivery,))
        return _from(chunks, number, self.acknowledged, max(self.first, number - kept + 1))

    def with_acknowledged(self, through: int) -> "Deliveries":
        """Let go of what was acknowledged; a lower number again has no effect."""
        if through <= self.acknowledged:
            return self
        return _from(self.chunks, self.last, through, max(self.first, through + 1))

    def without_events(self) -> "Deliveries":
        """Give the numbers alone."""
        return Deliveries((), self.last, self.acknowledged, self.last + 1)


def _from(chunks: tuple[tuple[Delivery, ...], ...], last: int, acknowledged: int, first: int) -> Deliveries:
    """Drop the chunks of which nothing can be read any more."""
    while chunks and chunks[0][-1].delivery < first:
        chunks = chunks[1:]
    return Deliveries(chunks, last, acknowledged, first)
