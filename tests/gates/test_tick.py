"""The tick as it is asked and answered, and the small values that a scene keeps of its ticks."""

import pytest

from app.gates.clip import Event
from app.gates.decision import Refused
from app.gates.tick import (
    Gone,
    RolledBack,
    Sealed,
    Tick,
    TickConfirmed,
    Ticked,
    TickRefusal,
    Ticks,
    TickSealed,
    with_added,
)

LATE, FULL = Refused(TickRefusal.LATE_TICK), Refused(TickRefusal.QUEUE_FULL)
SEALED_ALREADY, UNSEALED = Refused(TickRefusal.ALREADY_SEALED), Refused(TickRefusal.UNSEALED)


def test_a_tick_does_something():
    with pytest.raises(ValueError, match="at least one"):
        Tick()


def test_a_tick_names_no_life_its_requests_do():
    with pytest.raises(ValueError, match="life"):
        Tick(seal=1, life=1)


def test_the_refusals_are_listed_in_the_order_of_the_parts_and_their_checks():
    assert [refusal.value for refusal in TickRefusal] == [
        *("unsealed", "below_confirmed", "beyond_rollback"),
        *("late_tick", "beyond_window", "duplicate", "queue_full"),
        *("already_sealed", "delivery_backlog"),
    ]


@pytest.mark.parametrize(
    ("ticked", "refusal"),
    [
        (Ticked(refused={"rollback": UNSEALED}), UNSEALED),
        (Ticked(requests=[LATE, FULL]), LATE),
        (Ticked(requests=[LATE], refused={"seal": SEALED_ALREADY}), LATE),
        (Ticked(requests=[], refused={"seal": SEALED_ALREADY}), SEALED_ALREADY),
        (Ticked(refused={"seal": SEALED_ALREADY, "confirm": UNSEALED}), SEALED_ALREADY),
        (Ticked(requests=[LATE, None]), None),
        (Ticked(requests=[]), None),
        (Ticked(requests=[LATE], rollback=RolledBack(1, 1, [])), None),
        (Ticked(requests=[LATE], seal=TickSealed(1, "", [])), None),
        (Ticked(requests=[LATE], confirm=TickConfirmed(1)), None),
        (Ticked(rollback=RolledBack(1, 1, []), refused={"seal": SEALED_ALREADY}), None),
    ],
    ids=str,
)
def test_a_tick_is_refused_for_its_first_refusal_when_nothing_of_it_was_accepted(
    ticked: Ticked, refusal: Refused | None
):
    assert ticked.refusal() == refusal


def test_what_was_delivered_is_known_by_its_events_key():
    assert Gone(3, "hero", 1, Event(4, 2, 12, "step", {"a": 1})).key == (4, 2, 12, "step")


def test_the_digest_is_the_newest_sealed_ticks():
    first, second = Sealed({}, {}, [], 1, b"first"), Sealed({}, {}, [], 2, b"second")

    assert Ticks().digest == b""
    assert Ticks(past={7: second, 3: first}).digest == b"second"


def test_an_agenda_grows_without_changing_and_names_each_once():
    agenda = {3: ["hero"]}

    grown = with_added(agenda, [(3, "villain"), (3, "hero"), (5, "hero"), (5, "hero")])

    assert grown == {3: ["hero", "villain"], 5: ["hero"]}
    assert agenda == {3: ["hero"]}
    assert with_added(agenda, []) is agenda
