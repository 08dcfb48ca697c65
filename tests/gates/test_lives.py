"""Lives: what starts again, what goes on, and what keeps a dead id's numbers from coming back. Contract, 9 and 10."""

import pytest

from app.gates.decision import Problem
from app.gates.event_commands import Enqueue
from app.gates.graph import Graph, RequestGraph
from app.gates.lives import CloseScene, DeclareRig, Despawn, Spawn
from app.gates.parameter import CommitParameters, ParameterValue
from app.gates.scene import Bounds
from app.gates.transition import Begin, Complete
from tests.support.played import Played, assert_same_scene
from tests.support.rigs import candidate, parameter, rig

NO_LAYERS = rig(layers={}, graphs={})
TRIGGERED = rig(declared={"Fire": parameter("Fire", "trigger")})


def worn(played: Played, who: str = "hero") -> None:
    """Use some of every kind of number: epoch 3, request 2, version 1, instance 7."""
    for _ in range(2):
        request = played.ask(RequestGraph(name="A"), who).request
        assert played.word(candidate(request), who) == "committed"
    played.ask(CommitParameters(values=[ParameterValue(value=1, name="x")]), who)
    played.ask(Enqueue(clip_instance=7, loop=0, frame=0, kind="step"), who)


def numbers(played: Played, who: str = "hero") -> dict[str, int]:
    held = played.hero(who)
    return {
        "life": held.life,
        "epoch": held.layers["base"].epoch,
        "request": held.graphs["main"].latest_request,
        "version": held.parameters.version,
        "instance": held.events.highest,
    }


def test_a_first_life_starts_at_the_beginning():
    played = Played()

    spawned = played.spawn()

    assert (spawned.life, spawned.created) == (1, True)
    assert numbers(played) == {"life": 1, "epoch": 1, "request": 0, "version": 0, "instance": 0}


def test_the_same_spawn_again_is_no_second_life():
    played = Played()
    played.spawn()
    played.ask(Begin(layer="base", target="Run"))
    before = played.hero()

    again = played.spawn()

    assert (again.life, again.created) == (1, False)
    assert again.character is None
    assert played.hero() == before
    assert played.hero() == before


@pytest.mark.parametrize(
    "other",
    [
        Spawn(inline=rig(mode="full")),
        Spawn(graphs={"main": Graph("A", 0, None, [])}),
        Spawn(rig="humanoid"),
    ],
)
def test_another_spawn_of_a_living_character_conflicts(other: Spawn):
    played = Played()
    played.ask(DeclareRig(name="humanoid", rig=rig()), None)
    played.spawn()

    assert played.word(other) == Problem.CONFLICTING_SPAWN


def test_outputs_left_out_are_the_required_ones_and_make_the_same_spawn():
    played = Played()
    played.ask(Spawn(graphs={"main": Graph("A", 0, None, [])}))

    again = played.ask(Spawn(graphs={"main": Graph("A", 0, None, ["Animator", "GameplayEvents"])}))

    assert again.created is False


def test_a_spawn_with_a_rig_nobody_declared_is_a_problem():
    assert Played().word(Spawn(rig="humanoid")) == Problem.UNKNOWN_RIG


def test_a_spawn_with_a_graph_its_rig_lacks_is_invalid():
    assert Played().word(Spawn(graphs={"mask": Graph("A", 0, None, [])})) == Problem.INVALID


def test_a_spawn_may_name_the_life_it_is_for():
    played = Played()
    first = played.word(Spawn(life=2)), played.word(Spawn(life=1)), played.word(Spawn(life=2))
    played.ask(Despawn())

    second = played.word(Spawn(life=1)), played.word(Spawn(life=2))

    assert first == (Problem.UNKNOWN_SCENE, "spawned", "stale_life")
    assert second == ("stale_life", "spawned")


def test_despawn_may_name_the_life_it_ends():
    played = Played()
    played.spawn()

    assert played.word(Despawn(life=2)) == "stale_life"
    assert played.ask(Despawn(life=1)).life == 1
    assert played.word(Despawn(life=1)) == "unknown-character"


def test_the_next_life_is_above_the_former_in_everything_and_generations_start_again():
    played = Played()
    played.spawn()
    worn(played)
    old = played.ask(Begin(layer="base", target="Run")).token

    played.respawn()

    assert numbers(played) == {"life": 2, "epoch": 4, "request": 2, "version": 2, "instance": 7}
    assert played.hero().layers["base"].generation == 0
    assert played.word(Complete(token=old)) == "stale_epoch"
    assert played.word(Enqueue(clip_instance=7, loop=0, frame=1, kind="step")) == "retired_instance"
    assert played.word(candidate(2)) == "stale_request"


def test_a_life_without_layers_or_graphs_lets_no_number_fall():
    played = Played()
    played.spawn()
    worn(played)

    played.respawn(NO_LAYERS)
    played.respawn(NO_LAYERS)
    played.respawn()

    assert numbers(played) == {"life": 4, "epoch": 4, "request": 2, "version": 4, "instance": 7}


def test_trigger_counts_survive_a_life_that_has_no_such_trigger_and_a_replay():
    played = Played()
    played.spawn(TRIGGERED)
    played.ask(CommitParameters(values=[ParameterValue(value=True, name="Fire")]))
    played.respawn()
    played.respawn(rig(declared={"Fire": parameter("Fire")}))

    played.respawn(TRIGGERED)

    assert played.hero().parameters.values == {"Fire": 1}
    assert_same_scene(played.replayed(), played.scene)


def test_revisions_go_on_over_lives():
    played = Played()
    played.spawn()
    played.ask(Begin(layer="base", target="Run"))

    played.respawn()

    assert played.hero().revision == 4


def test_beyond_the_bound_dead_ids_fold_into_a_floor_that_every_unknown_id_starts_above():
    played = Played(bounds=Bounds(remains_max=1))
    played.spawn(who="first")
    worn(played, "first")
    played.ask(Despawn(), "first")
    remembered = list(played.scene.remains)
    played.spawn(who="second")
    played.ask(Despawn(), "second")

    played.spawn(who="first")
    played.spawn(who="third")

    assert (remembered, list(played.scene.remains)) == (["first"], ["second"])
    assert numbers(played, "first") == {"life": 2, "epoch": 4, "request": 2, "version": 2, "instance": 7}
    assert numbers(played, "third") == numbers(played, "first")


def test_the_instance_0_of_a_forgotten_id_stays_spent():
    played = Played(bounds=Bounds(remains_max=0))
    played.spawn()
    played.ask(Enqueue(clip_instance=0, loop=0, frame=0, kind="step"))

    played.respawn()

    assert played.word(Enqueue(clip_instance=0, loop=0, frame=0, kind="step")) == "retired_instance"


def test_the_oldest_dead_is_forgotten_first():
    played = Played(bounds=Bounds(remains_max=2))
    for who in ("a", "b", "c"):
        played.spawn(who=who)
    for who in ("b", "a"):
        played.ask(Despawn(), who)
    played.spawn(who="b")
    for who in ("b", "c"):
        played.ask(Despawn(), who)

    assert list(played.scene.remains) == ["b", "c"]


def test_a_closed_scene_comes_back_above_the_highest_of_its_former_life():
    played = Played()
    played.spawn(who="dead")
    worn(played, "dead")
    played.ask(Despawn(), "dead")
    played.spawn(who="living")
    old = played.ask(Begin(layer="base", target="Run"), "living").token
    sequence = played.scene.sequence

    closed = played.word(CloseScene(), None)
    gone = played.word(Begin(layer="base", target="Run"), "living")
    played.spawn(who="living")

    assert (closed, gone) == ("closed", "unknown-scene")
    assert numbers(played, "living") == {"life": 2, "epoch": 4, "request": 2, "version": 2, "instance": 7}
    assert played.scene.sequence == sequence + 2
    assert played.word(Complete(token=old), "living") == "stale_epoch"


def test_closing_a_scene_forgets_rigs_receipts_and_remains():
    played = Played()
    played.ask(DeclareRig(name="humanoid", rig=rig()), None)
    played.spawn()
    played.respawn()

    played.ask(CloseScene(), None)

    assert (played.scene.state.rigs, played.scene.remains, len(played.scene.roster)) == ({}, {}, 0)
    assert played.word(CloseScene(), None) == "unknown-scene"


def test_a_scene_that_never_was_cannot_be_closed():
    assert Played().word(CloseScene(), None) == "unknown-scene"
