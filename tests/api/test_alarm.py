"""Alarms ring once, when the deadline that was set last has passed."""

import asyncio

from app.api.alarm import Alarm
from tests.support.wire import until


class Rung:
    """Counts how often it rang, and lets a test wait for it."""

    def __init__(self) -> None:
        self.count = 0
        self.event = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self.event.set()


async def test_an_alarm_rings_once():
    rung = Rung()
    alarm = Alarm(asyncio.get_running_loop(), rung)

    alarm.set(0.01)
    await asyncio.wait_for(rung.event.wait(), 30)
    await asyncio.sleep(0.03)

    assert rung.count == 1


async def test_a_deadline_that_moves_away_again_and_again_is_not_reached():
    rung = Rung()
    loop = asyncio.get_running_loop()
    alarm = Alarm(loop, rung)
    until = loop.time() + 0.1

    while loop.time() < until:
        alarm.set(30)
        alarm.set(0.05)
        alarm.set(60)
        await asyncio.sleep(0.01)

    assert rung.count == 0
    alarm.stop()


async def test_a_deadline_that_comes_nearer_is_kept():
    rung = Rung()
    loop = asyncio.get_running_loop()
    alarm = Alarm(loop, rung)
    began = loop.time()

    alarm.set(60)
    alarm.set(0.01)
    await asyncio.wait_for(rung.event.wait(), 30)

    assert loop.time() - began >= 0.009


async def test_a_deadline_that_moved_away_is_kept_when_it_comes():
    rung = Rung()
    loop = asyncio.get_running_loop()
    alarm = Alarm(loop, rung)
    began = loop.time()

    alarm.set(0.01)
    alarm.set(0.06)
    await asyncio.wait_for(rung.event.wait(), 30)

    assert loop.time() - began >= 0.059
    assert rung.count == 1


async def test_an_alarm_that_is_cleared_or_stopped_does_not_ring_until_it_is_set_again():
    rung = Rung()
    alarm = Alarm(asyncio.get_running_loop(), rung)

    alarm.set(0.01)
    alarm.clear()
    await asyncio.sleep(0.03)
    alarm.set(0.01)
    alarm.stop()
    await asyncio.sleep(0.03)
    silent = rung.count
    alarm.set(0.01)
    await asyncio.wait_for(rung.event.wait(), 30)

    assert (silent, rung.count) == (0, 1)


async def test_an_alarm_that_rings_may_set_itself_again():
    loop = asyncio.get_running_loop()
    rung = Rung()

    def ring() -> None:
        rung()
        if rung.count < 3:
            rung.event.clear()
            alarm.set(0.005)

    alarm = Alarm(loop, ring)
    alarm.set(0.005)
    await until(lambda: rung.count == 3)

    assert rung.event.is_set()
