"""The graph gate: one swap, or the old pose stays visible. Source: the PlayableGraph swap article; contract, 7."""

from typing import Any

import pytest
from msgspec import UNSET

from app.gates.graph import (
    Evaluation,
    Graph,
    GraphRefusal,
    GraphRequested,
    RequestGraph,
    SubmitCandidate,
    WithdrawGraph,
)
from app.gates.identity import Token
from app.gates.lives import Spawn
from app.gates.transition import Begin
from tests.support.played import Played
from tests.support.rigs import ANY_STATE, OUTPUTS, candidate, graph_rule, rig

FAILED = Evaluation(False)
SOUND = [0, 0, 0, 0, 0, 0, 1]
LOCOMOTION = Graph("LocomotionV7", 0, "explore@0", OUTPUTS)


def alive(**parts: Any) -> Played:
    played = Played()
    played.ask(Spawn(inline=rig(**parts), graphs={"main": LOCOMOTION}))
    return played


def requested(played: Played, name: str = "CombatV8", **fields: Any) -> int:
    request = played.ask(RequestGraph(name=name, **fields)).request
    assert isinstance(request, int)
    return request


def active(played: Played) -> str | None:
    held = played.hero().graphs["main"].active
    return None if held is None else held.name


def test_the_old_graph_stays_until_a_complete_evaluated_and_wanted_candidate_comes():
    """The article's checks: LocomotionV7 stays through missing output, failed evaluation, stale request 3 of 4."""
    played = alive()
    first = requested(played)
    missing = played.ask(candidate(first, "CombatV8", outputs=["Animator"]))
    failed = played.ask(candidate(first, "CombatV8", evaluation=FAILED))
    stayed = active(played)
    for _ in range(3):
        newest = requested(played)
    stale = played.ask(candidate(newest - 1, "CombatV8"))
    still = active(played)
    committed = played.ask(candidate(newest, "CombatV9"))

    assert (missing.outcome, missing.missing, failed.outcome) == (
        "missing_output",
        ["GameplayEvents"],
        "evaluation_failed",
    )
    assert (stale.outcome, stale.by) == ("stale_request", {"request": 4, "name": "CombatV8"})
    assert (stayed, still) == ("LocomotionV7", "LocomotionV7")
    assert committed.active == Graph("CombatV9", 4, "combat@0", OUTPUTS)
    assert committed.retire == LOCOMOTION
    assert {answer.release for answer in (missing, failed, stale)} == {"candidate"}


def test_submit_candidate_answers_in_the_order_of_its_checks():
    """Each case also trips every rung below its own."""
    played = alive()
    bad: dict[str, Any] = {"outputs": [], "evaluation": FAILED, "if_idle": True}
    played.ask(Begin(layer="base", target="Run"))
    spent = requested(played)
    words = [
        played.word(candidate(spent + 1, graph="mask", **bad)),
        played.word(candidate(0, **bad)),
        played.word(candidate(spent + 1, **bad)),
        played.word(candidate(spent, **bad)),
        played.word(candidate(spent, **bad | {"outputs": OUTPUTS})),
        played.word(candidate(spent, **bad | {"outputs": OUTPUTS, "evaluation": Evaluation(True)})),
        played.word(candidate(spent)),
        played.word(candidate(spent, **bad)),
    ]
    requested(played)
    words.append(played.word(candidate(spent, **bad)))

    assert words == [
        "unknown_graph",
        "unknown_request",
        "unknown_request",
        "missing_output",
        "evaluation_failed",
        "layer_busy",
        "committed",
        "already_committed",
        "stale_request",
    ]


def test_the_refusals_are_listed_in_the_order_of_the_checks():
    assert [refusal.value for refusal in GraphRefusal] == [
        "unknown_graph",
        "unknown_request",
        "stale_request",
        "already_committed",
        "missing_output",
        "evaluation_failed",
        "layer_busy",
    ]


def test_withdraw_answers_in_the_order_of_its_checks():
    played = alive()
    first = requested(played)
    requested(played)
    words = [
        played.word(WithdrawGraph(request=9, graph="mask")),
        played.word(WithdrawGraph(request=0)),
        played.word(WithdrawGraph(request=3)),
        played.word(WithdrawGraph(request=first)),
        played.word(WithdrawGraph(request=2)),
        played.word(WithdrawGraph(request=2)),
    ]
    third = requested(played)
    played.ask(candidate(third))
    words.append(played.word(WithdrawGraph(request=third)))

    assert words == [
        "unknown_graph",
        "unknown_request",
        "unknown_request",
        "stale_request",
        "withdrawn",
        "stale_request",
        "already_committed",
    ]


def test_a_candidate_for_a_withdrawn_request_is_stale_and_the_active_graph_stays():
    played = alive()
    request = requested(played)
    played.ask(WithdrawGraph(request=request))

    assert played.word(candidate(request)) == "stale_request"
    assert active(played) == "LocomotionV7"


def test_a_request_supersedes_only_an_open_one():
    played = alive()

    first, second = played.ask(RequestGraph(name="A")), played.ask(RequestGraph(name="B"))
    played.ask(candidate(second.request))
    third = played.ask(RequestGraph(name="C"))
    played.ask(WithdrawGraph(request=third.request))
    fourth = played.ask(RequestGraph(name="D"))

    assert [first, second, third, fourth] == [
        GraphRequested(1, None),
        GraphRequested(2, 1),
        GraphRequested(3, None),
        GraphRequested(4, None),
    ]


def test_a_request_for_a_graph_the_rig_lacks_is_unknown():
    assert alive().word(RequestGraph(name="A", graph="mask")) == "unknown_graph"


def test_a_failed_attempt_leaves_the_request_open_for_another_candidate():
    played = alive()
    request = requested(played, "CombatV8")
    played.ask(candidate(request, evaluation=FAILED))

    assert played.word(candidate(request, "another name")) == "committed"
    assert active(played) == "another name"


def test_a_swap_raises_the_epochs_of_the_layers_it_drives_and_ends_their_tokens():
    layers = dict.fromkeys(("base", "upper", "face"), ANY_STATE)
    played = Played()
    played.spawn(rig(layers=layers, graphs={"main": graph_rule("base", "upper"), "mask": graph_rule("face")}))
    for layer in ("base", "face"):
        played.ask(Begin(layer=layer, target="Run"))
    request = requested(played)

    committed = played.ask(candidate(request))

    assert committed.epochs == {"base": 2, "upper": 2}
    assert committed.ended == [Token("hero", "base", 1, 1, "Idle", "Run")]
    assert committed.ended[0].seal is UNSET
    assert {name: arbiter.epoch for name, arbiter in played.hero().layers.items()} == {"base": 2, "upper": 2, "face": 1}
    assert played.hero().layers["face"].pending is not None
    assert {name: slot.epoch for name, slot in played.hero().graphs.items()} == {"main": 2, "mask": 1}


def test_if_idle_waits_for_every_driven_layer_and_names_the_busy_one():
    layers = dict.fromkeys(("base", "face"), ANY_STATE)
    played = Played()
    played.spawn(rig(layers=layers, graphs={"main": graph_rule("base"), "mask": graph_rule("face")}))
    played.ask(Begin(layer="face", target="Smile"))
    main, mask = requested(played), requested(played, graph="mask")

    busy = played.ask(candidate(mask, graph="mask", if_idle=True))
    free = played.word(candidate(main, if_idle=True))

    assert (busy.outcome, busy.at, busy.release) == ("layer_busy", "face", "candidate")
    assert free == "committed"


def test_a_rig_names_the_outputs_that_a_graph_must_bind():
    played = Played()
    played.spawn(rig(graphs={"main": graph_rule("base", outputs=("Face", "Voice"))}))
    request = requested(played)

    answer = played.ask(candidate(request, outputs=["Animator"]))

    assert (answer.at, answer.missing) == ("Face", ["Face", "Voice"])
    assert played.word(candidate(request, outputs=["Voice", "Extra", "Face"])) == "committed"


def attempt(pose: Any, bind_pose: Any = None) -> Any:
    played = Played()
    played.spawn(rig(graphs={"main": graph_rule("base", bind_pose=bind_pose)}))
    return played.ask(candidate(requested(played), evaluation=Evaluation(True, pose)))


@pytest.mark.parametrize("number", [None, float("nan"), float("inf"), "NaN", "Infinity", 1e39, True, "0"], ids=str)
@pytest.mark.parametrize("place", [0, 3, 7])
def test_a_bone_must_hold_finite_numbers_only(number: Any, place: int):
    bone: list[Any] = [*SOUND, 1.0]
    bone[place] = number

    answer = attempt({"root": SOUND, "arm": bone})

    assert (answer.outcome, answer.at) == ("evaluation_failed", "arm")


@pytest.mark.parametrize(
    ("quaternion", "is_sound"),
    [
        ([0, 0, 0, 1], True),
        ([0.5, 0.5, 0.5, 0.5], True),
        ([0, 0, 0, 1.00099], True),
        ([0, 0, 0, 0.99901], True),
        ([0, 0, 0, 1.0011], False),
        ([0, 0, 0, 0.9989], False),
        ([0, 0, 0, 0], False),
        ([1, 1, 1, 1], False),
        ([1e38, 0, 0, 0], False),
    ],
)
def test_a_quaternion_has_unit_length_within_a_thousandth(quaternion: list[float], is_sound: bool):
    answer = attempt({"root": [1, 2, 3, *quaternion, 9, 9, 9]})

    assert (answer.__struct_config__.tag == "committed") is is_sound


@pytest.mark.parametrize(
    ("pose", "bind_pose", "at"),
    [
        ("tpose", "tpose", "pose"),
        ("tpose", "apose", None),
        ({"root": SOUND}, {"root": [0.0, 0, 0, 0, 0, 0, 1.0]}, "pose"),
        ({"root": SOUND}, {"root": [1e-9, 0, 0, 0, 0, 0, 1]}, None),
        ({"root": SOUND}, {"root": SOUND, "arm": SOUND}, None),
        ({"root": SOUND, "arm": SOUND}, {"arm": SOUND, "root": SOUND}, "pose"),
        ({"root": SOUND}, "tpose", None),
        (None, "tpose", None),
        (None, None, None),
    ],
    ids=str,
)
def test_the_bind_pose_is_no_evaluation_compared_as_json_numbers_over_the_same_bones(
    pose: Any, bind_pose: Any, at: str | None
):
    answer = attempt(pose, bind_pose)

    assert getattr(answer, "at", None) == at


def test_a_new_life_goes_on_from_the_highest_request_of_any_graph_and_old_ones_are_stale():
    both = rig(
        layers={"base": ANY_STATE, "face": ANY_STATE}, graphs={"main": graph_rule("base"), "mask": graph_rule("face")}
    )
    played = Played()
    played.spawn(both)
    for _ in range(3):
        old = requested(played, graph="mask")

    played.respawn(both)
    words = [played.word(candidate(old, graph="mask")), played.word(candidate(1))]

    assert words == ["stale_request", "stale_request"]
    assert [requested(played), requested(played, graph="mask")] == [4, 4]
    assert played.hero().graphs["mask"].epoch == 1


def test_a_first_life_knows_no_request_before_one_was_allotted():
    assert alive().word(candidate(1)) == "unknown_request"


@pytest.mark.parametrize(
    "make",
    [
        lambda: RequestGraph(name="a\n"),
        lambda: RequestGraph(name="a", graph="\0"),
        lambda: candidate(1, "a\n"),
        lambda: candidate(1, outputs=["a\n"]),
    ],
)
def test_names_take_no_control_characters(make: Any):
    with pytest.raises(ValueError, match="control characters"):
        make()


def test_a_refused_candidate_is_told_to_release_whatever_the_reason():
    answer = alive().ask(SubmitCandidate(request=1, name="A", outputs=[], evaluation=FAILED, graph="mask"))

    assert (answer.outcome, answer.release) == ("unknown_graph", "candidate")
