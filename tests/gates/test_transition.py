"""The transition arbiter: one pending token a layer, compared whole. Source: 2026-08-03-1930; contract, section 4."""

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from app.gates.decision import Grant, LayerNow
from app.gates.graph import RequestGraph
from app.gates.identity import Sealer, Token
from app.gates.rig import LayerRule
from app.gates.transition import (
    ENDINGS_KEPT,
    Begin,
    Cancel,
    Complete,
    Fail,
    TransitionArbiter,
    TransitionCommitted,
    TransitionGranted,
    TransitionKept,
    TransitionRefusal,
)
from tests.support.played import Played
from tests.support.rigs import candidate, rig

SEALER = Sealer("room", b"a secret of thirty-two bytes    ")
IDLE = TransitionArbiter("Idle", 0, 1)
LISTED = rig(layers={"base": LayerRule("Idle", frozenset({"Idle", "Run", "Hit"})), "face": LayerRule("Calm", None)})


def decided(arbiter: TransitionArbiter, target: str, states: frozenset[str] | None = None, **fields: Any) -> Any:
    command = Begin(layer="base", target=target, **fields)
    return arbiter.decide_begin(command, character="hero", life=1, states=states, sealer=SEALER)


def begun(arbiter: TransitionArbiter, target: str, at: int = 5, **fields: Any) -> tuple[TransitionArbiter, Token]:
    fact = decided(arbiter, target, **fields)
    assert isinstance(fact, TransitionGranted)
    return arbiter.evolve(Begin(layer="base", target=target, **fields), fact, at=at), fact.token


def completed(arbiter: TransitionArbiter, token: Token, at: int = 9) -> TransitionArbiter:
    assert arbiter.refusal(token, life=1, sealer=SEALER) is None
    return arbiter.evolve(Complete(token=token), TransitionCommitted(token.to), at=at)


def refused(arbiter: TransitionArbiter, token: Token, life: int = 1) -> str | None:
    refusal = arbiter.refusal(token, life=life, sealer=SEALER)
    return None if refusal is None else str(refusal.outcome)


def ends(token: Token) -> list[Any]:
    return [Complete(token=token), Cancel(token=token), Fail(token=token, why="the clip is missing")]


def test_interrupted_completion_is_refused_and_the_interrupter_commits():
    """The older blend finishes first; its callback must not write Run over Hit."""
    running, run = begun(IDLE, "Run")
    hit_pending, hit = begun(running, "Hit")

    late = refused(hit_pending, run)
    after = completed(hit_pending, hit)

    assert late == "stale_generation"
    assert (after.current, after.generation, after.pending) == ("Hit", 2, None)
    assert (after.committed, after.superseded) == (1, 1)


def test_a_token_starts_from_the_last_committed_state_so_an_interrupted_one_never_becomes_history():
    running, _ = begun(IDLE, "Run")

    fact = decided(running, "Hit")

    assert (fact.token.from_, fact.token.to, fact.token.generation) == ("Idle", "Hit", 2)
    assert fact.superseded == Token("hero", "base", 1, 1, "Idle", "Run")
    assert fact.superseded.seal is UNSET


def test_begin_names_an_unknown_state_before_a_generation_conflict():
    states = frozenset({"Idle", "Run"})

    both = decided(IDLE, "Fly", states, if_generation=7)
    one = decided(IDLE, "Run", states, if_generation=7)

    assert (both.outcome, both.at) == ("unknown_state", "target")
    assert (one.outcome, one.at, one.by) == ("generation_conflict", "if_generation", UNSET)


def test_begin_names_an_unknown_layer_before_an_unknown_state():
    played = Played()
    played.spawn(LISTED)

    answer = played.ask(Begin(layer="tail", target="Fly", if_generation=7))

    assert (answer.outcome, answer.at, answer.layer) == ("unknown_layer", "layer", UNSET)


def test_a_generation_conflict_names_the_newest_grant_and_what_is_true_now():
    running, _ = begun(IDLE, "Run")

    answer = decided(running, "Idle", if_generation=0)

    assert answer.by == {"generation": 1, "to": "Run"}
    assert answer.layer == LayerNow("Idle", 1, 1, Grant(1, "Run"))


def test_a_late_clip_end_with_if_generation_cannot_overwrite_a_newer_state():
    arbiter, hit = begun(IDLE, "Hit")
    arbiter = completed(arbiter, hit)
    arbiter, fall = begun(arbiter, "Fall")

    late = decided(completed(arbiter, fall), "Idle", if_generation=hit.generation)

    assert late.outcome == "generation_conflict"


def test_begin_onto_the_current_state_restarts_it():
    arbiter, hit = begun(IDLE, "Hit")
    arbiter = completed(arbiter, hit)

    again = decided(arbiter, "Hit")

    assert (again.token.from_, again.token.to, again.superseded) == ("Hit", "Hit", None)


def test_keep_gives_the_pending_token_again_with_its_seal():
    running, run = begun(IDLE, "Run")

    answer = decided(running, "Run", if_same="keep")

    assert answer == TransitionKept(run)
    assert running.evolve(Begin(layer="base", target="Run", if_same="keep"), answer, at=77) is running


def test_keep_without_a_token_when_the_target_is_current_and_nothing_is_pending():
    assert decided(IDLE, "Idle", if_same="keep") == TransitionKept(None)


def test_keep_is_an_ordinary_grant_when_another_transition_is_pending():
    running, _ = begun(IDLE, "Run")

    back = decided(running, "Idle", if_same="keep")

    assert isinstance(back, TransitionGranted)
    assert back.superseded is not None


def test_restart_grants_although_the_same_transition_is_pending():
    running, _ = begun(IDLE, "Run")

    assert isinstance(decided(running, "Run", if_same="restart"), TransitionGranted)


def test_keep_still_meets_the_generation_condition():
    running, _ = begun(IDLE, "Run")

    assert decided(running, "Run", if_same="keep", if_generation=0).outcome == "generation_conflict"


@pytest.mark.parametrize(
    "change",
    [
        {"layer": "face"},
        {"character": "villain"},
        {"epoch": 2},
        {"generation": 2},
        {"from_": "Run"},
        {"to": "Hit"},
        {"seal": UNSET},
        {"seal": ""},
        {"seal": "1-" + "0" * 32},
        {"to": "Run\0"},
    ],
    ids=str,
)
def test_a_token_changed_in_any_field_is_unknown(change: dict[str, Any]):
    played = Played()
    played.spawn(LISTED)
    token = played.ask(Begin(layer="base", target="Run")).token

    words = [played.word(end) for end in ends(replace(token, **change))]

    assert words == ["unknown_token"] * 3
    assert played.word(Complete(token=token)) == "committed"


def test_a_seal_with_one_digit_changed_is_unknown():
    running, run = begun(IDLE, "Run")
    assert isinstance(run.seal, str)
    flipped = run.seal[:-1] + ("0" if run.seal[-1] != "0" else "1")

    assert refused(running, replace(run, seal=flipped)) == "unknown_token"


def test_a_seal_that_no_digest_can_be_is_unknown_and_breaks_nothing():
    running, run = begun(IDLE, "Run")

    for seal in ("\udc00", "-", "1", "1-", "g-1", "\u0661-0", f"{1:x}" * 200, " 1-" + "0" * 32):
        assert refused(running, replace(run, seal=seal)) == "unknown_token"


def test_a_token_of_another_journal_is_unknown():
    elsewhere = Sealer("room", b"another secret of 32 bytes      ")
    fact = IDLE.decide_begin(Begin(layer="base", target="Run"), character="hero", life=1, states=None, sealer=elsewhere)
    assert isinstance(fact, TransitionGranted)
    running, _ = begun(IDLE, "Run")

    assert refused(running, fact.token) == "unknown_token"


def test_a_token_of_another_scene_is_unknown():
    elsewhere = Sealer("hall", b"a secret of thirty-two bytes    ")
    fact = IDLE.decide_begin(Begin(layer="base", target="Run"), character="hero", life=1, states=None, sealer=elsewhere)
    assert isinstance(fact, TransitionGranted)
    running, _ = begun(IDLE, "Run")

    assert refused(running, fact.token) == "unknown_token"


@pytest.mark.parametrize("end", ["complete", "cancel", "fail"])
def test_each_end_tells_every_later_end_what_became_of_the_token(end: str):
    played = Played()
    played.spawn()
    token = played.ask(Begin(layer="base", target="Run")).token
    by_name = {"complete": 0, "cancel": 1, "fail": 2}

    first = played.word(ends(token)[by_name[end]])
    later = {played.word(again) for again in ends(token)}

    accepted, refusal = {
        "complete": ("committed", "already_completed"),
        "cancel": ("cancelled", "already_cancelled"),
        "fail": ("failed", "already_failed"),
    }[end]
    assert first == accepted
    assert later == {refusal}


def test_cancel_and_fail_leave_the_committed_state():
    played = Played()
    played.spawn()
    first = played.ask(Begin(layer="base", target="Run")).token
    cancelled = played.ask(Cancel(token=first))
    second = played.ask(Begin(layer="base", target="Hit")).token
    failed = played.ask(Fail(token=second, why="the clip is missing"))

    assert (cancelled.current, failed.current) == ("Idle", "Idle")
    assert played.hero().layers["base"].pending is None


def test_an_old_epoch_is_named_before_how_the_token_ended():
    """A complete that did commit and is retried after a graph swap is stale_epoch (contract, section 4)."""
    arbiter, run = begun(IDLE, "Run")
    swapped = completed(arbiter, run).next_epoch()

    assert refused(swapped, run) == "stale_epoch"


def test_a_forged_seal_is_named_before_an_old_epoch():
    arbiter, run = begun(IDLE, "Run")
    swapped = arbiter.next_epoch()

    assert refused(swapped, replace(run, seal="1-" + "f" * 32)) == "unknown_token"


def test_a_token_that_was_completed_and_overtaken_is_already_completed_not_stale():
    arbiter, run = begun(IDLE, "Run")
    arbiter, _ = begun(completed(arbiter, run), "Hit")

    assert refused(arbiter, run) == "already_completed"


def test_the_generation_goes_on_across_epochs_and_a_pending_token_ends_with_its_epoch():
    running, run = begun(IDLE, "Run")

    swapped = running.next_epoch()
    again, token = begun(swapped, "Hit")

    assert (swapped.epoch, swapped.pending, swapped.current) == (2, None, "Idle")
    assert refused(swapped, run) == "stale_epoch"
    assert (token.epoch, token.generation) == (2, 2)
    assert completed(again, token).current == "Hit"


def test_a_token_of_a_former_life_is_stale_even_where_all_its_numbers_fit():
    old = IDLE.decide_begin(Begin(layer="base", target="Run"), character="hero", life=1, states=None, sealer=SEALER)
    assert isinstance(old, TransitionGranted)
    assert refused(IDLE, old.token, life=2) == "stale_epoch"
    assert refused(IDLE.next_epoch(), old.token, life=2) == "stale_epoch"


def test_a_token_of_a_later_life_is_unknown():
    later = IDLE.decide_begin(Begin(layer="base", target="Run"), character="hero", life=2, states=None, sealer=SEALER)
    assert isinstance(later, TransitionGranted)
    running, _ = begun(IDLE, "Run")

    assert refused(running, later.token) == "unknown_token"


def test_a_layer_remembers_the_endings_of_the_64_generations_before_the_newest():
    arbiter, first = begun(IDLE, "Run")
    arbiter, second = begun(completed(arbiter, first), "Run")
    arbiter = completed(arbiter, second)
    for _ in range(ENDINGS_KEPT):
        arbiter, newest = begun(arbiter, "Hit")

    remembered, forgotten = refused(arbiter, second), refused(arbiter, first)

    assert (remembered, forgotten) == ("already_completed", "stale_generation")
    assert newest.generation == ENDINGS_KEPT + 2
    assert len(arbiter.endings) == ENDINGS_KEPT


def test_every_kind_of_ending_is_remembered_in_its_place():
    arbiter, committed = begun(IDLE, "A")
    arbiter, superseded = begun(completed(arbiter, committed), "B")
    arbiter, last = begun(arbiter, "C")

    assert [refused(arbiter, token) for token in (committed, superseded, last)] == [
        "already_completed",
        "stale_generation",
        None,
    ]


def test_data_and_times_follow_the_token_into_the_committed_state():
    arbiter, run = begun(IDLE, "Run", at=5, data={"clip": "run_fast"})
    after = completed(arbiter, run, at=9)

    assert arbiter.pending is not None
    assert (arbiter.pending.data, arbiter.pending.begun_at) == ({"clip": "run_fast"}, 5)
    assert (after.data, after.committed_at) == ({"clip": "run_fast"}, 9)


def test_a_refused_token_hears_what_is_true_of_the_layer():
    running, run = begun(IDLE, "Run")
    pending, _ = begun(running, "Hit")

    answer = pending.refusal(run, life=1, sealer=SEALER)

    assert answer is not None
    assert answer.by == {"generation": 2, "to": "Hit"}
    assert answer.layer == LayerNow("Idle", 1, 2, Grant(2, "Hit"))


def test_layers_are_independent():
    played = Played()
    played.spawn(LISTED)
    run = played.ask(Begin(layer="base", target="Run")).token

    smile = played.ask(Begin(layer="face", target="Smile"))
    done = played.word(Complete(token=run))

    assert (smile.superseded, smile.token.generation) == (None, 1)
    assert done == "committed"


def test_a_graph_swap_makes_every_end_of_a_pending_token_stale():
    played = Played()
    played.spawn()
    token = played.ask(Begin(layer="base", target="Run")).token
    request = played.ask(RequestGraph(name="CombatV9")).request
    played.ask(candidate(request))

    words = [played.word(end) for end in ends(token)]

    assert words == ["stale_epoch"] * 3


@pytest.mark.parametrize("fields", [{"layer": "ba\nse"}, {"target": "Run\x85"}, {"target": "\ud800"}])
def test_begin_takes_no_control_characters(fields: dict[str, Any]):
    with pytest.raises(ValueError, match="control characters"):
        Begin(**{"layer": "base", "target": "Run", **fields})


def test_the_refusals_are_listed_in_the_order_of_the_checks():
    assert [refusal.value for refusal in TransitionRefusal] == [
        "unknown_layer",
        "unknown_state",
        "generation_conflict",
        "unknown_token",
        "stale_epoch",
        "already_completed",
        "already_cancelled",
        "already_failed",
        "expired",
        "rolled_back",
        "stale_generation",
        "too_early",
    ]
