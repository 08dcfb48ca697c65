"""The present: what a slow reader got stays as it was, whatever is decided meanwhile."""

import gc

from app.gates.identity import Token
from app.gates.lives import Despawn
from app.gates.transition import Begin, Complete
from app.journal.memory import MemoryJournal
from app.sequencing.present import PRESENTS_MAX, Present
from app.sequencing.registry import Registry
from tests.support.sequenced import RUN, SPAWN, ask, served

FORGED = Token("hero", "base", 1, 9, "Idle", "Hit", "1-0")


async def present_of(registry: Registry) -> Present:
    """Give the present of the room, which must exist."""
    present = await registry.present("room")
    assert present is not None
    return present


async def test_a_present_stays_as_it_was_while_characters_change_come_and_go():
    async with served(MemoryJournal(), hot_characters_max=1) as registry:
        await ask(registry, SPAWN)
        await ask(registry, RUN)
        before = await present_of(registry)

        await ask(registry, Begin(layer="base", target="Hit"))
        hero = before.roster.get("hero")
        await ask(registry, Despawn())

        assert hero is not None
        assert (before.sequence, hero.layers["base"].generation) == (2, 1)
        assert list(before.roster) == ["hero"]
        after = await present_of(registry)
        assert (after.sequence, list(after.roster)) == (4, [])


async def test_a_present_keeps_its_tallies_though_refusals_are_counted_on():
    async with served(MemoryJournal()) as registry:
        await ask(registry, SPAWN)
        opened = await registry.opened("room")
        assert opened is not None
        refused = Complete(token=FORGED)
        await ask(registry, refused)

        first = await present_of(registry)
        await ask(registry, refused)
        second = await present_of(registry)
        await ask(registry, refused)

        counted = [present.tally("hero").layers["base"].unknown for present in (first, second)]
        assert counted == [1, 2]
        assert opened.tally("hero").layers["base"].unknown == 3


async def test_who_asks_when_nothing_was_decided_gets_the_same():
    async with served(MemoryJournal()) as registry:
        await ask(registry, SPAWN)

        assert await present_of(registry) is await present_of(registry)


async def test_only_so_many_presents_of_a_scene_are_kept_and_one_more_reader_gets_the_newest_of_them():
    async with served(MemoryJournal()) as registry:
        await ask(registry, SPAWN)
        kept = []
        for _ in range(PRESENTS_MAX + 2):
            await ask(registry, RUN)
            kept.append(await present_of(registry))

        assert [present.sequence for present in kept] == [2, 3, 4, 5, 5, 5]
        kept.clear()
        gc.collect()
        assert (await present_of(registry)).sequence == 7


async def test_a_scene_that_is_not_there_has_no_present():
    async with served(MemoryJournal()) as registry:
        assert await registry.present("room") is None
