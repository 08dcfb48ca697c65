"""Tallies: what was refused, beside the gates. Contract, section 4, "Tallies per layer"."""

from msgspec import UNSET

from app.gates.decision import Refused
from app.gates.event_commands import Enqueue
from app.gates.identity import Token
from app.gates.tally import LastRefusal, LayerTally, Tally, copied, count, counts, prune
from app.gates.transition import Begin, Cancel, Complete, Fail
from tests.support.rigs import candidate

TOKEN = Token("hero", "base", 1, 1, "Idle", "Run")
EVENT = Enqueue(clip_instance=4, loop=0, frame=0, kind="step")


def tallied(*refusals: tuple[object, str]) -> Tally:
    tally = Tally({}, {}, {})
    for command, outcome in refusals:
        number = command.clip_instance if isinstance(command, Enqueue) else UNSET
        count(tally, command, Refused(outcome, clip_instance=number))  # type: ignore[arg-type]  # each is a command
    return tally


def test_late_tokens_of_either_kind_are_stale():
    tally = tallied(
        (Complete(token=TOKEN), "stale_generation"),
        (Cancel(token=TOKEN), "stale_epoch"),
        (Fail(token=TOKEN, why="no clip"), "stale_generation"),
        (Complete(token=TOKEN), "already_completed"),
        (Complete(token=TOKEN), "unknown_token"),
        (Complete(token=TOKEN), "already_cancelled"),
        (Complete(token=TOKEN), "stale_life"),
    )

    assert tally.layers == {"base": LayerTally(stale=3, already_completed=1, unknown=1)}


def test_suppressed_doubles_are_counted_by_instance():
    tally = tallied((EVENT, "duplicate"), (EVENT, "duplicate"), (EVENT, "late_loop"))

    assert tally.suppressed == {4: 2}


def test_a_double_of_a_mark_counts_for_no_instance_that_is_not_open():
    """The number is the caller's choice, and nothing would ever forget it."""
    tally = Tally({}, {}, {})

    count(tally, EVENT, Refused("duplicate", at="mark", by={"clip_instance": 3}))

    assert tally.suppressed == {}


def test_the_last_refused_candidate_of_a_graph_is_shown():
    tally = tallied((candidate(2), "missing_output"), (candidate(3), "stale_request"))

    assert tally.last_refusals == {"main": LastRefusal(3, "stale_request")}


def test_other_commands_are_not_tallied():
    assert not counts(Begin(layer="base", target="Run"))
    assert counts(Complete(token=TOKEN))


def test_pruning_forgets_what_is_no_longer_there():
    tally = tallied(
        (Complete(token=Token("hero", "tail", 1, 1, "a", "b")), "unknown_token"),
        (Complete(token=TOKEN), "unknown_token"),
        (EVENT, "duplicate"),
        (candidate(1, graph="mask"), "unknown_graph"),
    )

    prune(tally, {}, {"base": None}, {"main": None})

    assert (list(tally.layers), tally.suppressed, tally.last_refusals) == (["base"], {}, {})


def test_a_copy_keeps_its_counts_while_the_other_is_counted_into():
    refusals = ((Complete(token=TOKEN), "unknown_token"), (EVENT, "duplicate"), (candidate(1), "stale_request"))
    tally = tallied(*refusals)
    before = copied(tally)

    for command, outcome in refusals:
        number = command.clip_instance if isinstance(command, Enqueue) else UNSET
        count(tally, command, Refused(outcome, clip_instance=number))

    assert before == tallied(*refusals)
    assert tally == tallied(*refusals, *refusals)
