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

    `first` is the lowest number in `chunks` that can still be read. The oldest chunk may hold a few below it, which
    nobody sees. `pinned` are those with gameplay events: they stay until they are acknowledged.
    """

    chunks: tuple[tuple[Delivery, ...], ...] = ()
    last: int = 0
    acknowledged: int = 0
    first: int = 1
    pinned: tuple[Delivery, ...] = ()

    def readable(self, after: int = 0) -> list[Delivery]:
        """List what is kept above a number, ascending."""
        lowest = max(self.first, after + 1)
        kept = [delivery for chunk in self.chunks for delivery in chunk if delivery.delivery >= lowest]
        if not self.pinned:
            return kept
        kept += [delivery for delivery in self.pinned if delivery.delivery > after]
        return sorted(kept, key=_number)

    def is_full(self, kept: int) -> bool:
        """Say whether gameplay deliveries take up all the room, so that no other can be kept."""
        return bool(self.pinned) and len(self.pinned) >= kept

    def with_events(self, events: list[Event], *, kept: int, is_gameplay: bool = False) -> "Deliveries":
        """Add the next delivery; beyond `kept` the oldest without gameplay events makes room."""
        number = self.last + 1
        delivery = Delivery(number, events)
        if is_gameplay:
            return self._with_room(self.chunks, number, (*self.pinned, delivery), kept)
        chunks = self.chunks
        if chunks and len(chunks[-1]) < CHUNK:
            chunks = (*chunks[:-1], (*chunks[-1], delivery))
        else:
            chunks = (*chunks, (delivery,))
        if self.pinned:
            return self._with_room(chunks, number, self.pinned, kept)
        return _from(chunks, number, self.acknowledged, max(self.first, number - kept + 1), ())

    def _with_room(
        self, chunks: tuple[tuple[Delivery, ...], ...], last: int, pinned: tuple[Delivery, ...], kept: int
    ) -> "Deliveries":
        """Let the oldest of the others go until all that is kept has room: their numbers have gaps."""
        others = [each.delivery for chunk in chunks for each in chunk if each.delivery >= self.first]
        room = max(kept - len(pinned), 0)
        first = self.first if len(others) <= room else (others[-room] if room else last + 1)
        return _from(chunks, last, self.acknowledged, first, pinned)

    def with_acknowledged(self, through: int) -> "Deliveries":
        """Let go of what was acknowledged; a lower number again has no effect."""
        if through <= self.acknowledged:
            return self
        pinned = tuple(each for each in self.pinned if each.delivery > through)
        return _from(self.chunks, self.last, through, max(self.first, through + 1), pinned)


def _from(
    chunks: tuple[tuple[Delivery, ...], ...],
    last: int,
    acknowledged: int,
    first: int,
    pinned: tuple[Delivery, ...],
) -> Deliveries:
    """Drop the chunks of which nothing can be read any more."""
    while chunks and chunks[0][-1].delivery < first:
        chunks = chunks[1:]
    return Deliveries(chunks, last, acknowledged, first, pinned)


def _number(delivery: Delivery) -> int:
    return delivery.delivery
