"""Receipts: one answer a key, for a time of the scene's own clock and a number a caller. Contract, section 8."""

from typing import Any

import msgspec
import pytest

from app.gates.decision import Command
from app.gates.event_commands import CommitLoop, Enqueue
from app.gates.lives import DeclareRig, Spawn
from app.gates.receipt import Mark, Receipts, mark
from app.gates.scene import Bounds
from app.gates.transition import Begin
from tests.support.played import Played
from tests.support.rigs import parameter, rig

RUN = Begin(layer="base", target="Run")


def keyed(number: int, caller: str = "server") -> Mark:
    return mark(caller, f"key-{number}", "hero", RUN)


def kept(receipts: Receipts, *numbers: int, at: int = 0, caller: str = "server") -> list[bool]:
    return [receipts.find(caller, keyed(number).key, at=at) is not None for number in numbers]


def event(payload: Any) -> Enqueue:
    return Enqueue(clip_instance=1, loop=0, frame=0, kind="step", payload=payload)


def test_what_is_compared_is_command_character_and_fields():
    same = mark("server", "key", "hero", RUN)

    assert mark("server", "key", "hero", Begin(target="Run", layer="base")) == same
    assert mark("server", "key", "villain", RUN).fingerprint != same.fingerprint
    assert mark("server", "key", "hero", Begin(layer="base", target="Hit")).fingerprint != same.fingerprint
    assert mark("server", "key", "hero", Begin(layer="base", target="Run", life=1)).fingerprint != same.fingerprint


def test_commands_of_equal_fields_are_still_two_commands():
    loop, other = CommitLoop(clip_instance=1, loop=0), Enqueue(clip_instance=1, loop=0, frame=0, kind="step")

    assert mark("a", "k", "hero", loop).fingerprint != mark("a", "k", "hero", other).fingerprint


def test_the_order_of_members_does_not_make_another_command():
    one, other = event({"a": 1, "b": {"c": 1, "d": 2}}), event({"b": {"d": 2, "c": 1}, "a": 1})

    assert mark("a", "k", "hero", one) == mark("a", "k", "hero", other)


@pytest.mark.parametrize(
    "command",
    [
        DeclareRig(
            name="humanoid", rig=rig(declared={"Speed": parameter("Speed"), "Fire": parameter("Fire", "trigger")})
        ),
        Spawn(inline=rig(declared={"Speed": parameter("Speed")})),
        Spawn(),
    ],
)
def test_every_rig_and_spawn_can_come_with_a_key(command: Command):
    assert mark("a", "k", "hero", command) == mark("a", "k", "hero", command)


def test_a_receipt_is_kept_for_its_time_to_the_millisecond():
    receipts = Receipts(kept=9, kept_ms=100)
    receipts.keep([(1, keyed(1))], at=1_000)

    assert kept(receipts, 1, at=1_100) == [True]
    assert kept(receipts, 1, at=1_101) == [False]


def test_the_oldest_receipt_of_a_caller_makes_room_and_other_callers_keep_theirs():
    receipts = Receipts(kept=2, kept_ms=100)
    receipts.keep([(1, mark("other", "key-1", "hero", RUN))], at=0)
    for number in (1, 2, 3):
        receipts.keep([(number + 1, keyed(number))], at=0)

    assert kept(receipts, 1, 2, 3) == [False, True, True]
    assert kept(receipts, 1, caller="other") == [True]


def test_one_space_a_caller():
    receipts = Receipts(kept=9, kept_ms=100)
    receipts.keep([(1, keyed(1))], at=0)

    assert kept(receipts, 1, caller="other") == [False]


def test_a_key_kept_again_is_the_newest():
    receipts = Receipts(kept=2, kept_ms=100)
    for sequence, number in enumerate((1, 2, 1, 3), start=1):
        receipts.keep([(sequence, keyed(number))], at=0)

    assert kept(receipts, 1, 2, 3) == [True, False, True]


def test_expiry_forgets_silent_callers_too():
    receipts = Receipts(kept=9, kept_ms=100)
    receipts.keep([(1, keyed(1, "silent"))], at=0)
    receipts.keep([(2, keyed(2))], at=50)

    receipts.expire(at=101)

    assert list(receipts.dump()) == ["server"]
    assert receipts.oldest() == 2


def test_the_oldest_sequence_that_is_needed_is_the_lowest_of_all_callers():
    receipts = Receipts(kept=9, kept_ms=100)
    nothing = receipts.oldest()
    receipts.keep([(7, keyed(1, "b"))], at=0)
    receipts.keep([(9, keyed(1, "a"))], at=0)

    assert (nothing, receipts.oldest()) == (None, 7)


def test_what_was_dumped_is_restored():
    receipts, restored = Receipts(kept=9, kept_ms=100), Receipts(kept=9, kept_ms=100)
    receipts.keep([(1, keyed(1))], at=0)

    restored.restore(receipts.dump())

    assert kept(restored, 1) == [True]


def test_a_key_that_is_used_again_is_stored_behind_the_others():
    receipts = Receipts(kept=9, kept_ms=100)
    receipts.keep([(1, keyed(1)), (2, keyed(2))], at=0)
    receipts.keep([(3, keyed(1))], at=200)
    receipts.keep([(4, keyed(2)), (5, keyed(1))], at=400)

    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(receipts.dump()))

    assert [sequence for _, sequence, _ in stored["server"].values()] == [4, 5]


def test_refusals_keep_a_receipt_and_retryable_ones_do_not():
    played = Played()
    played.spawn(rig(loop_window=1))
    played.turn(("hero", CommitLoop(clip_instance=1, loop=5)))
    late = Enqueue(clip_instance=1, loop=4, frame=0, kind="step")
    beyond = Enqueue(clip_instance=1, loop=7, frame=0, kind="step")

    played.turn(("hero", late, mark("server", "late", "hero", late)))
    played.turn(("hero", beyond, mark("server", "beyond", "hero", beyond)))

    assert [len(held) for held in played.scene.receipts.dump().values()] == [1]


def test_receipts_of_a_scene_follow_its_bounds_and_its_own_clock():
    played = Played(bounds=Bounds(receipts_max=2, receipts_ms=100))
    played.spawn()
    for number in range(3):
        played.turn(("hero", RUN, keyed(number)))
    bounded = kept(played.scene.receipts, 0, 1, 2, at=played.at)
    played.at += 101

    played.turn(("hero", RUN, keyed(3)))

    assert bounded == [False, True, True]
    assert len(played.scene.receipts.dump()["server"]) == 1


def test_a_clock_that_falls_back_lets_no_receipt_live_for_ever():
    played = Played(bounds=Bounds(receipts_ms=100))
    played.spawn()
    played.at = 5_000
    played.turn(("hero", RUN, keyed(1)))
    played.at = 10

    played.turn(("hero", RUN, keyed(2)))

    assert [receipt.at for receipt in played.scene.receipts.dump()["server"].values()] == [5_000, 5_000]
