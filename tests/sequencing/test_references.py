"""A retried batch may refer to what an earlier request of it was answered."""

from app.gates.identity import Token
from app.gates.lives import Spawn
from app.gates.tick import Tick
from app.gates.transition import Begin, Complete, TransitionCommitted
from app.journal.memory import MemoryJournal
from app.sequencing.mailbox import Addressed, Decided
from app.sequencing.registry import Registry
from app.settings import Settings

STANDS_IN = Token("", "", 0, 0, "", "")
BEGIN = Addressed("hero", Begin(layer="base", target="Run", min_ticks=1), "key-begin-1")
COMPLETE = Addressed("hero", Complete(token=STANDS_IN), "key-complete-1", {"token": 0})


async def test_a_retried_batch_completes_the_token_that_its_first_try_was_granted():
    journal, settings = MemoryJournal(), Settings(journal="memory:")
    registry = Registry(journal, settings)
    await registry.submit("room", [Addressed("hero", Spawn())])
    first = await registry.submit("room", [BEGIN, COMPLETE])
    await registry.submit("room", [Addressed(None, Tick(seal=1))])

    again = await registry.submit("room", [BEGIN, COMPLETE])

    words = [type(each.record.answer).__name__ for each in first if isinstance(each, Decided)]
    assert words == ["TransitionGranted", "Refused"], "too early, so the second is kept under no key"
    assert isinstance(again[1], Decided)
    assert again[1].record.answer == TransitionCommitted("Run")
    assert again[0] == first[0]
    await registry.close()
