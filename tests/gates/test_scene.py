"""The scene: a candidate over an adopted state, and the one step from one to the other. Contract, sections 1 and 8."""

import pytest

from app.gates.candidate import Candidate
from app.gates.decision import Problem, Undecided
from app.gates.event_commands import CommitLoop, Enqueue
from app.gates.lives import CloseScene, DeclareRig, Despawn, Spawn
from app.gates.receipt import mark
from app.gates.scene import ENTRIES_TIDY, Bounds, Record
from app.gates.tick import entries
from app.gates.transition import Begin, Complete
from tests.support.played import Played, assert_same_scene, word
from tests.support.rigs import parameter, rig

RUN = Begin(layer="base", target="Run")
OTHER = rig(mode="full")


def alive(**bounds: int) -> Played:
    played = Played(bounds=Bounds(**bounds))
    played.spawn()
    return played


def test_a_candidate_leaves_the_adopted_scene_alone_until_it_is_adopted():
    played = alive()
    before = played.hero(), played.scene.state

    candidate = Candidate(played.scene, 5_000)
    candidate.decide("hero", RUN)
    candidate.decide("ghost", Spawn())
    untouched = played.hero(), played.scene.state, "ghost" in played.scene.roster
    played.scene.adopt(candidate)

    assert untouched == (*before, False)
    assert played.hero().layers["base"].generation == 1
    assert played.scene.sequence == 3


def test_later_commands_of_a_turn_see_what_earlier_ones_decided():
    played = alive()
    candidate = Candidate(played.scene, 5)
    granted = candidate.decide("hero", RUN)
    assert isinstance(granted, Record)

    committed = candidate.decide("hero", Complete(token=granted.answer.token))  # type: ignore[union-attr]  # granted
    candidate.decide("hero", Despawn())

    assert word(committed.answer) == "committed"  # type: ignore[union-attr]  # decided
    assert word(candidate.decide("hero", RUN)) == "unknown-character"  # type: ignore[arg-type]  # not decided


def test_accepted_and_refused_decisions_take_a_sequence_and_problems_do_not():
    played = alive()

    answers = played.turn(("hero", RUN), ("hero", Begin(layer="tail", target="Run")), ("ghost", RUN))

    assert [word(answer) for answer in answers] == ["granted", "unknown_layer", "unknown-character"]
    assert played.scene.sequence == 3


def test_time_never_falls():
    played = alive()
    played.at = 10

    played.ask(RUN)

    assert played.scene.state.at == 1_000
    pending = played.hero().layers["base"].pending
    assert pending is not None
    assert pending.begun_at == 1_000


def test_what_concerns_a_scene_that_does_not_exist_is_a_problem():
    played = Played()

    assert played.word(RUN) == "unknown-scene"
    assert played.word(Despawn()) == "unknown-scene"
    assert not played.scene.state.exists


def test_a_rig_makes_the_scene():
    played = Played()

    created = played.ask(DeclareRig(name="humanoid", rig=rig()), None)

    assert created.created
    assert played.scene.state.exists


def test_an_equal_rig_again_is_no_change_and_another_waits_for_those_who_live_by_it():
    played = Played()
    declare, redeclare = DeclareRig(name="humanoid", rig=rig()), DeclareRig(name="humanoid", rig=OTHER)
    played.ask(declare, None)
    played.ask(Spawn(rig="humanoid"))

    equal, conflicting = played.ask(declare, None), played.word(redeclare, None)
    played.ask(Despawn())
    free = played.ask(redeclare, None)

    assert (equal.created, conflicting, free.created) == (False, Problem.CONFLICTING_RIG, True)


def test_the_last_user_takes_an_inline_rig_along_and_leaves_a_declared_one():
    played = Played()
    played.ask(DeclareRig(name="humanoid", rig=rig()), None)
    for who, spawn in [("a", Spawn(inline=OTHER)), ("b", Spawn(inline=OTHER)), ("c", Spawn(rig="humanoid"))]:
        played.ask(spawn, who)
    shared = {key: use.users for key, use in played.scene.state.rigs.items()}

    for who in ("a", "b", "c"):
        played.ask(Despawn(), who)

    assert sorted(shared.values()) == [1, 2]
    assert {key: use.users for key, use in played.scene.state.rigs.items()} == {"humanoid": 0}


def test_a_scene_holds_a_bounded_number_of_rigs():
    played = Played(bounds=Bounds(rigs_max=1))
    played.ask(DeclareRig(name="one", rig=rig()), None)

    assert played.word(DeclareRig(name="two", rig=rig()), None) == Problem.TOO_LARGE
    assert played.word(Spawn(inline=OTHER)) == Problem.TOO_LARGE
    assert played.word(DeclareRig(name="one", rig=OTHER), None) == "declared"


def test_a_key_is_found_in_its_own_turn_and_in_later_ones():
    played = alive()
    keyed = mark("server", "key-one", "hero", RUN)
    candidate = Candidate(played.scene, 5)
    candidate.decide("hero", RUN, keyed)

    in_turn = candidate.earlier(keyed)
    played.scene.adopt(candidate)
    later = Candidate(played.scene, 5).earlier(keyed)

    assert in_turn == later == (2, keyed.fingerprint)


def test_a_despawned_character_can_be_spawned_in_the_same_turn():
    played = alive()

    answers = played.turn(("hero", Despawn()), ("hero", Spawn()), ("hero", RUN))

    assert [word(answer) for answer in answers] == ["despawned", "spawned", "granted"]
    assert played.hero().life == 2
    assert_same_scene(played.replayed(), played.scene)


def test_a_scene_can_be_closed_and_come_back_in_one_turn():
    played = alive()
    played.spawn(who="villain")

    answers = played.turn(
        ("villain", Despawn()),
        ("hero", RUN),
        (None, CloseScene()),
        ("hero", RUN),
        ("hero", Spawn()),
        ("hero", RUN),
    )

    assert [word(answer) for answer in answers] == [
        "despawned",
        "granted",
        "closed",
        "unknown-scene",
        "spawned",
        "granted",
    ]
    assert played.scene.roster.names() == ["hero"]
    assert (played.hero().life, played.scene.remains) == (2, {})
    assert_same_scene(played.replayed(), played.scene)


def test_an_undecided_command_leaves_no_trace():
    played = alive()
    before = played.scene.state

    answer = played.ask(Spawn(inline=OTHER))

    assert isinstance(answer, Undecided)
    assert (played.scene.state, len(played.entries)) == (before, 1)


def test_answering_is_deciding_without_moving_on():
    played = alive()
    candidate = Candidate(played.scene, 5)

    once, again = candidate.answer("hero", RUN), candidate.answer("hero", RUN)
    decided = candidate.decide("hero", RUN)

    assert isinstance(decided, Record)
    assert once == again == decided.answer


def test_characters_beyond_the_hot_ones_are_decided_alike():
    cold, hot = Played(bounds=Bounds(hot_characters_max=1)), Played()
    for played in (cold, hot):
        for who in ("a", "b", "c"):
            played.spawn(who=who)
        for number in range(9):
            played.ask(Enqueue(clip_instance=1, loop=number, frame=0, kind="step", payload=[number]), "abc"[number % 3])
            played.ask(CommitLoop(clip_instance=1, loop=number), "abc"[number * 2 % 3])

    assert_same_scene(cold.scene, hot.scene)


@pytest.mark.parametrize("remains_max", [0, 1, 5])
def test_replay_of_many_lives_gives_the_live_scene(remains_max: int):
    played = Played(bounds=Bounds(remains_max=remains_max))
    for number in range(12):
        who = f"h{number % 4}"
        if who in played.scene.roster:
            played.ask(Despawn(), who)
        else:
            played.spawn(rig(declared={"Fire": parameter("Fire", "trigger")}) if number % 3 else None, who)
        played.ask(RUN, f"h{(number + 1) % 4}")

    assert_same_scene(played.replayed(), played.scene)


def test_deadlines_that_nobody_seals_do_not_pile_up():
    played = Played()
    played.spawn()

    for number in range(ENTRIES_TIDY + 100):
        played.ask(Begin(layer="base", target="Run", deadline_ticks=number))

    assert entries(played.scene.ticks) < ENTRIES_TIDY / 2
    assert ENTRIES_TIDY + 100 in played.scene.ticks.deadlines, "the deadline of the pending token is kept"
