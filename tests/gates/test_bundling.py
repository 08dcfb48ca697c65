"""Bundling: commands over several characters are one decision, or nothing at all. Contract, section 8, "Bundle"."""

from typing import Any

import pytest
from msgspec import UNSET

from app.gates.bundle import Bundle, Bundled, Member
from app.gates.decision import Problem, Refused, Undecided
from app.gates.event_commands import CommitLoop, Enqueue, Play
from app.gates.graph import RequestGraph
from app.gates.identity import Token
from app.gates.lives import Despawn, Spawn
from app.gates.parameter import CommitParameters, ParameterValue
from app.gates.receipt import mark
from app.gates.transition import Begin, Complete
from tests.support.played import Played, member, word
from tests.support.rigs import candidate, rig

NOTHING = Token("", "", 0, 0, "", "")
RUN, HIT = Begin(layer="base", target="Run"), Begin(layer="base", target="Hit")
COMPLETE = Complete(token=NOTHING)
FLY = Begin(layer="tail", target="Fly")
SPEED = CommitParameters(values=[ParameterValue(value=4, name="Speed")])


def bundle(*members: Member, **fields: Any) -> Bundle:
    return Bundle(commands=list(members), **fields)


def words(answer: Any) -> list[str]:
    assert isinstance(answer, Bundled)
    return [word(given.answer) for given in answer.answers]


def test_all_of_a_bundle_over_several_characters_is_one_decision(room: Played):
    sequence = room.scene.sequence

    answer = room.bundle(member("hero", RUN), member("villain", HIT), member("hero", SPEED))

    assert words(answer) == ["granted", "granted", "committed"]
    assert room.scene.sequence == sequence + 1
    assert (room.pending(), room.pending("villain")) == ("Run", "Hit")
    assert room.hero().parameters.values == {"Speed": 4}


def test_each_answer_has_the_revision_of_its_character_after_it(room: Played):
    answer = room.bundle(member("hero", RUN), member("villain", HIT), member("hero", SPEED))

    assert [given.revision for given in answer.answers] == [2, 2, 3]
    assert (room.hero().revision, room.hero("villain").revision) == (3, 2)


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_one_refusal_leaves_all_of_it_undone_and_is_named_with_its_place(room: Played, place: int):
    members = [member("hero", RUN), member("villain", HIT), member("hero", SPEED)]
    members.insert(place, member("villain", FLY))

    answer = room.bundle(*members)

    assert (answer.outcome, answer.at, answer.failed_at) == ("member_refused", f"commands[{place}]", place)
    assert answer.refused == Refused("unknown_layer", at="layer")
    assert (room.pending(), room.pending("villain")) == (None, None)


def test_a_refused_bundle_leaves_characters_lives_rigs_and_ticks_as_they_were(room: Played):
    """`Played.ask` holds all of that equal; so do the turns in which the bundle has company."""
    room.tick(seal=1)
    before = room.held()
    refused = [
        member("squire", Spawn(inline=rig(mode="full"))),
        member("hero", Despawn()),
        member("villain", Begin(layer="base", target="Run", deadline_ticks=3)),
        member("villain", Play(clip="Walk")),
        member("villain", FLY),
    ]

    assert room.bundle(*refused, link=True).failed_at == 4
    room.turn((None, bundle(*refused)), (None, bundle(*refused)))

    assert room.held() == before


def test_a_refused_bundle_in_the_middle_of_a_turn_leaves_the_rest_of_the_turn(room: Played):
    answers = room.turn(
        ("hero", RUN), (None, bundle(member("hero", HIT), member("hero", FLY))), ("villain", HIT), ("hero", SPEED)
    )

    assert [word(answer) for answer in answers] == ["granted", "member_refused", "granted", "committed"]
    assert (room.pending(), room.hero().layers["base"].generation) == ("Run", 1)


def test_no_token_of_a_refused_bundle_is_ever_valid_or_shown(room: Played):
    """The same generation is granted again, and to nobody else: its seal is the same, its right is new."""
    answer = room.bundle(member("hero", RUN), member("hero", FLY))

    assert "seal" not in repr(answer)
    assert room.begin().generation == 1


def test_a_problem_makes_the_whole_a_problem_that_names_the_place(room: Played):
    before, sequence = room.held(), room.scene.sequence

    answer = room.bundle(member("hero", RUN), member("nobody", RUN))

    assert isinstance(answer, Undecided)
    assert (answer.problem, answer.at) == (Problem.UNKNOWN_CHARACTER, "commands[1]")
    assert (room.held(), room.scene.sequence) == (before, sequence)


def test_a_problem_with_a_field_names_the_field_in_its_place(room: Played):
    answer = room.bundle(member("hero", RUN), member("squire", Spawn(rig="humanoid")))

    assert (answer.problem, answer.at) == (Problem.UNKNOWN_RIG, "commands[1].rig")


def test_commands_take_what_earlier_ones_got(room: Played):
    answer = room.bundle(
        member("hero", RUN),
        member("hero", COMPLETE, token=0),
        member("villain", Begin(layer="base", target="Hit", holder=NOTHING), holder=0),
        member("hero", Play(clip="Walk")),
        member("hero", Enqueue(clip_instance=0, loop=0, frame=1, kind="step"), clip_instance=3),
        member("hero", CommitLoop(clip_instance=0, loop=0), clip_instance=3),
        member("villain", RequestGraph(name="A")),
        member("villain", candidate(0), request=6),
    )

    assert words(answer) == [
        *("granted", "committed", "granted", "opened", "accepted", "delivered", "requested", "committed")
    ]
    assert room.current() == "Run"


@pytest.mark.parametrize(
    ("members", "at"),
    [
        ([member("hero", SPEED), member("hero", COMPLETE, token=0)], "commands[1].token"),
        ([member("hero", RUN), member("hero", candidate(0), request=0)], "commands[1].request"),
        (
            [member("hero", RUN), member("hero", CommitLoop(clip_instance=0, loop=0), clip_instance=0)],
            "commands[1].clip_instance",
        ),
    ],
)
def test_a_reference_to_what_gives_none_is_a_problem_at_its_place(room: Played, members: list[Any], at: str):
    answer = room.bundle(*members)

    assert (answer.problem, answer.at) == (Problem.INVALID, at)
    assert room.pending() is None


def test_a_life_may_begin_and_act_in_one_bundle(room: Played):
    answer = room.bundle(
        member("squire", Spawn()), member("squire", RUN), member("squire", COMPLETE, token=1), member("hero", Despawn())
    )

    assert words(answer) == ["spawned", "granted", "committed", "despawned"]
    assert room.scene.roster.names() == ["squire", "villain"]
    assert room.current("squire") == "Run"


def test_a_bundle_may_make_its_scene():
    room = Played()

    answer = room.bundle(member("hero", Spawn()), member("hero", RUN))

    assert words(answer) == ["spawned", "granted"]
    assert room.scene.state.exists
    room.check()


@pytest.mark.parametrize(
    "members",
    [[], [member("hero", RUN)], [member("hero", Spawn()), member("hero", FLY)]],
    ids=["empty", "for nobody", "refused"],
)
def test_a_bundle_that_makes_no_scene_leaves_no_decision_in_one_that_is_not_there(members: list[Any]):
    room = Played()

    answer = room.bundle(*members)

    assert answer.problem == Problem.UNKNOWN_SCENE
    assert (room.scene.state.exists, room.scene.sequence, room.entries) == (False, 0, [])


def test_an_empty_bundle_is_accepted_and_changes_nothing(room: Played):
    before = room.held()

    assert room.bundle() == Bundled([])
    assert room.held() == before


def test_a_bundle_with_a_holder_that_lost_its_right_is_refused_before_its_commands(room: Played):
    run = room.begin("Run")
    room.begin("Hit")

    answer = room.bundle(member("nobody", RUN), holder=run)

    assert (answer.outcome, answer.at) == ("holder_lost", "holder")


def test_a_command_of_a_bundle_loses_its_holder_to_an_earlier_one(room: Played):
    run = room.begin("Run")

    answer = room.bundle(member("hero", HIT), member("villain", Begin(layer="base", target="Grabbed", holder=run)))

    assert (answer.failed_at, answer.refused.outcome) == (1, "holder_lost")
    assert room.pending() == "Run"


def test_a_bundle_keeps_one_receipt_for_its_own_key(room: Played):
    command = bundle(member("hero", RUN))
    keyed = mark("server", "key-1", None, command)

    room.ask(command, None, keyed)

    assert [list(held) for held in room.scene.receipts.dump().values()] == [[keyed.key]]


def test_a_bundle_that_was_refused_for_what_may_change_keeps_no_receipt(room: Played):
    token = room.begin("Run", min_ticks=3)
    command = bundle(member("hero", Complete(token=token)))

    answer = room.ask(command, None, mark("server", "key-1", None, command))

    assert (answer.refused.outcome, answer.is_retryable) == ("too_early", True)
    assert room.scene.receipts.dump() == {}


def test_a_refused_bundle_tells_what_is_true_and_not_what_never_came_to_be(room: Played):
    first = member("hero", Begin(layer="base", target="Run"))
    second = member("hero", Begin(layer="base", target="Hit", if_generation=0))

    answer = room.bundle(first, second)

    assert (answer.failed_at, answer.refused.outcome) == (1, "generation_conflict")
    assert (answer.refused.layer.generation, answer.refused.layer.pending) == (0, None)
    assert answer.refused.by is UNSET
