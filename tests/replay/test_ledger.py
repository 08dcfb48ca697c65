import pytest

from app.replay.ledger import EXAMPLES_MAX, EventFlow, GateCount, Ledger
from tests.support.recorded import Recorder


def granted(came_from, to):
    return {"accepted": True, "outcome": "granted", "token": {"from": came_from, "to": to}}


def refused(outcome, **more):
    return {"accepted": False, "outcome": outcome, **more}


def shown(current="idle", values=None, waiting=(), graph=None):
    """A character as the gate shows it, as far as a ledger looks."""
    return {
        "layers": {"base": {"current": current}},
        "parameters": {"values": values or {}},
        "clip_instances": [{"clip_instance": number, "pending": pending} for number, pending in waiting],
        "graphs": {"main": {"active": None if graph is None else {"name": graph}}},
    }


@pytest.fixture
def recorder():
    return Recorder()


def counted(recorder, *answers):
    """The ledger after every line of the recorder got its answer."""
    ledger = Ledger(recorder.lines)
    for line, answer in zip(recorder.lines, answers, strict=True):
        ledger.record(line, answer)
    return ledger


def found(ledger, final, key):
    [disagreement] = [each for each in ledger.close({"hero": final}) if each.key == key]
    return disagreement


def test_every_answer_is_counted_once_by_its_gate_and_outcome(recorder):
    recorder.begin("h1", "run")
    recorder.complete("h1", "run")
    recorder.complete("h1", "run")
    recorder.complete("h9", "fly")
    recorder.event(1)

    ledger = counted(
        recorder,
        granted("idle", "run"),
        {"accepted": True, "outcome": "committed", "current": "run"},
        refused("already_completed", layer={"current": "run"}),
        None,
        {"problem": {"type": "/problems/mailbox-full"}},
    )

    assert ledger.gates["transitions"] == GateCount(
        asked=3, accepted={"granted": 1, "committed": 1}, refused={"already_completed": 1}, unanswerable=1
    )
    assert ledger.gates["events"] == GateCount(asked=1, problems={"mailbox-full": 1})
    assert ledger.gates["parameters"] == ledger.gates["graphs"] == GateCount()


def test_the_interrupted_run_is_written_by_the_client_and_refused_by_the_gate(recorder):
    """Source: 2026-08-03-1930; the hit ends first, then the late callback of the run comes."""
    recorder.begin("h1", "run")
    recorder.begin("h2", "hit")
    recorder.complete("h2", "hit")
    recorder.complete("h1", "run")

    ledger = counted(
        recorder,
        granted("idle", "run"),
        granted("idle", "hit"),
        {"accepted": True, "outcome": "committed", "current": "hit"},
        refused("stale_generation", layer={"current": "hit"}),
    )

    written = found(ledger, shown("hit"), "state_written_while_refused")
    assert (written.count, written.examples) == (1, ["hero/base 0.00 s: run (h1), stale_generation"])
    assert found(ledger, shown("hit"), "wrong_state_shown").examples == ["hero/base 0.00 s: run, committed hit"]
    assert found(ledger, shown("hit"), "final_state_differs").examples == ["hero/base: shown run, committed hit"]


def test_a_refused_write_of_the_committed_state_shows_nothing_wrong(recorder):
    recorder.begin("h1", "run")
    recorder.complete("h1", "run")
    recorder.complete("h1", "run")

    ledger = counted(
        recorder,
        granted("idle", "run"),
        {"accepted": True, "outcome": "committed", "current": "run"},
        refused("already_completed", layer={"current": "run"}),
    )

    assert found(ledger, shown("run"), "state_written_while_refused").count == 1
    assert found(ledger, shown("run"), "wrong_state_shown").count == 0
    final = found(ledger, shown("run"), "final_state_differs")
    assert (final.count, final.out_of) == (0, 1)


def test_a_begin_from_a_state_that_was_never_committed_is_a_disagreement(recorder):
    recorder.begin("h1", "run", believed="idle")
    recorder.begin("h2", "hit", believed="run")

    ledger = counted(recorder, granted("idle", "run"), granted("idle", "hit"))

    believed = found(ledger, shown(), "from_differs")
    assert (believed.count, believed.out_of) == (1, 2)
    assert believed.examples == ["hero/base 0.00 s: run, committed idle"]


def test_a_refused_batch_is_written_whole_by_the_client(recorder):
    recorder.parameters(("Speed", 1.5), ("Turn", 0))
    recorder.parameters(("Speed", "NaN"), ("Turn", 0.5))

    ledger = counted(recorder, {"accepted": True, "outcome": "committed"}, refused("non_finite_value", at="Speed"))

    final = shown(values={"Speed": 1.5, "Turn": 0})
    assert found(ledger, final, "batch_written_while_refused").count == 1
    assert found(ledger, final, "non_finite_written").examples == ["hero/base 0.00 s: Speed was 1.5"]
    ending = found(ledger, final, "final_value_differs")
    assert (ending.count, ending.out_of) == (2, 2)
    assert ending.examples == ["hero: Speed shown NaN, committed 1.5", "hero: Turn shown 0.5, committed 0"]


def test_a_value_the_gate_never_took_is_unset_there(recorder):
    recorder.parameters(("Speed", "NaN"))

    ledger = counted(recorder, refused("non_finite_value"))

    assert found(ledger, shown(), "final_value_differs").examples == ["hero: Speed shown NaN, committed unset"]


def test_doubled_and_waiting_effects_were_fired_all_the_same(recorder):
    recorder.play(7)
    recorder.event(7, 0, 12)
    recorder.event(7, 0, 12)
    recorder.event(7, 0, 42)
    recorder.commit_loop(7, 0)
    recorder.event(7, 1, 12)

    ledger = counted(
        recorder,
        {"accepted": True, "outcome": "opened", "clip_instance": 7},
        {"accepted": True, "outcome": "accepted"},
        refused("duplicate"),
        {"accepted": True, "outcome": "accepted"},
        {"accepted": True, "outcome": "delivered", "events": [{}, {}], "delivery": 1, "pending": 0},
        {"accepted": True, "outcome": "accepted"},
    )

    final = shown(waiting=[(7, 1)])
    assert ledger.events({"hero": final}) == EventFlow(fired=4, accepted=3, delivered=2, waiting=1)
    assert found(ledger, final, "fired_while_refused").examples == ["hero/base 0.00 s: footstep 0:12, duplicate"]
    assert found(ledger, final, "fired_but_waiting").examples == ["hero: 1 of instance 7"]


def test_the_last_candidate_is_shown_though_it_lost(recorder):
    recorder.request(1, "ExploreV8")
    recorder.request(2, "CombatV9")
    recorder.candidate(2, "CombatV9")
    recorder.candidate(1, "ExploreV8")

    ledger = counted(
        recorder,
        {"accepted": True, "outcome": "requested", "request": 1},
        {"accepted": True, "outcome": "requested", "request": 2},
        {"accepted": True, "outcome": "committed"},
        refused("stale_request"),
    )

    final = shown(graph="CombatV9")
    assert found(ledger, final, "unfit_graph_shown").examples == ["hero/base 0.00 s: ExploreV8, stale_request"]
    assert found(ledger, final, "final_graph_differs").examples == ["hero: shown ExploreV8, committed CombatV9"]


def test_a_disagreement_counts_all_and_names_a_few(recorder):
    for number in range(EXAMPLES_MAX + 4):
        recorder.event(1, 0, number)

    ledger = counted(recorder, *[refused("duplicate")] * (EXAMPLES_MAX + 4))

    doubled = found(ledger, shown(), "fired_while_refused")
    assert (doubled.count, len(doubled.examples)) == (EXAMPLES_MAX + 4, EXAMPLES_MAX)
