import asyncio

import pytest

from app.journal import nats_absence
from app.journal.nats_absence import Absence


async def test_before_the_first_connection_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nats_absence, "WAIT_S_MAX", 60.0)
    absence = Absence()
    absence.begin()

    async with asyncio.timeout(5):
        await absence.wait()


async def test_all_who_wait_go_on_at_the_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nats_absence, "WAIT_S_MAX", 60.0)
    absence = Absence()
    absence.end()
    absence.begin()
    waiting = [asyncio.ensure_future(absence.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    assert absence.waiting == 3

    absence.end()
    async with asyncio.timeout(5):
        await asyncio.gather(*waiting)

    assert absence.waiting == 0


async def test_a_second_beginning_does_not_make_the_wait_longer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nats_absence, "WAIT_S_MAX", 0.02)
    absence = Absence()
    absence.end()
    absence.begin()
    await absence.wait()
    absence.begin()

    waiting = asyncio.ensure_future(absence.wait())
    await asyncio.sleep(0)

    assert waiting.done()


async def test_who_waits_no_more_is_not_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nats_absence, "WAIT_S_MAX", 60.0)
    absence = Absence()
    absence.end()
    absence.begin()
    waiting = asyncio.ensure_future(absence.wait())
    await asyncio.sleep(0)
    assert absence.waiting == 1

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert absence.waiting == 0
